# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tensor/convert.c \
	runtime/tensor/half.h \
	runtime/tensor/layout.c \
	runtime/tensor/layout.h \
	runtime/tensor/tensor.h \
	# End of runtime/tensor

cuda_sources += \
	runtime/tensor/kernel.cuh \
	runtime/tensor/layout.c
