# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/page/axis.c \
	runtime/page/axis.h \
	runtime/page/canvas.c \
	runtime/page/compare.c \
	runtime/page/curve.c \
	runtime/page/curve.h \
	runtime/page/heat.c \
	runtime/page/page.c \
	runtime/page/page.h \
	runtime/page/page_gather.c \
	runtime/page/page_gather.h \
	runtime/page/page_head.c \
	runtime/page/page_impl.h \
	runtime/page/page_text.c \
	runtime/page/page_text.h \
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
	# End of runtime/page
