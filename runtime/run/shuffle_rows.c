/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle_rows.c - shuffles completions and deals them to micro-batches */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "run/shuffle_rows.h"

/* Apart from the epochs that the same seed shuffles prompts for. */
#define GENERATIONS (UINT64_C(1) << 62)

void dt_deal_order(size_t *order, size_t rows, uint64_t seed,
                   uint64_t generation)
{
    for (size_t i = 0; i < rows; i++)
        order[i] =
            (size_t)dt_rng_permute(seed, GENERATIONS + generation, i, rows);
}

/* A row while it is dealt. */
struct item {
    size_t row, length;
};

/* The longest first, and of equal ones the first. */
static int compare_items(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    if (left->length != right->length)
        return left->length < right->length ? 1 : -1;
    return left->row < right->row ? -1 : 1;
}

/* Deals sorted rows to `bins`, whose loads begin with zero. False: one has more
 * than the limit.
 */
static bool deal_to(struct dt_deal *deal, const struct item *items,
                    size_t *load, size_t bins, size_t limit)
{
    memset(load, 0, bins * sizeof(*load));
    for (size_t i = 0; i < deal->rows; i++) {
        size_t least = 0;
        for (size_t k = 1; k < bins; k++)
            if (load[k] < load[least])
                least = k;
        load[least] += items[i].length;
        if (load[least] > limit)
            return false;
        deal->bin[items[i].row] = least;
    }
    return true;
}

/* The fewest micro-batches that may do. */
static size_t fewest(const struct item *items, size_t rows, size_t limit,
                     size_t world)
{
    size_t total = 0, each = limit * world;
    for (size_t i = 0; i < rows; i++)
        total += items[i].length;
    return total > each ? (total + each - 1) / each : 1;
}

int dt_deal_make(struct dt_deal *deal, const size_t *lengths, size_t rows,
                 size_t limit, int world, struct dt_error *err)
{
    const size_t ranks = (size_t)world;
    struct item *items = calloc(rows, sizeof(*items));
    size_t *load = calloc(rows + ranks, sizeof(*load));
    *deal =
        (struct dt_deal){.rows = rows, .bin = calloc(rows, sizeof(*deal->bin))};
    int rc = items && load && deal->bin
                 ? 0
                 : dt_error_set(err, EX_OSERR, "data: out of memory");
    for (size_t i = 0; i < rows && rc == 0; i++)
        items[i] = (struct item){i, lengths[i]};
    if (rc == 0) {
        qsort(items, rows, sizeof(*items), compare_items);
        deal->count = fewest(items, rows, limit, ranks);
        while (!deal_to(deal, items, load, deal->count * ranks, limit))
            deal->count++;
    }
    free(items);
    free(load);
    return rc;
}

void dt_deal_fini(struct dt_deal *deal)
{
    free(deal->bin);
    *deal = (struct dt_deal){0};
}
