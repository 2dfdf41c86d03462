/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - reads the hardware of this node from sysfs
 *
 * All paths are below `root`, which is "" except in tests.
 */
#ifndef DTSPANK_TOPOLOGY_H
#define DTSPANK_TOPOLOGY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    DTSPANK_CPU_SETS = 8,
    DTSPANK_CPUS_MAX = DTSPANK_CPU_SETS * CPU_SETSIZE,
    DTSPANK_GPUS_MAX = 64,
};

/* A set of CPUs, for the macros that end in _S. */
struct dtspank_cpus {
    cpu_set_t set[DTSPANK_CPU_SETS];
};

/* Returns the online CPUs; none if they cannot be read. */
struct dtspank_cpus dtspank_topology_online(const char *root);

/* Divides `from` into `count` even parts of whole cores with all of their
 * threads, in the order of NUMA nodes and then of numbers, and writes part
 * `index`. False if a part would be less than two cores: then it is better to
 * let the threads with which a rank reads data and communicates run wherever
 * there is room.
 */
bool dtspank_topology_share(const char *root, const struct dtspank_cpus *from,
                            uint32_t index, uint32_t count,
                            struct dtspank_cpus *share);

/* Finds the CPUs near each GPU of NVIDIA's driver or, without any, of AMD's, in
 * the order of PCI addresses, which is how Slurm, CUDA and HIP number them.
 * Returns the number of GPUs; 0 if there are none or not everything can be
 * read.
 */
int dtspank_topology_gpus(const char *root,
                          struct dtspank_cpus near[DTSPANK_GPUS_MAX]);

#endif /* DTSPANK_TOPOLOGY_H */
