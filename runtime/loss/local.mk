# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/loss/advantages.c \
	runtime/loss/advantages.h \
	runtime/loss/grpo_loss.c \
	runtime/loss/grpo_loss.h \
	runtime/loss/loss.h \
	runtime/loss/pair_loss.c \
	runtime/loss/pair_loss.h \
	runtime/loss/ppo_loss.c \
	runtime/loss/ppo_loss.h \
	# End of runtime/loss
