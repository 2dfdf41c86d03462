/* SPDX-License-Identifier: Apache-2.0 */
/* promise.h - the variables that a batch job is going to have */
#ifndef DT_SLURM_PROMISE_H
#define DT_SLURM_PROMISE_H

#include <stdbool.h>

/* Until dt_promise_end each variable that Slurm sets in every batch job, and
 * with `array` in every job of an array, stands for itself: SLURM_JOB_ID has
 * the value "${SLURM_JOB_ID}". So a configuration that is read for such a job
 * keeps it where it is written, and the job reads it again.
 */
void dt_promise_begin(bool array);

/* Gives all of them the values from before. */
void dt_promise_end(void);

#endif /* DT_SLURM_PROMISE_H */
