/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - draws conclusions from the notes of all nodes together */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "doctor/doctor_report.h"

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

static void mark_node(struct dt_doctor_node *node, enum dt_doctor_column column,
                      enum dt_doctor_verdict verdict)
{
    node->marked[column] = true;
    if (verdict > node->verdict)
        node->verdict = verdict;
}

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
            dt_doctor_report_add(
                report, (int)i, alike[k].verdict,
                "%s is %s, and %s elsewhere: %s", alike[k].what,
                has_cell(node, column) ? node->cells[column] : "missing",
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

/* If nobody reaches a node, that node is bad and not all the others. So we
 * repeatedly take out the node with the most lost connections. If two nodes
 * have lost only each other, we cannot know which one is bad, so both are.
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
    dt_doctor_report_add(report, number, verdict,
                         "its clock is %.1f s %s the others: see chronyc "
                         "tracking",
                         fabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind");
}

/* Compares the clocks with their median, so that one wrong clock is recognized
 * whichever node has it.
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

/* Gives nodes that have not answered the names that no other node has. */
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
            dt_doctor_report_add(report, (int)i, DT_DOCTOR_BAD,
                                 "no answer: see scontrol show node, and "
                                 "slurmd's log there; if it has no disttrain, "
                                 "install it");
        else
            dt_doctor_report_add(report, (int)i, DT_DOCTOR_BAD,
                                 "its checks stopped at %s: run disttrain "
                                 "doctor on that node",
                                 dt_doctor_column_name(column));
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
