/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue.c - launch.requeue: puts the batch job back into the queue
 *
 * srun's exit status is final only when it exits. No hook of Slurm gets it, but
 * on_exit(3) does, in every release; it runs before the plugin is unloaded,
 * which srun registered earlier. The status alone is not enough: the first rank
 * that exits with EX_TEMPFAIL makes srun end the others, and their SIGTERM then
 * determines the status. The console knows how every rank ended.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "spank/srun/srun_impl.h"

enum {
    SHORT_RUN_S = 60,
    SHORT_RUN_RESTARTS = 3,
};

static struct {
    pid_t srun;
    int64_t start_ms;
    uint32_t id;
    char job[64]; /* "12" or, in an array, "12_3"; "": srun made its own
                   * allocation
                   */
} requeue;

static void set_job(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    const char *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    requeue.id = id ? (uint32_t)strtoul(id, NULL, 10) : 0;
    if (array && task) /* the job ID alone can mean the whole array */
        snprintf(requeue.job, sizeof(requeue.job), "%s_%s", array, task);
    else
        snprintf(requeue.job, sizeof(requeue.job), "%s", id ? id : "");
}

/* Whether the job has been cancelled: Slurm would requeue even a cancelled job
 * as long as it has not ended. Functions that Slurm does not promise to plugins
 * are looked up at run time, here and below; without this one we assume that
 * the job was not cancelled.
 */
static bool is_cancelled(void)
{
    job_info_msg_t *found = NULL;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    id.job_id = requeue.id;
    int (*load)(job_info_msg_t **, slurm_step_id_t, uint16_t);
#else
    uint32_t id = requeue.id;
    int (*load)(job_info_msg_t **, uint32_t, uint16_t);
#endif
    void (*release)(job_info_msg_t *);
    *(void **)&load = dlsym(RTLD_DEFAULT, "slurm_load_job");
    *(void **)&release = dlsym(RTLD_DEFAULT, "slurm_free_job_info_msg");
    if (!load || !release || load(&found, id, SHOW_ALL) != 0)
        return false;
    bool cancelled =
        found->record_count > 0 &&
        (found->job_array[0].job_state & JOB_STATE_BASE) == JOB_CANCELLED;
    release(found);
    return cancelled;
}

/* Returns 0, or a number for slurm_strerror. */
static int requeue_job(void)
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

static const char *explain_error(int number)
{
    char *(*text)(int);
    *(void **)&text = dlsym(RTLD_DEFAULT, "slurm_strerror");
    return text ? text(number) : strerror(number);
}

static void requeue_at_exit(int status, void *unused)
{
    const char *count = getenv("SLURM_RESTART_COUNT");
    long restarts = count ? strtol(count, NULL, 10) : 0;
    long seconds = (long)((dtspank_now_ms() - requeue.start_ms) / 1000);
    (void)unused;
    if (getpid() != requeue.srun)
        return;
    bool asked = dtspank_console_finish(status) ||
                 (status & 0xff) == EX_TEMPFAIL ||
                 ((status & 0xff) != 0 && dtspank_deadline_passed());
    if (!asked)
        return;
    if (requeue.job[0] == '\0') {
        slurm_error("disttrain: launch.requeue: srun's own allocation cannot "
                    "be requeued: use sbatch");
        return;
    }
    if (seconds < SHORT_RUN_S && restarts >= SHORT_RUN_RESTARTS) {
        slurm_error("disttrain: launch.requeue: job %s is not requeued: it "
                    "has been restarted %ld times, and this step ended after "
                    "%ld s",
                    requeue.job, restarts, seconds);
        return;
    }
    if (is_cancelled()) {
        slurm_spank_log("disttrain: job %s has been cancelled: it is not "
                        "requeued",
                        requeue.job);
        return;
    }
    int rc = requeue_job();
    if (rc != 0)
        slurm_error("disttrain: launch.requeue: cannot requeue job %s: %s",
                    requeue.job, explain_error(rc));
    else
        slurm_spank_log("disttrain: job %s goes back into the queue (restart "
                        "%ld)",
                        requeue.job, restarts + 1);
}

int dtspank_requeue_arm(bool in_job, struct dt_error *err)
{
    requeue.srun = getpid();
    requeue.start_ms = dtspank_now_ms();
    if (in_job)
        set_job();
    if (on_exit(requeue_at_exit, NULL) != 0)
        return dt_error_set(err, EX_OSERR, "launch.requeue: out of memory");
    return 0;
}
