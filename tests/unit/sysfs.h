/* SPDX-License-Identifier: Apache-2.0 */
/* sysfs.h - writes a tree of files like /sys below the scratch directory */
#ifndef TESTS_UNIT_SYSFS_H
#define TESTS_UNIT_SYSFS_H

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/scratch.h"

/* Writes a file in the tree `root` and creates its parent directories. */
static inline void sysfs_write(const char *root, const char *text,
                               const char *format, ...)
{
    char name[256];
    va_list ap;
    int used = snprintf(name, sizeof(name), "%s/", root);
    va_start(ap, format);
    vsnprintf(name + used, sizeof(name) - (size_t)used, format, ap);
    va_end(ap);
    for (char *slash = strchr(name, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(scratch_path(name), 0755);
        *slash = '/';
    }
    scratch_write(name, text, strlen(text));
}

/* Writes the tree of a node with two sockets of 8 cores with two threads each
 * (0-7 with 16-23, 8-15 with 24-31) and `gpus` NVIDIA GPUs, the second half of
 * them on the second socket. Returns the root.
 */
static inline const char *sysfs_two_sockets(const char *root, int gpus)
{
    static const char *const near[] = {"0-7,16-23\n", "8-15,24-31\n"};
    char text[64];
    sysfs_write(root, "0-31\n", "sys/devices/system/cpu/online");
    sysfs_write(root, "0-1\n", "sys/devices/system/node/online");
    for (int node = 0; node < 2; node++)
        sysfs_write(root, near[node], "sys/devices/system/node/node%d/cpulist",
                    node);
    for (int cpu = 0; cpu < 32; cpu++) {
        snprintf(text, sizeof(text), "%d,%d\n", cpu % 16, cpu % 16 + 16);
        sysfs_write(root, text,
                    "sys/devices/system/cpu/cpu%d/topology/"
                    "thread_siblings_list",
                    cpu);
    }
    sysfs_write(root, "", "sys/bus/pci/drivers/nvidia/new_id");
    for (int gpu = 0; gpu < gpus; gpu++) {
        sysfs_write(root, "", "sys/bus/pci/drivers/nvidia/0000:%02x:00.0",
                    0x18 + 7 * gpu);
        sysfs_write(root, near[2 * gpu / gpus],
                    "sys/bus/pci/devices/0000:%02x:00.0/local_cpulist",
                    0x18 + 7 * gpu);
    }
    return scratch_path(root);
}

#endif /* TESTS_UNIT_SYSFS_H */
