/* SPDX-License-Identifier: Apache-2.0 */
/* spank_stub.h - stubs of the spank functions that we call, and their state */
#ifndef SPANK_STUB_H
#define SPANK_STUB_H

#include <stdint.h>

#include <slurm/spank.h>

enum {
    STUB_ENV_MAX = 128,
    STUB_TEXT_BYTES = 8192,
};

/* The values that the spank functions return, and the calls that they got. */
struct spank_stub {
    spank_context_t context;
    uint32_t step_id;
    uint32_t local_tasks;
    uint32_t component_tasks;         /* S_JOB_TOTAL_TASK_COUNT */
    uint32_t task;                    /* S_TASK_GLOBAL_ID */
    int exit_status;                  /* S_TASK_EXIT_STATUS */
    long slept_ms;                    /* asked of nanosleep, in all */
    char *argv[2];                    /* S_JOB_ARGV, if argv[0] is set */
    char *env[STUB_ENV_MAX];          /* the task's environment */
    char job_option[STUB_TEXT_BYTES]; /* the last spank_job_control_setenv */
    char job_before[STUB_TEXT_BYTES]; /* the one before it */
    char said[STUB_TEXT_BYTES];       /* all messages, one on each line */
};

extern struct spank_stub stub;

/* Empties everything: context S_CTX_REMOTE, step 0, one local task. */
void stub_reset(void);

/* A variable of the task, or NULL. */
const char *stub_getenv(const char *name);

#endif /* SPANK_STUB_H */
