# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/live/bar.c \
	runtime/live/bar.h \
	runtime/live/killed_run.c \
	runtime/live/live.c \
	runtime/live/live.h \
	runtime/live/live_impl.h \
	runtime/live/prometheus.c \
	runtime/live/sink.c \
	runtime/live/state.c \
	runtime/live/state.h \
	runtime/live/table.c \
	# End of runtime/live
