/* SPDX-License-Identifier: Apache-2.0 */
/* sample_batches.c - lays out rows of prompts, each followed by its completion
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "run/sample_batches.h"

/* --- dealing --- */

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

/* --- micro-batches --- */

static int no_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "micro-batches: out of memory");
}

static size_t round_up(size_t count, size_t step)
{
    return (count > 0 ? count + step - 1 : step) / step * step;
}

int dt_sample_batches_init(struct dt_sample_batches *b,
                           const struct dt_sample_batches_options *options,
                           const struct dt_prompts *prompts,
                           struct dt_error *err)
{
    const size_t T = round_up(options->limit, options->multiple_of);
    *b = (struct dt_sample_batches){
        .options = *options,
        .prompts = prompts,
        .lengths = calloc(options->rows, sizeof(*b->lengths)),
        .inputs = calloc(T, sizeof(*b->inputs)),
        .targets = calloc(T, sizeof(*b->targets)),
        .doc_start = calloc(T, sizeof(*b->doc_start)),
        .samples = calloc(options->rows, sizeof(*b->samples)),
    };
    if (!b->lengths || !b->inputs || !b->targets || !b->doc_start ||
        !b->samples)
        return no_memory(err);
    return dt_sample_pictures_init(&b->pictures, prompts, options->patches,
                                   err);
}

void dt_sample_batches_fini(struct dt_sample_batches *b)
{
    free(b->order);
    free(b->lengths);
    free(b->inputs);
    free(b->targets);
    free(b->doc_start);
    free(b->samples);
    dt_sample_pictures_fini(&b->pictures);
    dt_deal_fini(&b->deal);
}

int dt_sample_batches_begin(struct dt_sample_batches *b,
                            const struct dt_experience *experience,
                            uint64_t generation, struct dt_error *err)
{
    if (experience->rows % b->options.rows != 0)
        return dt_error_set(err, EX_SOFTWARE,
                            "a generation has %zu completions, which are not "
                            "whole steps of %zu: please report this",
                            experience->rows, b->options.rows);
    free(b->order);
    b->order = calloc(experience->rows, sizeof(*b->order));
    b->experience = experience;
    b->generation = generation;
    if (!b->order)
        return no_memory(err);
    dt_deal_order(b->order, experience->rows, b->options.seed, generation);
    return 0;
}

size_t dt_sample_batches_row(const struct dt_sample_batches *b, size_t i)
{
    return b->order[b->part * b->options.rows + i];
}

static const int32_t *prompt_of(const struct dt_sample_batches *b, size_t row,
                                size_t *count)
{
    const struct dt_experience *e = b->experience;
    return dt_prompts_ids(b->prompts, e->number[row / e->copies], count);
}

/* The positions of a row whose values are computed. */
static size_t picked_of(const struct dt_sample_batches *b, size_t row)
{
    const size_t count = (size_t)b->experience->count[row];
    return count + (count < b->options.longest);
}

int dt_sample_batches_step(struct dt_sample_batches *b, size_t part,
                           struct dt_error *err)
{
    size_t prompt;
    b->part = part;
    for (size_t i = 0; i < b->options.rows; i++) {
        size_t row = dt_sample_batches_row(b, i);
        prompt_of(b, row, &prompt);
        b->lengths[i] = prompt + picked_of(b, row) - 1;
    }
    dt_deal_fini(&b->deal);
    return dt_deal_make(&b->deal, b->lengths, b->options.rows, b->options.limit,
                        b->options.world, err);
}

size_t dt_sample_batches_count(const struct dt_sample_batches *b)
{
    return b->deal.count;
}

/* Lays out a row at position `at`. Returns the position after it. */
static size_t lay(struct dt_sample_batches *b, size_t row, size_t at,
                  struct dt_batch_sample *sample)
{
    const int32_t *completion = dt_experience_ids(b->experience, row);
    const size_t count = (size_t)b->experience->count[row];
    const size_t picked = picked_of(b, row);
    size_t prompt;
    const int32_t *ids = prompt_of(b, row, &prompt);
    *sample = (struct dt_batch_sample){row, at + prompt - 1, count, picked};
    for (size_t t = 0; t < prompt + picked - 1; t++) {
        b->inputs[at + t] = t < prompt ? ids[t] : completion[t - prompt];
        b->targets[at + t] = t + 1 < prompt ? DT_IGNORE
                             : t + 1 < prompt + count
                                 ? completion[t + 1 - prompt]
                                 : 0; /* weighs nothing */
        b->doc_start[at + t] = (int32_t)at;
    }
    return at + prompt + picked - 1;
}

/* Makes the positions after the last row documents of one token. */
static void pad(struct dt_sample_batches *b, size_t from, size_t to)
{
    for (size_t t = from; t < to; t++) {
        b->inputs[t] = 0;
        b->targets[t] = DT_IGNORE;
        b->doc_start[t] = (int32_t)t;
    }
}

int dt_sample_batches_get(struct dt_sample_batches *b, size_t a,
                          struct dt_batch *batch, struct dt_error *err)
{
    const struct dt_experience *e = b->experience;
    const size_t world = (size_t)b->options.world;
    const size_t bin = a * world + (size_t)b->options.rank;
    size_t at = 0, count = 0;
    *batch = (struct dt_batch){.B = 1,
                               .inputs = b->inputs,
                               .targets = b->targets,
                               .doc_start = b->doc_start,
                               .rows = &b->number,
                               .samples = b->samples};
    dt_sample_pictures_begin(&b->pictures);
    for (size_t i = 0; i < b->options.rows; i++) {
        size_t row = dt_sample_batches_row(b, i);
        if (b->deal.bin[i] != bin)
            continue;
        if (dt_sample_pictures_add(&b->pictures, e->number[row / e->copies], at,
                                   err) < 0)
            return -1;
        at = lay(b, row, at, &b->samples[count]);
        batch->target_count += b->samples[count++].count;
    }
    batch->sample_count = count;
    batch->T = round_up(at, b->options.multiple_of);
    pad(b, at, batch->T);
    b->number = (int64_t)(b->generation * e->rows +
                          (count > 0 ? b->samples[0].number : 0));
    return dt_sample_pictures_read(&b->pictures, batch, err);
}
