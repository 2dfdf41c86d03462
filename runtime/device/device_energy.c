/* SPDX-License-Identifier: Apache-2.0 */
/* device_energy.c - reads RAPL's counters of a node and NVML's of a GPU */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

enum { ZONES_MAX = 64 }; /* packages and their DRAM */

/* A counter of RAPL, which goes up to `range` and begins at 0 again. */
struct zone {
    int fd;
    uint64_t range, last;
    double used; /* microjoules */
};

/* The functions of NVML that are used, as nvml.h declares them: 0 is success.
 */
struct nvml {
    void *library; /* NULL: none */
    void *device;
    int (*energy)(void *device, unsigned long long *millijoules);
    int (*shutdown)(void);
};

struct dt_energy {
    bool node, gpu;
    struct zone zones[ZONES_MAX];
    size_t zone_count;
    struct nvml nvml;
    unsigned long long first, last; /* of NVML */
    char rapl_problem[128], nvml_problem[128];
    char problem[300];
};

static void set_problem(char problem[128], const char *source, const char *why)
{
    if (!problem[0])
        snprintf(problem, 128, "%s: %s", source, why);
}

/* Reads a number from the beginning of a file. */
static bool read_number(int fd, uint64_t *number)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    errno = EINVAL;
    return sscanf(text, "%" SCNu64, number) == 1;
}

static int open_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    errno = ENAMETOOLONG;
    return n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC)
                                             : -1;
}

/* Whether the zone is one that counts: a package, or DRAM, which no package
 * contains. Cores and graphics are parts of packages, and "psys" contains them.
 */
static bool is_counted(const char *dir)
{
    char name[32] = "";
    int fd = open_in(dir, "name");
    bool read_it = fd >= 0 && read(fd, name, sizeof(name) - 1) > 0;
    if (fd >= 0)
        close(fd);
    return read_it &&
           (strncmp(name, "package", 7) == 0 || strcmp(name, "dram\n") == 0);
}

static void add_zone(struct dt_energy *energy, const char *dir)
{
    struct zone *zone = &energy->zones[energy->zone_count];
    if (energy->zone_count == ZONES_MAX || !is_counted(dir))
        return;
    int range = open_in(dir, "max_energy_range_uj");
    zone->fd = open_in(dir, "energy_uj");
    if (zone->fd < 0 || range < 0 || !read_number(range, &zone->range) ||
        !read_number(zone->fd, &zone->last)) {
        set_problem(energy->rapl_problem, "RAPL",
                    errno == EACCES || errno == EPERM ? "permission denied"
                                                      : strerror(errno));
        if (zone->fd >= 0)
            close(zone->fd);
    } else {
        energy->zone_count++;
    }
    if (range >= 0)
        close(range);
}

/* Zones are intel-rapl:P and intel-rapl:P:Z, of AMD, too. The same counters
 * over memory, intel-rapl-mmio, would be counted twice.
 */
static void open_rapl(struct dt_energy *energy, const char *root)
{
    char dir[PATH_MAX / 2], path[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/sys/class/powercap", root);
    DIR *zones = opendir(dir);
    const struct dirent *entry;
    while (zones && (entry = readdir(zones)))
        if (strncmp(entry->d_name, "intel-rapl:", 11) == 0) {
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
            add_zone(energy, path);
        }
    if (zones)
        closedir(zones);
    if (energy->zone_count == 0)
        set_problem(energy->rapl_problem, "RAPL", "no counter on this node");
}

static bool find_function(struct dt_energy *energy, const char *name,
                          void *function)
{
    void *symbol = dlsym(energy->nvml.library, name);
    memcpy(function, &symbol, sizeof(symbol));
    if (!symbol)
        set_problem(energy->nvml_problem, "NVML", "its library is too old");
    return symbol != NULL;
}

/* Returns whether NVML counts for this GPU. */
static bool open_device(struct dt_energy *energy, const char *gpu)
{
    struct nvml *nvml = &energy->nvml;
    int (*init)(void);
    int (*find)(const char *, void **);
    if (!find_function(energy, "nvmlInit_v2", &init) ||
        !find_function(energy, "nvmlShutdown", &nvml->shutdown) ||
        !find_function(energy, "nvmlDeviceGetHandleByPciBusId_v2", &find) ||
        !find_function(energy, "nvmlDeviceGetTotalEnergyConsumption",
                       &nvml->energy))
        return false;
    if (init() != 0) {
        nvml->shutdown = NULL;
        set_problem(energy->nvml_problem, "NVML", "no driver answers");
        return false;
    }
    if (find(gpu, &nvml->device) != 0) {
        set_problem(energy->nvml_problem, "NVML", "it does not see this GPU");
        return false;
    }
    if (nvml->energy(nvml->device, &energy->first) != 0) {
        set_problem(energy->nvml_problem, "NVML",
                    "this GPU does not count energy");
        return false;
    }
    energy->last = energy->first;
    return true;
}

static void open_nvml(struct dt_energy *energy, const char *gpu,
                      const char *library)
{
    energy->nvml.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!energy->nvml.library)
        set_problem(energy->nvml_problem, "NVML", "there is no libnvidia-ml");
    else
        open_device(energy, gpu);
}

struct dt_energy *dt_energy_open(const struct dt_energy_options *options)
{
    struct dt_energy *energy = calloc(1, sizeof(*energy));
    if (!energy)
        return NULL;
    energy->node = options->node;
    energy->gpu = options->gpu != NULL;
    if (energy->node)
        open_rapl(energy, options->root ? options->root : "");
    if (energy->gpu)
        open_nvml(energy, options->gpu,
                  options->nvml ? options->nvml : "libnvidia-ml.so.1");
    return energy;
}

void dt_energy_close(struct dt_energy *energy)
{
    if (!energy)
        return;
    for (size_t i = 0; i < energy->zone_count; i++)
        close(energy->zones[i].fd);
    if (energy->nvml.shutdown)
        energy->nvml.shutdown();
    if (energy->nvml.library)
        dlclose(energy->nvml.library);
    free(energy);
}

static double read_rapl(struct dt_energy *energy)
{
    double used = 0;
    for (size_t i = 0; i < energy->zone_count; i++) {
        struct zone *zone = &energy->zones[i];
        uint64_t now;
        if (!read_number(zone->fd, &now) || now > zone->range) {
            set_problem(energy->rapl_problem, "RAPL",
                        "its counter cannot be read any more");
            break;
        }
        zone->used +=
            (double)(now >= zone->last ? now - zone->last
                                       : zone->range - zone->last + now);
        zone->last = now;
        used += zone->used;
    }
    return energy->rapl_problem[0] ? (double)NAN : used * 1e-6;
}

/* A counter that goes back was reset with its driver. */
static double read_nvml(struct dt_energy *energy)
{
    unsigned long long now;
    if (energy->nvml_problem[0])
        return NAN;
    if (energy->nvml.energy(energy->nvml.device, &now) != 0 ||
        now < energy->last) {
        set_problem(energy->nvml_problem, "NVML",
                    "the GPU's counter failed or was reset");
        return NAN;
    }
    energy->last = now;
    return (double)(now - energy->first) * 1e-3;
}

void dt_energy_read(struct dt_energy *energy, struct dt_energy_reading *reading)
{
    reading->cpu_j = energy->node ? read_rapl(energy) : 0;
    reading->gpu_j = energy->gpu ? read_nvml(energy) : 0;
    snprintf(energy->problem, sizeof(energy->problem), "%s%s%s",
             energy->nvml_problem,
             energy->nvml_problem[0] && energy->rapl_problem[0] ? "; " : "",
             energy->rapl_problem);
}

const char *dt_energy_problem(const struct dt_energy *energy)
{
    return energy->problem;
}
