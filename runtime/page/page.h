/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - a page of HTML that explains a run, or compares several
 *
 * One file without scripts that loads nothing, so that it opens from a mail, a
 * file share, or a viewer that allows nothing.
 */
#ifndef DT_PAGE_PAGE_H
#define DT_PAGE_PAGE_H

#include <stddef.h>

#include "base/error.h"

enum { DT_PAGE_RUNS_MAX = 8 };

struct dt_page_options {
    const char *const *runs; /* directories, or files of metrics */
    size_t count;            /* 1 to DT_PAGE_RUNS_MAX; the first is the base */
    const char *html;        /* file to write; NULL: none */
    const char *svg_dir;     /* writes each plot as a file; NULL: none */
    const char *png_dir;     /* the same; needs librsvg and cairo */
    double now;              /* seconds since 1970 */
};

/* Writes the page; the file appears whole or not at all. -1: as
 * dt_history_open, EX_CANTCREAT, EX_IOERR; EX_UNAVAILABLE, there is no librsvg
 * for png_dir.
 */
int dt_page_write(const struct dt_page_options *options, struct dt_error *err);

/* Where the page goes if nobody says: report.html beside the metrics of a run,
 * or ./comparison.html; free() it. NULL: as dt_history_open.
 */
char *dt_page_default(const char *const *runs, size_t count,
                      struct dt_error *err);

#endif /* DT_PAGE_PAGE_H */
