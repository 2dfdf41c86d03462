/* SPDX-License-Identifier: Apache-2.0 */
/* plan_job.h - the job that a run is planned for */
#ifndef DT_CMD_PLAN_JOB_H
#define DT_CMD_PLAN_JOB_H

#include "plan/candidates.h"

/* The command line's description of the job. */
struct dt_plan_job {
    long nodes, ranks; /* of a node; 0: as `launch:` says */
    size_t gpu_memory; /* bytes; 0: that of the rates */
    const char *rates; /* a file or a known device; NULL: as the file says */
};

/* Finds the size and the rates of the job, and sets the threads that a rank of
 * it has. -1: EX_USAGE if it is too large or the rates are of the other kind of
 * device; as dt_rates_load.
 */
int dt_plan_job_size(const struct dt_plan_job *job, const struct dt_conf *conf,
                     struct dt_job_size *size, struct dt_error *err);

#endif /* DT_CMD_PLAN_JOB_H */
