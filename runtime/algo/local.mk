# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/algo.c \
	runtime/algo/best.c \
	runtime/algo/best.h \
	runtime/algo/check.c \
	runtime/algo/dpo.c \
	runtime/algo/grpo.c \
	runtime/algo/ppo.c \
	runtime/algo/rm.c \
	runtime/algo/sft.c \
	# End of runtime/algo
