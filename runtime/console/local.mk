# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/console/console.c \
	runtime/console/console.h \
	runtime/console/console_impl.h \
	runtime/console/failure.c \
	runtime/console/hang.c \
	runtime/console/last_lines.c \
	runtime/console/outcome.c \
	runtime/console/parse.c \
	runtime/console/ranklogs.c \
	runtime/console/run_end.c \
	runtime/console/stream.c \
	runtime/console/watch.c \
	# End of runtime/console
