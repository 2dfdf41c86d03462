# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/cmd/check.c \
	runtime/cmd/cmd.h \
	# End of runtime/cmd
