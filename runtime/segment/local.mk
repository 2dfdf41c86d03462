# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/segment/board.c \
	runtime/segment/board.h \
	# End of runtime/segment
