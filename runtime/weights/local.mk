# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/weights/adapter_file.c \
	runtime/weights/adapter_file.h \
	runtime/weights/carried.c \
	runtime/weights/merge.c \
	runtime/weights/parts.c \
	runtime/weights/parts.h \
	runtime/weights/tensor_names.c \
	runtime/weights/weights.c \
	runtime/weights/weights.h \
	runtime/weights/weights_save.c \
	# End of runtime/weights
