/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - checks what can be wrong with one node, one function per check
 *
 * Each function writes its cells and problems into notes. Files are read below
 * `root`, which is "" except in tests; a missing file is not a problem.
 */
#ifndef DT_DOCTOR_NODE_H
#define DT_DOCTOR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "doctor/doctor_notes.h"

/* Columns gpus and driver. `expected` is the number of the job's GPUs on this
 * node, 0 if Slurm does not say.
 */
void dt_doctor_check_gpus(const struct dt_doctor_notes *notes, const char *root,
                          int expected);

/* Column rdma. Returns the number of ports. */
int dt_doctor_check_rdma(const struct dt_doctor_notes *notes, const char *root);

/* The soft limits of a process and what they are compared with. */
struct dt_doctor_limits {
    rlim_t memlock, nofile, core, stack; /* bytes; nofile: descriptors */
    bool rdma;                           /* memory will be pinned */
    uint64_t dump_bytes; /* the largest possible core file; 0: none is written
                          */
    uint64_t room_bytes; /* free space where it would be written */
};

/* Column limits. */
void dt_doctor_check_limits(const struct dt_doctor_notes *notes,
                            const struct dt_doctor_limits *limits);

/* A file system and its free space. */
struct dt_doctor_volume {
    const char *path;
    int error; /* errno; 0: the numbers are valid */
    uint64_t total_bytes, free_bytes;
    uint64_t total_inodes, free_inodes; /* 0 and 0: it does not count inodes */
};

/* Reads the file system at `path`, which is kept and not copied. */
void dt_doctor_volume_read(struct dt_doctor_volume *volume, const char *path);

/* Column space: the least free space of the volumes; there must be at least
 * one.
 */
void dt_doctor_check_space(const struct dt_doctor_notes *notes,
                           const struct dt_doctor_volume *volumes,
                           size_t count);

/* Column memory. Returns the memory of the machine in bytes; 0: unknown. */
uint64_t dt_doctor_check_memory(const struct dt_doctor_notes *notes,
                                const char *root);

/* Column load, compared with the number of CPUs. */
void dt_doctor_check_load(const struct dt_doctor_notes *notes, const char *root,
                          long cpus);

/* Whether the kernel writes core files instead of piping them to a program. */
bool dt_doctor_dumps_to_file(const char *root);

/* Column stale: what earlier jobs of the user `uid` have left on this node.
 * These are processes that hold a GPU, listen on a TCP port or have used more
 * than a twentieth of a CPU since they started, unless they belong to `job`, to
 * another job that still runs here, or to a terminal; files in /dev/shm that no
 * process of the user has mapped or open; System V segments without a process.
 * It does not judge root, and no processes if `job` is NULL.
 */
void dt_doctor_check_stale(const struct dt_doctor_notes *notes,
                           const char *root, uid_t uid, const char *job);

#endif /* DT_DOCTOR_NODE_H */
