# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/report/report.c \
	runtime/report/report.h \
	# End of runtime/report
