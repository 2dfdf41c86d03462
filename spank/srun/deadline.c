/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.c - launch.signal: signals every rank before the time limit
 *
 * Our own trainer measures how long a stop with a checkpoint takes, and writes
 * it to status.json. So the last save begins in time, whatever its size, and no
 * earlier than it has to.
 *
 * A thread of srun sleeps until then. This is safe because srun blocks all
 * signals in all of its threads, is already multithreaded at this point, and
 * lets any thread ask the controller.
 */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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
    long seconds;          /* before the job's end */
    bool measured;         /* fewer will do if the trainer says so */
    char status[PATH_MAX]; /* its status.json; "": there is none */
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

enum {
    STATUS_BYTES = 1 << 18,
    STOP_MAX_S = 3600, /* more is not believed */
    LOOK_S = 10,       /* between two looks at the file */
};

/* The value behind "key": in the text of our own status.json, which has each
 * once before its lists; NULL: it is not there.
 */
static const char *find_value(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *found = strstr(text, quoted);
    return found ? found + strlen(quoted) : NULL;
}

/* Seconds that a stop of this step takes, from its status; 0: unknown. */
static long parse_stop(const char *text)
{
    char step[48];
    const char *job = find_value(text, "job"), *stop;
    snprintf(step, sizeof(step), "\"%u.%u\"", deadline.job, deadline.step);
    if (!job || strncmp(job, step, strlen(step)) != 0 ||
        !(stop = find_value(text, "stop_s")))
        return 0;
    const double seconds = strtod(stop, NULL);
    return seconds > 0 && seconds < STOP_MAX_S ? (long)seconds + 1 : 0;
}

static long read_stop(void)
{
    FILE *file = deadline.status[0] ? fopen(deadline.status, "re") : NULL;
    char *text = file ? malloc(STATUS_BYTES) : NULL;
    long stop = 0;
    if (text) {
        text[fread(text, 1, STATUS_BYTES - 1, file)] = '\0';
        stop = parse_stop(text);
    }
    free(text);
    if (file)
        fclose(file);
    return stop;
}

/* Seconds before the end at which the signal is due. */
static long find_lead(void)
{
    const long stop = read_stop();
    return stop > 0 && (deadline.measured || stop > deadline.seconds)
               ? stop
               : deadline.seconds;
}

/* Waits until it is due before this end. Returns whether it was so at once. */
static bool wait_until_due(time_t end)
{
    long left;
    bool at_once = true;
    while ((left = (long)(end - time(NULL)) - find_lead()) > 0) {
        const struct timespec nap = {.tv_sec = left < LOOK_S ? left : LOOK_S};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        at_once = false;
    }
    return at_once;
}

static void *send_signal_in_time(void *unused)
{
    time_t end = 0, now;
    (void)unused;
    for (;;) {
        if (get_end(&now) == 0) {
            end = now;
        } else if (end == 0) { /* later the last answer will do */
            slurm_error("disttrain: launch.signal: Slurm does not say when job "
                        "%u ends: no signal will be sent",
                        deadline.job);
            return NULL;
        }
        if (wait_until_due(end))
            break;
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

/* Takes "10@300" or "10@120 measured". */
static int parse_when(const char *when, struct dt_error *err)
{
    int used = 0;
    const bool good = sscanf(when, "%d@%ld%n", &deadline.signal,
                             &deadline.seconds, &used) == 2;
    deadline.measured = good && strcmp(when + used, " measured") == 0;
    if (good && (deadline.measured || when[used] == '\0') &&
        sigabbrev_np(deadline.signal))
        return 0;
    return dt_error_set(err, EX_PROTOCOL,
                        "launch.signal: expected NUMBER@SECONDS, got "
                        "\"%.32s\"",
                        when);
}

int dtspank_deadline_set(const char *when, int components, struct dt_error *err)
{
    if (parse_when(when, err) != 0)
        return -1;
    if (components > 1 && !srun_forwards(deadline.signal))
        return dt_error_set(err, EX_CONFIG,
                            "launch.signal: in a heterogeneous job only USR1 "
                            "and USR2 reach every rank, not SIG%s",
                            sigabbrev_np(deadline.signal));
    return 0;
}

int dtspank_deadline_start(uint32_t job, uint32_t step, const char *run,
                           struct dt_error *err)
{
    pthread_t thread;
    deadline.job = job;
    deadline.step = step;
    if (run)
        snprintf(deadline.status, sizeof(deadline.status), "%s/status.json",
                 run);
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
