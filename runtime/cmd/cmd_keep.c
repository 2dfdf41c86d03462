/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_keep.c - `disttrain keep`: a task of srun keeps the command after it */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/cmd_impl.h"
#include "contract/contract.h"
#include "keeper/keeper.h"

struct options {
    long max_restarts;
};

static const struct dt_option table[] = {
    {"max-restarts", "N", "start again up to N times (default: 3)",
     DT_INTO(struct options, max_restarts), .min = 0, .max = 1000},
    {0},
};

static const struct dt_cmd_line line = {
    "keep",
    "usage: srun --disttrain=FILE disttrain keep [--max-restarts N] COMMAND\n"
    "       [ARGUMENTS]\n\n"
    "Runs COMMAND on every rank. When one fails, it ends all and starts all\n"
    "again within the step, with a new MASTER_PORT: COMMAND continues from "
    "its\n"
    "own last checkpoint.\n",
    table, NULL};

int dt_cmd_keep(int argc, char **argv)
{
    struct options options = {.max_restarts = 3};
    const char *why;
    int status = dt_cmd_parse_first(&line, argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
    if (optind == argc)
        return dt_cmd_usage_error("keep", "expected a COMMAND");
    if (!dt_keeper_possible(getenv(DT_ENV_STEP_SECRET), &why))
        return dt_cmd_usage_error(
            "keep", "it needs %s: use srun --disttrain=FILE disttrain keep %s",
            why, argv[optind]);
    return dt_keep_command(argv + optind, options.max_restarts,
                           "--max-restarts allows no more restarts");
}
