/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_energy.h - what a GPU and the processors of a node have used, by their
 * own counters
 *
 * RAPL (powercap) counts packages and, where they are apart from those, DRAM,
 * in microjoules; its counters wrap after some minutes at full power. NVML
 * counts millijoules since the driver was loaded, anew every 100 ms or so: for
 * windows of a second and more. Nothing is estimated.
 */
#ifndef DT_DEVICE_DEVICE_ENERGY_H
#define DT_DEVICE_DEVICE_ENERGY_H

#include <stdbool.h>

struct dt_energy;

struct dt_energy_options {
    bool node;        /* read RAPL: one process of a node does */
    const char *gpu;  /* PCI bus id of this process's GPU; NULL: it has none */
    const char *root; /* prepended to /sys ("") */
    const char *nvml; /* the library; NULL: libnvidia-ml.so.1 */
};

/* What has been used since dt_energy_open. NAN: unknown. */
struct dt_energy_reading {
    double gpu_j; /* of the GPU; 0 without one */
    double cpu_j; /* of the node's processors; 0 if another process reads them
                   */
};

/* NULL: out of memory. Destroy it with dt_energy_close. */
struct dt_energy *dt_energy_open(const struct dt_energy_options *options);
void dt_energy_close(struct dt_energy *energy); /* NULL is fine */

/* Reads the counters. Call it at least once a minute, so that no wrap is
 * missed: some microseconds. A counter that was reset or failed is unknown from
 * then on.
 */
void dt_energy_read(struct dt_energy *energy,
                    struct dt_energy_reading *reading);

/* Why a number is unknown, "RAPL: permission denied"; "": both are known. */
const char *dt_energy_problem(const struct dt_energy *energy);

#endif /* DT_DEVICE_DEVICE_ENERGY_H */
