# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/compose/compose.c \
	runtime/compose/compose.h \
	runtime/compose/compose_config.c \
	runtime/compose/compose_impl.h \
	runtime/compose/compose_tokens.c \
	runtime/compose/compose_weights.c \
	# End of runtime/compose
