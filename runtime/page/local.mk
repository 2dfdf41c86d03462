# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/page/canvas.c \
	runtime/page/compare.c \
	runtime/page/curve.c \
	runtime/page/page.c \
	runtime/page/page.h \
	runtime/page/page_gather.c \
	runtime/page/page_head.c \
	runtime/page/page_impl.h \
	runtime/page/page_ranks.c \
	runtime/page/page_text.c \
	runtime/page/plot.c \
	runtime/page/plot_words.c \
	runtime/page/run_plots.c \
	runtime/page/style.c \
	runtime/page/tables.c \
	# End of runtime/page
