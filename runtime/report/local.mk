# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/report/account.c \
	runtime/report/account.h \
	runtime/report/entry.c \
	runtime/report/entry.h \
	runtime/report/line_file.c \
	runtime/report/line_file.h \
	runtime/report/outlet.c \
	runtime/report/outlet.h \
	runtime/report/protobuf.c \
	runtime/report/protobuf.h \
	runtime/report/record.c \
	runtime/report/record.h \
	runtime/report/report.c \
	runtime/report/report.h \
	runtime/report/report_impl.h \
	runtime/report/tensorboard.c \
	# End of runtime/report
