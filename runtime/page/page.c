/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - a page of HTML that explains a run, or compares several */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "page/page_impl.h"

static void put_begin(FILE *out, struct dt_page_run *const *runs, size_t count,
                      double now)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
          "&#39;none&#39;; style-src &#39;unsafe-inline&#39;\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\"/>\n<title>",
          out);
    if (count > 1) {
        fprintf(out, "Comparison of %zu runs", count);
    } else {
        dt_page_put(out, "", runs[0]->facts->name, 120, ": ");
        fputs(dt_page_judge(runs[0], now).word, out);
    }
    fprintf(out, "</title>\n<style>%s%s%s</style>\n</head>\n<body>\n<main>\n",
            dt_style_colors, dt_style_plot, dt_style_page);
}

static void put_end(FILE *out, double now)
{
    char text[DT_PAGE_NUMBER_BYTES];
    fprintf(out,
            "<footer>Written by %s at %s. Numbers under a plot are means of "
            "about a fiftieth of it.</footer>\n</main>\n</body>\n</html>\n",
            PACKAGE_STRING, dt_page_time(text, now));
}

static void put_run(struct dt_page_canvas *canvas,
                    const struct dt_page_run *run, double now)
{
    FILE *out = canvas->html;
    if (out) {
        dt_page_head(out, run, now);
        dt_page_goodput(out, run);
        if (run->curve_count > 0)
            fputs("<h2>Curves</h2>\n<div class=\"plots\">\n", out);
        else
            fputs("<p>No step has been recorded.</p>\n", out);
    }
    dt_page_plots(canvas, run);
    if (!out)
        return;
    fputs(run->curve_count > 0 ? "</div>\n" : "", out);
    dt_page_tables(out, run);
}

static void put_page(struct dt_page_canvas *canvas,
                     struct dt_page_run *const *runs, size_t count, double now)
{
    if (canvas->html)
        put_begin(canvas->html, runs, count, now);
    if (count > 1)
        dt_page_compare(canvas, runs, count, now);
    else
        put_run(canvas, runs[0], now);
    if (canvas->html)
        put_end(canvas->html, now);
}

/* Writes to a file next to `path`, which replaces it at the end. */
static int write_file(struct dt_page_canvas *canvas,
                      struct dt_page_run *const *runs,
                      const struct dt_page_options *options,
                      struct dt_error *err)
{
    char temporary[PATH_MAX];
    const char *path = options->html;
    snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());
    canvas->html = fopen(temporary, "we");
    if (!canvas->html)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            temporary, strerror(errno));
    put_page(canvas, runs, options->count, options->now);
    bool good = !ferror(canvas->html);
    good = fclose(canvas->html) == 0 && good;
    if (good && rename(temporary, path) == 0)
        return 0;
    dt_error_set(err, EX_IOERR, "%s: cannot write: %s", path, strerror(errno));
    unlink(temporary);
    return -1;
}

static int write_all(struct dt_page_run *const *runs,
                     const struct dt_page_options *options,
                     struct dt_error *err)
{
    struct dt_page_canvas canvas = {.svg_dir = options->svg_dir,
                                    .png_dir = options->png_dir};
    int rc = 0;
    if (canvas.svg_dir && dt_file_mkdirs(canvas.svg_dir, err) < 0)
        return -1;
    if (canvas.png_dir && (dt_file_mkdirs(canvas.png_dir, err) < 0 ||
                           !(canvas.png = dt_png_open(err))))
        return -1;
    if (options->html)
        rc = write_file(&canvas, runs, options, err);
    else
        put_page(&canvas, runs, options->count, options->now);
    dt_png_close(canvas.png);
    if (rc == 0 && canvas.err.status != 0)
        rc = dt_error_set(err, canvas.err.status, "%s", canvas.err.text);
    return rc;
}

int dt_page_write(const struct dt_page_options *options, struct dt_error *err)
{
    struct dt_page_run *runs[DT_PAGE_RUNS_MAX] = {NULL};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < options->count; i++)
        rc = (runs[i] = dt_page_gather(options->runs[i], err)) ? 0 : -1;
    if (rc == 0)
        rc = write_all(runs, options, err);
    for (size_t i = 0; i < options->count; i++)
        dt_page_run_destroy(runs[i]);
    return rc;
}

char *dt_page_default(const char *const *runs, size_t count,
                      struct dt_error *err)
{
    char *path = NULL;
    if (count > 1) {
        path = strdup("comparison.html");
    } else {
        struct dt_history *history = dt_history_open(runs[0], err);
        if (!history)
            return NULL;
        if (asprintf(&path, "%s/report.html", dt_history_dir(history)) < 0)
            path = NULL;
        dt_history_destroy(history);
    }
    if (!path)
        dt_error_set(err, EX_OSERR, "out of memory");
    return path;
}
