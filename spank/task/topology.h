/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - the hardware of this node, as the kernel describes it
 *
 * All of it is read below `root`, which is "" but in tests.
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

/* The CPUs that are switched on; none if that cannot be read. */
struct dtspank_cpus dtspank_topology_online(const char *root);

/* Part `index` of `from` in `count` even parts of whole cores, with all of
 * their threads, in the order of NUMA nodes and then of numbers. False if a
 * part would be less than two cores: the threads with which a rank reads data
 * and communicates do better where there is room just now.
 */
bool dtspank_topology_share(const char *root, const struct dtspank_cpus *from,
                            uint32_t index, uint32_t count,
                            struct dtspank_cpus *share);

/* The CPUs near each GPU of NVIDIA's, or else AMD's, driver in the order of PCI
 * addresses, which is how Slurm, CUDA and HIP number them. Returns how many, 0
 * if there are none or not everything can be read.
 */
int dtspank_topology_gpus(const char *root,
                          struct dtspank_cpus near[DTSPANK_GPUS_MAX]);

#endif /* DTSPANK_TOPOLOGY_H */
