/* SPDX-License-Identifier: Apache-2.0 */
/* task_cpu.c - binds a task to its CPUs, and warns if they are few */
#include "config.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "spank/task/task_impl.h"

#define SYS_CPU "/sys/devices/system/cpu/"
#define SYS_NODE "/sys/devices/system/node/"

enum {
    LIST_BYTES = 32 * 1024, /* a list of every second CPU is shorter */
    NO_CORE = UINT16_MAX,
    PART_CORES = 2, /* at least: with one core each, training is 5 % slower */
    SMALL_PART = 4, /* warn of a mask of at most a quarter of the share; half
                     * may be deliberate
                     */
    GPUS_MAX = 64,
};

static void add_range(struct dtspank_cpus *cpus, unsigned first, unsigned last)
{
    for (; first <= last && first < DTSPANK_CPUS_MAX; first++)
        CPU_SET_S(first, sizeof(cpus->set), cpus->set);
}

/* Reads a list such as "0-3,8,10-11" into cpus; false if there is none. */
static bool read_list(const char *path, struct dtspank_cpus *cpus)
{
    char text[LIST_BYTES];
    char *at = text;
    FILE *file = fopen(path, "re");
    memset(cpus, 0, sizeof(*cpus));
    if (!file)
        return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    while (*at >= '0' && *at <= '9') {
        unsigned first = (unsigned)strtoul(at, &at, 10);
        unsigned last = *at == '-' ? (unsigned)strtoul(at + 1, &at, 10) : first;
        add_range(cpus, first, last);
        if (*at == ',')
            at++;
    }
    return true;
}

static bool has_cpu(const struct dtspank_cpus *cpus, unsigned cpu)
{
    return CPU_ISSET_S(cpu, sizeof(cpus->set), cpus->set);
}

/* Returns the online CPUs; none if they cannot be read. */
static struct dtspank_cpus read_online(const char *root)
{
    char path[PATH_MAX];
    struct dtspank_cpus online;
    snprintf(path, sizeof(path), "%s" SYS_CPU "online", root);
    read_list(path, &online);
    return online;
}

/* The cores of a set, by number from 0 in the order found. */
struct cores {
    uint32_t count;
    unsigned end;                  /* one more than the last CPU of the set */
    uint16_t of[DTSPANK_CPUS_MAX]; /* the core of a CPU, or NO_CORE */
};

/* Numbers the cores of `from` that are in `within` and have no number yet. */
static void number_cores(const char *root, const struct dtspank_cpus *from,
                         const struct dtspank_cpus *within, struct cores *cores)
{
    char path[PATH_MAX];
    struct dtspank_cpus threads;
    for (unsigned cpu = 0; cpu < cores->end; cpu++) {
        if (!has_cpu(from, cpu) || !has_cpu(within, cpu) ||
            cores->of[cpu] != NO_CORE)
            continue;
        snprintf(path, sizeof(path),
                 "%s" SYS_CPU "cpu%u/topology/thread_siblings_list", root, cpu);
        read_list(path, &threads);
        add_range(&threads, cpu, cpu);
        for (unsigned i = cpu; i < cores->end; i++)
            if (has_cpu(&threads, i) && has_cpu(from, i))
                cores->of[i] = (uint16_t)cores->count;
        cores->count++;
    }
}

/* Numbers the cores by NUMA node. Without NUMA nodes in sysfs, the order is
 * that of the CPU numbers.
 */
static void order_cores(const char *root, const struct dtspank_cpus *from,
                        struct cores *cores)
{
    char path[PATH_MAX];
    struct dtspank_cpus nodes;
    struct dtspank_cpus cpus;
    cores->count = 0;
    cores->end = DTSPANK_CPUS_MAX;
    while (cores->end > 0 && !has_cpu(from, cores->end - 1))
        cores->end--;
    memset(cores->of, 0xff, sizeof(cores->of));
    snprintf(path, sizeof(path), "%s" SYS_NODE "online", root);
    read_list(path, &nodes);
    for (unsigned node = 0; node < DTSPANK_CPUS_MAX; node++) {
        if (!has_cpu(&nodes, node))
            continue;
        snprintf(path, sizeof(path), "%s" SYS_NODE "node%u/cpulist", root,
                 node);
        read_list(path, &cpus);
        number_cores(root, from, &cpus, cores);
    }
    number_cores(root, from, from, cores);
}

/* Divides `from` into `count` even parts of whole cores with all of their
 * threads, in the order of NUMA nodes and then of numbers, and writes part
 * `index`. False if a part would be less than two cores: then it is better to
 * let the threads with which a rank reads data and communicates run wherever
 * there is room.
 */
static bool choose_part(const char *root, const struct dtspank_cpus *from,
                        uint32_t index, uint32_t count,
                        struct dtspank_cpus *share)
{
    struct cores cores;
    order_cores(root, from, &cores);
    if (cores.count / PART_CORES < count)
        return false;
    uint32_t first = index * cores.count / count;
    uint32_t end = (index + 1) * cores.count / count;
    memset(share, 0, sizeof(*share));
    for (unsigned cpu = 0; cpu < cores.end; cpu++)
        if (cores.of[cpu] != NO_CORE && cores.of[cpu] >= first &&
            cores.of[cpu] < end)
            add_range(share, cpu, cpu);
    return true;
}

/* A driver's directory has links named by PCI addresses, and other files. */
static int is_address(const struct dirent *entry)
{
    return strchr(entry->d_name, ':') != NULL;
}

static int read_near(const char *root, const char *driver,
                     struct dtspank_cpus *near)
{
    char path[PATH_MAX];
    struct dirent **found = NULL;
    snprintf(path, sizeof(path), "%s/sys/bus/pci/drivers/%s", root, driver);
    int count = scandir(path, &found, is_address, alphasort);
    bool complete = count <= GPUS_MAX;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/local_cpulist",
                 root, found[i]->d_name);
        complete = complete && read_list(path, &near[i]);
        free(found[i]);
    }
    free(found);
    return complete && count > 0 ? count : 0;
}

/* Finds the CPUs near each GPU of NVIDIA's driver or, without any, of AMD's, in
 * the order of PCI addresses, which is how Slurm, CUDA and HIP number them.
 * Returns the number of GPUs; 0 if there are none or not everything can be
 * read.
 */
static int find_near_gpus(const char *root, struct dtspank_cpus near[GPUS_MAX])
{
    int count = read_near(root, "nvidia", near);
    return count > 0 ? count : read_near(root, "amdgpu", near);
}

static bool bound; /* this process is bound to its own part */

static uint32_t count_cpus(const struct dtspank_cpus *cpus)
{
    return (uint32_t)CPU_COUNT_S(sizeof(cpus->set), cpus->set);
}

/* Whether the tasks of a node have different masks. Slurm 22.05 to 26.05 list
 * them as "0x3,0xc".
 */
static bool masks_differ(const char *masks)
{
    size_t length = strcspn(masks, ",");
    for (const char *at = masks + length; *at == ','; at += 1 + length)
        if (strncmp(masks, at + 1, length) != 0 ||
            strcspn(at + 1, ",") != length)
            return true;
    return false;
}

/* Whether the CPUs belong to the step alone, and no task has its own yet. */
static bool is_shared_by_tasks(const struct dtspank_cpu_place *place,
                               uint32_t cpus, uint32_t online)
{
    bool whole_node = place->step_cpus >= online || place->job_cpus >= online;
    if (place->tasks < 2 || cpus < place->step_cpus || cpus == 0 || online == 0)
        return false;
    if (place->bind && strncmp(place->bind, "none", 4) == 0)
        return false; /* srun --cpu-bind=none */
    if (place->masks && masks_differ(place->masks))
        return false;
    return whole_node || cpus == place->step_cpus;
}

/* Reads the n-th of a list of numbers; false if it has fewer. */
static bool number_at(const char *list, uint32_t n, unsigned long *number)
{
    char *end = NULL;
    for (; n > 0 && list; n--)
        list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
    if (!list || *list < '0' || *list > '9')
        return false;
    *number = strtoul(list, &end, 10);
    return *end == ',' || *end == '\0';
}

static uint32_t count_entries(const char *list)
{
    uint32_t count = 1;
    for (; *list; list++)
        count += *list == ',';
    return count;
}

/* Chooses a part of the CPUs near the rank's GPU; ranks whose GPUs are near the
 * same CPUs share them.
 */
static bool choose_near_gpu(const struct dtspank_cpu_place *place,
                            const char *root, struct dtspank_cpus *cpus)
{
    struct dtspank_cpus near[GPUS_MAX];
    struct dtspank_cpus all = *cpus;
    struct dtspank_cpus own;
    uint32_t index = 0;
    uint32_t sharers = 0;
    uint32_t step_gpus = place->gpu_count;
    uint32_t gpus = (uint32_t)find_near_gpus(root, near);
    if (gpus == 0 || step_gpus != count_entries(place->gpus) ||
        (step_gpus != place->tasks && !place->one_gpu))
        return false; /* the list may name only this task's GPUs */
    for (uint32_t i = 0; i <= place->tasks; i++) {
        unsigned long gpu;
        struct dtspank_cpus its;
        /* this rank first, then all ranks */
        uint32_t rank = i == 0 ? place->local_rank : i - 1;
        if (!number_at(place->gpus, rank % step_gpus, &gpu) || gpu >= gpus)
            return false;
        CPU_AND_S(sizeof(its.set), its.set, near[gpu].set, all.set);
        if (i == 0)
            own = its;
        else if (CPU_EQUAL_S(sizeof(its.set), its.set, own.set)) {
            index += rank < place->local_rank;
            sharers++;
        }
    }
    return choose_part(root, &own, index, sharers, cpus);
}

bool dtspank_cpu_choose(const struct dtspank_cpu_place *place, const char *root,
                        struct dtspank_cpus *cpus)
{
    struct dtspank_cpus all = *cpus;
    struct dtspank_cpus online = read_online(root);
    if (!is_shared_by_tasks(place, count_cpus(cpus), count_cpus(&online)))
        return false;
    if (place->gpus)
        return choose_near_gpu(place, root, cpus);
    return choose_part(root, &all, place->local_rank, place->tasks, cpus);
}

/* SLURM_CPUS_PER_TASK may come from the batch script. If it is larger than the
 * number of CPUs of the task, srun did not receive it; if smaller, the user
 * meant it. A task that may use every CPU is not bound, whatever Slurm says it
 * was given.
 */
void dtspank_cpu_warn(spank_t spank, const struct dtspank_cpu_place *place,
                      const char *root, const struct dtspank_cpus *cpus)
{
    struct dtspank_cpus online = read_online(root);
    uint32_t has = count_cpus(cpus);
    uint32_t share = place->tasks > 0 ? place->job_cpus / place->tasks : 0;
    uint32_t wanted = place->per_task > 0 && place->per_task < share
                          ? place->per_task
                          : share;
    if (place->local_rank > 0 || has >= count_cpus(&online))
        return;
    if (has >= place->step_cpus && place->tasks > 0)
        has /= place->tasks; /* the mask is that of all tasks */
    if (has >= wanted || (place->per_task == 0 && has * SMALL_PART > share))
        return;
    slurm_spank_log("disttrain: %s: each task has %u CPU%s, but the job has "
                    "%u for each; use srun --cpus-per-task=%u, or export "
                    "SRUN_CPUS_PER_TASK=%u in the batch script (Slurm 22.05 "
                    "and 23.02 do not pass sbatch --cpus-per-task on to srun)",
                    dtspank_task_node(spank), has, has == 1 ? "" : "s", share,
                    wanted, wanted);
}

/* Returns the smallest number of a list such as "128(x2),64", because a step
 * does not say which of the job's nodes it runs on.
 */
static uint32_t smallest_number(const char *list)
{
    unsigned long least = 0;
    while (list && *list) {
        char *end = NULL;
        unsigned long number = strtoul(list, &end, 10);
        if (end == list)
            return 0;
        if (least == 0 || number < least)
            least = number;
        list = strchr(end, ',') ? strchr(end, ',') + 1 : NULL;
    }
    return least < UINT32_MAX ? (uint32_t)least : 0;
}

static struct dtspank_cpu_place read_place(spank_t spank)
{
    const char *visibility = dtspank_task_getenv(spank, DT_ENV_GPU_VISIBILITY);
    struct dtspank_cpu_place place = {
        .bind = dtspank_task_getenv(spank, "SLURM_CPU_BIND_TYPE"),
        .masks = dtspank_task_getenv(spank, "SLURM_CPU_BIND_LIST"),
        .gpus = dtspank_task_getenv(spank, "SLURM_STEP_GPUS"),
        .one_gpu = visibility && strcmp(visibility, "one") == 0,
        .job_cpus = smallest_number(
            dtspank_task_getenv(spank, "SLURM_JOB_CPUS_PER_NODE")),
    };
    if (!dtspank_task_local(spank, &place.local_rank, &place.tasks))
        place.tasks = 0;
    if (!dtspank_task_number(spank, "SLURM_CPUS_ON_NODE", &place.step_cpus))
        place.step_cpus = 0;
    if (!dtspank_task_number(spank, "SLURM_GPUS_ON_NODE", &place.gpu_count))
        place.gpu_count = 0;
    if (!dtspank_task_number(spank, "SLURM_CPUS_PER_TASK", &place.per_task))
        place.per_task = 0;
    return place;
}

static bool read_mask(struct dtspank_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    return sched_getaffinity(0, sizeof(cpus->set), cpus->set) == 0;
}

int dtspank_cpu_apply(spank_t spank, struct dt_error *err)
{
    struct dtspank_cpus cpus;
    struct dtspank_cpu_place place = read_place(spank);
    const char *policy = dtspank_task_getenv(spank, DT_ENV_CPU_BIND);
    (void)err;
    if (!read_mask(&cpus))
        return 0;
    dtspank_cpu_warn(spank, &place, "", &cpus);
    if (!(policy && strcmp(policy, "none") == 0) &&
        dtspank_cpu_choose(&place, "", &cpus))
        bound = sched_setaffinity(0, sizeof(cpus.set), cpus.set) == 0;
    return 0;
}

uint32_t dtspank_cpu_usable(spank_t spank)
{
    struct dtspank_cpus mask;
    struct dtspank_cpu_place place = read_place(spank);
    uint32_t share = place.per_task;
    uint32_t cpus = read_mask(&mask) ? count_cpus(&mask) : 1;
    if (bound)
        return cpus;
    if (share == 0 && place.tasks > 0 && place.step_cpus > 0)
        share =
            place.step_cpus > place.tasks ? place.step_cpus / place.tasks : 1;
    return share > 0 && share < cpus ? share : cpus;
}
