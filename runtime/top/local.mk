# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/top/find.c \
	runtime/top/find.h \
	runtime/top/line.c \
	runtime/top/screen.c \
	runtime/top/screen.h \
	runtime/top/table.c \
	runtime/top/top.c \
	runtime/top/top.h \
	runtime/top/view.c \
	runtime/top/view.h \
	# End of runtime/top
