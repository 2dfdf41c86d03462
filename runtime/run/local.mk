# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/run/adapter.c \
	runtime/run/algo_table.c \
	runtime/run/algo_table.h \
	runtime/run/composed.c \
	runtime/run/composed.h \
	runtime/run/critic.c \
	runtime/run/data.c \
	runtime/run/data.h \
	runtime/run/exchange.c \
	runtime/run/exchange.h \
	runtime/run/experience.c \
	runtime/run/experience.h \
	runtime/run/images.c \
	runtime/run/images.h \
	runtime/run/learner.c \
	runtime/run/learner.h \
	runtime/run/learner_load.c \
	runtime/run/learner_parts.c \
	runtime/run/numerics.c \
	runtime/run/numerics.h \
	runtime/run/passes.c \
	runtime/run/run.c \
	runtime/run/run.h \
	runtime/run/sample_batches.c \
	runtime/run/sample_batches.h \
	runtime/run/sample_pictures.c \
	runtime/run/sample_pictures.h \
	runtime/run/samples.h \
	runtime/run/sharing.c \
	runtime/run/sharing.h \
	runtime/run/spec.c \
	runtime/run/spec.h \
	# End of runtime/run
