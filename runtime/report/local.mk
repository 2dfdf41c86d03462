# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/doctor/rank_states.c \
	runtime/report/doing.h \
	runtime/console/failure.c \
	runtime/console/label.c \
	runtime/console/label.h \
	runtime/console/event.c \
	runtime/report/notice.h \
	runtime/console/outcome.c \
	runtime/report/outcome.h \
	runtime/console/outcome_impl.h \
	runtime/console/connected.c \
	runtime/report/peers.h \
	runtime/console/ranklogs.c \
	runtime/console/ranklogs.h \
	runtime/base/rankset.c \
	runtime/base/rankset.h \
	runtime/report/report.c \
	runtime/report/report.h \
	runtime/report/silence.c \
	runtime/report/silence.h \
	runtime/console/last_lines.c \
	runtime/report/tail.h \
	# End of runtime/report
