/* SPDX-License-Identifier: Apache-2.0 */
/* page_impl.h - the parts of a page */
#ifndef DT_PAGE_PAGE_IMPL_H
#define DT_PAGE_PAGE_IMPL_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "page/page_gather.h"
#include "page/plot.h"

/* Plots as PNG, by librsvg where there is one. */
struct dt_png;

/* Opens librsvg and cairo. NULL: EX_UNAVAILABLE, they are not installed;
 * EX_OSERR.
 */
struct dt_png *dt_png_open(struct dt_error *err);
void dt_png_close(struct dt_png *png); /* NULL is fine */

/* Draws a document of SVG with a viewBox, twice as large, into a file. -1:
 * EX_IOERR.
 */
int dt_png_write(const struct dt_png *png, const char *svg, const char *path,
                 struct dt_error *err);

/* Where plots go. */
struct dt_page_canvas {
    FILE *html;          /* NULL: nowhere */
    const char *svg_dir; /* each plot as a file; NULL: none */
    const char *png_dir; /* the same */
    struct dt_png *png;  /* if there is a png_dir */
    char *text;          /* the picture that is drawn */
    size_t bytes;
    struct dt_error err; /* of the first file that could not be written, if
                            err.status is not 0 */
};

/* Draws a plot; one without points is left out. */
void dt_page_draw(struct dt_page_canvas *canvas, const struct dt_plot *plot);

/* A picture of SVG that goes into files of its own, DIR/<id>.svg and .png.
 * NULL: none is asked for, or there is no memory. dt_page_picture_end writes
 * the files; a failure is kept in canvas->err.
 */
FILE *dt_page_picture_begin(struct dt_page_canvas *canvas);
void dt_page_picture_end(struct dt_page_canvas *canvas, FILE *out,
                         const char *id);

/* The plots of one run. */
void dt_page_plots(struct dt_page_canvas *canvas,
                   const struct dt_page_run *run);

/* How much slower than the median each rank computes, over time. Nothing, if
 * there is one rank or nothing is known.
 */
void dt_page_heat(struct dt_page_canvas *canvas, const struct dt_page_run *run);

/* How a run ended. */
struct dt_page_verdict {
    const char *class; /* of style.c: ok, warn, fail, busy */
    const char *word;  /* "finished" */
    char text[1024];   /* a sentence */
};

/* `now` is in seconds since 1970. */
struct dt_page_verdict dt_page_judge(const struct dt_page_run *run, double now);

/* Whether the run samples completions and rewards them, of which it then tells
 * before its losses.
 */
bool dt_page_samples(const struct dt_page_run *run);

/* Name, verdict, numbers, where the time went, the command to resume. */
void dt_page_head(FILE *out, const struct dt_page_run *run, double now);

/* Where the time went; nothing, if it is not known. */
void dt_page_goodput(FILE *out, const struct dt_page_run *run);

/* Events, checkpoints, ranks, configuration, environment. */
void dt_page_tables(FILE *out, const struct dt_page_run *run);

/* Ranks that compute slowest and fastest. */
void dt_page_rank_table(FILE *out, const struct dt_page_run *run);

/* How an event is marked. */
enum dt_mark_class dt_page_class_of(const char *kind);

enum { DT_COMPARE_RUNS = 8 }; /* as many as there are colors */

/* Several runs beside each other; the first one is the base. `now` is in
 * seconds since 1970.
 */
void dt_page_compare(struct dt_page_canvas *canvas,
                     struct dt_page_run *const *runs, size_t count, double now);

#endif /* DT_PAGE_PAGE_IMPL_H */
