/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_table.c - prints one row per node, then one line per problem */
#include "config.h"

#include <string.h>

#include "doctor/doctor_report.h"

enum {
    NAMES_SHOWN = 8, /* of nodes with a problem; the last line has all names */
};

/* Whether a column is printed only if the nodes differ in it. */
static bool is_alike(enum dt_doctor_column column)
{
    return column == DT_DOCTOR_DRIVER || column >= DT_DOCTOR_DISTTRAIN ||
           column == DT_DOCTOR_INTERFACE;
}

static const char *get_cell(const struct dt_doctor_report *report, size_t node,
                            enum dt_doctor_column column)
{
    const char *text = report->nodes[node].cells[column];
    return text ? text : report->nodes[node].done ? "-" : "?";
}

/* Returns the single value of a column; NULL if there are several. "?" does not
 * count as a value, nor does "-" in a column that should be the same
 * everywhere.
 */
static const char *find_only_value(const struct dt_doctor_report *report,
                                   enum dt_doctor_column column)
{
    const char *value = NULL;
    for (size_t i = 0; i < report->node_count; i++) {
        const char *text = get_cell(report, i, column);
        if (strcmp(text, "?") == 0 ||
            (strcmp(text, "-") == 0 && is_alike(column)))
            continue;
        if (value && strcmp(value, text) != 0)
            return NULL;
        value = text;
    }
    return value ? value : "-";
}

static bool is_shown(const struct dt_doctor_report *report,
                     enum dt_doctor_column column)
{
    const char *value = find_only_value(report, column);
    for (size_t i = 0; i < report->node_count; i++)
        if (report->nodes[i].marked[column])
            return true;
    return !value || (strcmp(value, "-") != 0 && !is_alike(column));
}

static int name_width(const struct dt_doctor_report *report)
{
    size_t width = strlen("node");
    for (size_t i = 0; i < report->node_count; i++)
        if (strlen(report->nodes[i].name) > width)
            width = strlen(report->nodes[i].name);
    return (int)width;
}

static int column_width(const struct dt_doctor_report *report,
                        enum dt_doctor_column column)
{
    size_t width = strlen(dt_doctor_column_name(column));
    for (size_t i = 0; i < report->node_count; i++) {
        size_t len = strlen(get_cell(report, i, column)) +
                     report->nodes[i].marked[column];
        width = len > width ? len : width;
    }
    return (int)width;
}

static void print_rows(const struct dt_doctor_report *report, FILE *out)
{
    static const char *const verdicts[] = {"ok", "warning", "BAD"};
    int width[DT_DOCTOR_COLUMNS];
    int first = name_width(report);
    fprintf(out, "%-*s", first, "node");
    for (int c = 0; c < DT_DOCTOR_COLUMNS; c++) {
        width[c] = is_shown(report, c) ? column_width(report, c) : 0;
        if (width[c] > 0)
            fprintf(out, "  %-*s", width[c], dt_doctor_column_name(c));
    }
    fputs("  result\n", out);
    for (size_t i = 0; i < report->node_count; i++) {
        const struct dt_doctor_node *node = &report->nodes[i];
        fprintf(out, "%-*s", first, node->name);
        for (int c = 0; c < DT_DOCTOR_COLUMNS; c++) {
            const char *text = get_cell(report, i, c);
            int rest = width[c] - (int)strlen(text);
            if (width[c] > 0)
                fprintf(out, "  %s%-*s", text, rest,
                        node->marked[c] ? "!" : "");
        }
        fprintf(out, "  %s\n", verdicts[node->verdict]);
    }
}

static void print_alike(const struct dt_doctor_report *report, FILE *out)
{
    const char *separator = "the same everywhere: ";
    for (int c = 0; c < DT_DOCTOR_COLUMNS; c++) {
        const char *value = find_only_value(report, c);
        if (is_shown(report, c) || !value || strcmp(value, "-") == 0)
            continue;
        fprintf(out, "%s%s %s", separator, dt_doctor_column_name(c), value);
        separator = ", ";
    }
    if (separator[0] == ',')
        fputc('\n', out);
}

static void print_problem(const struct dt_doctor_report *report,
                          const struct dt_doctor_problem *problem, FILE *out)
{
    size_t shown = problem->node_count;
    if (shown > NAMES_SHOWN)
        shown = NAMES_SHOWN;
    for (size_t i = 0; i < shown; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "",
                report->nodes[problem->nodes[i]].name);
    if (shown < problem->node_count)
        fprintf(out, ",... (%zu nodes)", problem->node_count);
    if (problem->verdict == DT_DOCTOR_WARN)
        fputs(": warning", out);
    fprintf(out, "%s %s\n", strncmp(problem->text, "->", 2) == 0 ? "" : ":",
            problem->text);
}

static size_t print_problems(const struct dt_doctor_report *report,
                             enum dt_doctor_verdict verdict, FILE *out)
{
    size_t count = 0;
    for (size_t i = 0; i < report->problem_count; i++) {
        if (report->problems[i].verdict != verdict)
            continue;
        count++;
        print_problem(report, &report->problems[i], out);
    }
    return count;
}

void dt_doctor_report_print(const struct dt_doctor_report *report, bool brief,
                            FILE *out)
{
    size_t bad = dt_doctor_report_count(report, DT_DOCTOR_BAD);
    if (!brief || bad > 0) {
        print_rows(report, out);
        print_alike(report, out);
        print_problems(report, DT_DOCTOR_BAD, out);
    }
    size_t warnings = print_problems(report, DT_DOCTOR_WARN, out);
    if (bad == 0) {
        fprintf(out, "%zu node%s good, %zu warning%s\n", report->node_count,
                report->node_count == 1 ? " is" : "s are", warnings,
                warnings == 1 ? "" : "s");
        return;
    }
    const char *separator = "bad nodes: ";
    for (size_t i = 0; i < report->node_count; i++)
        if (report->nodes[i].verdict == DT_DOCTOR_BAD) {
            fprintf(out, "%s%s", separator, report->nodes[i].name);
            separator = ",";
        }
    fputc('\n', out);
}
