# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/backend/backend.c \
	runtime/backend/backend.h \
	# End of runtime/backend

# All of the module for NVIDIA GPUs; tests/simt compiles the same.
cuda_sources = \
	runtime/backend/cuda.c \
	runtime/base/clock.c \
	runtime/base/error.c \
	runtime/device/device_cuda.c \
	runtime/device/device_cuda.h \
	runtime/device/device_cuda_gpu.c \
	runtime/ops/cuda/activation.cu \
	runtime/ops/cuda/adamw.cu \
	runtime/ops/cuda/attention.c \
	runtime/ops/cuda/attention.h \
	runtime/ops/cuda/attention_cudnn.c \
	runtime/ops/cuda/attention_gradient.cuh \
	runtime/ops/cuda/attention_graph.c \
	runtime/ops/cuda/attention_graph.h \
	runtime/ops/cuda/attention_math.cu \
	runtime/ops/cuda/attention_math_backward.cu \
	runtime/ops/cuda/attention_mma.cu \
	runtime/ops/cuda/attention_mma.cuh \
	runtime/ops/cuda/attention_mma_backward.cu \
	runtime/ops/cuda/attention_tile.cuh \
	runtime/ops/cuda/bias.cu \
	runtime/ops/cuda/cross_entropy.cu \
	runtime/tensor/kernel.cuh \
	runtime/ops/cuda/cuda.h \
	runtime/ops/cuda/dnn.c \
	runtime/ops/cuda/dnn.h \
	runtime/ops/cuda/dnn_graph.c \
	runtime/ops/cuda/dnn_impl.h \
	runtime/ops/cuda/dropout.cu \
	runtime/ops/cuda/dropout.cuh \
	runtime/ops/cuda/elementwise.cu \
	runtime/ops/cuda/embedding.cu \
	runtime/device/device_cuda_error.c \
	runtime/ops/cuda/kv.cu \
	runtime/ops/cuda/linear.c \
	runtime/ops/cuda/matmul.c \
	runtime/ops/cuda/norm.cu \
	runtime/ops/cuda/norm_backward.cu \
	runtime/ops/cuda/parts.cuh \
	runtime/ops/cuda/race.c \
	runtime/ops/cuda/rope.cu \
	runtime/ops/cuda/rows.cuh \
	runtime/ops/cuda/step.cu \
	runtime/ops/cuda/table.c \
	runtime/tensor/layout.c \
	# End of cuda_sources

if HAVE_CUDA
moduledir = $(pkglibdir)
module_PROGRAMS = disttrain-cuda.so
disttrain_cuda_so_SOURCES = $(cuda_sources) $(nccl_sources)
disttrain_cuda_so_CPPFLAGS = -I$(top_srcdir)/runtime $(CUDA_CPPFLAGS)
disttrain_cuda_so_CFLAGS = $(DT_CFLAGS) -fPIC -fvisibility=hidden
disttrain_cuda_so_CXXFLAGS = $(AM_CXXFLAGS) -fPIC -fvisibility=hidden
disttrain_cuda_so_LDADD = $(CUDA_LDFLAGS) $(CUDA_LIBS) $(nccl_libs)
EXTRA_disttrain_cuda_so_DEPENDENCIES = runtime/backend/module.map
# One symbol is the program's business, nothing of it is the module's.
disttrain_cuda_so_LINK = $(CXX) -shared $(CXXFLAGS) $(DT_LDFLAGS) $(LDFLAGS) \
	-Wl,--as-needed \
	-Wl,--version-script=$(top_srcdir)/runtime/backend/module.map -o $@

.cu.o:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(NVCC) $(DT_NVCCFLAGS) $(DEFS) $(DEFAULT_INCLUDES) \
		-I$(top_srcdir)/runtime $(CUDA_CPPFLAGS) $(CPPFLAGS) $(NVCCFLAGS) \
		-Xcompiler -fPIC,-fvisibility=hidden $(DT_NVCC_WARN) \
		-MD -MP -MF $(@:.o=.d) -c -o $@ $<

-include runtime/ops/cuda/*.d runtime/comm/*.d
CLEANFILES += runtime/ops/cuda/*.d runtime/comm/*.d
endif
EXTRA_DIST += runtime/backend/module.map
SUFFIXES = .cu
