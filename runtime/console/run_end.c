/* SPDX-License-Identifier: Apache-2.0 */
/* run_end.c - records the end of a step in the comment of its job and in the
 * files of its run
 */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/job_id.h"
#include "base/proc.h"
#include "base/secret.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/comment.h"
#include "contract/contract.h"
#include "live/live.h"

/* --- the comment --- */

#define TIMEOUT_S 0.9 /* ending a command also takes time */

static void set_now(const char *step, const char *text)
{
    char job[DT_JOB_ID_BYTES];
    if (dt_job_id(step, job))
        dt_comment_set(job, text, TIMEOUT_S);
}

bool dt_job_comment_is_old(const char *step)
{
    const char *requeues = getenv("SLURM_RESTART_COUNT");
    const char *launch = getenv(DT_ENV_LAUNCH);
    const char *restarts = launch ? strrchr(launch, '.') : NULL;
    const char *number = strrchr(step, '.');
    return (requeues && atol(requeues) > 0 && number &&
            strcmp(number, ".0") == 0) ||
           (restarts && atol(restarts + 1) > 0);
}

void dt_job_comment_set(struct dt_job_comment *comment, const char *step,
                        const char *text)
{
    char line[DT_JOB_COMMENT_BYTES];
    char *clean = dt_secret_remove(text);
    snprintf(line, sizeof(line), "%s", clean ? clean : "");
    free(clean);
    if (comment->child > 0 &&
        waitpid(comment->child, NULL, WNOHANG) == comment->child)
        comment->child = 0;
    if (comment->child > 0 || strcmp(line, comment->text) == 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        set_now(step, line);
        _exit(0);
    }
    if (child < 0)
        return;
    comment->child = child;
    strcpy(comment->text, line);
}

void dt_job_comment_wait(struct dt_job_comment *comment)
{
    if (comment->child > 0)
        waitpid(comment->child, NULL, 0);
    comment->child = 0;
}

/* --- the files --- */

enum {
    END_MS = 4000,
    NUMBERS = 6, /* words of the command */
};

char *dt_run_end_tell(const struct dt_outcome *outcome, const char *step)
{
    struct dt_outcome_ending ending;
    struct dt_error err = {.text = "it failed"};
    char said[4096], rank[16] = "-1", *text = NULL;
    const char *dir = getenv(DT_ENV_RUN);
    if (!dir || !step[0] || !dt_outcome_ending(outcome, &ending))
        return NULL;
    dt_secret_clean(ending.text, sizeof(ending.text)); /* everybody sees
                                                        * arguments
                                                        */
    if (ending.rank != DT_NO_RANK)
        snprintf(rank, sizeof(rank), "%" PRIu32, ending.rank);
    char *const argv[] = {DT_PROC_SELF, "console",    "--end",
                          (char *)dir,  (char *)step, (char *)ending.status,
                          rank,         ending.host,  ending.text,
                          NULL};
    int rc = dt_child_ask(argv, END_MS, said, sizeof(said), &err);
    if (rc == 0 && !said[0])
        return NULL;
    if (rc == 0)
        rc = asprintf(&text, "disttrain: report of the run: %s", said);
    else
        rc = asprintf(&text,
                      "disttrain: no report of the run: %s; write it with "
                      "`disttrain report %s`, which says why\n",
                      err.text, dir);
    return rc < 0 ? NULL : text;
}

int dt_run_end_record(int argc, char **argv, struct dt_error *err)
{
    bool page = false;
    if (argc != NUMBERS)
        return dt_error_set(err, EX_USAGE,
                            "expected DIR STEP STATUS RANK HOST TEXT");
    const struct dt_live_ending ending = {.step = argv[1],
                                          .status = argv[2],
                                          .rank = atoi(argv[3]),
                                          .host = argv[4],
                                          .text = argv[5]};
    int rc = dt_live_record_ending(argv[0], &ending, &page, err);
    return rc <= 0 ? rc : page;
}
