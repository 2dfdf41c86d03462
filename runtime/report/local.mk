# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/report/doing.c \
	runtime/report/doing.h \
	runtime/report/failure.c \
	runtime/report/label.c \
	runtime/report/label.h \
	runtime/report/notice.c \
	runtime/report/notice.h \
	runtime/report/outcome.c \
	runtime/report/outcome.h \
	runtime/report/outcome_impl.h \
	runtime/report/peers.c \
	runtime/report/peers.h \
	runtime/report/ranklogs.c \
	runtime/report/ranklogs.h \
	runtime/report/rankset.c \
	runtime/report/rankset.h \
	runtime/report/report.c \
	runtime/report/report.h \
	runtime/report/silence.c \
	runtime/report/silence.h \
	runtime/report/tail.c \
	runtime/report/tail.h \
	# End of runtime/report
