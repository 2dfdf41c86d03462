/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - the slowest, the median and the fastest rank of each node */
#include "config.h"

#include <stdlib.h>

#include "trace/choose.h"

enum class { SLOWEST, MEDIAN, FASTEST, CLASSES };

struct candidate {
    struct dt_trace_rank *rank;
    enum class class;
};

/* By node, slow ones first. */
static int by_node(const void *left, const void *right)
{
    const struct dt_trace_rank *a = ((const struct candidate *)left)->rank;
    const struct dt_trace_rank *b = ((const struct candidate *)right)->rank;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return (a > b) - (a < b);
}

/* By class, slow ones first. */
static int by_class(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->rank->seconds != b->rank->seconds)
        return a->rank->seconds > b->rank->seconds ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool choose_all(struct dt_trace_rank *ranks, size_t count, double limit)
{
    double events = 0;
    for (size_t i = 0; i < count; i++)
        events += ranks[i].events;
    for (size_t i = 0; i < count; i++)
        ranks[i].chosen = ranks[i].events > 0 && (events <= limit || i == 0);
    return events <= limit;
}

/* Keeps up to three of those of a node, which are in order. */
static size_t keep_three(struct candidate *kept, const struct candidate *of,
                         size_t count)
{
    const size_t place[CLASSES] = {
        [SLOWEST] = 0, [MEDIAN] = count / 2, [FASTEST] = count - 1};
    size_t n = 0;
    for (int class = 0; class < CLASSES; class ++) {
        bool seen = false;
        for (int before = 0; before < class; before++)
            seen |= place[before] == place[class];
        if (!seen)
            kept[n++] =
                (struct candidate){of[place[class]].rank, (enum class) class};
    }
    return n;
}

/* Candidates of all nodes, which are written over the ranks. */
static size_t find_candidates(struct candidate *candidates, size_t count)
{
    size_t kept = 0, end;
    struct candidate three[CLASSES];
    qsort(candidates, count, sizeof(*candidates), by_node);
    for (size_t i = 0; i < count; i = end) {
        for (end = i + 1; end < count && candidates[end].rank->node ==
                                             candidates[i].rank->node;)
            end++;
        size_t n = keep_three(three, candidates + i, end - i);
        for (size_t k = 0; k < n; k++)
            candidates[kept++] = three[k];
    }
    qsort(candidates, kept, sizeof(*candidates), by_class);
    return kept;
}

bool dt_trace_choose(struct dt_trace_rank *ranks, size_t count, double limit)
{
    if (choose_all(ranks, count, limit))
        return false;
    struct candidate *candidates = calloc(count, sizeof(*candidates));
    double events = ranks[0].events;
    size_t n = 0;
    for (size_t i = 0; candidates && i < count; i++)
        if (ranks[i].events > 0)
            candidates[n++].rank = &ranks[i];
    n = candidates ? find_candidates(candidates, n) : 0;
    for (size_t i = 0; i < n; i++) {
        struct dt_trace_rank *rank = candidates[i].rank;
        if (rank->chosen || events + rank->events > limit)
            continue;
        rank->chosen = true;
        events += rank->events;
    }
    free(candidates);
    return true;
}
