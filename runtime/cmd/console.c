/* SPDX-License-Identifier: Apache-2.0 */
/* console.c - `disttrain console`: a child of srun that prints srun's output */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "cmd/cmd.h"
#include "console/console.h"
#include "console/watch.h"

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
    if (argc > 1)
        return dt_cmd_usage_error("console", "unexpected '%s'", argv[1]);
    return dt_console_run(stdin);
}
