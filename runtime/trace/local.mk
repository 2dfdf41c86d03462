# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/trace/align.c \
	runtime/trace/choose.c \
	runtime/trace/choose.h \
	runtime/trace/gather.c \
	runtime/trace/gather.h \
	runtime/trace/join.c \
	runtime/trace/join.h \
	runtime/trace/part.c \
	runtime/trace/part.h \
	runtime/trace/perfetto.c \
	runtime/trace/request.c \
	runtime/trace/request.h \
	runtime/trace/trace.c \
	runtime/trace/trace.h \
	# End of runtime/trace
