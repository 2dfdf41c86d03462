/* SPDX-License-Identifier: Apache-2.0 */
/* spank_stub.h - a task and a Slurm for tests: the spank functions we call */
#ifndef SPANK_STUB_H
#define SPANK_STUB_H

#include <stdint.h>

#include <slurm/spank.h>

enum {
    STUB_ENV_MAX = 128,
    STUB_TEXT_BYTES = 8192,
};

/* What the spank functions answer with, and what they were told. */
struct spank_stub {
    spank_context_t context;
    uint32_t step_id;
    uint32_t local_tasks;
    uint32_t component_tasks;         /* S_JOB_TOTAL_TASK_COUNT */
    uint32_t task;                    /* S_TASK_GLOBAL_ID */
    int exit_status;                  /* S_TASK_EXIT_STATUS */
    char *argv[2];                    /* S_JOB_ARGV, if there is a word */
    char *env[STUB_ENV_MAX];          /* the task's environment */
    char job_option[STUB_TEXT_BYTES]; /* the last spank_job_control_setenv */
    char said[STUB_TEXT_BYTES];       /* all messages, one a line */
};

extern struct spank_stub stub;

/* Empties everything: context S_CTX_REMOTE, step 0, one local task. */
void stub_reset(void);

/* A variable of the task, or NULL. */
const char *stub_getenv(const char *name);

#endif /* SPANK_STUB_H */
