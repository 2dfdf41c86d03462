# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/backend/backend.c \
	runtime/backend/backend.h \
	# End of runtime/backend

cuda_sources += runtime/backend/cuda.c

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
