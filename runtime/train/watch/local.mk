# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/train/watch/costs.c \
	runtime/train/watch/lost_bits.c \
	runtime/train/watch/slow_ranks.c \
	runtime/train/watch/stragglers.c \
	runtime/train/watch/tracing.c \
	runtime/train/watch/watch.h \
	runtime/train/watch/watch_impl.h \
	# End of runtime/train/watch
