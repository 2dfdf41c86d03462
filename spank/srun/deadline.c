/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.c - launch.signal: signals every rank before the time limit
 *
 * A thread of srun sleeps until then. This is safe because srun blocks all
 * signals in all of its threads, is already multithreaded at this point, and
 * lets any thread ask the controller.
 */
#include "config.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "base/thread.h"
#include "spank/srun/srun_impl.h"

static struct {
    uint32_t job;
    uint32_t step;
    int signal;
    long seconds; /* before the job's end */
    atomic_bool passed;
} deadline;

/* Slurm promises neither of these functions to plugins, so we look them up at
 * run time; their arguments depend on the release.
 */
static int get_end(time_t *end)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    id.job_id = deadline.job;
    int (*get)(slurm_step_id_t, time_t *);
#else
    uint32_t id = deadline.job;
    int (*get)(uint32_t, time_t *);
#endif
    *(void **)&get = dlsym(RTLD_DEFAULT, "slurm_get_end_time");
    return get && get(id, end) == 0 && *end > 0 ? 0 : -1;
}

static int signal_step(void)
{
    uint16_t number = (uint16_t)deadline.signal;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    id.job_id = deadline.job;
    id.step_id = deadline.step;
    int (*send)(slurm_step_id_t *, uint16_t, uint16_t);
    *(void **)&send = dlsym(RTLD_DEFAULT, "slurm_kill_job_step");
    return send ? send(&id, number, 0) : -1;
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
    int (*send)(uint32_t, uint32_t, uint16_t, uint16_t);
    *(void **)&send = dlsym(RTLD_DEFAULT, "slurm_kill_job_step");
    return send ? send(deadline.job, deadline.step, number, 0) : -1;
#else
    int (*send)(uint32_t, uint32_t, uint16_t);
    *(void **)&send = dlsym(RTLD_DEFAULT, "slurm_kill_job_step");
    return send ? send(deadline.job, deadline.step, number) : -1;
#endif
}

/* srun forwards only these two to every rank; it turns SIGTERM and SIGHUP into
 * SIGKILL.
 */
static bool srun_forwards(int number)
{
    return number == SIGUSR1 || number == SIGUSR2;
}

static void *send_signal_in_time(void *unused)
{
    time_t end;
    (void)unused;
    for (;;) {
        if (get_end(&end) != 0) {
            slurm_error("disttrain: launch.signal: Slurm does not say when job "
                        "%u ends: no signal will be sent",
                        deadline.job);
            return NULL;
        }
        struct timespec due = {.tv_sec = end - deadline.seconds};
        if (due.tv_sec <= time(NULL))
            break;
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &due, NULL);
    }
    atomic_store(&deadline.passed, true);
    int rc = srun_forwards(deadline.signal) ? kill(getpid(), deadline.signal)
                                            : signal_step();
    long left = (long)(end - time(NULL));
    if (rc != 0)
        slurm_error("disttrain: launch.signal: cannot send SIG%s",
                    sigabbrev_np(deadline.signal));
    else
        slurm_spank_log("disttrain: %ld s to the time limit: SIG%s to every "
                        "rank",
                        left, sigabbrev_np(deadline.signal));
    return NULL;
}

int dtspank_deadline_start(uint32_t job, uint32_t step, int components,
                           const char *when, struct dt_error *err)
{
    int used = 0;
    pthread_t thread;
    deadline.job = job;
    deadline.step = step;
    if (sscanf(when, "%d@%ld%n", &deadline.signal, &deadline.seconds, &used) !=
            2 ||
        when[used] != '\0' || !sigabbrev_np(deadline.signal))
        return dt_error_set(err, EX_PROTOCOL,
                            "launch.signal: expected NUMBER@SECONDS, got "
                            "\"%.32s\"",
                            when);
    if (components > 1 && !srun_forwards(deadline.signal))
        return dt_error_set(err, EX_CONFIG,
                            "launch.signal: in a heterogeneous job only USR1 "
                            "and USR2 reach every rank, not SIG%s",
                            sigabbrev_np(deadline.signal));
    int rc = dt_thread_start(&thread, NULL, send_signal_in_time, NULL);
    if (rc != 0)
        return dt_error_set(err, EX_OSERR, "launch.signal: no thread: %s",
                            strerror(rc));
    pthread_detach(thread);
    return 0;
}

bool dtspank_deadline_passed(void)
{
    return atomic_load(&deadline.passed);
}
