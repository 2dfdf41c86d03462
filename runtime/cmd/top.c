/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - `disttrain top`: shows what a run is doing now */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "base/terminal.h"
#include "cmd/cmd.h"
#include "top/top.h"

static const char help[] =
    "usage: disttrain top [--once | --json] [RUN | JOBID]\n\n"
    "Shows what a run is doing now, from files that it writes: no ports, and\n"
    "from every node that sees them. RUN is an output directory, or a\n"
    "directory of runs. Without it: your newest run in Slurm's queue, or the\n"
    "runs below this directory.\n\n"
    "  --once  print it once, as when stdout is no terminal\n"
    "  --json  print the file itself\n\n"
    "Keys: q quit; sort ranks by s slowest, m memory, p power, r rank; / "
    "filter\n"
    "by host or rank; arrows and pages scroll.\n";

int dt_cmd_top(int argc, char **argv)
{
    static const struct option table[] = {{"once", no_argument, NULL, 'o'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct dt_cmd_line line = {"top", help, table, .status = DT_CMD_RUN};
    struct dt_top_found found;
    struct dt_error err;
    bool once = false, json = false;
    for (int c; (c = dt_cmd_next_option(&line, argc, argv)) != -1;) {
        once = once || c == 'o';
        json = json || c == 'j';
    }
    if (line.status != DT_CMD_RUN)
        return line.status;
    if (argc > optind + 1)
        return dt_cmd_usage_error("top", "expected one RUN, but got '%s' too",
                                  argv[optind + 1]);
    once = once || json || !dt_terminal_rewrites(STDOUT_FILENO) ||
           !isatty(STDIN_FILENO);
    int rc = dt_top_find(argv[optind], &found, &err);
    if (rc == 0)
        rc = once ? dt_top_print(&found, json, &err)
                  : dt_top_follow(&found, &err);
    dt_top_found_fini(&found);
    if (rc == 0)
        return dt_cmd_flush("top", 0);
    fprintf(stderr, "disttrain top: %s\n", err.text);
    return err.status;
}
