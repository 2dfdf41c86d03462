# SPDX-License-Identifier: Apache-2.0
#
# The module for NVIDIA GPUs on a machine without one: what stands for CUDA's
# libraries, and the module's sources compiled against it. module.mk says how.
EXTRA_DIST += \
	tests/simt/blas.c \
	tests/simt/blas.h \
	tests/simt/blas_matmul.c \
	tests/simt/copy.c \
	tests/simt/cudnn.c \
	tests/simt/cudnn_impl.h \
	tests/simt/cudnn_run.c \
	tests/simt/device.c \
	tests/simt/event.c \
	tests/simt/fiber.c \
	tests/simt/fiber.h \
	tests/simt/gemm.c \
	tests/simt/graph.c \
	tests/simt/include \
	tests/simt/internal.h \
	tests/simt/kernel.c \
	tests/simt/kernel.h \
	tests/simt/memory.c \
	tests/simt/module.mk \
	tests/simt/nccl.c \
	tests/simt/nccl_net.c \
	tests/simt/nccl_net.h \
	tests/simt/nccl_operation.c \
	tests/simt/nccl_operation.h \
	tests/simt/shared.c \
	tests/simt/simt.h \
	tests/simt/stream.c \
	tests/simt/test_gemm.c \
	tests/simt/test_shared.cu \
	tests/simt/test_simt.cu \
	tests/simt/test_simt.cuh \
	tests/simt/test_simt.h \
	tests/simt/test_stream.cu \
	# End of tests/simt

TESTS += tests/simt/test_simt

# Programs beside the module find it by themselves.
check_PROGRAMS += tests/simt/test_gpu_choice
check_DATA = tests/simt/disttrain-cuda.so
CLEANFILES += tests/simt/*.so
clean-local: simt-clean

# Ranks with a GPU each.
if HAVE_GLOO
simt_nccl = $(nccl_all)
check_PROGRAMS += \
	tests/simt/test_comm_nccl \
	tests/simt/test_copies \
	tests/simt/test_nccl_meet
tests_simt_test_copies_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dt_copies_tell
tests_simt_test_comm_nccl_SOURCES = tests/simt/test_comm_nccl.c $(comm_scene)
tests_simt_test_comm_nccl_CPPFLAGS = $(AM_CPPFLAGS) -I$(SIMT) \
	-isystem $(top_srcdir)/tests/simt/include
tests_simt_test_nccl_meet_SOURCES = tests/simt/test_nccl_meet.c \
	runtime/comm/nccl_bootstrap.c
tests_simt_test_nccl_meet_CPPFLAGS = $(AM_CPPFLAGS) \
	-isystem $(top_srcdir)/tests/simt/include
else
simt_nccl = $(nccl_none)
endif

# For GNU make, and not for automake to understand.
-include $(top_srcdir)/tests/simt/module.mk
