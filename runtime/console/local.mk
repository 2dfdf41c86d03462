# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/console/connected.c \
	runtime/console/connected.h \
	runtime/console/console.c \
	runtime/console/console.h \
	runtime/console/console_step.c \
	runtime/console/console_step.h \
	runtime/console/event.h \
	runtime/console/failure.c \
	runtime/console/hang.c \
	runtime/console/hang.h \
	runtime/console/hang_timer.c \
	runtime/console/hang_timer.h \
	runtime/console/job_comment.c \
	runtime/console/job_comment.h \
	runtime/console/label.c \
	runtime/console/label.h \
	runtime/console/last_lines.c \
	runtime/console/last_lines.h \
	runtime/console/messages.c \
	runtime/console/messages.h \
	runtime/console/outcome.c \
	runtime/console/outcome.h \
	runtime/console/outcome_impl.h \
	runtime/console/parse.c \
	runtime/console/parse.h \
	runtime/console/ranklogs.c \
	runtime/console/ranklogs.h \
	runtime/console/run_end.c \
	runtime/console/run_end.h \
	runtime/console/stream.c \
	runtime/console/stream.h \
	runtime/console/watch.c \
	runtime/console/watch.h \
	# End of runtime/console
