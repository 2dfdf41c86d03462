/* SPDX-License-Identifier: Apache-2.0 */
/* task_step.h - the plugin in slurmstepd, on each node */
#ifndef DTSPANK_TASK_STEP_H
#define DTSPANK_TASK_STEP_H

#include <slurm/spank.h>

/* slurm_spank_init, as root: registers the option and keeps plugstack.conf's
 * arguments. Looks at nothing that belongs to the user. Returns 0, or -1 after
 * a message.
 */
int dtspank_step_init(spank_t spank, int ac, char **av);

/* slurm_spank_user_init, with the user's effective IDs: if the step was started
 * with --disttrain, keeps what dtspank_step_task_exit needs of the step's
 * environment, and looks for free ports.
 */
void dtspank_step_user_init(spank_t spank);

/* slurm_spank_task_init, as the user, in the process that becomes the task:
 * exports the launch variables if the step was started with --disttrain.
 * Returns 0, or -1 after a message; then the task must not run.
 */
int dtspank_step_task_init(spank_t spank);

/* slurm_spank_task_exit, as root: tells the console how a task failed. Without
 * a console, says which rank was killed by a signal on this host, once per
 * node. Returns 0.
 */
int dtspank_step_task_exit(spank_t spank);

#endif /* DTSPANK_TASK_STEP_H */
