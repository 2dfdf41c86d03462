/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - a page of HTML that explains a run, or compares several
 *
 * It is one file without scripts that loads nothing, so that it opens from a
 * mail, a file share, or in a restricted viewer.
 */
#ifndef DT_PAGE_PAGE_H
#define DT_PAGE_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

enum { DT_PAGE_RUNS_MAX = 8 }; /* as many as there are colors */

struct dt_page_options {
    const char *const *runs; /* directories, or files of metrics */
    size_t count;            /* 1 to DT_PAGE_RUNS_MAX; the first is the base */
    const char *html;        /* file to write; NULL: none */
    const char *svg_dir;     /* directory for a file of each plot; NULL: none */
    const char *png_dir;     /* as svg_dir; needs librsvg and cairo */
    double now;              /* seconds since 1970 */
};

/* Writes the page; the file appears whole or not at all. -1: as
 * dt_history_open, EX_CANTCREAT, EX_IOERR; EX_UNAVAILABLE, there is no librsvg
 * for png_dir.
 */
int dt_page_write(const struct dt_page_options *options, struct dt_error *err);

/* The default path of the page: report.html next to the metrics of a run, or
 * ./comparison.html; free() it. NULL: as dt_history_open.
 */
char *dt_page_default(const char *const *runs, size_t count,
                      struct dt_error *err);

/* --- text and numbers for people, safe in HTML and SVG --- */

/* Writes any text as the content of an element or of an attribute in quotes.
 * Characters of markup are escaped. Bytes that are not UTF-8, control
 * characters, and characters that change the direction of text become U+FFFD.
 * Writes at most `most` characters (0: all), and then an ellipsis.
 */
void dt_page_text(FILE *out, const char *text, size_t most);

enum { DT_PAGE_NUMBER_BYTES = 32 };

/* Each function formats into text, of DT_PAGE_NUMBER_BYTES, and returns it. */

/* Four digits: "1.485", "17,193", "84.26 M", "2e-05". */
const char *dt_page_number(char *text, double value);

/* A count with commas: "842,624". */
const char *dt_page_count(char *text, double value);

/* "512 B", "1.25 GiB". */
const char *dt_page_bytes(char *text, double bytes);

/* "850 ms", "12.5 s", "3 min 20 s", "5 h 02 min", "2 d 03 h". */
const char *dt_page_duration(char *text, double seconds);

/* "2026-11-23 13:05:10 UTC". */
const char *dt_page_time(char *text, double wall);

#endif /* DT_PAGE_PAGE_H */
