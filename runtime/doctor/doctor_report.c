/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_report.c - writes notes of nodes, collects and judges them, and prints
 * them as a table
 */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "base/str.h"
#include "doctor/doctor_impl.h"

/* --- writing --- */

/* Names of columns, in notes and in the header of the table. */
static const char *const column_names[DT_DOCTOR_COLUMNS] = {
    [DT_DOCTOR_GPUS] = "gpus",           [DT_DOCTOR_DRIVER] = "driver",
    [DT_DOCTOR_RDMA] = "rdma",           [DT_DOCTOR_LIMITS] = "limits",
    [DT_DOCTOR_SPACE] = "space",         [DT_DOCTOR_MEMORY] = "memory",
    [DT_DOCTOR_LOAD] = "load",           [DT_DOCTOR_STALE] = "stale",
    [DT_DOCTOR_INTERFACE] = "interface", [DT_DOCTOR_PEERS] = "peers",
    [DT_DOCTOR_CLOCK] = "clock",         [DT_DOCTOR_DISTTRAIN] = "disttrain",
    [DT_DOCTOR_PMIX] = "pmix",           [DT_DOCTOR_SLURM] = "slurm",
};

static void write_line(const struct dt_doctor_notes *notes, const char *kind,
                       enum dt_doctor_column column, const char *fmt,
                       va_list ap)
{
    char text[DT_DOCTOR_LINE_BYTES];
    vsnprintf(text, sizeof(text), fmt, ap);
    dt_str_hide_controls(text);
    fprintf(notes->file, "%d %s %s %s\n", notes->node, kind,
            column_names[column], text);
    fflush(notes->file);
}

void dt_doctor_cell(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "cell", column, fmt, ap);
    va_end(ap);
}

void dt_doctor_warn(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "warn", column, fmt, ap);
    va_end(ap);
}

void dt_doctor_bad(const struct dt_doctor_notes *notes,
                   enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "bad", column, fmt, ap);
    va_end(ap);
}

/* --- collecting --- */

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

/* Adds a problem of one node; nodes with the same text share one problem. */
__attribute__((format(printf, 4, 5))) static void add_problem(
    struct dt_doctor_report *report, int node, enum dt_doctor_verdict verdict,
    const char *fmt, ...)
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
           strcmp(column_names[column], name) != 0)
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

static void mark_node(struct dt_doctor_node *node, enum dt_doctor_column column,
                      enum dt_doctor_verdict verdict)
{
    node->marked[column] = true;
    if (verdict > node->verdict)
        node->verdict = verdict;
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
    mark_node(node, column, verdict);
    add_problem(report, number, verdict, "%s", rest);
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
    add_problem(report, from, DT_DOCTOR_BAD, "-> %s:%s",
                report->nodes[to].name ? report->nodes[to].name : "?", reason);
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

/* --- judging --- */

/* Columns that should be the same on all nodes. */
static const struct {
    enum dt_doctor_column column;
    enum dt_doctor_verdict verdict; /* for the nodes that differ */
    const char *what;
    const char *to_do;
} alike[] = {
    {DT_DOCTOR_DRIVER, DT_DOCTOR_BAD, "the NVIDIA driver",
     "install one release everywhere"},
    {DT_DOCTOR_RDMA, DT_DOCTOR_BAD, "the number of active RDMA ports",
     "see ibstat"},
    {DT_DOCTOR_INTERFACE, DT_DOCTOR_WARN, "the interface",
     "no NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME fits all nodes"},
    {DT_DOCTOR_DISTTRAIN, DT_DOCTOR_BAD, "disttrain",
     "install one build everywhere"},
    {DT_DOCTOR_PMIX, DT_DOCTOR_WARN, "PMIx", "install one release everywhere"},
    {DT_DOCTOR_SLURM, DT_DOCTOR_WARN, "Slurm", "finish the upgrade"},
};

static bool has_cell(const struct dt_doctor_node *node,
                     enum dt_doctor_column column)
{
    return node->cells[column] && strcmp(node->cells[column], "-") != 0;
}

/* Returns the cell that most nodes have in this column; on a tie, the first. */
static const char *most_common_cell(const struct dt_doctor_report *report,
                                    enum dt_doctor_column column)
{
    const char *best = NULL;
    size_t best_count = 0;
    for (size_t i = 0; i < report->node_count; i++) {
        size_t count = 0;
        if (!has_cell(&report->nodes[i], column))
            continue;
        for (size_t j = 0; j < report->node_count; j++)
            count += has_cell(&report->nodes[j], column) &&
                     strcmp(report->nodes[i].cells[column],
                            report->nodes[j].cells[column]) == 0;
        if (count > best_count) {
            best = report->nodes[i].cells[column];
            best_count = count;
        }
        if (best_count > report->node_count / 2)
            break;
    }
    return best;
}

static void judge_alike(struct dt_doctor_report *report)
{
    for (size_t k = 0; k < sizeof(alike) / sizeof(*alike); k++) {
        enum dt_doctor_column column = alike[k].column;
        const char *common = most_common_cell(report, column);
        for (size_t i = 0; common && i < report->node_count; i++) {
            struct dt_doctor_node *node = &report->nodes[i];
            if (!node->cells[column] ||
                strcmp(node->cells[column], common) == 0 ||
                (column != DT_DOCTOR_RDMA && !has_cell(node, column)))
                continue;
            mark_node(node, column, alike[k].verdict);
            add_problem(report, (int)i, alike[k].verdict,
                        "%s is %s, and %s elsewhere: %s", alike[k].what,
                        has_cell(node, column) ? node->cells[column]
                                               : "missing",
                        common, alike[k].to_do);
        }
    }
}

/* The lost connections of one node with nodes that are not excused. */
struct loss {
    size_t count; /* connections from it and to it */
    int peer;     /* the other node, NOBODY or MANY */
    bool excused;
};

enum {
    NOBODY = -1,
    MANY = -2,
};

static void add_loss(struct loss *loss, int peer)
{
    loss->count++;
    loss->peer = loss->peer == NOBODY || loss->peer == peer ? peer : MANY;
}

static size_t count_losses(const struct dt_doctor_report *report,
                           struct loss *losses)
{
    size_t worst = 0;
    for (size_t i = 0; i < report->node_count; i++)
        losses[i] = (struct loss){0, NOBODY, losses[i].excused};
    for (size_t i = 0; i < report->miss_count; i++) {
        struct dt_doctor_miss m = report->misses[i];
        if (losses[m.from].excused || losses[m.to].excused)
            continue;
        add_loss(&losses[m.from], m.to);
        add_loss(&losses[m.to], m.from);
    }
    for (size_t i = 1; i < report->node_count; i++)
        if (losses[i].count > losses[worst].count)
            worst = i;
    return worst;
}

/* If nobody reaches a node, that node is bad, and not all the others. So we
 * repeatedly excuse the node with the most lost connections. If two nodes have
 * lost only each other, both count as bad.
 */
static void judge_misses(struct dt_doctor_report *report)
{
    struct loss *losses = calloc(report->node_count, sizeof(*losses));
    report->out_of_memory |= !losses;
    while (losses) {
        size_t worst = count_losses(report, losses);
        int peer = losses[worst].peer;
        if (losses[worst].count == 0)
            break;
        if (peer >= 0 && losses[peer].peer == (int)worst) {
            losses[peer].excused = true;
            mark_node(&report->nodes[peer], DT_DOCTOR_PEERS, DT_DOCTOR_BAD);
        }
        losses[worst].excused = true;
        mark_node(&report->nodes[worst], DT_DOCTOR_PEERS, DT_DOCTOR_BAD);
    }
    free(losses);
}

static void judge_clock(struct dt_doctor_report *report, int number,
                        double median_s)
{
    struct dt_doctor_node *node = &report->nodes[number];
    double ahead_s = node->ahead_s - median_s;
    double sure_s = fabs(ahead_s) - node->error_s;
    char text[32];
    snprintf(text, sizeof(text), "%+.1f ms", ahead_s * 1e3);
    free(node->cells[DT_DOCTOR_CLOCK]);
    node->cells[DT_DOCTOR_CLOCK] = strdup(text);
    enum dt_doctor_verdict verdict = sure_s > 1     ? DT_DOCTOR_BAD
                                     : sure_s > 0.1 ? DT_DOCTOR_WARN
                                                    : DT_DOCTOR_GOOD;
    if (verdict == DT_DOCTOR_GOOD)
        return;
    mark_node(node, DT_DOCTOR_CLOCK, verdict);
    add_problem(report, number, verdict,
                "its clock is %.1f s %s the others: see chronyc "
                "tracking",
                fabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind");
}

/* Compares the clocks with their median, so that one wrong clock is recognized
 * on any node.
 */
static void judge_clocks(struct dt_doctor_report *report)
{
    double *ahead_s = calloc(report->node_count, sizeof(*ahead_s));
    size_t count = 0;
    report->out_of_memory |= !ahead_s;
    for (size_t i = 0; ahead_s && i < report->node_count; i++)
        if (report->nodes[i].has_clock)
            ahead_s[count++] = report->nodes[i].ahead_s;
    if (count > 1) {
        const double median_s = dt_median(ahead_s, count);
        for (size_t i = 0; i < report->node_count; i++)
            if (report->nodes[i].has_clock)
                judge_clock(report, (int)i, median_s);
    }
    free(ahead_s);
}

static bool has_name(const struct dt_doctor_report *report, const char *name)
{
    for (size_t i = 0; i < report->node_count; i++)
        if (report->nodes[i].name && strcmp(report->nodes[i].name, name) == 0)
            return true;
    return false;
}

/* Gives the names that no other node has to nodes that have not answered. */
static void name_absent(struct dt_doctor_report *report, char *const *names)
{
    size_t next = 0;
    for (size_t i = 0; i < report->node_count; i++) {
        if (report->nodes[i].name)
            continue;
        while (next < report->node_count && has_name(report, names[next]))
            next++;
        const char *name = next < report->node_count ? names[next] : "?";
        report->nodes[i].name = strdup(name);
        report->out_of_memory |= !report->nodes[i].name;
    }
}

static void judge_absent(struct dt_doctor_report *report)
{
    for (size_t i = 0; i < report->node_count; i++) {
        struct dt_doctor_node *node = &report->nodes[i];
        int column = 0;
        if (node->done)
            continue;
        node->verdict = DT_DOCTOR_BAD;
        while (column < DT_DOCTOR_PEERS && node->cells[column])
            column++;
        if (!node->address)
            add_problem(report, (int)i, DT_DOCTOR_BAD,
                        "no answer: see scontrol show node, and "
                        "slurmd's log there; if it has no disttrain, "
                        "install it");
        else
            add_problem(report, (int)i, DT_DOCTOR_BAD,
                        "its checks stopped at %s: run disttrain "
                        "doctor on that node",
                        column_names[column]);
    }
}

void dt_doctor_report_judge(struct dt_doctor_report *report, char *const *names)
{
    name_absent(report, names);
    judge_absent(report);
    judge_alike(report);
    judge_misses(report);
    judge_clocks(report);
}

/* --- printing --- */

enum {
    NAMES_SHOWN = 8, /* of nodes with a problem; the last line has all names */
};

/* Whether to print a column only if the nodes differ in it. */
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

/* Returns the only value of a column; NULL if there are several. "?" does not
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
    size_t width = strlen(column_names[column]);
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
            fprintf(out, "  %-*s", width[c], column_names[c]);
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
        fprintf(out, "%s%s %s", separator, column_names[c], value);
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
