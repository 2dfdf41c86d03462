/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_report.h - collects the notes of all nodes, judges them and prints the
 * table
 */
#ifndef DT_DOCTOR_DOCTOR_REPORT_H
#define DT_DOCTOR_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "doctor/doctor_notes.h"

enum dt_doctor_verdict {
    DT_DOCTOR_GOOD,
    DT_DOCTOR_WARN,
    DT_DOCTOR_BAD,
};

struct dt_doctor_node {
    char *name;    /* its own name for itself */
    char *address; /* NULL: it has not said hello */
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

/* Parses one line of doctor_notes.h, without its end. Ignores any other line.
 */
void dt_doctor_report_line(struct dt_doctor_report *report, char *line);

/* Return how many nodes have said hello, and how many of these are done. */
size_t dt_doctor_report_present(const struct dt_doctor_report *report);
size_t dt_doctor_report_done(const struct dt_doctor_report *report);

/* Call it when no more lines will come: compares the nodes with each other and
 * finds the bad ones. `names` has the names of all report->node_count nodes
 * that were asked.
 */
void dt_doctor_report_judge(struct dt_doctor_report *report,
                            char *const *names);

/* Returns how many nodes have the verdict, once the report is judged. */
size_t dt_doctor_report_count(const struct dt_doctor_report *report,
                              enum dt_doctor_verdict verdict);

/* Prints the table, the problems, and a last line. `brief`: only warnings and
 * the last line if no node is bad.
 */
void dt_doctor_report_print(const struct dt_doctor_report *report, bool brief,
                            FILE *out);

/* Adds a problem of one node; nodes with the same text share one problem. */
void dt_doctor_report_add(struct dt_doctor_report *report, int node,
                          enum dt_doctor_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif /* DT_DOCTOR_DOCTOR_REPORT_H */
