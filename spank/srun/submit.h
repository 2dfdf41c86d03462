/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit.h - the plugin in srun, sbatch and salloc
 *
 * Runs as the user. Functions return 0, or -1 after a message on stderr; the
 * caller decides about the consequence in its hook.
 */
#ifndef DTSPANK_SUBMIT_H
#define DTSPANK_SUBMIT_H

#include <slurm/spank.h>

/* slurm_spank_init: reads plugstack.conf's arguments, registers the option. */
int dtspank_submit_init(spank_t spank, int ac, char **av);

/* slurm_spank_init, after that: in srun, has the config checked and puts the
 * result into the environment that srun is about to read. -1 means that the
 * user made a mistake: srun must exit.
 */
int dtspank_submit_prepare(void);

/* The option's callback. In srun, the first call may complete srun's argv. */
int dtspank_submit_option(const char *value);

/* The callback of --disttrain-set. */
int dtspank_submit_override(const char *value);

/* slurm_spank_init_post_opt: puts the variables for the tasks into the
 * environment; has the config checked first if that has not been done.
 */
int dtspank_submit_post_opt(spank_t spank);

/* slurm_spank_local_user_init, srun only, once the step exists: finds out where
 * rank 0 runs, runs the preflight, starts the console, and prepares for the end
 * (launch.signal, launch.requeue). If that fails, its tasks end by themselves.
 */
void dtspank_submit_step_created(spank_t spank);

#endif /* DTSPANK_SUBMIT_H */
