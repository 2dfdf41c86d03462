/* SPDX-License-Identifier: Apache-2.0 */
/* rank_states.c - asks for and prints the states of a step's ranks, one line
 * per state */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/rankset.h"
#include "doctor/rank_states.h"

enum {
    ASK_MS = 20000,
    TEXT_BYTES = 16 * 1024 * 1024,
    KINDS_SHOWN = 16,
    HOSTS_SHOWN = 8,
};

struct rank {
    uint32_t rank;
    int pid, cpu;
    const char *host, *state, *command;
};

/* Ranks that are in the same state. */
struct kind {
    const struct rank *ranks;
    size_t count;
};

struct states {
    struct rank *ranks;
    size_t count;
    uint32_t tasks; /* 0: unknown */
    char *const *nodes;
    size_t node_count;
    bool *heard; /* whether each node has answered */
    size_t silent;
};

static void parse_rank(struct states *states, char *line)
{
    struct rank *r = &states->ranks[states->count];
    int used = 0;
    char *rest = line;
    char *host = strsep(&rest, "\t");
    if (sscanf(host, "rank %" SCNu32 " %" SCNu32 " %d %d %n", &r->rank,
               &states->tasks, &r->pid, &r->cpu, &used) != 4 ||
        used == 0)
        return;
    r->host = host + used;
    r->state = strsep(&rest, "\t");
    r->command = rest;
    if (r->command)
        states->count++;
}

static void parse_line(struct states *states, char *line)
{
    if (strncmp(line, "rank ", 5) == 0)
        parse_rank(states, line);
    for (size_t i = 0; strncmp(line, "end ", 4) == 0 && i < states->node_count;
         i++)
        if (!states->heard[i] && strcmp(states->nodes[i], line + 4) == 0) {
            states->heard[i] = true;
            states->silent--;
        }
}

static int by_state(const void *a, const void *b)
{
    const struct rank *p = a;
    const struct rank *q = b;
    int order = strcmp(p->state, q->state);
    if (order != 0)
        return order;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

/* Ranks that cannot continue by themselves come before those that may only be
 * waiting for them: the lower the number, the earlier.
 */
static int get_severity(const struct kind *kind)
{
    const char *state = kind->ranks->state;
    if (strncmp(state, "has ended", 9) == 0)
        return 0;
    if (strncmp(state, "stopped", 7) == 0)
        return 1;
    return strstr(state, "(state D)") ? 2 : 3;
}

/* On a tie in count, ranks that are computing come last: they are the least
 * likely cause.
 */
static int by_suspicion(const void *a, const void *b)
{
    const struct kind *p = a;
    const struct kind *q = b;
    if (get_severity(p) != get_severity(q))
        return get_severity(p) - get_severity(q);
    if (p->count != q->count)
        return p->count < q->count ? -1 : 1;
    int busy = (strncmp(p->ranks->state, "busy", 4) == 0) -
               (strncmp(q->ranks->state, "busy", 4) == 0);
    return busy != 0 ? busy : strcmp(q->ranks->state, p->ranks->state);
}

static void print_hosts(const struct kind *kind, FILE *out)
{
    const char *before = " on ";
    int shown = 0;
    for (size_t i = 0; i < kind->count; i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++)
            known = strcmp(kind->ranks[k].host, kind->ranks[i].host) == 0;
        if (known)
            continue;
        if (shown++ == HOSTS_SHOWN) {
            fputs(", ...", out);
            return;
        }
        fprintf(out, "%s%s", before, kind->ranks[i].host);
        before = ", ";
    }
}

static int print_kind(const struct kind *kind, uint32_t tasks, FILE *out,
                      struct dt_error *err)
{
    const struct rank *first = kind->ranks;
    int low = first->cpu;
    int high = first->cpu;
    bool same = true;
    struct dt_rankset set;
    if (dt_rankset_init(&set, tasks, err) != 0)
        return -1;
    for (size_t i = 0; i < kind->count; i++) {
        const struct rank *r = &first[i];
        low = r->cpu < low ? r->cpu : low;
        high = r->cpu > high ? r->cpu : high;
        same = same && strcmp(r->command, first->command) == 0;
        dt_rankset_add(&set, r->rank);
    }
    dt_rankset_print(&set, out);
    dt_rankset_fini(&set);
    print_hosts(kind, out);
    fprintf(out, ": %s, %d", first->state, low);
    if (high > low)
        fprintf(out, "-%d", high);
    fprintf(out, " %% of a CPU: %s%s", first->command, same ? "" : " ...");
    if (kind->count == 1)
        fprintf(out, " (pid %d)", first->pid);
    fputc('\n', out);
    return 0;
}

/* Finds the ranks that no probe has reported. -1: EX_OSERR. */
static int find_missing(const struct states *states, struct dt_rankset *set,
                        struct dt_error *err)
{
    if (dt_rankset_init(set, states->tasks, err) != 0)
        return -1;
    for (uint32_t rank = 0; rank < states->tasks; rank++)
        dt_rankset_add(set, rank);
    for (size_t i = 0; i < states->count; i++) {
        uint32_t rank = states->ranks[i].rank;
        if (rank < set->size && set->has[rank]) {
            set->has[rank] = false;
            set->count--;
        }
    }
    return 0;
}

/* We cannot know whether the ranks of a node that does not answer still run. */
static void print_missing(const struct states *states,
                          const struct dt_rankset *missing, FILE *out)
{
    dt_rankset_print(missing, out);
    fputs(states->silent > 0 ? ": unknown, or no longer running\n"
                             : ": no longer running\n",
          out);
}

static int print_kinds(struct states *states, FILE *out, struct dt_error *err)
{
    struct kind *kinds = calloc(states->count + 1, sizeof(*kinds));
    size_t count = 0;
    int rc = 0;
    if (!kinds)
        return dt_error_set(err, EX_OSERR, "out of memory");
    qsort(states->ranks, states->count, sizeof(*states->ranks), by_state);
    for (size_t i = 0; i < states->count; i++) {
        const struct rank *r = &states->ranks[i];
        if (i == 0 || strcmp(r->state, r[-1].state) != 0)
            kinds[count++].ranks = r;
        kinds[count - 1].count++;
    }
    qsort(kinds, count, sizeof(*kinds), by_suspicion);
    for (size_t i = 0; i < count && i < KINDS_SHOWN && rc == 0; i++)
        rc = print_kind(&kinds[i], states->tasks, out, err);
    if (count > KINDS_SHOWN)
        fprintf(out, "and %zu more groups\n", count - KINDS_SHOWN);
    free(kinds);
    return rc;
}

static int print_states(struct states *states, FILE *out, struct dt_error *err)
{
    struct dt_rankset missing;
    if (find_missing(states, &missing, err) != 0)
        return -1;
    for (size_t i = 0; i < states->node_count; i++)
        if (!states->heard[i])
            fprintf(out, "node %s does not answer\n", states->nodes[i]);
    if (missing.count > 0)
        print_missing(states, &missing, out);
    int rc = print_kinds(states, out, err);
    if (states->count == 0)
        fputs("no rank is running\n", out);
    dt_rankset_fini(&missing);
    return rc;
}

int dt_rank_states_print(char *text, char *const *nodes, size_t count,
                         FILE *out, struct dt_error *err)
{
    struct states states = {
        .nodes = nodes, .node_count = count, .silent = count};
    size_t lines = 1;
    int rc;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    states.ranks = calloc(lines, sizeof(*states.ranks));
    states.heard = calloc(count + 1, sizeof(*states.heard));
    if (!states.ranks || !states.heard) {
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    } else {
        for (char *line; (line = strsep(&text, "\n")) != NULL;)
            parse_line(&states, line);
        rc = print_states(&states, out, err);
    }
    free(states.ranks);
    free(states.heard);
    return rc;
}

/* Starts a probe on each node. Fails only if no node answers; the report names
 * single nodes that do not.
 */
static int ask_nodes(const struct dt_doctor_world *world, const char *step,
                     char *text, struct dt_error *err)
{
    struct dt_doctor_probes probes;
    if (dt_doctor_probes_init(&probes, world->job, world->list, world->count,
                              step, err) < 0)
        return -1;
    int status = dt_child_ask(probes.argv, ASK_MS, text, TEXT_BYTES, err);
    if (strstr(text, "end "))
        return 0;
    if (status >= 0)
        dt_error_set(err, EX_UNAVAILABLE, "srun: exit status %d", status);
    dt_error_prefix(err, "no node answers");
    return -1;
}

int dt_doctor_print_ranks(const struct dt_doctor_world *world, const char *step,
                          FILE *out, struct dt_error *err)
{
    char *text = calloc(1, TEXT_BYTES);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = ask_nodes(world, step, text, err);
    if (rc == 0)
        rc = dt_rank_states_print(text, world->names, world->count, out, err);
    free(text);
    return rc;
}
