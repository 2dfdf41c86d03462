/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the notes of all nodes, what follows from them, and the table
 */
#ifndef DT_DOCTOR_REPORT_H
#define DT_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "doctor/notes.h"

enum dt_doctor_verdict {
    DT_DOCTOR_GOOD,
    DT_DOCTOR_WARN,
    DT_DOCTOR_BAD,
};

struct dt_doctor_node {
    char *name;    /* as it calls itself */
    char *address; /* NULL: it has not said hello */
    unsigned port;
    bool done;
    char *cells[DT_DOCTOR_COLUMNS]; /* NULL: not written */
    bool marked[DT_DOCTOR_COLUMNS]; /* the cell has a problem */
    enum dt_doctor_verdict verdict;
    bool has_clock;
    double ahead_s, error_s; /* the clock, against that of the lowest node */
};

/* One text, and the nodes that it is about. */
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

/* For a known number of nodes. -1: EX_OSERR. */
int dt_doctor_report_init(struct dt_doctor_report *report, size_t node_count,
                          struct dt_error *err);
void dt_doctor_report_fini(struct dt_doctor_report *report);

/* Takes one line of notes.h, without its end. Other lines are ignored. */
void dt_doctor_report_line(struct dt_doctor_report *report, char *line);

/* How many nodes have said hello, and how many of them are done. */
size_t dt_doctor_report_present(const struct dt_doctor_report *report);
size_t dt_doctor_report_done(const struct dt_doctor_report *report);

/* Once no more lines come: compares the nodes with each other, and finds the
 * bad ones. `names` are those of all nodes that were asked, report->node_count
 * of them.
 */
void dt_doctor_report_judge(struct dt_doctor_report *report,
                            char *const *names);

/* After the judgement: how many nodes have it. */
size_t dt_doctor_report_count(const struct dt_doctor_report *report,
                              enum dt_doctor_verdict verdict);

/* The table, the problems, and the last line. `brief`: only the last line, if
 * no node is bad.
 */
void dt_doctor_report_print(const struct dt_doctor_report *report, bool brief,
                            FILE *out);

/* Adds a problem of one node; the same text of several nodes becomes one. */
void dt_doctor_report_add(struct dt_doctor_report *report, int node,
                          enum dt_doctor_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif /* DT_DOCTOR_REPORT_H */
