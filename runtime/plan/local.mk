# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/plan/candidates.c \
	runtime/plan/candidates.h \
	runtime/plan/plan.c \
	runtime/plan/plan.h \
	runtime/plan/predict.c \
	runtime/plan/predict.h \
	runtime/plan/resolve.c \
	runtime/plan/reward_models.c \
	runtime/plan/reward_models.h \
	runtime/plan/saves.c \
	runtime/plan/strategy.c \
	runtime/plan/strategy.h \
	# End of runtime/plan
