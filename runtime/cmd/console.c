/* SPDX-License-Identifier: Apache-2.0 */
/* console.c - `disttrain console`: a child of srun that prints srun's output */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "console/console.h"
#include "console/run_end.h"
#include "console/watch.h"
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
    signal(SIGINT, SIG_IGN); /* it is short, and what the user ends has ended */
    int rc = dt_run_end_record(argc, argv, &err);
    if (rc == 1)
        rc = write_page(argv[0], &err);
    if (rc < 0) {
        fprintf(stderr, "disttrain console: %s\n", err.text);
        return err.status;
    }
    return dt_cmd_flush("console", EX_OK);
}

int dt_cmd_console(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("usage: disttrain console\n\n"
             "Filters srun's output by rank and reports at the end which rank "
             "failed\nfirst. The plugin starts it between srun and the "
             "console.");
        return EX_OK;
    }
    if (argc > 1 && strcmp(argv[1], "--watch") == 0)
        return dt_console_watch(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--end") == 0)
        return end_run(argc - 2, argv + 2);
    if (argc > 1)
        return dt_cmd_usage_error("console", "unexpected '%s'", argv[1]);
    return dt_console_run(stdin);
}
