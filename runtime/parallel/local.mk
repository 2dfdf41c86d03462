# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/ddp.c \
	runtime/parallel/parallel.h \
	# End of runtime/parallel
