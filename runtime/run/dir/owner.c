/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - a file that says which run writes to a directory */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/file.h"
#include "base/log.h"
#include "run/dir/owner.h"
#include "run/dir/owner_impl.h"

enum { BEATS = 3, ROUNDS = 100, ENDING_S = 2 };

/* Beats without a touch after which a run that is said to have ended is not
 * waited for.
 */
#define QUIET_BEATS 1.5

struct dt_owner {
    char *dir, *path;
    struct dt_owner_record record;
    int beat_ms;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t ended;
    bool end;
    double
        looked; /* when the file was last seen not to belong to another run */
    bool lost;  /* it was seen to belong to one */
    struct dt_owner_record other; /* that run; no nonce: it has ended */
};

/* --- has the other one ended? --- */

/* Seconds since the file was touched, on the clock of its file system; 0: they
 * cannot be told.
 */
static double file_age(const struct dt_owner *owner,
                       const struct dt_owner_record *other)
{
    char path[PATH_MAX];
    struct dt_owner_record now;
    snprintf(path, sizeof(path), "%s-now-%s", owner->path, owner->record.nonce);
    bool known = dt_owner_record_create(path, &owner->record) == 0 &&
                 dt_owner_record_read(path, &now) == 0;
    unlink(path);
    return known ? (double)(now.touched.tv_sec - other->touched.tv_sec) +
                       (double)(now.touched.tv_nsec - other->touched.tv_nsec) *
                           1e-9
                 : 0;
}

/* How long to watch the file of another run. One that has ended may still have
 * a process on a node that only we cannot reach, which touches it.
 */
static double watch_seconds(const struct dt_owner *owner,
                            const struct dt_owner_record *other,
                            enum dt_owner_verdict verdict)
{
    const double beat = owner->beat_ms / 1e3;
    return verdict == DT_OWNER_ENDED
               ? QUIET_BEATS * beat - file_age(owner, other)
               : BEATS * beat;
}

static void tell_watch(const struct dt_owner *owner,
                       const struct dt_owner_record *other, double seconds)
{
    if (other->nonce[0])
        dt_log(DT_LOG_NEWS, "algo",
               "%s: is the run of process %ld on %s still alive? Checking "
               "for %.0f s",
               owner->path, other->pid, other->host, seconds);
    else
        dt_log(DT_LOG_NEWS, "algo",
               "%s: does not say which run wrote it; is that still alive? "
               "Checking for %.0f s",
               owner->path, seconds);
}

/* Gives another process of this host time to end: one that was killed while it
 * waits for a disk outlives its launcher.
 */
static enum dt_owner_verdict await_end(const struct dt_owner *owner,
                                       const struct dt_owner_record *other,
                                       bool (*stop)(void))
{
    const double until = dt_clock_now() + ENDING_S;
    enum dt_owner_verdict verdict = DT_OWNER_ALIVE;
    while (verdict == DT_OWNER_ALIVE && dt_clock_now() < until) {
        if (stop && stop())
            return DT_OWNER_STOPPED;
        dt_clock_sleep(0.02);
        verdict = dt_owner_record_judge(other, &owner->record);
    }
    return verdict;
}

/* Waits so long for the other run to touch its file. DT_OWNER_GONE also if the
 * file now belongs to a third run; DT_OWNER_STOPPED: this run was told to stop.
 */
static enum dt_owner_verdict watch_file(const struct dt_owner *owner,
                                        const struct dt_owner_record *other,
                                        double seconds, bool (*stop)(void))
{
    struct dt_owner_record now;
    const double begin = dt_clock_now(), beat = owner->beat_ms / 1e3;
    bool told = false;
    while (dt_clock_now() < begin + seconds) {
        /* most files without a name are being written */
        if (!told && dt_clock_now() >= begin + (other->nonce[0] ? 0 : beat)) {
            tell_watch(owner, other, seconds);
            told = true;
        }
        int bad = dt_owner_record_read(owner->path, &now);
        if (bad && bad != ENOENT)
            return DT_OWNER_UNKNOWN;
        if (bad || strcmp(now.nonce, other->nonce) != 0)
            return DT_OWNER_GONE;
        if (now.touched.tv_sec != other->touched.tv_sec ||
            now.touched.tv_nsec != other->touched.tv_nsec)
            return DT_OWNER_ALIVE;
        if (stop && stop())
            return DT_OWNER_STOPPED;
        dt_clock_sleep(0.02);
    }
    return DT_OWNER_GONE;
}

/* --- taking the directory --- */

/* Replaces a run that has ended. To be the only one, create a file named after
 * it first, and then check again. 0; 1: another run was faster; -1.
 */
static int replace_owner(const struct dt_owner *owner,
                         const struct dt_owner_record *other,
                         struct dt_error *err)
{
    char claim[PATH_MAX];
    struct dt_owner_record now;
    snprintf(claim, sizeof(claim), "%s-after-%s", owner->path, other->nonce);
    int bad = dt_owner_record_create(claim, &owner->record);
    if (bad == EEXIST) {
        if (dt_owner_record_read(claim, &now) == 0 &&
            dt_owner_record_judge(&now, &owner->record) == DT_OWNER_GONE)
            unlink(claim); /* it ended before it used it */
        return 1;
    }
    if (bad)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", claim,
                            strerror(bad));
    bool same = dt_owner_record_read(owner->path, &now) == 0 &&
                strcmp(now.nonce, other->nonce) == 0;
    if (same && rename(claim, owner->path) == 0)
        return 0;
    if (same)
        dt_error_set(err, EX_CANTCREAT,
                     "%s: of a run that has ended, but cannot be replaced: %s",
                     owner->path, strerror(errno));
    unlink(claim);
    return same ? -1 : 1;
}

static int refuse_dir(const struct dt_owner *owner,
                      const struct dt_owner_record *other, struct dt_error *err)
{
    char job[160] = "", cancel[96] = "";
    int digits = (int)strcspn(other->job, "@");
    if (strcmp(other->job, "-") != 0) {
        snprintf(job, sizeof(job), "job %.*s, step %s, ", digits, other->job,
                 other->step);
        snprintf(cancel, sizeof(cancel), " or cancel it (scancel %.*s)", digits,
                 other->job);
    }
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: another run writes to this directory: %sprocess "
                        "%ld on %s, since %s; wait until it ends%s, or name "
                        "another run.output_dir",
                        owner->dir, job, other->pid, other->host, other->since,
                        cancel);
}

/* Sets the error for a file that cannot be read. */
static int refuse_file(const struct dt_owner *owner, int bad,
                       struct dt_error *err)
{
    return dt_error_set(
        err, EX_CANTCREAT,
        "%s: cannot tell whether another run writes to this "
        "directory: %s; if none does, remove it",
        owner->path, bad == EISDIR ? "expected a regular file" : strerror(bad));
}

/* One try. 0; 1: things have changed, look again; -1. */
static int try_dir(struct dt_owner *owner, bool (*stop)(void),
                   struct dt_error *err)
{
    struct dt_owner_record other;
    int bad = dt_owner_record_create(owner->path, &owner->record);
    if (bad == 0)
        return 0;
    if (bad != EEXIST)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            owner->path, strerror(bad));
    if ((bad = dt_owner_record_read(owner->path, &other)))
        return bad == ENOENT ? 1 : refuse_file(owner, bad, err);
    enum dt_owner_verdict verdict =
        dt_owner_record_judge(&other, &owner->record);
    if (verdict == DT_OWNER_UNKNOWN || verdict == DT_OWNER_ENDED)
        verdict = watch_file(owner, &other,
                             watch_seconds(owner, &other, verdict), stop);
    else if (verdict == DT_OWNER_ALIVE && other.pid != owner->record.pid)
        verdict = await_end(owner, &other, stop);
    if (verdict == DT_OWNER_STOPPED)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    if (verdict == DT_OWNER_ALIVE && other.nonce[0])
        return refuse_dir(owner, &other, err);
    return verdict == DT_OWNER_GONE ? replace_owner(owner, &other, err) : 1;
}

static int take_dir(struct dt_owner *owner, bool (*stop)(void),
                    struct dt_error *err)
{
    for (int round = 0; round < ROUNDS; round++) {
        int result = try_dir(owner, stop, err);
        if (result <= 0)
            return result;
        dt_clock_sleep(0.02); /* a third run is replacing it */
    }
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: cannot tell whether another run writes to this "
                        "directory; if none does, remove the file",
                        owner->path);
}

/* --- while the run is alive --- */

enum found { OURS, NONE, LOST, UNSEEN };

/* Looks at the file. If it is missing, another run may have taken the directory
 * and given it up while this process was stopped: nothing else removes the file
 * but not the directory.
 */
static enum found look_at_file(struct dt_owner *owner)
{
    /* the file may be older than this when a stopped process has read it */
    const double begin = dt_clock_now();
    struct dt_owner_record now;
    int bad = dt_owner_record_read(owner->path, &now);
    bool there = bad == 0 && now.nonce[0];
    bool other = there && strcmp(now.nonce, owner->record.nonce) != 0;
    pthread_mutex_lock(&owner->mutex);
    bool slept = begin - owner->looked >= BEATS * owner->beat_ms / 1e3;
    if (other)
        owner->other = now;
    if (other || (bad == ENOENT && slept && access(owner->dir, F_OK) == 0))
        owner->lost = true;
    if (!owner->lost && begin > owner->looked)
        owner->looked = begin;
    bool lost = owner->lost;
    pthread_mutex_unlock(&owner->mutex);
    return lost ? LOST : there ? OURS : bad == ENOENT ? NONE : UNSEEN;
}

static void free_owner(struct dt_owner *owner)
{
    pthread_mutex_destroy(&owner->mutex);
    pthread_cond_destroy(&owner->ended);
    free(owner->dir);
    free(owner->path);
    free(owner);
}

static void *run_heartbeat(void *arg)
{
    struct dt_owner *owner = arg;
    pthread_mutex_lock(&owner->mutex);
    while (!owner->end) {
        struct timespec next = dt_clock_in(CLOCK_MONOTONIC, owner->beat_ms);
        pthread_cond_timedwait(&owner->ended, &owner->mutex, &next);
        pthread_mutex_unlock(&owner->mutex);
        if (look_at_file(owner) == OURS)
            utimensat(AT_FDCWD, owner->path, NULL, 0);
        pthread_mutex_lock(&owner->mutex);
    }
    pthread_mutex_unlock(&owner->mutex);
    if (look_at_file(owner) == OURS)
        unlink(owner->path);
    free_owner(owner);
    return NULL;
}

static int start_heartbeat(struct dt_owner *owner, struct dt_error *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&owner->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&owner->mutex, NULL);
    owner->looked = dt_clock_now();
    int bad = pthread_create(&owner->thread, NULL, run_heartbeat, owner);
    if (bad)
        dt_error_set(err, EX_OSERR, "%s: cannot start a thread: %s",
                     owner->path, strerror(bad));
    return bad ? -1 : 0;
}

struct dt_owner *dt_owner_take(const char *dir, int beat_ms, bool (*stop)(void),
                               struct dt_error *err)
{
    struct dt_owner *owner = calloc(1, sizeof(*owner));
    if (!owner || !(owner->dir = strdup(dir)) ||
        asprintf(&owner->path, "%s/.owner", dir) < 0) {
        dt_error_set(err, EX_OSERR, "out of memory");
        if (owner)
            free(owner->dir);
        free(owner);
        return NULL;
    }
    owner->beat_ms = beat_ms;
    dt_owner_record_fill(&owner->record);
    if (dt_file_mkdirs(dir, err) == 0 && take_dir(owner, stop, err) == 0) {
        if (start_heartbeat(owner, err) == 0)
            return owner;
        unlink(owner->path);
    }
    free(owner->dir);
    free(owner->path);
    free(owner);
    return NULL;
}

bool dt_owner_holds(struct dt_owner *owner)
{
    const bool late = dt_epoch_is_over(owner->dir);
    pthread_mutex_lock(&owner->mutex);
    double silent = dt_clock_now() - owner->looked;
    bool holds =
        !late && !owner->lost && silent < (BEATS - 1) * owner->beat_ms / 1e3;
    pthread_mutex_unlock(&owner->mutex);
    return holds;
}

int dt_owner_check(struct dt_owner *owner, struct dt_error *err)
{
    if (dt_epoch_is_over(owner->dir))
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s: other nodes of this step have decided without "
                            "this one, which writes nothing there any more",
                            owner->dir);
    enum found found = look_at_file(owner);
    if (found == NONE && dt_file_mkdirs(owner->dir, NULL) == 0) {
        if (dt_owner_record_create(owner->path, &owner->record) == 0)
            return 1;
        found = look_at_file(owner); /* another run may have been faster */
    }
    if (found != LOST)
        return 0;
    pthread_mutex_lock(&owner->mutex);
    const struct dt_owner_record other = owner->other;
    pthread_mutex_unlock(&owner->mutex);
    if (other.nonce[0])
        return refuse_dir(owner, &other, err);
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: while this run was stopped, another one may have "
                        "written to this directory, as .owner was removed; "
                        "resume from the newest checkpoint with "
                        "training.resume: auto",
                        owner->dir);
}

void dt_owner_release(struct dt_owner *owner)
{
    enum { RELEASED_MS = 10000 };
    if (!owner)
        return;
    const pthread_t thread = owner->thread; /* which frees the owner */
    pthread_mutex_lock(&owner->mutex);
    owner->end = true;
    pthread_cond_signal(&owner->ended);
    pthread_mutex_unlock(&owner->mutex);
    const struct timespec end = dt_clock_in(CLOCK_MONOTONIC, RELEASED_MS);
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) != 0)
        pthread_detach(thread);
}
