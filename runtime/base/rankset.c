/* SPDX-License-Identifier: Apache-2.0 */
/* rankset.c - a set of ranks, as text */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/rankset.h"
#include "base/str.h"

int dt_rankset_init(struct dt_rankset *set, uint32_t size, struct dt_error *err)
{
    *set = (struct dt_rankset){.size = size};
    set->has = calloc(size ? size : 1, sizeof(*set->has));
    return set->has ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

void dt_rankset_fini(struct dt_rankset *set)
{
    free(set->has);
    *set = (struct dt_rankset){0};
}

void dt_rankset_add(struct dt_rankset *set, uint32_t rank)
{
    if (rank >= set->size || set->has[rank])
        return;
    set->has[rank] = true;
    set->count++;
}

int dt_rankset_parse(struct dt_rankset *set, const char *text,
                     struct dt_error *err)
{
    const char *p = text;
    uint32_t first;
    uint32_t last;
    do {
        if (!dt_str_next_range(&p, &first, &last))
            return dt_error_set(err, EX_DATAERR,
                                "expected ranks like 0,4-7, got \"%.64s\"",
                                text);
        for (uint32_t rank = first; rank <= last && rank < set->size; rank++)
            dt_rankset_add(set, rank);
    } while (*p);
    return 0;
}

void dt_rankset_print(const struct dt_rankset *set, FILE *out)
{
    const char *before = set->count == 1 ? "rank " : "ranks ";
    for (uint32_t rank = 0; rank < set->size; rank++) {
        uint32_t first = rank;
        if (!set->has[rank])
            continue;
        while (rank + 1 < set->size && set->has[rank + 1])
            rank++;
        fprintf(out, "%s%" PRIu32, before, first);
        if (rank > first)
            fprintf(out, "-%" PRIu32, rank);
        before = ", ";
    }
}
