# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/train/setup.c \
	runtime/train/step.c \
	runtime/train/train.h \
	runtime/train/trainer.c \
	# End of runtime/train
