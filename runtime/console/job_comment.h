/* SPDX-License-Identifier: Apache-2.0 */
/* job_comment.h - writes the first failure into the comment of a Slurm job */
#ifndef DT_CONSOLE_JOB_COMMENT_H
#define DT_CONSOLE_JOB_COMMENT_H

/* Sets the comment of the job of `step` ("JOB.STEP") to the first line of
 * `report`, unless the job has a comment that is not disttrain's. Takes at most
 * a second and fails silently: the comment is only a convenience, and Slurm may
 * be busy when a step fails.
 */
void dt_job_comment_set(const char *step, const char *report);

#endif /* DT_CONSOLE_JOB_COMMENT_H */
