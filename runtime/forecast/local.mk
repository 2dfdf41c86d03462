# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/forecast/cost.c \
	runtime/forecast/cost.h \
	runtime/forecast/measure.c \
	runtime/forecast/measure.h \
	runtime/forecast/measure_impl.h \
	runtime/forecast/measure_links.c \
	runtime/forecast/measure_passes.c \
	runtime/forecast/measure_watch.c \
	runtime/forecast/rates.c \
	runtime/forecast/rates.h \
	runtime/forecast/rollout_cost.c \
	runtime/forecast/rollout_cost.h \
	runtime/forecast/timeline.c \
	runtime/forecast/timeline.h \
	runtime/forecast/timeline_impl.h \
	runtime/forecast/timeline_moves.c \
	runtime/forecast/timeline_update.c \
	runtime/forecast/timeline_weights.c \
	runtime/forecast/traffic.c \
	runtime/forecast/traffic.h \
	# End of runtime/forecast
