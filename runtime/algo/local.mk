# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/algo/export.c \
	runtime/algo/export.h \
	runtime/algo/graphs.c \
	runtime/algo/graphs.h \
	runtime/algo/health.c \
	runtime/algo/mirror.c \
	runtime/algo/mirror.h \
	runtime/algo/names.c \
	runtime/algo/names.h \
	runtime/algo/generate.c \
	runtime/algo/generate.h \
	runtime/algo/numerics.c \
	runtime/algo/numerics.h \
	runtime/algo/agree.c \
	runtime/algo/owner.c \
	runtime/algo/owner.h \
	runtime/algo/data.c \
	runtime/algo/data.h \
	runtime/algo/plan.c \
	runtime/algo/plan.h \
	runtime/algo/progress.c \
	runtime/algo/progress.h \
	runtime/algo/run.h \
	runtime/algo/sample.c \
	runtime/algo/sample.h \
	runtime/algo/setup.c \
	runtime/algo/state.c \
	runtime/algo/step.c \
	runtime/algo/trainer.c \
	runtime/algo/trainer.h \
	runtime/algo/weights.c \
	runtime/algo/weights.h \
	runtime/algo/weights_save.c \
	runtime/algo/world.c \
	runtime/algo/world.h \
	# End of runtime/algo
