# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/rollout/engine.c \
	runtime/rollout/engine.h \
	runtime/rollout/rollout.c \
	runtime/rollout/rollout.h \
	runtime/rollout/rollout_impl.h \
	runtime/rollout/sequences.c \
	runtime/rollout/sight.c \
	runtime/rollout/sight.h \
	# End of runtime/rollout
