# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/segment/board.c \
	runtime/segment/board.h \
	runtime/segment/segment.c \
	runtime/segment/segment.h \
	# End of runtime/segment
