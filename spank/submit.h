/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit.h - the side of srun, sbatch and salloc
 *
 * Runs as the user. Functions return 0, or -1 after a message on stderr; the
 * caller decides what that means in its hook.
 */
#ifndef DTSPANK_SUBMIT_H
#define DTSPANK_SUBMIT_H

#include <slurm/spank.h>

/* slurm_spank_init: reads plugstack.conf's arguments, registers the option and,
 * in srun, prepares the environment that srun is about to read.
 */
int dtspank_submit_init(spank_t spank, int ac, char **av);

/* The option's callback. In srun the first call may complete srun's argv. */
int dtspank_submit_option(const char *value);

/* slurm_spank_init_post_opt: has the config checked, once, and puts what the
 * tasks need into the environment.
 */
int dtspank_submit_post_opt(spank_t spank);

/* slurm_spank_local_user_init, srun only, the step exists: finds out where rank
 * 0 runs.
 */
int dtspank_submit_step_created(spank_t spank);

#endif /* DTSPANK_SUBMIT_H */
