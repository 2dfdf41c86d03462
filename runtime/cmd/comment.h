/* SPDX-License-Identifier: Apache-2.0 */
/* comment.h - the first failure as the comment of a Slurm job */
#ifndef DT_CMD_COMMENT_H
#define DT_CMD_COMMENT_H

/* Sets the comment of the job of `step` ("JOB.STEP") to the first line of
 * `report`, unless the job has a comment that is not disttrain's. Takes a
 * second at most, and leaves it at that if it cannot be done: this is a help,
 * and Slurm may have other worries when a step fails.
 */
void dt_comment_job(const char *step, const char *report);

#endif /* DT_CMD_COMMENT_H */
