/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - checks the devices, limits and free space of one node */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "doctor/doctor_files.h"
#include "doctor/node.h"

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
        count += dt_doctor_is_numbered(entry->d_name, prefix);
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
        if (!dt_doctor_is_numbered(entry->d_name, ""))
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
                       dt_doctor_bytes(is, sizeof(is), dump),
                       dt_doctor_bytes(room, sizeof(room), limits->room_bytes));
    }
    if (limits->stack != RLIM_INFINITY && limits->stack < 8 * MIB) {
        low = "stack";
        dt_doctor_warn(notes, DT_DOCTOR_LIMITS,
                       "a stack may have only %s: ulimit -s 8192",
                       dt_doctor_bytes(is, sizeof(is), limits->stack));
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
                      dt_doctor_bytes(is, sizeof(is), limits->memlock));
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
                       dt_doctor_bytes(left, sizeof(left), v->free_bytes));
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
                   dt_doctor_bytes(text, sizeof(text), least));
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
    dt_doctor_bytes(text, sizeof(text), left * 1024);
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
