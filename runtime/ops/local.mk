# SPDX-License-Identifier: Apache-2.0
#
# The kernels are compiled once for each instruction set; cpu.c chooses one at
# run time.
runtime_libdisttrain_a_SOURCES += \
	runtime/ops/adamw.h \
	runtime/ops/cpu/attention.h \
	runtime/ops/cpu/cpu.c \
	runtime/ops/cpu/cpu.h \
	runtime/ops/cpu/cpu_rows.h \
	runtime/ops/cpu/dither_block.h \
	runtime/ops/cpu/dropout.h \
	runtime/ops/cpu/matmul.h \
	runtime/ops/cpu/strip.h \
	runtime/ops/dither.h \
	runtime/ops/documents.c \
	runtime/ops/documents.h \
	runtime/ops/hash.h \
	runtime/ops/normal.h \
	runtime/ops/ops.h \
	runtime/ops/update.h \
	runtime/ops/workspace.c \
	runtime/ops/workspace.h \
	# End of runtime/ops

cpu_kernels = \
	runtime/ops/cpu/activation.c \
	runtime/ops/cpu/attention.c \
	runtime/ops/cpu/attention_backward.c \
	runtime/ops/cpu/cpu_low_rank.c \
	runtime/ops/cpu/cpu_table.c \
	runtime/ops/cpu/cpu_update.c \
	runtime/ops/cpu/dropout.c \
	runtime/ops/cpu/elementwise.c \
	runtime/ops/cpu/embedding.c \
	runtime/ops/cpu/hash.c \
	runtime/ops/cpu/head.c \
	runtime/ops/cpu/kv.c \
	runtime/ops/cpu/linear.c \
	runtime/ops/cpu/matmul.c \
	runtime/ops/cpu/matmul_few.c \
	runtime/ops/cpu/matmul_rows.c \
	runtime/ops/cpu/norm.c \
	runtime/ops/cpu/patch.c \
	runtime/ops/cpu/rope.c \
	runtime/ops/cpu/sample.c \
	runtime/ops/cpu/sparse.c \
	runtime/ops/cpu/tile.c \
	runtime/ops/cpu/vec.h \
	# End of cpu_kernels
# Kernels have -O1 unless CFLAGS say otherwise: contrib/check optimizes nothing
# else when it tests with sanitizers.
cpu_cflags = $(AM_CFLAGS) -O1 -fno-math-errno -fno-trapping-math \
	$(DT_FP_CONTRACT)

noinst_LIBRARIES += runtime/ops/libgeneric.a
runtime_ops_libgeneric_a_SOURCES = $(cpu_kernels)
runtime_ops_libgeneric_a_CPPFLAGS = $(AM_CPPFLAGS) -DDT_CPU_VARIANT=generic
runtime_ops_libgeneric_a_CFLAGS = $(cpu_cflags)
CPU_LIBS = runtime/ops/libgeneric.a

if X86_64
noinst_LIBRARIES += runtime/ops/libavx2.a runtime/ops/libavx512.a
runtime_ops_libavx2_a_SOURCES = $(cpu_kernels)
runtime_ops_libavx2_a_CPPFLAGS = $(AM_CPPFLAGS) -DDT_CPU_VARIANT=avx2
runtime_ops_libavx2_a_CFLAGS = $(cpu_cflags) -mavx2 -mfma -mbmi2
runtime_ops_libavx512_a_SOURCES = $(cpu_kernels)
runtime_ops_libavx512_a_CPPFLAGS = $(AM_CPPFLAGS) -DDT_CPU_VARIANT=avx512
runtime_ops_libavx512_a_CFLAGS = $(cpu_cflags) -mavx2 -mfma -mbmi2 -mavx512f \
	-mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
noinst_LIBRARIES += runtime/ops/libavx512bf16.a
runtime_ops_libavx512bf16_a_SOURCES = runtime/ops/cpu/matmul_pairs.c
runtime_ops_libavx512bf16_a_CPPFLAGS = $(runtime_ops_libavx512_a_CPPFLAGS)
runtime_ops_libavx512bf16_a_CFLAGS = $(runtime_ops_libavx512_a_CFLAGS) \
	-mavx512bf16
CPU_LIBS += runtime/ops/libavx512.a runtime/ops/libavx512bf16.a \
	runtime/ops/libavx2.a
endif

# What all variants call, and therefore after them.
noinst_LIBRARIES += runtime/ops/libcommon.a
runtime_ops_libcommon_a_SOURCES = \
	runtime/ops/cpu/onednn.c
CPU_LIBS += runtime/ops/libcommon.a

cuda_sources += \
	runtime/ops/cuda/activation.cu \
	runtime/ops/cuda/attention_cudnn.c \
	runtime/ops/cuda/attention_documents.cu \
	runtime/ops/cuda/attention_graph.c \
	runtime/ops/cuda/attention_math.cu \
	runtime/ops/cuda/attention_mma.cu \
	runtime/ops/cuda/attention_tile.cuh \
	runtime/ops/cuda/bias.cu \
	runtime/ops/cuda/cross_entropy.cu \
	runtime/ops/cuda/cuda.h \
	runtime/ops/cuda/cuda_attention.c \
	runtime/ops/cuda/cuda_attention.h \
	runtime/ops/cuda/cuda_cache.c \
	runtime/ops/cuda/cuda_cache.h \
	runtime/ops/cuda/cuda_head.c \
	runtime/ops/cuda/cuda_head.h \
	runtime/ops/cuda/cuda_linear.c \
	runtime/ops/cuda/cuda_low_rank.c \
	runtime/ops/cuda/cuda_matmul.c \
	runtime/ops/cuda/cuda_table.c \
	runtime/ops/cuda/dither.cuh \
	runtime/ops/cuda/dnn.c \
	runtime/ops/cuda/dnn.h \
	runtime/ops/cuda/dnn_cache.c \
	runtime/ops/cuda/dropout.cuh \
	runtime/ops/cuda/elementwise.cu \
	runtime/ops/cuda/embedding.cu \
	runtime/ops/cuda/hash.cu \
	runtime/ops/cuda/heads_norm.cu \
	runtime/ops/cuda/kv.cu \
	runtime/ops/cuda/logprob.cu \
	runtime/ops/cuda/matmul_cache.c \
	runtime/ops/cuda/matmul_impl.h \
	runtime/ops/cuda/matmul_tune.c \
	runtime/ops/cuda/norm.cu \
	runtime/ops/cuda/parts.cuh \
	runtime/ops/cuda/patch.cu \
	runtime/ops/cuda/rope.cu \
	runtime/ops/cuda/rows.cuh \
	runtime/ops/cuda/sample.cu \
	runtime/ops/cuda/sparse.cu \
	runtime/ops/cuda/step.cu \
	runtime/ops/workspace.c \
	# End of cuda_sources
