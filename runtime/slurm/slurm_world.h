/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_world.h - how many ranks a run is going to have, before it is queued */
#ifndef DT_SLURM_SLURM_WORLD_H
#define DT_SLURM_SLURM_WORLD_H

#include "conf/conf.h"
#include "slurm/settings.h"
#include "slurm/size.h"

/* Each returns a number of ranks, or 0 where it cannot be told. */

/* The ranks of `launch:`, which has one node and one rank a node where it names
 * only the other number; 0: it names neither.
 */
long dt_world_launch(const struct dt_conf *conf);

/* The ranks that srun is going to start with these words, this environment and
 * the defaults that `launch:` gives it.
 */
long dt_world_srun(const struct dt_conf *conf,
                   const struct dt_srun_words *words);

/* The ranks that srun is going to start in a job that is requested with this
 * size. Nobody knows what a script gives its srun: what counts is the number of
 * ranks that the job or `launch:` names.
 */
long dt_world_job(const struct dt_conf *conf, const struct dt_job_size *size);

/* The ranks of the batch script that is written for `launch:` and more options
 * of sbatch, which override it.
 */
long dt_world_script(const struct dt_conf *conf,
                     const struct dt_srun_words *extra);

/* Works out the batch sizes for the ranks; 0 ranks, and a configuration that
 * does not train, have none. Returns an exit status, after a message on stderr
 * if the sizes do not fit.
 */
int dt_world_check(struct dt_conf *conf, long ranks);

#endif /* DT_SLURM_SLURM_WORLD_H */
