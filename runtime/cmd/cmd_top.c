/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_top.c - `disttrain top`: shows the present state of a run */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "base/terminal.h"
#include "cmd/cmd_impl.h"
#include "top/top.h"

struct options {
    bool once, json;
};

static const struct dt_option table[] = {
    {"once", NULL, "print it once, as when stdout is no terminal",
     DT_INTO(struct options, once)},
    {"json", NULL, "print the file itself", DT_INTO(struct options, json)},
    {0},
};

static const struct dt_cmd_line line = {
    "top",
    "usage: disttrain top [--once | --json] [RUN | JOBID]\n\n"
    "Shows what a run is doing now, from files that it writes: no ports, and\n"
    "from every node that sees them. RUN is an output directory, or a\n"
    "directory of runs. Without it: your newest run in Slurm's queue, or the\n"
    "runs below this directory.\n",
    table,
    "Keys: q quit; sort ranks by s slowest, m memory, p power, r rank; / "
    "filter\n"
    "by host or rank; arrows and pages scroll.\n"};

int dt_cmd_top(int argc, char **argv)
{
    struct options options = {0};
    struct dt_top_found found;
    struct dt_error err;
    int status = dt_cmd_parse(&line, argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
    if (argc > optind + 1)
        return dt_cmd_usage_error("top", "expected one RUN, but got '%s' too",
                                  argv[optind + 1]);
    bool once = options.once || options.json ||
                !dt_terminal_rewrites(STDOUT_FILENO) || !isatty(STDIN_FILENO);
    int rc = dt_top_find(argv[optind], &found, &err);
    if (rc == 0)
        rc = once ? dt_top_print(&found, options.json, &err)
                  : dt_top_follow(&found, &err);
    dt_top_found_fini(&found);
    if (rc == 0)
        return dt_cmd_flush("top", 0);
    return dt_cmd_fail("top", &err);
}
