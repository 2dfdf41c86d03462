# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/top/find.c \
	runtime/top/top.c \
	runtime/top/top.h \
	runtime/top/top_impl.h \
	runtime/top/view.c \
	# End of runtime/top
