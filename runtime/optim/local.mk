# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/optim/adamw.c \
	runtime/optim/optim.h \
	runtime/optim/scaler.c \
	runtime/optim/schedule.c \
	# End of runtime/optim
