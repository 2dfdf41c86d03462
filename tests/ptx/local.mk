# SPDX-License-Identifier: Apache-2.0
#
# The module's kernels from nvcc's objects, on a machine without a GPU.
EXTRA_DIST += \
	tests/ptx/arithmetic.c \
	tests/ptx/census.c \
	tests/ptx/convert.c \
	tests/ptx/kernels.sh \
	tests/ptx/launch.c \
	tests/ptx/lists.txt \
	tests/ptx/memory.c \
	tests/ptx/module.c \
	tests/ptx/module.mk \
	tests/ptx/ptx.h \
	tests/ptx/run.c \
	tests/ptx/shadow.c \
	tests/ptx/test_ptx.c \
	tests/ptx/warp.c \
	# End of tests/ptx

TESTS += tests/ptx/kernels.sh tests/ptx/test_ptx
CLEANFILES += tests/ptx/*.so
clean-local: ptx-clean

if HAVE_CUDA
check_DATA += tests/ptx/disttrain-cuda.so
endif

# For GNU make, and not for automake to understand.
-include $(top_srcdir)/tests/ptx/module.mk
