/* SPDX-License-Identifier: Apache-2.0 */
/* stale.c - finds what earlier jobs of the user have left on a node */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"
#include "doctor/doctor_files.h"
#include "doctor/node.h"

enum {
    LISTENERS = 1024, /* sockets of the user; any more are ignored */
    FILES = 256,      /* files in /dev/shm; the same */
    NAME_BYTES = 256,
};

/* One pass over all processes of a user. */
struct look {
    const struct dt_doctor_notes *notes;
    const char *root;
    uid_t uid;
    const char *job;
    double uptime_s;
    unsigned long listeners[LISTENERS]; /* inodes */
    size_t listener_count;
    struct shm_file {
        char name[NAME_BYTES];
        unsigned long long bytes;
        bool used;
    } files[FILES];
    size_t file_count;
    int processes; /* how many are stale */
};

/* What we know about one process. */
struct process {
    int pid;
    struct dt_proc_stat stat;
    bool in_job, has_gpu, listens;
};

static void find_listeners(struct look *look, const char *table)
{
    FILE *file = dt_doctor_open(look->root, "/proc/net/%s", table);
    char line[512];
    unsigned state;
    unsigned uid;
    unsigned long inode;
    while (file && fgets(line, sizeof(line), file))
        if (look->listener_count < LISTENERS &&
            sscanf(line, " %*d: %*s %*s %x %*s %*s %*s %u %*d %lu", &state,
                   &uid, &inode) == 3 &&
            state == 0x0a && uid == look->uid)
            look->listeners[look->listener_count++] = inode;
    if (file)
        fclose(file);
}

static void find_files(struct look *look)
{
    DIR *dir = dt_doctor_opendir(look->root, "/dev/shm");
    struct stat st;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (look->file_count == FILES ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode) || st.st_uid != look->uid)
            continue;
        struct shm_file *file = &look->files[look->file_count++];
        snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
        file->bytes = (unsigned long long)st.st_size;
    }
    if (dir)
        closedir(dir);
}

/* Marks a file as used: a process has the path open or mapped. */
static void mark_used(struct look *look, const char *path)
{
    static const char folder[] = "/dev/shm/";
    if (strncmp(path, folder, sizeof(folder) - 1) != 0)
        return;
    path += sizeof(folder) - 1;
    for (size_t i = 0; i < look->file_count; i++)
        if (strcmp(look->files[i].name, path) == 0)
            look->files[i].used = true;
}

static void read_maps(struct look *look, int pid)
{
    FILE *file = look->file_count > 0
                     ? dt_doctor_open(look->root, "/proc/%d/maps", pid)
                     : NULL;
    char line[PATH_MAX];
    while (file && fgets(line, sizeof(line), file)) {
        char *path = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (path)
            mark_used(look, path);
    }
    if (file)
        fclose(file);
}

static void read_descriptors(struct look *look, struct process *p)
{
    DIR *dir = dt_doctor_opendir(look->root, "/proc/%d/fd", p->pid);
    char path[PATH_MAX];
    unsigned long inode;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        ssize_t n =
            readlinkat(dirfd(dir), entry->d_name, path, sizeof(path) - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        mark_used(look, path);
        if (dt_doctor_is_numbered(path, "/dev/nvidia"))
            p->has_gpu = true;
        if (sscanf(path, "socket:[%lu]", &inode) == 1)
            for (size_t i = 0; i < look->listener_count; i++)
                p->listens |= look->listeners[i] == inode;
    }
    if (dir)
        closedir(dir);
}

/* Whether a step of `job` runs on this node: its slurmstepd has the job in its
 * title.
 */
static bool job_runs(const struct look *look, const char *job)
{
    DIR *dir = dt_doctor_opendir(look->root, "/proc");
    char title[128];
    char want[64];
    bool runs = false;
    snprintf(want, sizeof(want), "slurmstepd: [%.40s.", job);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (dt_doctor_is_numbered(entry->d_name, "") &&
            dt_doctor_read_line(title, sizeof(title), look->root,
                                "/proc/%s/cmdline", entry->d_name) &&
            strncmp(title, want, strlen(want)) == 0)
            runs = true;
    if (dir)
        closedir(dir);
    return runs;
}

/* Returns false if the process is gone or we may not read its environment. */
static bool read_environment(const struct look *look, struct process *p)
{
    static const char name[] = "SLURM_JOB_ID=";
    FILE *file = dt_doctor_open(look->root, "/proc/%d/environ", p->pid);
    char *entry = NULL;
    size_t size = 0;
    bool seen = false;
    if (!file)
        return false;
    while (getdelim(&entry, &size, '\0', file) > 0) {
        seen = true;
        if (strncmp(entry, name, sizeof(name) - 1) == 0) {
            const char *job = entry + sizeof(name) - 1;
            p->in_job = strcmp(job, look->job) == 0 || job_runs(look, job);
            break;
        }
    }
    free(entry);
    fclose(file);
    return seen;
}

/* How many CPUs the process has kept busy since it started. */
static double cpus_used(const struct look *look,
                        const struct dt_proc_stat *stat)
{
    double hz = (double)sysconf(_SC_CLK_TCK);
    double age = look->uptime_s - (double)stat->start_ticks / hz;
    return age > 1 ? (double)stat->cpu_ticks / hz / age : 0;
}

/* Slurm's own clients listen, and learn their job's number only later. */
static bool is_slurm_client(const char *command)
{
    return strcmp(command, "srun") == 0 || strcmp(command, "salloc") == 0;
}

static void judge_process(struct look *look, const struct process *p)
{
    const char *how = p->has_gpu                         ? "holds a GPU"
                      : p->listens                       ? "listens on a port"
                      : cpus_used(look, &p->stat) > 0.05 ? "uses a CPU"
                                                         : NULL;
    if (!how || p->in_job || p->stat.terminal || is_slurm_client(p->stat.name))
        return;
    look->processes++;
    if (p->has_gpu)
        dt_doctor_bad(look->notes, DT_DOCTOR_STALE,
                      "your process %d (%s) is in no running job and %s: "
                      "kill -9 %d",
                      p->pid, p->stat.name, how, p->pid);
    else
        dt_doctor_warn(look->notes, DT_DOCTOR_STALE,
                       "your process %d (%s) is in no running job and %s: "
                       "kill %d",
                       p->pid, p->stat.name, how, p->pid);
}

static void read_processes(struct look *look)
{
    DIR *dir = dt_doctor_opendir(look->root, "/proc");
    for (int pid; dir && (pid = dt_proc_next(dir, look->uid)) != 0;) {
        struct process p = {.pid = pid};
        read_maps(look, pid);
        read_descriptors(look, &p);
        if (look->job && read_environment(look, &p) &&
            dt_proc_stat(&p.stat, look->root, pid))
            judge_process(look, &p);
    }
    if (dir)
        closedir(dir);
}

static int judge_files(const struct look *look)
{
    const char *first = NULL;
    unsigned long long bytes = 0;
    int count = 0;
    char text[32];
    for (size_t i = 0; i < look->file_count; i++) {
        if (look->files[i].used)
            continue;
        first = first ? first : look->files[i].name;
        bytes += look->files[i].bytes;
        count++;
    }
    if (count > 0)
        dt_doctor_warn(look->notes, DT_DOCTOR_STALE,
                       "/dev/shm has %d file%s of yours (%s) that no process "
                       "uses: rm /dev/shm/%s%s",
                       count, count == 1 ? "" : "s",
                       dt_doctor_bytes(text, sizeof(text), bytes), first,
                       count == 1 ? "" : " ...");
    return count;
}

static int judge_segments(const struct look *look)
{
    FILE *file = dt_doctor_open(look->root, "/proc/sysvipc/shm");
    char line[512];
    int count = 0;
    int first = -1;
    while (file && fgets(line, sizeof(line), file)) {
        int id;
        unsigned attached;
        unsigned uid;
        if (sscanf(line, " %*d %d %*o %*u %*d %*d %u %u", &id, &attached,
                   &uid) != 3 ||
            uid != look->uid || attached > 0)
            continue;
        first = count++ == 0 ? id : first;
    }
    if (file)
        fclose(file);
    if (count > 0)
        dt_doctor_warn(look->notes, DT_DOCTOR_STALE,
                       "%d System V shared memory segment%s of yours that no "
                       "process uses: ipcrm -m %d%s",
                       count, count == 1 ? "" : "s", first,
                       count == 1 ? "" : " ...");
    return count;
}

void dt_doctor_check_stale(const struct dt_doctor_notes *notes,
                           const char *root, uid_t uid, const char *job)
{
    char uptime[64];
    struct look *look = uid != 0 ? calloc(1, sizeof(*look)) : NULL;
    if (!look) {
        dt_doctor_cell(notes, DT_DOCTOR_STALE, "-");
        return;
    }
    look->notes = notes;
    look->root = root;
    look->uid = uid;
    look->job = job;
    if (dt_doctor_read_line(uptime, sizeof(uptime), root, "/proc/uptime"))
        look->uptime_s = strtod(uptime, NULL);
    find_listeners(look, "tcp");
    find_listeners(look, "tcp6");
    find_files(look);
    read_processes(look);
    int left = look->processes + judge_files(look) + judge_segments(look);
    dt_doctor_cell(notes, DT_DOCTOR_STALE, "%d", left);
    free(look);
}
