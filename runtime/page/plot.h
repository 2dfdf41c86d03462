/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.h - a plot of curves as SVG
 *
 * Each has a title, a description in words, and its numbers in a table, so that
 * nobody has to see it. Lines differ in color and in dashes, and have their
 * names at their ends. Colors are classes of style.h.
 */
#ifndef DT_PAGE_PLOT_H
#define DT_PAGE_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "page/axis.h"
#include "page/curve.h"

enum dt_plot_style {
    DT_PLOT_SMOOTH,  /* the points thin, their average bold */
    DT_PLOT_AVERAGE, /* the average alone */
    DT_PLOT_PLAIN,
    DT_PLOT_POINTS, /* dots, joined by a thin line */
};

struct dt_plot_line {
    const char *name;
    const struct dt_curve *curve;
    enum dt_plot_style style;
    unsigned color; /* 1 to 8, also its dashes */
};

enum dt_mark_class {
    DT_MARK_BAD,  /* fault, failed */
    DT_MARK_WARN, /* straggler, skip, warning, save_failed */
    DT_MARK_TURN, /* start, resume, stop, end */
    DT_MARK_DONE  /* save, eval, epoch */
};

/* An event on every plot. */
struct dt_plot_mark {
    double x;
    unsigned number; /* in the table of events */
    enum dt_mark_class class;
    const char *text;
};

enum { DT_PLOT_LINES = 16 };

/* How a value is written. */
typedef const char *dt_plot_format(char *text, double value);

struct dt_plot {
    const char *id; /* unique on the page: letters, digits and '-' */
    const char *title, *unit;
    const char *x_name; /* "step" */
    dt_plot_format *format, *x_format;
    struct dt_plot_line line[DT_PLOT_LINES];
    size_t count;
    const struct dt_plot_mark *marks;
    size_t mark_count;
    double from_x, to_x; /* equal: those of the lines */
    double limit;        /* a horizontal line; NaN: none */
    const char *limit_name;
    bool from_zero, log, wide;
    bool alone; /* a file of its own: title and style are inside */
    bool no_table;
    bool cut;     /* peaks far above what is usual go out of the picture */
    bool stacked; /* the lines are layers of an area, from the bottom up */
};

/* Whether there is anything to draw: a point of any line, also a bad one. */
bool dt_plot_has_points(const struct dt_plot *plot);

/* Whether a positive curve spans more than this factor. */
bool dt_plot_spans(const struct dt_curve *curve, double factor);

/* The plot as a figure of HTML; as a file of SVG, if it is alone. */
void dt_plot_write(FILE *out, const struct dt_plot *plot);

/* The table of its numbers, at most 50 rows, behind a summary. */
void dt_plot_table(FILE *out, const struct dt_plot *plot);

/* What it shows, in words. */
void dt_plot_describe(FILE *out, const struct dt_plot *plot);

#endif /* DT_PAGE_PLOT_H */
