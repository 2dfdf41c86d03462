/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - the functions that Slurm calls, in the order of a run
 *
 * In srun, sbatch and salloc, as the user (srun/):
 *    a constructor          keeps argc and argv: there is no other way to them
 *   slurm_spank_init       registers --disttrain, has the config checked, and
 *                          sets the environment that srun reads right after it
 *   the option's callback  for each --disttrain on the command line
 *   init_post_opt          sets the variables for the tasks
 *   local_user_init        the step exists: examines the nodes (preflight),
 *                          starts the console and the deadline's thread
 *   on_exit                srun's status is known: ends the console, and puts
 *                          the job back into the queue if the config wants it
 *
 * In slurmstepd, on each node (task/):
 *   slurm_spank_init       as root: registers the option, keeps the site's keys
 *   user_init              with the user's rights, once: keeps what task_exit
 *                          needs of the environment, looks for free ports
 *   task_init              as the user, in the process that becomes the task
 *   task_exit              as root: says how the task ended
 *
 * Nothing else is visible outside of the shared object.
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "spank/srun/submit.h"
#include "spank/task/task_step.h"

SPANK_PLUGIN(disttrain, 1)

/* `disttrain doctor --plugin` looks for this text in the file. */
#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
static const char identity[] __attribute__((used)) =
    "disttrain-spank " PACKAGE_VERSION
    " for Slurm " TEXT(SLURM_VERSION_NUMBER) " " DTSPANK_RUNTIME;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
/* If the plugin fails, fail the job instead of draining the node. */
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
    dtspank_submit_step_created(spank);
    return 0; /* with -1 srun would leave its step behind */
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
    /* This process becomes the task; it is not slurmstepd itself. Slurm would
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
