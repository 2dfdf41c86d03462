# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/trace/perfetto.c \
	runtime/trace/trace.c \
	runtime/trace/trace.h \
	runtime/trace/trace_gather.c \
	runtime/trace/trace_impl.h \
	runtime/trace/trace_join.c \
	# End of runtime/trace
