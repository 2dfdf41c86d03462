/* SPDX-License-Identifier: Apache-2.0 */
/* job_comment.h - writes the first failure into the comment of a Slurm job */
#ifndef DT_CONSOLE_JOB_COMMENT_H
#define DT_CONSOLE_JOB_COMMENT_H

#include <sys/types.h>

enum {
    DT_JOB_COMMENT_BYTES = 240,
};

/* Initialize with {0}. */
struct dt_job_comment {
    char text[DT_JOB_COMMENT_BYTES]; /* set last */
    pid_t child;                     /* that sets it; 0: none */
};

/* Starts to make `text`, without secrets and cut, the comment of the job of
 * `step`
 * ("JOB.STEP"), unless the job has a comment that is not disttrain's; "" takes
 * ours away. Nothing happens if the text was set last, or another one is still
 * being set. That takes at most a second and fails silently: the comment is
 * only a convenience, and Slurm may be busy when a step fails.
 */
void dt_job_comment_set(struct dt_job_comment *comment, const char *step,
                        const char *text);

/* Waits until the comment is set. */
void dt_job_comment_wait(struct dt_job_comment *comment);

#endif /* DT_CONSOLE_JOB_COMMENT_H */
