/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_impl.h - checks of a node, its notes and peers, ranks, the plugin */
#ifndef DT_DOCTOR_DOCTOR_IMPL_H
#define DT_DOCTOR_DOCTOR_IMPL_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/net.h"
#include "doctor/doctor.h"

/* --- facts about a node, one per line ---
 *
 *     NODE hello NAME ADDRESS PORT    the probe runs and listens there
 *     NODE cell COLUMN TEXT           one cell of the table
 *     NODE warn COLUMN TEXT           a problem, and its remedy
 *     NODE bad COLUMN TEXT            a problem that makes the node unfit
 *     NODE miss PEER REASON           the node PEER could not be reached
 *     NODE clock AHEAD ERROR          seconds ahead of the lowest node
 *     NODE end                        all checks are done
 *
 * NODE and PEER are numbers. Lines are shorter than the 1024 bytes that srun
 * passes on in one piece.
 */

/* The destination of the notes of a node. */
struct dt_doctor_notes {
    FILE *file;
    int node;
};

/* Each function writes one line, truncated to DT_DOCTOR_LINE_BYTES; control
 * characters become "?".
 */
void dt_doctor_cell(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dt_doctor_warn(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dt_doctor_bad(const struct dt_doctor_notes *notes,
                   enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum {
    DT_DOCTOR_LINE_BYTES = 900,
};

/* Parses one line of notes, without its end. Ignores any other line. */
void dt_doctor_report_line(struct dt_doctor_report *report, char *line);

/* Returns the number of nodes that are done. */
size_t dt_doctor_report_done(const struct dt_doctor_report *report);

/* --- small files and directories of the kernel below a root --- */

/* Opens root + formatted path for reading; NULL if that fails. The caller
 * closes it.
 */
FILE *dt_doctor_open(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
DIR *dt_doctor_opendir(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the first line of a file, without its end, into line[size]. False if
 * there is no such file or it is empty.
 */
bool dt_doctor_read_line(char *line, size_t size, const char *root,
                         const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* --- the address and the interface of a node --- */

/* Finds the name of the interface with this address. False: none here has it.
 */
bool dt_doctor_interface(const union dt_net_address *address, char *name,
                         size_t size);

/* Resolves the host `name`; prefers IPv4, and the address with the largest
 * reach. False, with the reason in *why, if there is no address within the
 * time.
 */
bool dt_doctor_resolve(const char *name, int timeout_ms,
                       union dt_net_address *address, const char **why);

/* Finds the address by which the other nodes will look for this one: that of
 * `name`, its own name. If that cannot be right (a problem in the column
 * interface), uses the source address towards the host `launcher` (numeric, or
 * NULL), or else loopback.
 */
void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_NET_ADDRESS_BYTES]);

/* --- connections from every node to every other one over TCP, and clocks ---
 *
 * Each node listens on a port that the kernel chooses. An exchange is 16 bytes
 * in each direction, with the number of the node and its clock.
 */

struct dt_doctor_pairs;

/* Listens for the node with this number; destroy with dt_doctor_pairs_destroy.
 * NULL: EX_OSERR.
 */
struct dt_doctor_pairs *dt_doctor_pairs_create(int node, struct dt_error *err);
void dt_doctor_pairs_destroy(struct dt_doctor_pairs *pairs); /* NULL is fine */

/* Returns the port on which it listens. */
unsigned dt_doctor_pairs_port(const struct dt_doctor_pairs *pairs);

/* Adds a node at a numeric address; the node itself is ignored. -1: EX_OSERR or
 * EX_PROTOCOL.
 */
int dt_doctor_pairs_add(struct dt_doctor_pairs *pairs, int node,
                        const char *address, unsigned port,
                        struct dt_error *err);

/* Connects to all nodes at the same time and meanwhile answers their
 * connections. Writes a line for each node that it has not reached in time, one
 * about the clock of the lowest node, and the columns interface and peers.
 */
void dt_doctor_pairs_probe(struct dt_doctor_pairs *pairs, int timeout_ms,
                           const struct dt_doctor_notes *notes);

/* Continues to answer until fd is readable, for example at its end. */
void dt_doctor_pairs_serve(struct dt_doctor_pairs *pairs, int fd);

/* --- the checks of one node, one function per check ---
 *
 * Each function writes its cells and problems into notes. Files are read below
 * `root`, which is "" except in tests; a missing file is not a problem.
 */

/* Columns gpus and driver. `expected` is the number of the job's GPUs on this
 * node, 0 if Slurm does not say.
 */
void dt_doctor_check_gpus(const struct dt_doctor_notes *notes, const char *root,
                          int expected);

/* Column rdma. Returns the number of ports. */
int dt_doctor_check_rdma(const struct dt_doctor_notes *notes, const char *root);

/* The soft limits of a process, and facts to compare them with. */
struct dt_doctor_limits {
    rlim_t memlock, nofile, core, stack; /* bytes; nofile: descriptors */
    bool rdma;                           /* memory will be pinned */
    uint64_t dump_bytes; /* largest possible core file; 0: none is written */
    uint64_t room_bytes; /* free space for it */
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

/* Reads the file system at `path`; keeps the pointer. */
void dt_doctor_volume_read(struct dt_doctor_volume *volume, const char *path);

/* Column space: the least free space of the volumes, at least one. */
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

/* Column stale: remains of earlier jobs of the user `uid` on this node. These
 * are processes that hold a GPU, listen on a TCP port or have used more than a
 * twentieth of a CPU since they started, unless they belong to `job`, to
 * another job that still runs here, or to a terminal; files in /dev/shm that no
 * process of the user has mapped or open; System V segments without a process.
 * Root is not judged, nor are processes if `job` is NULL.
 */
void dt_doctor_check_stale(const struct dt_doctor_notes *notes,
                           const char *root, uid_t uid, const char *job);

/* --- the activity of the ranks of a step on this node --- */

/* A snapshot of the processes of a step. Initialize to zero. */
struct dt_doctor_ranks {
    struct dt_doctor_process *list;
    size_t count, size;
    uint32_t tasks; /* of the step; 0: it has no process here */
};

/* Reads from root/proc the processes of `uid` whose environment is that of a
 * task of `step` ("ID.STEP"). Skips unreadable processes, and keepers, whose
 * workers alone have ranks. Release with dt_doctor_ranks_fini.
 */
void dt_doctor_ranks_look(struct dt_doctor_ranks *ranks, const char *root,
                          uid_t uid, const char *step);
void dt_doctor_ranks_fini(struct dt_doctor_ranks *ranks);

/* Writes a line for each rank, for dt_rank_states_print, from two snapshots
 * that are `seconds` apart.
 */
void dt_doctor_ranks_print(const struct dt_doctor_ranks *before,
                           const struct dt_doctor_ranks *now, double seconds,
                           const char *root, const char *host, FILE *out);

/* Prints the answer `text` of the probes of nodes[0..count), and modifies it:
 *
 *     rank RANK TASKS PID PERCENT HOST <tab> STATE <tab> COMMAND
 *     end HOST
 *
 * Ranks with the same state share a line. Nodes that have not answered come
 * first, then ranks that are missing, have ended, are stopped, or hang in the
 * kernel (state D): none of these can continue. Of the others, small groups
 * come first, because the odd one out is usually the cause for which the rest
 * wait. -1: EX_OSERR.
 */
int dt_rank_states_print(char *text, char *const *nodes, size_t count,
                         FILE *out, struct dt_error *err);

/* --- the plugin --- */

/* Facts about the Slurm on this host. */
struct dt_doctor_slurm {
    const char *conf;       /* slurm.conf; NULL: not found */
    const char *plugin_dir; /* directories separated by ":"; NULL: unknown */
    const char *version;    /* "22.05.8"; NULL: unknown */
    bool helps;             /* `srun --help` works */
    bool shows;             /* and lists --disttrain */
};

/* Writes a line for each check, then the verdict. Returns whether the option
 * works here.
 */
bool dt_doctor_check_plugin(const struct dt_doctor_slurm *slurm, FILE *out);

#endif /* DT_DOCTOR_DOCTOR_IMPL_H */
