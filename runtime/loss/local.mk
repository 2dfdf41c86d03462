# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/loss/advantages.c \
	runtime/loss/advantages.h \
	runtime/loss/clipped.h \
	runtime/loss/dpo_loss.c \
	runtime/loss/dpo_loss.h \
	runtime/loss/gae.c \
	runtime/loss/gae.h \
	runtime/loss/grpo_loss.c \
	runtime/loss/grpo_loss.h \
	runtime/loss/ppo_generation.c \
	runtime/loss/ppo_generation.h \
	runtime/loss/ppo_loss.c \
	runtime/loss/ppo_loss.h \
	runtime/loss/rm_loss.c \
	runtime/loss/rm_loss.h \
	# End of runtime/loss
