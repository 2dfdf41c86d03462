/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue.c - launch.requeue: the batch job goes back into the queue
 *
 * srun's exit status is final when it exits, and no earlier. No hook of Slurm
 * gets it, but on_exit(3) does, in every release; it runs before
 * slurm_spank_exit and the removal of the plugin, which srun has registered
 * earlier. The status does not say all: the first rank that ends with
 * EX_TEMPFAIL makes srun end the others, and their SIGTERM counts more. The
 * console knows of every rank.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "spank/console.h"
#include "spank/srun/deadline.h"
#include "spank/requeue.h"

enum {
    SHORT_RUN_S = 60,
    SHORT_RUN_RESTARTS = 3,
};

static struct {
    pid_t srun;
    time_t start;
    uint32_t id;
    char job[64]; /* "12", of an array "12_3"; "": srun's own allocation */
} requeue;

static void set_job(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    const char *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    requeue.id = id ? (uint32_t)strtoul(id, NULL, 10) : 0;
    if (array && task) /* the number alone can mean the whole array */
        snprintf(requeue.job, sizeof(requeue.job), "%s_%s", array, task);
    else
        snprintf(requeue.job, sizeof(requeue.job), "%s", id ? id : "");
}

/* Whether somebody has cancelled the job: Slurm would put it back all the same,
 * as long as it has not ended. What Slurm does not promise to plugins is looked
 * up at run time, here and below; without it the answer is no.
 */
static bool is_cancelled(void)
{
    job_info_msg_t *found = NULL;
    int (*load)(job_info_msg_t **, uint32_t, uint16_t);
    void (*release)(job_info_msg_t *);
    *(void **)&load = dlsym(RTLD_DEFAULT, "slurm_load_job");
    *(void **)&release = dlsym(RTLD_DEFAULT, "slurm_free_job_info_msg");
    if (!load || !release || load(&found, requeue.id, SHOW_ALL) != 0)
        return false;
    bool cancelled =
        found->record_count > 0 &&
        (found->job_array[0].job_state & JOB_STATE_BASE) == JOB_CANCELLED;
    release(found);
    return cancelled;
}

/* 0, or a number for slurm_strerror. */
static int put_back(void)
{
    job_array_resp_msg_t *answer = NULL;
    int (*put)(char *, uint32_t, job_array_resp_msg_t **);
    *(void **)&put = dlsym(RTLD_DEFAULT, "slurm_requeue2");
    if (!put)
        return ENOSYS;
    if (put(requeue.job, 0, &answer) != 0)
        return errno;
    return answer && answer->job_array_count > 0 ? (int)answer->error_code[0]
                                                 : 0;
}

static const char *explain(int number)
{
    char *(*text)(int);
    *(void **)&text = dlsym(RTLD_DEFAULT, "slurm_strerror");
    return text ? text(number) : strerror(number);
}

static void at_exit(int status, void *unused)
{
    const char *count = getenv("SLURM_RESTART_COUNT");
    long restarts = count ? strtol(count, NULL, 10) : 0;
    long seconds = (long)(time(NULL) - requeue.start);
    (void)unused;
    if (getpid() != requeue.srun)
        return;
    bool asked = dtspank_console_finish() || (status & 0xff) == EX_TEMPFAIL ||
                 ((status & 0xff) != 0 && dtspank_deadline_passed());
    if (!asked)
        return;
    if (requeue.job[0] == '\0') {
        slurm_error("disttrain: launch.requeue: srun's own allocation cannot "
                    "be requeued: use sbatch");
        return;
    }
    if (seconds < SHORT_RUN_S && restarts >= SHORT_RUN_RESTARTS) {
        slurm_error("disttrain: launch.requeue: job %s is not requeued: it has "
                    "been %ld times, and this step ended after %ld s",
                    requeue.job, restarts, seconds);
        return;
    }
    if (is_cancelled()) {
        slurm_spank_log("disttrain: job %s has been cancelled: it is not "
                        "requeued",
                        requeue.job);
        return;
    }
    int rc = put_back();
    if (rc != 0)
        slurm_error("disttrain: launch.requeue: cannot requeue job %s: %s",
                    requeue.job, explain(rc));
    else
        slurm_spank_log("disttrain: job %s goes back into the queue (restart "
                        "%ld)",
                        requeue.job, restarts + 1);
}

int dtspank_requeue_arm(bool in_job, struct dt_error *err)
{
    requeue.srun = getpid();
    requeue.start = time(NULL);
    if (in_job)
        set_job();
    if (on_exit(at_exit, NULL) != 0)
        return dt_error_set(err, EX_OSERR, "launch.requeue: out of memory");
    return 0;
}
