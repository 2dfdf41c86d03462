/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_request.h - finds the size that sbatch, salloc or srun has been asked
 * for
 */
#ifndef DT_SLURM_SLURM_REQUEST_H
#define DT_SLURM_SLURM_REQUEST_H

#include "slurm/settings.h"
#include "slurm/size.h"

/* Fills in the size that sbatch or salloc asks for. The words are its options;
 * they override its environment, which overrides the #SBATCH lines of `script`
 * ("": there is none, as for salloc). The caller frees the size with
 * dt_job_size_fini. Returns false, with an unknown size, for a heterogeneous
 * job.
 */
bool dt_request_read(const char *script, const struct dt_srun_words *words,
                     struct dt_job_size *size);

/* The same for a step: what these words of srun ask for, and variables that
 * have no option of the job behind them (SLURM_NTASKS_PER_GPU). Returns false
 * if a number of ranks cannot be told from them, as for -N2-4, a heterogeneous
 * job, or the step of another job.
 */
bool dt_request_read_step(const struct dt_srun_words *words,
                          struct dt_job_size *size);

#endif /* DT_SLURM_SLURM_REQUEST_H */
