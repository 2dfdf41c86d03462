# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/live/bar.c \
	runtime/live/bar.h \
	runtime/live/killed_run.c \
	runtime/live/killed_run.h \
	runtime/live/live.c \
	runtime/live/live.h \
	runtime/live/progress.c \
	runtime/live/progress.h \
	runtime/live/prometheus.c \
	runtime/live/prometheus.h \
	runtime/live/read.c \
	runtime/live/rows.c \
	runtime/live/sink.c \
	runtime/live/state.h \
	runtime/live/status.c \
	# End of runtime/live
