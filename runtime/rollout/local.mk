# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/rollout/admit.c \
	runtime/rollout/blocks.c \
	runtime/rollout/blocks.h \
	runtime/rollout/engine.c \
	runtime/rollout/engine.h \
	runtime/rollout/rollout.c \
	runtime/rollout/rollout.h \
	runtime/rollout/rollout_impl.h \
	runtime/rollout/sequence.c \
	runtime/rollout/stops.c \
	runtime/rollout/stops.h \
	# End of runtime/rollout
