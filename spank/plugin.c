/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - the functions that Slurm calls, each a switch on the context
 *
 * Everything with a slurm_spank_ or plugin_ name is here, and nothing else is
 * visible outside of the shared object.
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "spank/console.h"
#include "spank/task/step.h"
#include "spank/srun/submit.h"

SPANK_PLUGIN(disttrain, 1)

/* What `disttrain doctor --plugin` looks for in the file. */
#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
static const char identity[] __attribute__((used)) =
    "disttrain-spank " PACKAGE_VERSION
    " for Slurm " TEXT(SLURM_VERSION_NUMBER) " " DTSPANK_RUNTIME;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
/* A failure of ours fails the job, and does not drain the node. */
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

int slurm_spank_init(spank_t spank, int ac, char *argv[])
{
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        if (dtspank_submit_init(spank, ac, argv) != 0)
            return -1;
        /* Slurm would ignore -1 from an optional plugin and submit. */
        if (dtspank_submit_prepare() != 0)
            exit(EXIT_FAILURE);
        return 0;
    case S_CTX_REMOTE:
        return dtspank_step_init(spank, ac, argv);
    default:
        return 0;
    }
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        if (dtspank_submit_post_opt(spank) != 0)
            exit(EXIT_FAILURE);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_local_user_init(spank_t spank, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    return dtspank_submit_step_created(spank);
}

/* Also called after a failure. */
int slurm_spank_exit(spank_t spank, int ac, char *argv[])
{
    (void)spank;
    (void)ac;
    (void)argv;
    if (spank_context() == S_CTX_LOCAL)
        dtspank_console_finish();
    return 0;
}

int slurm_spank_user_init(spank_t spank, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    dtspank_step_user_init(spank);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    /* This is the process that becomes the task, not slurmstepd. Slurm would
     * ignore -1 from an optional plugin and run the task with wrong ranks.
     */
    if (dtspank_step_task_init(spank) != 0)
        _exit(EXIT_FAILURE);
    return 0;
}

int slurm_spank_task_exit(spank_t spank, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    return dtspank_step_task_exit(spank);
}
