/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - a task of srun becomes the keeper of the program of its rank */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/inherited.h"
#include "base/proc.h"
#include "cmd/cmd_impl.h"
#include "contract/contract.h"
#include "keeper/keeper.h"

/* Whether ranks of training are kept: 1, 0, or -1 after a message. */
static int is_wanted(const struct dt_conf *conf)
{
    const char *why, *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (conf->launch.keeper == DT_CONF_KEEPER_OFF || getenv(DT_INHERITED))
        return 0;
    if (dt_keeper_possible(getenv(DT_ENV_STEP_SECRET), &why))
        return conf->launch.keeper == DT_CONF_KEEPER_ON || atol(tasks) > 1;
    if (conf->launch.keeper == DT_CONF_KEEPER_AUTO && !getenv(DT_ENV_KEEPER))
        return 0;
    fprintf(stderr,
            "disttrain: launch.keeper needs %s: use srun --disttrain=FILE, or "
            "set launch.keeper: off\n",
            why);
    return -1;
}

static int keep(const struct dt_keeper_options *options)
{
    struct dt_error err;
    int status = dt_keeper_run(options, &err);
    if (status >= 0)
        return status;
    fprintf(stderr, "disttrain: %s\n", err.text);
    return err.status;
}

bool dt_keep_training(const struct dt_conf *conf, char *const *argv,
                      int *status)
{
    char path[PATH_MAX];
    int wanted = is_wanted(conf), argc = 0;
    if (wanted == 0)
        return false;
    *status = EX_CONFIG;
    if (wanted < 0)
        return true;
    while (argv[argc])
        argc++;
    char **words = calloc((size_t)argc + 2, sizeof(*words));
    *status = EX_OSERR;
    if (words && dt_proc_path(path) == 0) {
        words[0] = path;
        for (int i = 0; i < argc; i++)
            words[i + 1] = argv[i];
        const struct dt_keeper_options options = {
            .argv = words,
            .trains = true,
            .max_restarts = conf->launch.max_worker_restarts,
            .spent = DT_KEEP_SPENT,
            .beat_ms = DT_KEEPER_BEAT_MS,
            .timeout_ms = (int)(conf->distributed.timeout_s * 1000),
            .secret = getenv(DT_ENV_STEP_SECRET),
        };
        *status = keep(&options);
    }
    free(words);
    return true;
}

int dt_keep_command(char *const *words, long max_restarts, const char *spent)
{
    const struct dt_keeper_options options = {
        .argv = words,
        .max_restarts = max_restarts,
        .spent = spent,
        .beat_ms = DT_KEEPER_BEAT_MS,
        .timeout_ms = DT_JOIN_TIMEOUT_MS,
        .secret = getenv(DT_ENV_STEP_SECRET),
    };
    return keep(&options);
}
