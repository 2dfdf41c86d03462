/* SPDX-License-Identifier: Apache-2.0 */
/* preflight.c - launch.preflight: examines the nodes before tasks start */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract.h"
#include "spank/srun/preflight.h"
#include "spank/srun/srun_child.h"

enum {
    DEADLINE_MS = 60000, /* the doctor has its own, shorter deadlines */
};

/* `job` is "JOB.STEP". */
static int ask_doctor(const char *runtime, const char *job,
                      struct dt_error *err)
{
    char *const argv[] = {(char *)runtime, "doctor",    "--brief",
                          "--job",         (char *)job, NULL};
    int64_t deadline = dtspank_now_ms() + DEADLINE_MS;
    int status = 0;
    pid_t pid;
    int rc = dtspank_child_spawn(argv, STDERR_FILENO, &pid);
    if (rc != 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: %s", runtime,
                            strerror(rc));
    if (dtspank_child_wait(pid, deadline, &status, err) != 0)
        return dt_error_prefix(err, "%s doctor", runtime);
    if (WIFSIGNALED(status))
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s doctor: killed by signal %d", runtime,
                            WTERMSIG(status));
    if (WEXITSTATUS(status) == EX_UNAVAILABLE)
        return dt_error_set(err, EX_UNAVAILABLE, "a node is not fit");
    if (WEXITSTATUS(status) != 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s doctor: exit status %d",
                            runtime, WEXITSTATUS(status));
    return 0;
}

int dtspank_preflight_run(const char *runtime, uint32_t job, uint32_t step,
                          struct dt_error *err)
{
    char id[32];
    snprintf(id, sizeof(id), "%u.%u", job, step);
    if (ask_doctor(runtime, id, err) == 0)
        return 0;
    setenv(DT_ENV_PREFLIGHT, DT_PREFLIGHT_FAILED, 1);
    return dt_error_prefix(err, "preflight: no task is started");
}
