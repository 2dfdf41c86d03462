/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - reads the hardware of this node from sysfs */
#include "config.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/task/topology.h"

#define SYS_CPU "/sys/devices/system/cpu/"
#define SYS_NODE "/sys/devices/system/node/"

enum {
    LIST_BYTES = 32 * 1024, /* a list of every second CPU is shorter */
    NO_CORE = UINT16_MAX,
    PART_CORES = 2, /* at least: with one core each, training is 5 % slower */
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

struct dtspank_cpus dtspank_topology_online(const char *root)
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

bool dtspank_topology_share(const char *root, const struct dtspank_cpus *from,
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
    bool complete = count <= DTSPANK_GPUS_MAX;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/local_cpulist",
                 root, found[i]->d_name);
        complete = complete && read_list(path, &near[i]);
        free(found[i]);
    }
    free(found);
    return complete && count > 0 ? count : 0;
}

int dtspank_topology_gpus(const char *root,
                          struct dtspank_cpus near[DTSPANK_GPUS_MAX])
{
    int count = read_near(root, "nvidia", near);
    return count > 0 ? count : read_near(root, "amdgpu", near);
}
