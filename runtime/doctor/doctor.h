/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - finds problems of the nodes of a job, and of its ranks
 *
 * A probe on each node writes notes about it. Their reader compares the notes
 * of all nodes, and prints a table.
 */
#ifndef DT_DOCTOR_DOCTOR_H
#define DT_DOCTOR_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* --- the nodes, and the command that examines them --- */

struct dt_doctor_world {
    char *job;    /* its number; NULL: no job, only this machine */
    char *list;   /* the nodes as Slurm writes them, n[1-4]; NULL: no job */
    char *lost;   /* those that the job has no more, n5,n6; NULL or "": none */
    char *text;   /* owned; names point into it */
    char **names; /* the name of each node */
    size_t count;
};

/* Finds the nodes, by asking Slurm's own programs. `job` is "ID" or "ID.STEP";
 * NULL means the step or job of this process, if any. -1: EX_UNAVAILABLE,
 * EX_OSERR. Release with dt_doctor_world_fini, also after a failure.
 */
int dt_doctor_world_init(struct dt_doctor_world *world, const char *job,
                         struct dt_error *err);
void dt_doctor_world_fini(struct dt_doctor_world *world);

/* The command that starts a probe on each node. argv points into this struct
 * and to list, which must outlive it.
 */
struct dt_doctor_probes {
    char self[PATH_MAX], job[64], nodes[32], tasks[32], step[64];
    char *argv[20]; /* ends with NULL */
};

/* Prepares the probes of `count` nodes of list, in a job (NULL: here). With
 * `step` ("ID.STEP") they examine its ranks, otherwise the nodes. -1: EX_OSERR.
 */
int dt_doctor_probes_init(struct dt_doctor_probes *probes, const char *job,
                          const char *list, size_t count, const char *step,
                          struct dt_error *err);

/* --- the report --- */

enum dt_doctor_column {
    DT_DOCTOR_GPUS,
    DT_DOCTOR_DRIVER,
    DT_DOCTOR_RDMA,
    DT_DOCTOR_LIMITS,
    DT_DOCTOR_SPACE,
    DT_DOCTOR_MEMORY,
    DT_DOCTOR_LOAD,
    DT_DOCTOR_STALE,
    DT_DOCTOR_INTERFACE,
    DT_DOCTOR_PEERS,
    DT_DOCTOR_CLOCK,
    DT_DOCTOR_DISTTRAIN,
    DT_DOCTOR_PMIX,
    DT_DOCTOR_SLURM,
    DT_DOCTOR_COLUMNS,
};

enum dt_doctor_verdict {
    DT_DOCTOR_GOOD,
    DT_DOCTOR_WARN,
    DT_DOCTOR_BAD,
};

struct dt_doctor_node {
    char *name;    /* as it calls itself */
    char *address; /* NULL: no hello yet */
    unsigned port;
    bool done;
    char *cells[DT_DOCTOR_COLUMNS]; /* NULL: not written */
    bool marked[DT_DOCTOR_COLUMNS]; /* the cell has a problem */
    enum dt_doctor_verdict verdict;
    bool has_clock;
    double ahead_s, error_s; /* its clock minus that of the lowest node */
};

/* A text and the nodes to which it applies. */
struct dt_doctor_problem {
    enum dt_doctor_verdict verdict;
    char *text;
    int *nodes; /* ascending */
    size_t node_count;
};

struct dt_doctor_miss {
    int from, to;
};

struct dt_doctor_report {
    struct dt_doctor_node *nodes;
    size_t node_count;
    struct dt_doctor_problem *problems;
    size_t problem_count;
    struct dt_doctor_miss *misses;
    size_t miss_count;
    bool out_of_memory;
};

/* Initializes a report on node_count nodes. -1: EX_OSERR. */
int dt_doctor_report_init(struct dt_doctor_report *report, size_t node_count,
                          struct dt_error *err);
void dt_doctor_report_fini(struct dt_doctor_report *report);

/* Returns the number of nodes that have said hello. */
size_t dt_doctor_report_present(const struct dt_doctor_report *report);

/* Compares the nodes with each other and finds the bad ones, after the last
 * line. `names` has the names of all report->node_count nodes that were asked.
 */
void dt_doctor_report_judge(struct dt_doctor_report *report,
                            char *const *names);

/* Returns the number of nodes with the verdict, once the report is judged. */
size_t dt_doctor_report_count(const struct dt_doctor_report *report,
                              enum dt_doctor_verdict verdict);

/* Prints the table, the problems, and a last line. `brief`: only warnings and
 * the last line if no node is bad.
 */
void dt_doctor_report_print(const struct dt_doctor_report *report, bool brief,
                            FILE *out);

/* --- the examination --- */

/* Examines this node as a probe does, on stdin and stdout. -1: EX_OSERR,
 * EX_PROTOCOL.
 */
int dt_doctor_probe(struct dt_error *err);

/* Starts argv, which runs `count` probes, numbered from 0, and fills the report
 * with their notes. After the first answer, the others get a few seconds. A
 * node that has not answered by then is absent from the report, and no probe
 * has been told to continue: srun passes no input on before all tasks have
 * started. -1: EX_UNAVAILABLE, argv cannot be started.
 */
int dt_doctor_gather(struct dt_doctor_report *report, size_t count,
                     char *const argv[], struct dt_error *err);

/* --- ranks --- */

/* Asks the nodes of `world` for the ranks of `step` ("ID.STEP") and prints
 * their states, one line per state. -1: EX_UNAVAILABLE if no node answers,
 * EX_OSERR.
 */
int dt_doctor_print_ranks(const struct dt_doctor_world *world, const char *step,
                          FILE *out, struct dt_error *err);

/* The probe of dt_doctor_print_ranks: writes a line for each rank of the step
 * on this node to stdout, then "end HOST".
 */
void dt_doctor_ranks_probe(const char *step);

/* --- the plugin --- */

/* Finds out why `srun --help` does not show --disttrain: writes a line for each
 * check of the Slurm on this host, which it finds in the usual places and by
 * asking srun and scontrol, then the verdict. Returns whether the option works
 * here.
 */
bool dt_doctor_plugin(FILE *out);

#endif /* DT_DOCTOR_DOCTOR_H */
