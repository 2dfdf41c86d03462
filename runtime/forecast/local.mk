# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/forecast/cost.c \
	runtime/forecast/cost.h \
	runtime/forecast/measure.c \
	runtime/forecast/measure.h \
	runtime/forecast/rates.c \
	runtime/forecast/rates.h \
	runtime/forecast/timeline.c \
	runtime/forecast/timeline.h \
	runtime/forecast/timeline_impl.h \
	runtime/forecast/timeline_moves.c \
	runtime/forecast/timeline_update.c \
	# End of runtime/forecast
