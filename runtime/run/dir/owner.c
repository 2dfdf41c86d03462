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
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "run/dir/owner.h"

enum { BEATS = 3, ROUNDS = 100, MAX_BYTES = 2048 };

/* The contents of the file. Unknown fields are "-". */
struct owner_record {
    char job[96], step[32], restart[16]; /* job@cluster */
    char host[256], boot[64], space[64]; /* space: of process numbers */
    long pid;
    unsigned long long start; /* of the process, in ticks since the boot */
    char since[32];
    char nonce[17]; /* empty: the file is not written yet */
    struct timespec touched;
};

struct dt_owner {
    char *dir, *path;
    struct owner_record record;
    int beat_ms;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t ended;
    bool end;
    double
        looked; /* when the file was last seen not to belong to another run */
    bool lost;  /* it was seen to belong to one */
    struct owner_record other; /* that run; no nonce: it has ended */
};

/* --- this process --- */

static void copy_word(char *to, size_t bytes, const char *word)
{
    bool good = word && *word && !strpbrk(word, " \t\n");
    snprintf(to, bytes, "%s", good ? word : "-");
}

static void read_word(char *to, size_t bytes, const char *path)
{
    char word[256] = "";
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%255s", word) != 1)
        word[0] = '\0';
    if (file)
        fclose(file);
    copy_word(to, bytes, word);
}

static void describe_self(struct owner_record *record)
{
    char job[96], host[256] = "", space[64] = "";
    const char *cluster = getenv("SLURM_CLUSTER_NAME");
    const char *id = getenv("SLURM_JOB_ID");
    const char *restart = getenv("SLURM_RESTART_COUNT");
    unsigned char random[8] = {0};
    struct dt_proc_stat stat;
    time_t now = time(NULL);
    struct tm tm;

    dt_proc_stat(&stat, "", getpid());
    *record = (struct owner_record){.pid = getpid(), .start = stat.start_ticks};
    snprintf(job, sizeof(job), "%s@%s", id ? id : "", cluster ? cluster : "");
    copy_word(record->job, sizeof(record->job), id ? job : NULL);
    copy_word(record->step, sizeof(record->step), getenv("SLURM_STEP_ID"));
    copy_word(record->restart, sizeof(record->restart),
              restart ? restart : "0");
    if (gethostname(host, sizeof(host) - 1) < 0)
        host[0] = '\0';
    copy_word(record->host, sizeof(record->host), host);
    read_word(record->boot, sizeof(record->boot),
              "/proc/sys/kernel/random/boot_id");
    if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0)
        space[0] = '\0';
    copy_word(record->space, sizeof(record->space), space);
    strftime(record->since, sizeof(record->since), "%Y-%m-%d %H:%M:%S",
             localtime_r(&now, &tm));
    if (getrandom(random, sizeof(random), 0) < 0)
        memcpy(random, &now, sizeof(now));
    for (int i = 0; i < 8; i++)
        snprintf(record->nonce + 2 * i, 3, "%02x", random[i]);
}

/* --- the file --- */

/* Creates `path` for this process; it must not exist. 0, or errno. */
static int create_file(const char *path, const struct owner_record *record)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        fchmod(fd, 0644); /* others read it too, whatever the umask is */
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return why;
    }
    fprintf(file,
            "job %s\nstep %s\nrestart %s\nhost %s\nboot %s\nspace %s\n"
            "pid %ld\nstart %llu\nsince %s\nnonce %s\n",
            record->job, record->step, record->restart, record->host,
            record->boot, record->space, record->pid, record->start,
            record->since, record->nonce);
    int bad = ferror(file) ? EIO : 0;
    if (fclose(file) != 0)
        bad = errno;
    if (bad)
        unlink(path);
    return bad;
}

/* Reads the file. 0; or errno: ENOENT if there is none, EISDIR if it is not a
 * regular file.
 */
static int read_file(const char *path, struct owner_record *record)
{
    char text[MAX_BYTES];
    struct stat st;
    *record = (struct owner_record){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) /* ESTALE: it was replaced meanwhile, on NFS */
        return errno == ESTALE ? ENOENT : errno == ELOOP ? EISDIR : errno;
    ssize_t n = fstat(fd, &st) < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    int bad = n < 0 ? errno : S_ISREG(st.st_mode) ? 0 : EISDIR;
    close(fd);
    if (bad)
        return bad == ESTALE ? ENOENT : bad;
    text[n] = '\0';
    record->touched = st.st_mtim;
    if (sscanf(text,
               "job %95s\nstep %31s\nrestart %15s\nhost %255s\nboot %63s\n"
               "space %63s\npid %ld\nstart %llu\nsince %31[^\n]\nnonce %16s\n",
               record->job, record->step, record->restart, record->host,
               record->boot, record->space, &record->pid, &record->start,
               record->since, record->nonce) != 10)
        record->nonce[0] = '\0';
    return 0;
}

static bool same_word(const char *a, const char *b)
{
    return strcmp(a, b) == 0 && strcmp(a, "-") != 0;
}

/* --- has the other one ended? --- */

enum verdict { GONE, ALIVE, UNKNOWN, STOPPED };

static enum verdict judge_owner(const struct owner_record *other,
                                const struct owner_record *self)
{
    if (!other->nonce[0])
        return UNKNOWN;
    if (same_word(other->boot, self->boot) &&
        same_word(other->space, self->space)) {
        if (kill((pid_t)other->pid, 0) < 0 && errno == ESRCH)
            return GONE;
        struct dt_proc_stat stat;
        return !dt_proc_stat(&stat, "", (int)other->pid) ||
                       stat.start_ticks == other->start
                   ? ALIVE
                   : GONE;
    }
    if (same_word(other->job, self->job) &&
        strcmp(other->restart, self->restart) != 0)
        return GONE; /* Slurm ended it before it restarted the job */
    return UNKNOWN;
}

static void tell_watch(const struct dt_owner *owner,
                       const struct owner_record *other)
{
    const int seconds = BEATS * owner->beat_ms / 1000;
    if (other->nonce[0])
        dt_log(DT_LOG_INFO, "algo",
               "%s: is the run of process %ld on %s still alive? Checking "
               "for %d s",
               owner->path, other->pid, other->host, seconds);
    else
        dt_log(DT_LOG_INFO, "algo",
               "%s: does not say which run wrote it; is that still alive? "
               "Checking for %d s",
               owner->path, seconds);
}

/* Waits for the other run to touch its file. GONE also if the file now belongs
 * to a third run; STOPPED: this run was told to stop.
 */
static enum verdict watch_file(const struct dt_owner *owner,
                               const struct owner_record *other,
                               bool (*stop)(void))
{
    struct owner_record now;
    const double begin = dt_clock_now(), beat = owner->beat_ms / 1e3;
    bool told = false;
    while (dt_clock_now() < begin + BEATS * beat) {
        /* most files without a name are being written */
        if (!told && dt_clock_now() >= begin + (other->nonce[0] ? 0 : beat)) {
            tell_watch(owner, other);
            told = true;
        }
        int bad = read_file(owner->path, &now);
        if (bad && bad != ENOENT)
            return UNKNOWN;
        if (bad || strcmp(now.nonce, other->nonce) != 0)
            return GONE;
        if (now.touched.tv_sec != other->touched.tv_sec ||
            now.touched.tv_nsec != other->touched.tv_nsec)
            return ALIVE;
        if (stop && stop())
            return STOPPED;
        dt_clock_sleep(0.02);
    }
    return GONE;
}

/* --- taking the directory --- */

/* Replaces a run that has ended. To be the only one, create a file named after
 * it first, and then check again. 0; 1: another run was faster; -1.
 */
static int replace_owner(const struct dt_owner *owner,
                         const struct owner_record *other, struct dt_error *err)
{
    char claim[PATH_MAX];
    struct owner_record now;
    snprintf(claim, sizeof(claim), "%s-after-%s", owner->path, other->nonce);
    int bad = create_file(claim, &owner->record);
    if (bad == EEXIST) {
        if (read_file(claim, &now) == 0 &&
            judge_owner(&now, &owner->record) == GONE)
            unlink(claim); /* it ended before it used it */
        return 1;
    }
    if (bad)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", claim,
                            strerror(bad));
    bool same = read_file(owner->path, &now) == 0 &&
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
                      const struct owner_record *other, struct dt_error *err)
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
    struct owner_record other;
    int bad = create_file(owner->path, &owner->record);
    if (bad == 0)
        return 0;
    if (bad != EEXIST)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            owner->path, strerror(bad));
    if ((bad = read_file(owner->path, &other)))
        return bad == ENOENT ? 1 : refuse_file(owner, bad, err);
    enum verdict verdict = judge_owner(&other, &owner->record);
    if (verdict == UNKNOWN)
        verdict = watch_file(owner, &other, stop);
    if (verdict == STOPPED)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    if (verdict == ALIVE && other.nonce[0])
        return refuse_dir(owner, &other, err);
    return verdict == GONE ? replace_owner(owner, &other, err) : 1;
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
    struct owner_record now;
    int bad = read_file(owner->path, &now);
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
    describe_self(&owner->record);
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
    pthread_mutex_lock(&owner->mutex);
    double silent = dt_clock_now() - owner->looked;
    bool holds = !owner->lost && silent < (BEATS - 1) * owner->beat_ms / 1e3;
    pthread_mutex_unlock(&owner->mutex);
    return holds;
}

int dt_owner_check(struct dt_owner *owner, struct dt_error *err)
{
    enum found found = look_at_file(owner);
    if (found == NONE && dt_file_mkdirs(owner->dir, NULL) == 0) {
        if (create_file(owner->path, &owner->record) == 0)
            return 1;
        found = look_at_file(owner); /* another run may have been faster */
    }
    if (found != LOST)
        return 0;
    pthread_mutex_lock(&owner->mutex);
    const struct owner_record other = owner->other;
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
    if (!owner)
        return;
    pthread_mutex_lock(&owner->mutex);
    owner->end = true;
    pthread_cond_signal(&owner->ended);
    pthread_mutex_unlock(&owner->mutex);
    pthread_join(owner->thread, NULL);
    if (look_at_file(owner) == OURS)
        unlink(owner->path);
    pthread_mutex_destroy(&owner->mutex);
    pthread_cond_destroy(&owner->ended);
    free(owner->dir);
    free(owner->path);
    free(owner);
}
