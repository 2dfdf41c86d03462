# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/trace/align.c \
	runtime/trace/choose.c \
	runtime/trace/choose.h \
	runtime/trace/part.c \
	runtime/trace/part.h \
	runtime/trace/perfetto.c \
	runtime/trace/trace.c \
	runtime/trace/trace.h \
	runtime/trace/trace_gather.c \
	runtime/trace/trace_gather.h \
	runtime/trace/trace_join.c \
	runtime/trace/trace_join.h \
	runtime/trace/trace_request.c \
	runtime/trace/trace_request.h \
	# End of runtime/trace
