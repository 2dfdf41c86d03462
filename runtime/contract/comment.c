/* SPDX-License-Identifier: Apache-2.0 */
/* comment.c - the comment of a job */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/str.h"
#include "contract/comment.h"

enum {
    ANSWER_BYTES = 4096,
    COMMENT_BYTES = 512,
};

static int run_command(char *const argv[], double deadline,
                       char answer[ANSWER_BYTES])
{
    double left = deadline - dt_clock_now();
    return left <= 0 ? -1
                     : dt_child_ask(argv, (int)(left * 1e3), answer,
                                    ANSWER_BYTES, NULL);
}

/* Whether the job has no comment, or ours. */
static bool is_free(const char *job, double deadline)
{
    char *const argv[] = {"squeue", "--noheader", "--format=%k",
                          "--jobs", (char *)job,  NULL};
    char answer[ANSWER_BYTES];
    if (run_command(argv, deadline, answer) != 0)
        return false;
    answer[strcspn(answer, "\n")] = '\0';
    return answer[0] == '\0' || strcmp(answer, "(null)") == 0 ||
           dt_str_after(answer, DT_COMMENT_OURS);
}

void dt_comment_set(const char *job, const char *text, double timeout_s)
{
    char id[64], comment[COMMENT_BYTES], answer[ANSWER_BYTES];
    char *const argv[] = {"scontrol", "update", id, comment, NULL};
    const double deadline = dt_clock_now() + timeout_s;
    snprintf(id, sizeof(id), "JobId=%s", job);
    snprintf(comment, sizeof(comment), "Comment=%s", text);
    if (is_free(job, deadline))
        run_command(argv, deadline, answer);
}
