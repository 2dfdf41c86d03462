/* SPDX-License-Identifier: Apache-2.0 */
/* doing.c - what the ranks of a step are doing, those that do the same in one
 * line
 */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/doing.h"
#include "base/rankset.h"

enum {
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

struct doing {
    struct rank *ranks;
    size_t count;
    uint32_t tasks; /* 0: not known */
    char *const *nodes;
    size_t node_count;
    bool *heard; /* of each node */
    size_t silent;
};

static void take_rank(struct doing *doing, char *line)
{
    struct rank *r = &doing->ranks[doing->count];
    int used = 0;
    char *rest = line;
    char *host = strsep(&rest, "\t");
    if (sscanf(host, "rank %" SCNu32 " %" SCNu32 " %d %d %n", &r->rank,
               &doing->tasks, &r->pid, &r->cpu, &used) != 4 ||
        used == 0)
        return;
    r->host = host + used;
    r->state = strsep(&rest, "\t");
    r->command = rest;
    if (r->command)
        doing->count++;
}

static void take_line(struct doing *doing, char *line)
{
    if (strncmp(line, "rank ", 5) == 0)
        take_rank(doing, line);
    for (size_t i = 0; strncmp(line, "end ", 4) == 0 && i < doing->node_count;
         i++)
        if (!doing->heard[i] && strcmp(doing->nodes[i], line + 4) == 0) {
            doing->heard[i] = true;
            doing->silent--;
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

/* Ranks that cannot go on by themselves come before all that may only wait for
 * them: the lower, the earlier.
 */
static int severity(const struct kind *kind)
{
    const char *state = kind->ranks->state;
    if (strncmp(state, "has ended", 9) == 0)
        return 0;
    if (strncmp(state, "stopped", 7) == 0)
        return 1;
    return strstr(state, "(state D)") ? 2 : 3;
}

/* Between as many as many, who computes is the last to be suspected. */
static int by_suspicion(const void *a, const void *b)
{
    const struct kind *p = a;
    const struct kind *q = b;
    if (severity(p) != severity(q))
        return severity(p) - severity(q);
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

/* The ranks of which no probe has said anything. -1: EX_OSERR. */
static int find_missing(const struct doing *doing, struct dt_rankset *set,
                        struct dt_error *err)
{
    if (dt_rankset_init(set, doing->tasks, err) != 0)
        return -1;
    for (uint32_t rank = 0; rank < doing->tasks; rank++)
        dt_rankset_add(set, rank);
    for (size_t i = 0; i < doing->count; i++) {
        uint32_t rank = doing->ranks[i].rank;
        if (rank < set->size && set->has[rank]) {
            set->has[rank] = false;
            set->count--;
        }
    }
    return 0;
}

/* Those of a silent node are there, or have ended: nobody can say. */
static void print_missing(const struct doing *doing,
                          const struct dt_rankset *missing, FILE *out)
{
    dt_rankset_print(missing, out);
    fputs(doing->silent > 0 ? ": there, or not running any more\n"
                            : ": not running any more\n",
          out);
}

static int print_kinds(struct doing *doing, FILE *out, struct dt_error *err)
{
    struct kind *kinds = calloc(doing->count + 1, sizeof(*kinds));
    size_t count = 0;
    int rc = 0;
    if (!kinds)
        return dt_error_set(err, EX_OSERR, "out of memory");
    qsort(doing->ranks, doing->count, sizeof(*doing->ranks), by_state);
    for (size_t i = 0; i < doing->count; i++) {
        const struct rank *r = &doing->ranks[i];
        if (i == 0 || strcmp(r->state, r[-1].state) != 0)
            kinds[count++].ranks = r;
        kinds[count - 1].count++;
    }
    qsort(kinds, count, sizeof(*kinds), by_suspicion);
    for (size_t i = 0; i < count && i < KINDS_SHOWN && rc == 0; i++)
        rc = print_kind(&kinds[i], doing->tasks, out, err);
    if (count > KINDS_SHOWN)
        fprintf(out, "and %zu more kinds\n", count - KINDS_SHOWN);
    free(kinds);
    return rc;
}

static int print(struct doing *doing, FILE *out, struct dt_error *err)
{
    struct dt_rankset missing;
    if (find_missing(doing, &missing, err) != 0)
        return -1;
    for (size_t i = 0; i < doing->node_count; i++)
        if (!doing->heard[i])
            fprintf(out, "node %s does not answer\n", doing->nodes[i]);
    if (missing.count > 0)
        print_missing(doing, &missing, out);
    int rc = print_kinds(doing, out, err);
    if (doing->count == 0)
        fputs("no rank runs\n", out);
    dt_rankset_fini(&missing);
    return rc;
}

int dt_doing_print(char *text, char *const *nodes, size_t count, FILE *out,
                   struct dt_error *err)
{
    struct doing doing = {.nodes = nodes, .node_count = count, .silent = count};
    size_t lines = 1;
    int rc;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    doing.ranks = calloc(lines, sizeof(*doing.ranks));
    doing.heard = calloc(count + 1, sizeof(*doing.heard));
    if (!doing.ranks || !doing.heard) {
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    } else {
        for (char *line; (line = strsep(&text, "\n")) != NULL;)
            take_line(&doing, line);
        rc = print(&doing, out, err);
    }
    free(doing.ranks);
    free(doing.heard);
    return rc;
}
