/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_console.c - `disttrain console`: a child of srun that prints srun's
 * output */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "cmd/cmd_impl.h"
#include "console/console.h"
#include "page/page.h"

static int write_page(const char *run, struct dt_error *err)
{
    char *path = dt_page_default(&run, 1, err);
    const struct dt_page_options options = {
        .runs = &run, .count = 1, .html = path, .now = dt_clock_wall()};
    int rc = path ? dt_page_write(&options, err) : -1;
    if (rc == 0)
        puts(path);
    free(path);
    return rc;
}

/* Records how a run has ended, and explains it in report.html; prints the name
 * of that.
 */
static int end_run(int argc, char **argv)
{
    struct dt_error err;
    signal(SIGINT, SIG_IGN); /* brief, and the run has ended anyway */
    int rc = dt_run_end_record(argc, argv, &err);
    if (rc == 1)
        rc = write_page(argv[0], &err);
    if (rc < 0)
        return dt_cmd_fail("console", &err);
    return dt_cmd_flush("console", EX_OK);
}

static const struct dt_cmd_line line = {
    "console",
    "usage: disttrain console\n\n"
    "Filters srun's output by rank and reports at the end which rank failed\n"
    "first. The plugin starts it between srun and the console.\n",
    (const struct dt_option[]){{0}}, NULL};

int dt_cmd_console(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--watch") == 0)
        return dt_console_watch(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--end") == 0)
        return end_run(argc - 2, argv + 2);
    int status = dt_cmd_parse(&line, argc, argv, NULL);
    if (status != DT_CMD_RUN)
        return status;
    if (optind < argc)
        return dt_cmd_usage_error("console", "unexpected '%s'", argv[optind]);
    return dt_console_run(stdin);
}
