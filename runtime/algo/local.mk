# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/sample.c \
	runtime/algo/sample.h \
	runtime/algo/weights.c \
	runtime/algo/weights.h \
	# End of runtime/algo
