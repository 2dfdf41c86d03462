/* SPDX-License-Identifier: Apache-2.0 */
/* comment.h - the comment of a job, which squeue and sacct show */
#ifndef DT_CONTRACT_COMMENT_H
#define DT_CONTRACT_COMMENT_H

#define DT_COMMENT_OURS "disttrain: " /* how ours begin */

/* Sets the comment of a job (see base/job_id.h), unless it has one that is not
 * ours; "" removes ours. Asks squeue and scontrol, for `timeout_s` in all; if
 * they do not answer, nothing is set.
 */
void dt_comment_set(const char *job, const char *text, double timeout_s);

#endif /* DT_CONTRACT_COMMENT_H */
