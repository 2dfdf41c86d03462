/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue.c - launch.requeue: puts the batch job back into the queue
 *
 * srun's exit status is final only when it exits. No hook of Slurm gets it, but
 * on_exit(3) does, in every release; it runs before the plugin is unloaded,
 * which srun registered earlier. The status alone is not enough: the first rank
 * that exits with EX_TEMPFAIL makes srun end the others, and their SIGTERM then
 * determines the status. The console knows how every rank ended.
 * contract/requeue_rule.h has the rule.
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

#include "base/job_id.h"
#include "contract/requeue_rule.h"
#include "spank/srun/srun_impl.h"

static struct {
    pid_t srun;
    int64_t start_ms;
    struct dt_requeue facts; /* of the job */
    uint32_t id;
    char job[DT_JOB_ID_BYTES]; /* "": srun made its own allocation */
} requeue;

static void set_job(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    requeue.id = id ? (uint32_t)strtoul(id, NULL, 10) : 0;
    dt_job_id(id, requeue.job);
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

/* The facts about the end of this srun. Its own status counts where it asks for
 * the queue, or has come after the signal of launch.signal: any other may be
 * that of a step which the user has ended.
 */
static struct dt_requeue find_facts(int status)
{
    struct dt_requeue facts = requeue.facts;
    int own = status & 0xff;
    facts.status = dtspank_console_finish(&own);
    facts.late = dtspank_deadline_passed();
    facts.seconds = (double)(dtspank_now_ms() - requeue.start_ms) / 1e3;
    if (facts.status == EX_OK && (own == EX_TEMPFAIL || facts.late))
        facts.status = own;
    facts.cancelled = requeue.job[0] != '\0' &&
                      dt_requeue_judge(&facts) == DT_REQUEUE_DUE &&
                      is_cancelled();
    return facts;
}

/* Puts the job back, and says so. */
static void put_back(long restarts)
{
    int rc;
    if (requeue.job[0] == '\0')
        slurm_error("disttrain: launch.requeue: srun's own allocation cannot "
                    "be requeued: use sbatch");
    else if ((rc = requeue_job()) != 0)
        slurm_error("disttrain: launch.requeue: cannot requeue job %s: %s",
                    requeue.job, explain_error(rc));
    else
        slurm_spank_log("disttrain: job %s goes back into the queue (restart "
                        "%ld)",
                        requeue.job, restarts + 1);
}

static void requeue_at_exit(int status, void *unused)
{
    (void)unused;
    if (getpid() != requeue.srun)
        return;
    const struct dt_requeue facts = find_facts(status);
    switch (dt_requeue_judge(&facts)) {
    case DT_REQUEUE_NO:
        break;
    case DT_REQUEUE_DUE:
        put_back(facts.restarts);
        break;
    case DT_REQUEUE_SPENT:
        slurm_spank_log("disttrain: launch.max_requeues: after %ld restarts "
                        "the job is not requeued again",
                        facts.restarts);
        break;
    case DT_REQUEUE_LOOPS:
        slurm_error("disttrain: launch.requeue: job %s is not requeued: it "
                    "has been restarted %ld times, and this step ended after "
                    "%ld s",
                    requeue.job, facts.restarts, (long)facts.seconds);
        break;
    case DT_REQUEUE_CANCELLED:
        slurm_spank_log("disttrain: job %s has been cancelled: it is not "
                        "requeued",
                        requeue.job);
        break;
    }
}

int dtspank_requeue_arm(bool in_job, struct dt_error *err)
{
    requeue.srun = getpid();
    requeue.start_ms = dtspank_now_ms();
    dt_requeue_read(&requeue.facts);
    if (in_job)
        set_job();
    if (on_exit(requeue_at_exit, NULL) != 0)
        return dt_error_set(err, EX_OSERR, "launch.requeue: out of memory");
    return 0;
}
