/* SPDX-License-Identifier: Apache-2.0 */
/* owner_record.c - what .owner says of the run that wrote it */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/job_id.h"
#include "base/proc.h"
#include "contract/contract.h"
#include "run/dir/owner_impl.h"

enum { MAX_BYTES = 2048 };

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

void dt_owner_record_fill(struct dt_owner_record *record)
{
    char job[96], name[DT_JOB_ID_BYTES], host[256] = "", space[64] = "";
    const char *cluster = getenv("SLURM_CLUSTER_NAME");
    const bool in_job = dt_job_id(getenv("SLURM_JOB_ID"), name);
    const char *restart = getenv("SLURM_RESTART_COUNT");
    unsigned char random[8] = {0};
    char epoch[32], of[DT_EPOCH_STEP_BYTES];
    uint32_t number;
    struct dt_proc_stat stat;
    time_t now = time(NULL);
    struct tm tm;

    dt_proc_stat(&stat, "", getpid());
    *record =
        (struct dt_owner_record){.pid = getpid(), .start = stat.start_ticks};
    snprintf(job, sizeof(job), "%s@%s", name, cluster ? cluster : "");
    copy_word(record->job, sizeof(record->job), in_job ? job : NULL);
    copy_word(record->step, sizeof(record->step), getenv("SLURM_STEP_ID"));
    copy_word(record->restart, sizeof(record->restart),
              restart ? restart : "0");
    copy_word(record->launch, sizeof(record->launch), getenv(DT_ENV_LAUNCH));
    const bool kept = dt_epoch_find(of, &number);
    if (kept)
        snprintf(epoch, sizeof(epoch), "%s.%" PRIu32, of, number);
    copy_word(record->epoch, sizeof(record->epoch), kept ? epoch : NULL);
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

int dt_owner_record_create(const char *path,
                           const struct dt_owner_record *record)
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
            "pid %ld\nstart %llu\nsince %s\nnonce %s\nlaunch %s\nepoch %s\n",
            record->job, record->step, record->restart, record->host,
            record->boot, record->space, record->pid, record->start,
            record->since, record->nonce, record->launch, record->epoch);
    int bad = ferror(file) ? EIO : 0;
    if (fclose(file) != 0)
        bad = errno;
    if (bad)
        unlink(path);
    return bad;
}

int dt_owner_record_read(const char *path, struct dt_owner_record *record)
{
    char text[MAX_BYTES];
    struct stat st;
    *record = (struct dt_owner_record){0};
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
               "space %63s\npid %ld\nstart %llu\nsince %31[^\n]\nnonce %16s\n"
               "launch %47s\nepoch %31s\n",
               record->job, record->step, record->restart, record->host,
               record->boot, record->space, &record->pid, &record->start,
               record->since, record->nonce, record->launch,
               record->epoch) < 10)
        record->nonce[0] = '\0';
    return 0;
}

static bool same_word(const char *a, const char *b)
{
    return strcmp(a, b) == 0 && strcmp(a, "-") != 0;
}

/* --- has the other one ended? --- */

/* Whether both are of one series, "NAME.NUMBER", and `self` has the larger
 * number.
 */
static bool follows(const char *self, const char *other)
{
    const char *dot = strrchr(self, '.'), *others = strrchr(other, '.');
    return dot && others && dot - self == others - other &&
           strncmp(self, other, (size_t)(dot - self)) == 0 &&
           atol(dot + 1) > atol(others + 1);
}

enum dt_owner_verdict dt_owner_record_judge(const struct dt_owner_record *other,
                                            const struct dt_owner_record *self)
{
    if (!other->nonce[0])
        return DT_OWNER_UNKNOWN;
    if (follows(self->epoch, other->epoch))
        return DT_OWNER_GONE;
    if (same_word(other->boot, self->boot) &&
        same_word(other->space, self->space)) {
        if (kill((pid_t)other->pid, 0) < 0 && errno == ESRCH)
            return DT_OWNER_GONE;
        struct dt_proc_stat stat;
        if (!dt_proc_stat(&stat, "", (int)other->pid))
            return DT_OWNER_ALIVE;
        /* nobody may ever wait for a process whose parent has gone */
        const bool over = stat.state == 'Z' && stat.threads <= 1;
        return stat.start_ticks == other->start && !over ? DT_OWNER_ALIVE
                                                         : DT_OWNER_GONE;
    }
    if (!same_word(other->job, self->job))
        return DT_OWNER_UNKNOWN;
    if (strcmp(other->restart, self->restart) != 0)
        return DT_OWNER_GONE; /* Slurm ended it before it restarted the job */
    /* a loop (DT_ENV_LAUNCH) starts a step when it has ended the one before */
    return follows(self->launch, other->launch) ? DT_OWNER_ENDED
                                                : DT_OWNER_UNKNOWN;
}
