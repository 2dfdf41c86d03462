# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/history/event_line.c \
	runtime/history/history.c \
	runtime/history/history.h \
	runtime/history/history_impl.h \
	runtime/history/metric_line.c \
	runtime/history/run_facts.c \
	# End of runtime/history
