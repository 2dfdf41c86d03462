# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/rollout/engine.c \
	runtime/rollout/engine.h \
	runtime/rollout/generate.c \
	runtime/rollout/generate.h \
	runtime/rollout/sample.c \
	runtime/rollout/sample.h \
	# End of runtime/rollout
