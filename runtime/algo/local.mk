# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/algo.c \
	runtime/algo/best.c \
	runtime/algo/best.h \
	runtime/algo/check.c \
	runtime/algo/dpo.c \
	runtime/algo/grpo.c \
	runtime/algo/ppo.c \
	runtime/algo/progress.c \
	runtime/algo/progress.h \
	runtime/algo/restore.c \
	runtime/algo/rm.c \
	runtime/algo/same.c \
	runtime/algo/same.h \
	runtime/algo/save.c \
	runtime/algo/setup.c \
	runtime/algo/sft.c \
	runtime/algo/state.c \
	runtime/algo/step.c \
	runtime/algo/trainer.c \
	runtime/algo/trainer.h \
	# End of runtime/algo
