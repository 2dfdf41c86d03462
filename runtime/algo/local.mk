# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/agree.c \
	runtime/algo/candidates.c \
	runtime/algo/candidates.h \
	runtime/algo/data.c \
	runtime/algo/data.h \
	runtime/algo/dpo_loss.c \
	runtime/algo/dpo_loss.h \
	runtime/algo/graphs.c \
	runtime/algo/graphs.h \
	runtime/algo/health.c \
	runtime/algo/numerics.c \
	runtime/algo/numerics.h \
	runtime/algo/offload.c \
	runtime/algo/offload.h \
	runtime/algo/owner.c \
	runtime/algo/owner.h \
	runtime/algo/plan.c \
	runtime/algo/plan.h \
	runtime/algo/progress.c \
	runtime/algo/progress.h \
	runtime/algo/restore.c \
	runtime/algo/run.c \
	runtime/algo/run.h \
	runtime/algo/rm_loss.c \
	runtime/algo/rm_loss.h \
	runtime/algo/same.c \
	runtime/algo/same.h \
	runtime/algo/save.c \
	runtime/algo/setup.c \
	runtime/algo/state.c \
	runtime/algo/step.c \
	runtime/algo/trainer.c \
	runtime/algo/trainer.h \
	runtime/algo/world.c \
	runtime/algo/world.h \
	# End of runtime/algo
