# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/run/reference/follow.c \
	runtime/run/reference/precompute.c \
	runtime/run/reference/reference.c \
	runtime/run/reference/reference.h \
	# End of runtime/run/reference
