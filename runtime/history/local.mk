# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/history/event_line.c \
	runtime/history/event_line.h \
	runtime/history/facts.c \
	runtime/history/facts.h \
	runtime/history/history.c \
	runtime/history/history.h \
	runtime/history/line_reader.c \
	runtime/history/line_reader.h \
	runtime/history/metric_line.c \
	runtime/history/metric_line.h \
	# End of runtime/history
