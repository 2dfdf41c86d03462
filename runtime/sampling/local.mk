# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/sampling/complete.c \
	runtime/sampling/generation.c \
	runtime/sampling/generation_arrays.c \
	runtime/sampling/generation_memory.c \
	runtime/sampling/generation_metrics.c \
	runtime/sampling/generation_state.c \
	runtime/sampling/held_out.c \
	runtime/sampling/old_logprobs.c \
	runtime/sampling/refill.c \
	runtime/sampling/samples_log.c \
	runtime/sampling/sampling.c \
	runtime/sampling/sampling.h \
	runtime/sampling/sampling_impl.h \
	runtime/sampling/scoring.c \
	# End of runtime/sampling
