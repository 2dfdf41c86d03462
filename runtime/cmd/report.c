/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `disttrain report`: other forms of what runs have recorded */
#include "config.h"

#include <stdio.h>
#include <sysexits.h>

#include "cmd/cmd.h"
#include "cmd/report_to.h"

static const char help[] =
    "usage: disttrain report --to FORM [--output PATH] RUN [RUN...]\n\n"
    "Writes the records of a run in the form of other programs. RUN is the\n"
    "output directory of a run, its logging.dir, or a metrics.jsonl.\n\n"
    "  --to FORM      tensorboard, wandb or csv\n"
    "  --output PATH  the directory, or the file of csv, in place of the\n"
    "                 run's own; for one RUN. Give it for a run that still\n"
    "                 writes the same form\n"
    "  --help         this text\n";

struct report_options {
    const char *form, *output;
};

static int parse(struct report_options *options, int argc, char **argv)
{
    static const struct option table[] = {
        {"help", no_argument, NULL, 'h'},
        {"output", required_argument, NULL, 'o'},
        {"to", required_argument, NULL, 't'},
        {0}};
    struct dt_cmd_line line = {"report", help, table, .status = DT_CMD_RUN};
    for (int c; (c = dt_cmd_next_option(&line, argc, argv)) != -1;)
        if (c == 'o')
            options->output = optarg;
        else
            options->form = optarg;
    if (line.status != DT_CMD_RUN)
        return line.status;
    if (!options->form || !dt_report_form_known(options->form))
        return dt_cmd_usage_error("report",
                                  "--to: expected " DT_REPORT_FORMS ", got %s",
                                  options->form ? options->form : "nothing");
    if (optind == argc)
        return dt_cmd_usage_error("report", "expected a run");
    if (options->output && argc - optind > 1)
        return dt_cmd_usage_error("report", "--output is for one run, got %d",
                                  argc - optind);
    return DT_CMD_RUN;
}

int dt_cmd_report(int argc, char **argv)
{
    struct report_options options = {0};
    struct dt_error err;
    int status = parse(&options, argc, argv);
    if (status != DT_CMD_RUN)
        return status;
    status = EX_OK;
    for (int i = optind; i < argc; i++)
        if (dt_report_to(options.form, argv[i], options.output, &err) < 0) {
            fprintf(stderr, "disttrain report: %s\n", err.text);
            status = err.status;
        }
    return dt_cmd_flush("report", status);
}
