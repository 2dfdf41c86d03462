# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/algo.c \
	runtime/algo/algo.h \
	runtime/algo/best.c \
	runtime/algo/dpo.c \
	runtime/algo/grpo.c \
	runtime/algo/ppo.c \
	runtime/algo/rm.c \
	# End of runtime/algo
