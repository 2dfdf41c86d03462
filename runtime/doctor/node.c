/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - checks one node: its devices, limits, free space, and remains of
 * earlier jobs of the user
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/str.h"
#include "doctor/doctor_impl.h"

/* --- files --- */

static bool join_path(char path[PATH_MAX], const char *root, const char *fmt,
                      va_list ap)
{
    size_t used = strlen(root);
    if (used >= PATH_MAX)
        return false;
    memcpy(path, root, used);
    int n = vsnprintf(path + used, PATH_MAX - used, fmt, ap);
    return n >= 0 && (size_t)n < PATH_MAX - used;
}

static FILE *open_file(const char *root, const char *fmt, va_list ap)
{
    char path[PATH_MAX];
    return join_path(path, root, fmt, ap) ? fopen(path, "re") : NULL;
}

FILE *dt_doctor_open(const char *root, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    FILE *file = open_file(root, fmt, ap);
    va_end(ap);
    return file;
}

DIR *dt_doctor_opendir(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    bool fits = join_path(path, root, fmt, ap);
    va_end(ap);
    return fits ? opendir(path) : NULL;
}

bool dt_doctor_read_line(char *line, size_t size, const char *root,
                         const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    FILE *file = open_file(root, fmt, ap);
    va_end(ap);
    if (!file)
        return false;
    bool found = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}

/* Whether `name` is `prefix` followed by a number. */
static bool is_numbered(const char *name, const char *prefix)
{
    const char *number = dt_str_after(name, prefix);
    return number && *number && !number[strspn(number, "0123456789")];
}

/* Writes bytes as "512 MiB" or "3.5 GiB", truncated to size. Returns text. */
static char *print_bytes(char *text, size_t size, unsigned long long bytes)
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return text;
}

/* --- devices, limits and space --- */

#define MIB (1024.0 * 1024)
#define GIB (1024 * MIB)

enum {
    TEXT_BYTES = 256,
    FILES_WANTED = 4096, /* data loaders pass one descriptor per tensor */
};

static int count_numbered(const char *root, const char *folder,
                          const char *prefix)
{
    DIR *dir = dt_doctor_opendir(root, "%s", folder);
    int count = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += is_numbered(entry->d_name, prefix);
    closedir(dir);
    return count;
}

/* Finds the version in "NVRM version: ... Kernel Module 550.54.15 Tue Mar ...".
 */
static bool find_driver(const char *root, char *version, size_t size)
{
    char line[TEXT_BYTES];
    char *rest = line;
    if (!dt_doctor_read_line(line, sizeof(line), root,
                             "/proc/driver/nvidia/version"))
        return false;
    for (char *word; (word = strsep(&rest, " \t")) != NULL;) {
        if (isdigit((unsigned char)word[0]) && strchr(word, '.') &&
            word[strspn(word, "0123456789.")] == '\0') {
            snprintf(version, size, "%s", word);
            return true;
        }
    }
    snprintf(version, size, "unknown");
    return true;
}

void dt_doctor_check_gpus(const struct dt_doctor_notes *notes, const char *root,
                          int expected)
{
    char driver[TEXT_BYTES] = "-";
    int gpus = count_numbered(root, "/dev", "nvidia");
    bool loaded = find_driver(root, driver, sizeof(driver));
    FILE *amd = dt_doctor_open(root, "/dev/kfd");
    if (amd)
        fclose(amd);
    dt_doctor_cell(notes, DT_DOCTOR_DRIVER, "%s", driver);
    if (gpus > 0)
        dt_doctor_cell(notes, DT_DOCTOR_GPUS, "%d", gpus);
    else
        dt_doctor_cell(notes, DT_DOCTOR_GPUS, amd ? "AMD" : "-");
    if (expected > 0 && !loaded && !amd)
        dt_doctor_bad(notes, DT_DOCTOR_GPUS,
                      "Slurm gives the job GPUs there, but no NVIDIA driver "
                      "is loaded: modprobe nvidia, or correct gres.conf");
    else if (loaded && gpus < expected)
        dt_doctor_bad(notes, DT_DOCTOR_GPUS,
                      "only %d of the job's %d GPUs have a /dev/nvidiaN: see "
                      "dmesg (Xid) and nvidia-smi -L, and drain the node",
                      gpus, expected);
}

/* Checks the ports of one device; adds the number of ACTIVE ones to *active. */
static int check_ports(const struct dt_doctor_notes *notes, const char *root,
                       const char *device, int *active)
{
    DIR *dir =
        dt_doctor_opendir(root, "/sys/class/infiniband/%s/ports", device);
    int count = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char state[64] = "unknown";
        if (!is_numbered(entry->d_name, ""))
            continue;
        dt_doctor_read_line(state, sizeof(state), root,
                            "/sys/class/infiniband/%s/ports/%s/state", device,
                            entry->d_name);
        count++;
        if (strstr(state, "ACTIVE"))
            (*active)++;
        else
            dt_doctor_warn(notes, DT_DOCTOR_RDMA,
                           "port %s of %s is \"%s\", not ACTIVE: check the "
                           "cable and the subnet manager",
                           entry->d_name, device, state);
    }
    closedir(dir);
    return count;
}

int dt_doctor_check_rdma(const struct dt_doctor_notes *notes, const char *root)
{
    DIR *dir = dt_doctor_opendir(root, "/sys/class/infiniband");
    int ports = 0;
    int active = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            ports += check_ports(notes, root, entry->d_name, &active);
    if (dir)
        closedir(dir);
    if (ports > 0)
        dt_doctor_cell(notes, DT_DOCTOR_RDMA, "%d/%d", active, ports);
    else
        dt_doctor_cell(notes, DT_DOCTOR_RDMA, "-");
    return ports;
}

void dt_doctor_check_limits(const struct dt_doctor_notes *notes,
                            const struct dt_doctor_limits *limits)
{
    char is[32];
    char room[32];
    const char *low = "ok";
    rlim_t dump =
        limits->core < limits->dump_bytes ? limits->core : limits->dump_bytes;
    if (dump > limits->room_bytes) {
        low = "core";
        dt_doctor_warn(notes, DT_DOCTOR_LIMITS,
                       "a core file may have %s, and the working directory "
                       "has %s left: ulimit -c 0",
                       print_bytes(is, sizeof(is), dump),
                       print_bytes(room, sizeof(room), limits->room_bytes));
    }
    if (limits->stack != RLIM_INFINITY && limits->stack < 8 * MIB) {
        low = "stack";
        dt_doctor_warn(notes, DT_DOCTOR_LIMITS,
                       "a stack may have only %s: ulimit -s 8192",
                       print_bytes(is, sizeof(is), limits->stack));
    }
    if (limits->nofile != RLIM_INFINITY && limits->nofile < FILES_WANTED) {
        low = "nofile";
        dt_doctor_warn(notes, DT_DOCTOR_LIMITS,
                       "a process may open only %llu files: ulimit -n %d "
                       "before srun",
                       (unsigned long long)limits->nofile, FILES_WANTED);
    }
    if (limits->rdma && limits->memlock != RLIM_INFINITY) {
        low = "memlock";
        dt_doctor_bad(notes, DT_DOCTOR_LIMITS,
                      "RDMA needs to pin memory, and memlock is %s: ulimit -l "
                      "unlimited before srun; LimitMEMLOCK=infinity for "
                      "slurmd, and PropagateResourceLimitsExcept=MEMLOCK",
                      print_bytes(is, sizeof(is), limits->memlock));
    }
    dt_doctor_cell(notes, DT_DOCTOR_LIMITS, "%s", low);
}

void dt_doctor_volume_read(struct dt_doctor_volume *volume, const char *path)
{
    struct statvfs fs;
    *volume = (struct dt_doctor_volume){.path = path};
    if (statvfs(path, &fs) != 0) {
        volume->error = errno;
        return;
    }
    volume->total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    volume->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    volume->total_inodes = fs.f_files;
    volume->free_inodes = fs.f_favail;
}

static void check_volume(const struct dt_doctor_notes *notes,
                         const struct dt_doctor_volume *v)
{
    char left[32];
    bool tight =
        (double)v->free_bytes < GIB || ((double)v->free_bytes < 100 * GIB &&
                                        v->free_bytes < v->total_bytes / 20);
    if (v->error)
        dt_doctor_bad(notes, DT_DOCTOR_SPACE, "%s: %s", v->path,
                      strerror(v->error));
    else if (v->free_bytes == 0)
        dt_doctor_bad(notes, DT_DOCTOR_SPACE, "%s is full: remove files there",
                      v->path);
    else if (v->total_inodes > 0 && v->free_inodes == 0)
        dt_doctor_bad(notes, DT_DOCTOR_SPACE,
                      "%s has no inodes left: remove files there", v->path);
    else if (tight)
        dt_doctor_warn(notes, DT_DOCTOR_SPACE, "%s has only %s left", v->path,
                       print_bytes(left, sizeof(left), v->free_bytes));
}

void dt_doctor_check_space(const struct dt_doctor_notes *notes,
                           const struct dt_doctor_volume *volumes, size_t count)
{
    uint64_t least = UINT64_MAX;
    char text[32];
    for (size_t i = 0; i < count; i++) {
        check_volume(notes, &volumes[i]);
        if (volumes[i].free_bytes < least)
            least = volumes[i].free_bytes;
    }
    dt_doctor_cell(notes, DT_DOCTOR_SPACE, "%s",
                   print_bytes(text, sizeof(text), least));
}

uint64_t dt_doctor_check_memory(const struct dt_doctor_notes *notes,
                                const char *root)
{
    FILE *file = dt_doctor_open(root, "/proc/meminfo");
    unsigned long long total = 0;
    unsigned long long left = 0;
    char line[TEXT_BYTES];
    char text[32];
    while (file && fgets(line, sizeof(line), file)) {
        sscanf(line, "MemTotal: %llu", &total);
        sscanf(line, "MemAvailable: %llu", &left);
    }
    if (file)
        fclose(file);
    if (total == 0) {
        dt_doctor_cell(notes, DT_DOCTOR_MEMORY, "-");
        return 0;
    }
    print_bytes(text, sizeof(text), left * 1024);
    dt_doctor_cell(notes, DT_DOCTOR_MEMORY, "%s", text);
    if (left < total / 10)
        dt_doctor_warn(notes, DT_DOCTOR_MEMORY,
                       "only %s of memory is available, less than a tenth: "
                       "who uses it? (ps, /dev/shm)",
                       text);
    return (uint64_t)total * 1024;
}

void dt_doctor_check_load(const struct dt_doctor_notes *notes, const char *root,
                          long cpus)
{
    char line[TEXT_BYTES];
    double load;
    if (!dt_doctor_read_line(line, sizeof(line), root, "/proc/loadavg") ||
        sscanf(line, "%lf", &load) != 1) {
        dt_doctor_cell(notes, DT_DOCTOR_LOAD, "-");
        return;
    }
    dt_doctor_cell(notes, DT_DOCTOR_LOAD, "%.1f/%ld", load, cpus);
    if (load > (double)cpus)
        dt_doctor_warn(notes, DT_DOCTOR_LOAD,
                       "the load is above the number of CPUs: another "
                       "program uses the CPUs (see top), and ranks wait for "
                       "them; a small model is then fastest with "
                       "OMP_NUM_THREADS=1");
}

bool dt_doctor_dumps_to_file(const char *root)
{
    char line[TEXT_BYTES];
    return dt_doctor_read_line(line, sizeof(line), root,
                               "/proc/sys/kernel/core_pattern") &&
           line[0] != '|';
}

/* --- remains of earlier jobs --- */

enum {
    LISTENERS = 1024, /* sockets of the user; any more are ignored */
    FILES = 256,      /* files in /dev/shm; as above */
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
    int processes; /* stale ones */
};

/* Facts about one process. */
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
    const char *name = dt_str_after(path, "/dev/shm/");
    for (size_t i = 0; name && i < look->file_count; i++)
        if (strcmp(look->files[i].name, name) == 0)
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
        if (is_numbered(path, "/dev/nvidia"))
            p->has_gpu = true;
        if (sscanf(path, "socket:[%lu]", &inode) == 1)
            for (size_t i = 0; i < look->listener_count; i++)
                p->listens |= look->listeners[i] == inode;
    }
    if (dir)
        closedir(dir);
}

/* Whether a step of `job` runs on this node: the title of its slurmstepd has
 * the job.
 */
static bool job_runs(const struct look *look, const char *job)
{
    DIR *dir = dt_doctor_opendir(look->root, "/proc");
    char title[128];
    char want[64];
    bool runs = false;
    snprintf(want, sizeof(want), "slurmstepd: [%.40s.", job);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (is_numbered(entry->d_name, "") &&
            dt_doctor_read_line(title, sizeof(title), look->root,
                                "/proc/%s/cmdline", entry->d_name) &&
            dt_str_after(title, want))
            runs = true;
    if (dir)
        closedir(dir);
    return runs;
}

/* Returns false if the process is gone or its environment may not be read. */
static bool read_environment(const struct look *look, struct process *p)
{
    FILE *file = dt_doctor_open(look->root, "/proc/%d/environ", p->pid);
    char *entry = NULL;
    size_t size = 0;
    bool seen = false;
    if (!file)
        return false;
    while (getdelim(&entry, &size, '\0', file) > 0) {
        const char *job = dt_str_after(entry, "SLURM_JOB_ID=");
        seen = true;
        if (job) {
            p->in_job = strcmp(job, look->job) == 0 || job_runs(look, job);
            break;
        }
    }
    free(entry);
    fclose(file);
    return seen;
}

/* The CPUs that the process has kept busy since it started. */
static double cpus_used(const struct look *look,
                        const struct dt_proc_stat *stat)
{
    double hz = (double)sysconf(_SC_CLK_TCK);
    double age = look->uptime_s - (double)stat->start_ticks / hz;
    return age > 1 ? (double)stat->cpu_ticks / hz / age : 0;
}

/* Slurm's own clients listen, and learn the number of their job only later. */
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
                       print_bytes(text, sizeof(text), bytes), first,
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
