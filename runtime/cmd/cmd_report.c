/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_report.c - `disttrain report`: explains runs, from the files they wrote
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "cmd/cmd_impl.h"
#include "history/history.h"
#include "page/page.h"
#include "report/record.h"

/* --- event files --- */

static int give_records(struct dt_history *history, struct dt_sink *sink,
                        struct dt_error *err)
{
    struct dt_report_record record;
    int more;
    while ((more = dt_history_next(history, &record, err)) > 0)
        if (dt_sink_tensorboard.record(sink, &record, err) < 0)
            return -1;
    return more;
}

int dt_report_to_tensorboard(const char *run, const char *output,
                             struct dt_error *err)
{
    struct dt_history *history = dt_history_open(run, err);
    if (!history)
        return -1;
    const struct dt_sink_options options = {
        .dir = output ? output : dt_history_dir(history),
        .run = dt_history_facts(history)->json};
    struct dt_sink *sink = dt_sink_tensorboard.open(&options, err);
    int rc = sink ? give_records(history, sink, err) : -1;
    dt_sink_tensorboard.close(sink);
    if (rc == 0)
        printf("%s/tb\n", options.dir);
    dt_history_destroy(history);
    return rc;
}

/* --- the command --- */

/* The line of disttrain-report(1). */
static const char table_of_metrics[] =
    "jq -rs '(add | keys_unsorted) as $k | $k, (.[] | [.[$k[]]]) | @csv' "
    "metrics.jsonl";

struct report_options {
    struct dt_page_options page;
    const char *form, *output;
};

static int check(const struct report_options *options, int runs)
{
    const bool pictures = options->page.svg_dir || options->page.png_dir;
    if (options->form && !strcmp(options->form, "csv"))
        return dt_cmd_usage_error("report", "--to: csv is gone: run %s",
                                  table_of_metrics);
    if (options->form && !strcmp(options->form, "wandb"))
        return dt_cmd_usage_error("report", "--to: wandb is gone: run "
                                            "contrib/wandb-follow --once RUN");
    if (options->form && strcmp(options->form, "tensorboard") != 0)
        return dt_cmd_usage_error(
            "report", "--to: expected tensorboard, got %s", options->form);
    if (options->form && pictures)
        return dt_cmd_usage_error("report", "--to has no plots");
    if (runs == 0)
        return dt_cmd_usage_error("report", "expected a run");
    if (options->form && options->output && runs > 1)
        return dt_cmd_usage_error("report", "--output is for one run, got %d",
                                  runs);
    if (!options->form && runs > DT_PAGE_RUNS_MAX)
        return dt_cmd_usage_error("report", "at most %d runs, got %d",
                                  DT_PAGE_RUNS_MAX, runs);
    return DT_CMD_RUN;
}

static const struct dt_option table[] = {
    {"output", "PATH",
     "the page; by default report.html next to the metrics of RUN, or "
     "./comparison.html of several. With --to, for one RUN: the directory, in "
     "place of the run's own. Give it for a run that still writes event files "
     "itself",
     DT_INTO(struct report_options, output), .letter = 'o'},
    {"svg", "DIR", "each plot as a file of SVG, and no page without -o",
     DT_INTO(struct report_options, page.svg_dir)},
    {"png", "DIR", "the same as PNG; needs librsvg",
     DT_INTO(struct report_options, page.png_dir)},
    {"to", "tensorboard", "event files in tb of the directory",
     DT_INTO(struct report_options, form)},
    {0},
};

static const struct dt_cmd_line line = {
    "report",
    "usage: disttrain report [-o FILE] [--svg DIR] [--png DIR] RUN [RUN...]\n"
    "       disttrain report --to tensorboard [-o DIR] RUN [RUN...]\n\n"
    "Writes a page of HTML that explains a run, or compares up to 8 runs with\n"
    "the first one; or the records of runs for TensorBoard. RUN is the\n"
    "output directory of a run, its logging.dir, or a metrics.jsonl; it may\n"
    "still be running.\n",
    table, NULL};

static int parse(struct report_options *options, int argc, char **argv)
{
    int status = dt_cmd_parse(&line, argc, argv, options);
    if (status != DT_CMD_RUN)
        return status;
    options->page.runs = (const char *const *)argv + optind;
    options->page.count = (size_t)(argc - optind);
    return check(options, argc - optind);
}

static int write_forms(const struct report_options *options)
{
    struct dt_error err;
    int status = EX_OK;
    for (size_t i = 0; i < options->page.count; i++)
        if (dt_report_to_tensorboard(options->page.runs[i], options->output,
                                     &err) < 0)
            status = dt_cmd_fail("report", &err);
    return status;
}

static int write_page(struct report_options *options)
{
    struct dt_error err;
    char *path = NULL;
    struct dt_page_options *page = &options->page;
    page->now = dt_clock_wall();
    page->html = options->output;
    if (!options->output && !page->svg_dir && !page->png_dir) {
        path = dt_page_default(page->runs, page->count, &err);
        if (!path)
            return dt_cmd_fail("report", &err);
        page->html = path;
    }
    int status =
        dt_page_write(page, &err) < 0 ? dt_cmd_fail("report", &err) : EX_OK;
    if (status == EX_OK && page->html)
        puts(page->html);
    free(path);
    return status;
}

int dt_cmd_report(int argc, char **argv)
{
    struct report_options options = {0};
    int status = parse(&options, argc, argv);
    if (status != DT_CMD_RUN)
        return status;
    status = options.form ? write_forms(&options) : write_page(&options);
    return dt_cmd_flush("report", status);
}
