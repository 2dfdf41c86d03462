/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_steps.c - `disttrain steps`: the steps of a batch job, until one succeeds
 */
#include "config.h"

#include <sysexits.h>

#include "cmd/cmd_impl.h"
#include "conf/conf.h"
#include "slurm/job.h"

static const struct dt_option table[] = {
    {DT_CMD_SET, .help = "take this value, whatever FILE says"},
    {0},
};

static const struct dt_cmd_line line = {
    "steps",
    "usage: disttrain steps [--set KEY=VALUE]... FILE\n"
    "                       [-- --SRUN-OPTION[=VALUE]...]\n\n"
    "Runs srun --disttrain=FILE in a batch job, again if it fails, without "
    "the\n"
    "nodes that are lost. The script of `disttrain sbatch` does it.\n",
    table, "Options after -- are passed on to srun.\n"};

int dt_cmd_steps(int argc, char **argv)
{
    struct dt_error err;
    int status = dt_cmd_parse(&line, argc, argv, NULL);
    if (status != DT_CMD_RUN)
        return status;
    if (optind == argc)
        return dt_cmd_usage_error("steps", "expected one FILE");
    const struct dt_srun_words words = {argv + optind + 1, argc - optind - 1};
    struct dt_conf *conf = dt_cmd_load("steps", argv[optind], false);
    if (!conf)
        return EX_CONFIG;
    status = dt_steps_run(conf, &words, &err);
    dt_conf_destroy(conf);
    return status < 0 ? dt_cmd_fail("steps", &err) : status;
}
