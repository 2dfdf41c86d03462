/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_report.c - collects the notes of all nodes, line by line */
#include "config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor_report.h"

int dt_doctor_report_init(struct dt_doctor_report *report, size_t node_count,
                          struct dt_error *err)
{
    *report = (struct dt_doctor_report){.node_count = node_count};
    report->nodes = calloc(node_count, sizeof(*report->nodes));
    return report->nodes ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

void dt_doctor_report_fini(struct dt_doctor_report *report)
{
    for (size_t i = 0; report->nodes && i < report->node_count; i++) {
        free(report->nodes[i].name);
        free(report->nodes[i].address);
        for (int c = 0; c < DT_DOCTOR_COLUMNS; c++)
            free(report->nodes[i].cells[c]);
    }
    for (size_t i = 0; i < report->problem_count; i++) {
        free(report->problems[i].text);
        free(report->problems[i].nodes);
    }
    free(report->nodes);
    free(report->problems);
    free(report->misses);
    *report = (struct dt_doctor_report){0};
}

/* Returns the problem with this text; adds it if there is none. NULL: out of
 * memory.
 */
static struct dt_doctor_problem *find_problem(struct dt_doctor_report *report,
                                              enum dt_doctor_verdict verdict,
                                              const char *text)
{
    for (size_t i = 0; i < report->problem_count; i++)
        if (report->problems[i].verdict == verdict &&
            strcmp(report->problems[i].text, text) == 0)
            return &report->problems[i];
    struct dt_doctor_problem *problems = realloc(
        report->problems, (report->problem_count + 1) * sizeof(*problems));
    char *copy = problems ? strdup(text) : NULL;
    if (problems)
        report->problems = problems;
    if (!copy)
        return NULL;
    problems[report->problem_count] =
        (struct dt_doctor_problem){.verdict = verdict, .text = copy};
    return &problems[report->problem_count++];
}

void dt_doctor_report_add(struct dt_doctor_report *report, int node,
                          enum dt_doctor_verdict verdict, const char *fmt, ...)
{
    char text[DT_DOCTOR_LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    struct dt_doctor_problem *problem = find_problem(report, verdict, text);
    int *nodes = problem ? realloc(problem->nodes,
                                   (problem->node_count + 1) * sizeof(*nodes))
                         : NULL;
    if (!nodes) {
        report->out_of_memory = true;
        return;
    }
    size_t at = problem->node_count++;
    for (; at > 0 && nodes[at - 1] > node; at--)
        nodes[at] = nodes[at - 1];
    nodes[at] = node;
    problem->nodes = nodes;
}

static void set_string(struct dt_doctor_report *report, char **to,
                       const char *text)
{
    char *copy = strdup(text);
    report->out_of_memory |= !copy;
    free(*to);
    *to = copy;
}

static int find_column(const char *name)
{
    int column = 0;
    while (column < DT_DOCTOR_COLUMNS &&
           strcmp(dt_doctor_column_name(column), name) != 0)
        column++;
    return column;
}

static void parse_hello(struct dt_doctor_report *report,
                        struct dt_doctor_node *node, char *rest)
{
    char *name = strsep(&rest, " ");
    char *address = strsep(&rest, " ");
    if (!address || !rest)
        return;
    set_string(report, &node->name, name);
    set_string(report, &node->address, address);
    node->port = (unsigned)strtoul(rest, NULL, 10);
}

/* Parses "COLUMN TEXT" of a cell or a problem. */
static void parse_column(struct dt_doctor_report *report, int number,
                         const char *kind, char *rest)
{
    struct dt_doctor_node *node = &report->nodes[number];
    char *name = strsep(&rest, " ");
    int column = find_column(name);
    if (!rest || column == DT_DOCTOR_COLUMNS)
        return;
    if (strcmp(kind, "cell") == 0) {
        set_string(report, &node->cells[column], rest);
        return;
    }
    enum dt_doctor_verdict verdict =
        strcmp(kind, "bad") == 0 ? DT_DOCTOR_BAD : DT_DOCTOR_WARN;
    node->marked[column] = true;
    if (verdict > node->verdict)
        node->verdict = verdict;
    dt_doctor_report_add(report, number, verdict, "%s", rest);
}

static void parse_miss(struct dt_doctor_report *report, int from, char *rest)
{
    char *reason;
    long to = strtol(rest, &reason, 10);
    if (*reason != ' ' || to < 0 || (size_t)to >= report->node_count)
        return;
    struct dt_doctor_miss *misses =
        realloc(report->misses, (report->miss_count + 1) * sizeof(*misses));
    if (!misses) {
        report->out_of_memory = true;
        return;
    }
    misses[report->miss_count++] = (struct dt_doctor_miss){from, (int)to};
    report->misses = misses;
    report->nodes[from].marked[DT_DOCTOR_PEERS] = true;
    dt_doctor_report_add(report, from, DT_DOCTOR_BAD, "-> %s:%s",
                         report->nodes[to].name ? report->nodes[to].name : "?",
                         reason);
}

void dt_doctor_report_line(struct dt_doctor_report *report, char *line)
{
    char *rest = NULL;
    long number = strtol(line, &rest, 10);
    if (rest == line || *rest != ' ' || number < 0 ||
        (size_t)number >= report->node_count)
        return;
    rest++;
    struct dt_doctor_node *node = &report->nodes[number];
    char *kind = strsep(&rest, " ");
    if (strcmp(kind, "end") == 0)
        node->done = node->address != NULL;
    if (!rest)
        return;
    if (strcmp(kind, "hello") == 0)
        parse_hello(report, node, rest);
    else if (strcmp(kind, "cell") == 0 || strcmp(kind, "warn") == 0 ||
             strcmp(kind, "bad") == 0)
        parse_column(report, (int)number, kind, rest);
    else if (strcmp(kind, "miss") == 0)
        parse_miss(report, (int)number, rest);
    else if (strcmp(kind, "clock") == 0)
        node->has_clock =
            sscanf(rest, "%lf %lf", &node->ahead_s, &node->error_s) == 2;
}

size_t dt_doctor_report_present(const struct dt_doctor_report *report)
{
    size_t count = 0;
    for (size_t i = 0; i < report->node_count; i++)
        count += report->nodes[i].address != NULL;
    return count;
}

size_t dt_doctor_report_done(const struct dt_doctor_report *report)
{
    size_t count = 0;
    for (size_t i = 0; i < report->node_count; i++)
        count += report->nodes[i].done;
    return count;
}

size_t dt_doctor_report_count(const struct dt_doctor_report *report,
                              enum dt_doctor_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < report->node_count; i++)
        count += report->nodes[i].verdict == verdict;
    return count;
}
