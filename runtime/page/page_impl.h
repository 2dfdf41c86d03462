/* SPDX-License-Identifier: Apache-2.0 */
/* page_impl.h - the parts of a page */
#ifndef DT_PAGE_PAGE_IMPL_H
#define DT_PAGE_PAGE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "history/history.h"
#include "page/page.h"
#include "report/record.h"

/* --- colors, lines and layout ---
 *
 * The colors are those of Okabe and Ito, which people with any color vision can
 * distinguish. On white the light ones are darker, so that lines have a
 * contrast of at least 3 to 1 with the background, and text of 4.5 to 1.
 */

extern const char dt_style_colors[];       /* variables, light and dark */
extern const char dt_style_plot[];         /* of plots */
extern const char dt_style_page[];         /* of the rest */
extern const char *const dt_style_marks[]; /* of marks, by enum dt_mark_class */

/* Writes the style of a plot in a separate file, without variables, which few
 * programs except browsers know.
 */
void dt_style_write_plain(FILE *out);

/* --- a curve of any number of points in bounded memory ---
 *
 * Points are gathered in bins along x. When the bins are full, pairs of
 * neighbors are merged. A bin keeps its least and greatest point, so that no
 * spike is lost.
 */

enum { DT_CURVE_BINS = 400 };

struct dt_curve_bin {
    double min, max, at_min, at_max; /* and the x of both */
    double sum, squares, x_sum;      /* over finite points */
    size_t count, bad;               /* finite points, others */
};

struct dt_curve {
    double from, width; /* bin i is [from + i * width, from + (i+1) * width) */
    size_t used;        /* bins up to the last one with a point */
    struct dt_curve_bin bin[DT_CURVE_BINS];
    /* Of all points; meaningful if there are any. */
    size_t count, bad;
    double first, last, first_x, last_x; /* of finite points */
    double min, max, at_min, at_max, sum;
};

/* Begins a curve without points; the first bins have this width. */
void dt_curve_init(struct dt_curve *curve, double width);

/* Adds a point. An x before the first one counts as the first one. A y that is
 * not finite is counted as bad.
 */
void dt_curve_add(struct dt_curve *curve, double x, double y);

/* The mean of the points of the bin that contains x; NaN: none. */
double dt_curve_at(const struct dt_curve *curve, double x);

/* The mean x of the points of a bin. */
double dt_curve_bin_x(const struct dt_curve_bin *bin);

struct dt_curve_tail {
    size_t count;
    double mean, deviation; /* NaN: no points */
};

/* Summarizes the points of about the last `share` of the range of x. */
struct dt_curve_tail dt_curve_tail(const struct dt_curve *curve, double share);

/* Computes the exponential average of the bins over both sides, which does not
 * lag, with a memory of about a fortieth of the curve, at the x of each bin.
 * Returns the number of points in x and y, which have room for DT_CURVE_BINS.
 */
size_t dt_curve_smooth(const struct dt_curve *curve, double *x, double *y);

/* --- compute times of ranks over the run, in bounded memory --- */

enum { DT_RANK_BANDS = 64, DT_RANK_COLUMNS = 48 };

struct dt_rank_cell {
    double sum; /* of ratios: time of the slowest rank over the median of all */
    unsigned count;
};

struct dt_rank_sums {
    double compute, comm, data; /* sums of seconds per step */
    double mem;                 /* bytes, maximum */
    unsigned compute_n, comm_n, data_n;
};

struct dt_rank_times {
    size_t world;           /* 0: no lines */
    size_t bands, per_band; /* ranks of each band but perhaps the last one */
    size_t columns, lines_a_column, lines;
    long first_step, last_step;
    struct dt_rank_cell cell[DT_RANK_BANDS][DT_RANK_COLUMNS];
    struct dt_rank_sums *sums; /* one per rank */
    double *sorted;            /* room for one line */
};

/* Adds a line of ranks.jsonl. A line with a different number of ranks starts
 * over. Without memory the line is left out. Begin with zeros; release with
 * dt_rank_times_fini.
 */
void dt_rank_times_add(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks);
void dt_rank_times_fini(struct dt_rank_times *times);

/* --- a run, gathered in one pass over its files ---
 *
 * Memory is bounded: curves have bins, and if there are many events, only the
 * first and the last ones are kept.
 */

struct dt_page_curve {
    const char *name; /* in metrics.jsonl */
    enum dt_split split;
    struct dt_curve by_step;
};

struct dt_page_event {
    char *kind, *host, *text; /* host and text may be NULL */
    long step;                /* -1: unknown */
    double wall, seconds, bytes;
    int rank;
    unsigned number; /* counted from 1 */
};

enum {
    DT_PAGE_CURVES = 256,
    DT_PAGE_EVENTS = 600, /* that are kept */
};

/* Seconds of the run, by activity; NaN: not recorded. */
struct dt_page_parts {
    double compute, comm, data, save;
};

struct dt_page_run {
    struct dt_history *history;
    const struct dt_history_facts *facts;
    struct dt_page_curve *curve[DT_PAGE_CURVES];
    size_t curve_count;
    struct dt_curve loss_by_tokens, loss_by_time; /* of training */
    long first_step, last_step; /* of records of training; -1: none */
    double seconds;             /* of all processes that wrote records */
    double tokens, joules;      /* NaN: not recorded */
    double last_wall;
    struct dt_page_parts parts;
    struct dt_account account; /* up to last_wall */
    struct dt_page_event *event[DT_PAGE_EVENTS];
    size_t event_count;
    long events_left_out; /* between the two halves of `event` */
    struct dt_rank_times ranks;
};

/* Reads a run. Release with dt_page_run_destroy. NULL and err: as
 * dt_history_open, EX_OSERR.
 */
struct dt_page_run *dt_page_gather(const char *path, struct dt_error *err);
void dt_page_run_destroy(struct dt_page_run *run); /* NULL is fine */

/* The curve of a value by step; NULL: there is none. */
const struct dt_curve *dt_page_find(const struct dt_page_run *run,
                                    enum dt_split split, const char *name);

/* The mean of a value of training; NaN: there is none. */
double dt_page_mean(const struct dt_page_run *run, const char *name);

/* The value of a key of the configuration; NULL: unknown. */
const char *dt_page_setting(const struct dt_page_run *run, const char *key);

/* The last event of one of the kinds, separated by spaces; NULL: none. */
const struct dt_page_event *dt_page_last_event(const struct dt_page_run *run,
                                               const char *kinds);

/* --- a range of numbers on a line, and its ticks --- */

enum { DT_AXIS_TICKS = 12 };

struct dt_axis {
    double from, to;   /* from < to; both > 0 if log */
    double begin, end; /* their places in the picture */
    bool log, whole;
    double step; /* between ticks; 0: a constant, or log */
    double unit; /* of the ticks: 1, or a power of 1024 */
    size_t count;
    double tick[DT_AXIS_TICKS]; /* at 1, 2 or 5 times a power of ten units */
};

enum {
    DT_AXIS_LOG = 1 << 0,
    DT_AXIS_LOOSE = 1 << 1, /* leave room beyond the values */
    DT_AXIS_WHOLE = 1 << 2, /* ticks are whole numbers */
};

/* Makes an axis for values from `least` to `greatest`, with about `ticks`
 * ticks, at most DT_AXIS_TICKS; if both are equal, that value is the only tick.
 * `kind` is a sum of the above.
 */
void dt_axis_init(struct dt_axis *axis, double least, double greatest,
                  unsigned ticks, unsigned kind);

/* The number of digits that distinguishes two ticks; 1 if there is only one
 * tick.
 */
int dt_axis_digits(const struct dt_axis *axis);

/* Puts the ticks at round multiples of the greatest power of 1024 that fits. */
void dt_axis_binary(struct dt_axis *axis, unsigned ticks);

/* The place of a value in the picture; values beyond the range are at its ends.
 */
double dt_axis_place(const struct dt_axis *axis, double value);

/* --- a plot of curves as SVG ---
 *
 * Each plot has a title, a description in words, and a table of its numbers, so
 * that it is accessible without seeing it. Lines differ in color and dashes,
 * and have their names at their ends.
 */

enum dt_plot_style {
    DT_PLOT_SMOOTH,  /* thin points, and a bold average */
    DT_PLOT_AVERAGE, /* only the average */
    DT_PLOT_PLAIN,
    DT_PLOT_POINTS, /* dots, joined by a thin line */
};

struct dt_plot_line {
    const char *name;
    const struct dt_curve *curve;
    enum dt_plot_style style;
    unsigned color; /* 1 to 8, also of its dashes */
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

/* Formats a value. */
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
    double from_x, to_x; /* equal: the range of the lines */
    double limit;        /* a horizontal line; NaN: none */
    const char *limit_name;
    bool from_zero, log, wide;
    bool alone; /* in a separate file, with title and style */
    bool no_table;
    bool cut;     /* peaks far above the usual range are cut off */
    bool stacked; /* the lines are layers of an area, from the bottom up */
};

/* Whether any line has a point, also a bad one. */
bool dt_plot_has_points(const struct dt_plot *plot);

/* Whether a positive curve spans more than this factor. */
bool dt_plot_spans(const struct dt_curve *curve, double factor);

/* Writes the plot as a figure of HTML; as a file of SVG, if it is alone. */
void dt_plot_write(FILE *out, const struct dt_plot *plot);

/* Writes a table of its numbers, at most 50 rows, folded under a summary. */
void dt_plot_table(FILE *out, const struct dt_plot *plot);

/* Describes the plot in words. */
void dt_plot_describe(FILE *out, const struct dt_plot *plot);

/* --- parts of a page --- */

/* Attributes of an element that may be wider than the page; keys scroll it,
 * too.
 */
#define DT_PAGE_SCROLL                                                         \
    "class=\"scroll\" tabindex=\"0\" role=\"group\" "                          \
    "aria-label=\"scrolls sideways\""

/* Writes `before`, the text as dt_page_text does, and `after`. */
void dt_page_put(FILE *out, const char *before, const char *text, size_t most,
                 const char *after);

/* Begins a table with the heads, separated by '|'; '#' before one makes a
 * column of numbers. The caller writes the rows and DT_PAGE_TABLE_END.
 */
void dt_page_table(FILE *out, const char *heads);
#define DT_PAGE_TABLE_END "</tbody></table></div>\n"

/* Opens the libraries that write PNG. NULL: EX_UNAVAILABLE, librsvg or cairo
 * are not installed; EX_OSERR.
 */
struct dt_png *dt_png_open(struct dt_error *err);
void dt_png_close(struct dt_png *png); /* NULL is fine */

/* The destinations of plots. */
struct dt_page_canvas {
    FILE *html;          /* NULL: nowhere */
    const char *svg_dir; /* for a file of each plot; NULL: none */
    const char *png_dir; /* as svg_dir */
    struct dt_png *png;  /* if there is a png_dir */
    char *text;          /* the picture being drawn */
    size_t bytes;
    struct dt_error err; /* of the first file that could not be written, if
                            err.status is not 0 */
};

/* Draws a plot, unless it has no points. */
void dt_page_draw(struct dt_page_canvas *canvas, const struct dt_plot *plot);

/* Begins a picture of SVG for separate files, DIR/<id>.svg and .png. NULL: none
 * is wanted, or there is no memory. dt_page_picture_end writes the files, and
 * keeps a failure in canvas->err.
 */
FILE *dt_page_picture_begin(struct dt_page_canvas *canvas);
void dt_page_picture_end(struct dt_page_canvas *canvas, FILE *out,
                         const char *id);

/* Draws the plots of one run. */
void dt_page_plots(struct dt_page_canvas *canvas,
                   const struct dt_page_run *run);

/* Draws the compute time of each rank against the median, over the run;
 * nothing, if there is one rank or no time is known.
 */
void dt_page_heat(struct dt_page_canvas *canvas, const struct dt_page_run *run);

/* The state or the end of a run. */
struct dt_page_verdict {
    const char *class; /* of style.c: ok, warn, fail, busy */
    const char *word;  /* "finished" */
    char text[1024];   /* a sentence */
};

/* `now` is in seconds since 1970. */
struct dt_page_verdict dt_page_judge(const struct dt_page_run *run, double now);

/* Whether the run samples completions and rewards them. Rewards then come
 * before losses.
 */
bool dt_page_samples(const struct dt_page_run *run);

/* Writes the name, the verdict, the main numbers, and the command to resume. */
void dt_page_head(FILE *out, const struct dt_page_run *run, double now);

/* Writes the use of the time; nothing, if it is unknown. */
void dt_page_goodput(FILE *out, const struct dt_page_run *run);

/* Writes events, checkpoints, ranks, configuration and environment. */
void dt_page_tables(FILE *out, const struct dt_page_run *run);

/* Writes the table of the slowest and the fastest ranks. */
void dt_page_rank_table(FILE *out, const struct dt_page_run *run);

/* The class of the mark of an event. */
enum dt_mark_class dt_page_class_of(const char *kind);

/* Compares several runs with the first one. `now` is in seconds since 1970. */
void dt_page_compare(struct dt_page_canvas *canvas,
                     struct dt_page_run *const *runs, size_t count, double now);

#endif /* DT_PAGE_PAGE_IMPL_H */
