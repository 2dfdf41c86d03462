/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - what can be wrong with one node, one function a check
 *
 * Each writes its cells and its problems into notes. Files are read below
 * `root`, which is "" but in tests; one that is missing is nothing to report.
 */
#ifndef DT_DOCTOR_NODE_H
#define DT_DOCTOR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "doctor/notes.h"

/* Columns gpus and driver. `expected`: the job's GPUs on this node, 0 if Slurm
 * does not say.
 */
void dt_doctor_check_gpus(const struct dt_doctor_notes *notes, const char *root,
                          int expected);

/* Column rdma. Returns the number of ports. */
int dt_doctor_check_rdma(const struct dt_doctor_notes *notes, const char *root);

/* What the soft limits of a process are held against. */
struct dt_doctor_limits {
    rlim_t memlock, nofile, core, stack; /* bytes, but nofile: descriptors */
    bool rdma;                           /* memory will be pinned */
    uint64_t dump_bytes; /* how large a core file may become, 0: no files */
    uint64_t room_bytes; /* free where it would be written */
};

/* Column limits. */
void dt_doctor_check_limits(const struct dt_doctor_notes *notes,
                            const struct dt_doctor_limits *limits);

/* A place for files, and how much of it is left. */
struct dt_doctor_volume {
    const char *path;
    int error; /* errno, 0: the figures are good */
    uint64_t total_bytes, free_bytes;
    uint64_t total_inodes, free_inodes; /* 0 and 0: does not count them */
};

/* Asks the file system at `path`, which is kept, not copied. */
void dt_doctor_volume_read(struct dt_doctor_volume *volume, const char *path);

/* Column space: the smallest of the volumes, of which there is at least one. */
void dt_doctor_check_space(const struct dt_doctor_notes *notes,
                           const struct dt_doctor_volume *volumes,
                           size_t count);

/* Column memory. Returns the bytes of the whole machine, 0: unknown. */
uint64_t dt_doctor_check_memory(const struct dt_doctor_notes *notes,
                                const char *root);

/* Column load, against the number of CPUs. */
void dt_doctor_check_load(const struct dt_doctor_notes *notes, const char *root,
                          long cpus);

/* True if the kernel writes core files, rather than giving them to a program.
 */
bool dt_doctor_dumps_to_file(const char *root);

/* Column stale: what earlier jobs of the user `uid` have left on this node.
 * Processes that hold a GPU, listen on a TCP port or have used more than a
 * twentieth of a CPU since they began, and that belong neither to `job` nor to
 * another job that still runs here, nor to a terminal; files in /dev/shm that
 * no process of the user maps or has open; System V segments without a process.
 * Not judged: root, and processes while `job` is NULL.
 */
void dt_doctor_check_stale(const struct dt_doctor_notes *notes,
                           const char *root, uid_t uid, const char *job);

#endif /* DT_DOCTOR_NODE_H */
