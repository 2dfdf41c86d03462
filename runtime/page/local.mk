# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/page/axis.c \
	runtime/page/axis.h \
	runtime/page/canvas.c \
	runtime/page/compare.c \
	runtime/page/curve.c \
	runtime/page/curve.h \
	runtime/page/gather.c \
	runtime/page/gather.h \
	runtime/page/head.c \
	runtime/page/heat.c \
	runtime/page/page.c \
	runtime/page/page.h \
	runtime/page/page_impl.h \
	runtime/page/plot.c \
	runtime/page/plot.h \
	runtime/page/plot_impl.h \
	runtime/page/plot_lines.c \
	runtime/page/plot_words.c \
	runtime/page/png.c \
	runtime/page/rank_table.c \
	runtime/page/rank_times.c \
	runtime/page/rank_times.h \
	runtime/page/run_plots.c \
	runtime/page/style.c \
	runtime/page/style.h \
	runtime/page/tables.c \
	runtime/page/text.c \
	runtime/page/text.h \
	# End of runtime/page
