/* SPDX-License-Identifier: Apache-2.0 */
/* loader_fill.c - reads the samples of a batch into its arrays */
#include "config.h"

#include <stdlib.h>

#include "base/rng.h"
#include "data/loader_fill.h"
#include "data/micro.h"

bool dt_filler_row(const struct dt_filler *f, uint64_t p, uint64_t *row)
{
    if (!f->opt.repeat && p >= f->samples)
        return false;
    *row = p % f->samples;
    if (f->opt.shuffle)
        *row = dt_rng_permute(f->opt.seed, p / f->samples, *row, f->samples);
    return true;
}

/* The length of a batch of rows of that length */
static size_t round_length(const struct dt_filler *f, size_t length)
{
    const size_t step = f->opt.multiple_of;
    length = (length > 0 ? length + step - 1 : step) / step * step;
    return length < f->T ? length : f->T;
}

/* The length T of the batch whose first row is global sample p. */
static size_t batch_length(const struct dt_filler *f, uint64_t p)
{
    size_t length = 1;
    uint64_t row;
    for (size_t i = 0; i < f->opt.B; i++) {
        size_t need =
            dt_filler_row(f, p + i, &row) ? dt_rows_length(f->rows, row) : 0;
        length = need > length ? need : length;
    }
    return round_length(f, length);
}

/* Positions [at, at + count) of a row that begins at `row` of the slot become
 * documents of one token without a target.
 */
static void pad(struct dt_slot *slot, size_t row, size_t at, size_t count)
{
    for (size_t t = at; t < at + count; t++) {
        slot->inputs[row + t] = 0;
        slot->targets[row + t] = DT_IGNORE;
        slot->doc_start[row + t] = (int32_t)t;
    }
}

/* Where a document of `count` tokens begins in a slot, and its targets. */
static struct dt_batch_side find_side(const struct dt_slot *slot, size_t start,
                                      size_t count)
{
    struct dt_batch_side side = {start, start, start + count};
    while (side.first < side.end && slot->targets[side.first] < 0)
        side.first++;
    return side;
}

/* Notes the pair of a row, if it is one, that stands at `at` of a slot. */
static void note_pair(const struct dt_filler *f, struct dt_slot *slot,
                      uint64_t row, size_t at)
{
    const struct dt_row_pair *pair = dt_rows_pair(f->rows, row);
    if (!pair)
        return;
    slot->pairs[slot->pair_count++] = (struct dt_batch_pair){
        .number = pair->number,
        .margin = pair->margin,
        .chosen = find_side(slot, at, pair->chosen),
        .rejected = find_side(slot, at + pair->chosen,
                              dt_rows_length(f->rows, row) - pair->chosen),
    };
}

/* Reads a row into positions [at, at + length) of a slot. */
static int read_row(const struct dt_filler *f, struct dt_slot *slot,
                    uint64_t row, size_t at, size_t length,
                    struct dt_error *err)
{
    if (dt_rows_read(f->rows, row, length, slot->inputs + at,
                     slot->targets + at, slot->doc_start + at,
                     &slot->target_count, err) < 0)
        return -1;
    note_pair(f, slot, row, at);
    return 0;
}

/* A row for each sample */
static int fill_rows(const struct dt_filler *f, struct dt_slot *slot,
                     struct dt_error *err)
{
    uint64_t p = slot->share.p, row;
    slot->T = batch_length(f, p);
    for (size_t i = 0; i < f->opt.B; i++) {
        slot->rows[i] = (int64_t)(p + i);
        if (!dt_filler_row(f, p + i, &row))
            pad(slot, i * slot->T, 0, slot->T);
        else if (read_row(f, slot, row, i * slot->T, slot->T, err) < 0)
            return -1;
    }
    return 0;
}

/* One row for all samples */
static int join_rows(const struct dt_filler *f, struct dt_slot *slot,
                     struct dt_error *err)
{
    const struct dt_share *share = &slot->share;
    size_t at = 0;
    uint64_t row;
    slot->rows[0] =
        (int64_t)dt_micro_sample(&f->opt, f->opt.rank, share->p, share->first);
    for (size_t i = share->first; i < share->end; i++) {
        uint64_t p = dt_micro_sample(&f->opt, f->opt.rank, share->p, i);
        if (!dt_filler_row(f, p, &row))
            continue;
        size_t length = dt_rows_length(f->rows, row);
        if (read_row(f, slot, row, at, length, err) < 0)
            return -1;
        for (size_t t = at; t < at + length; t++)
            slot->doc_start[t] += (int32_t)at;
        at += length;
    }
    slot->T = round_length(f, at);
    pad(slot, 0, at, slot->T - at);
    return 0;
}

int dt_filler_fill(const struct dt_filler *f, struct dt_slot *slot,
                   struct dt_error *err)
{
    slot->target_count = slot->pair_count = 0;
    return f->opt.tokens > 0 ? join_rows(f, slot, err)
                             : fill_rows(f, slot, err);
}

/* --- memory --- */

int dt_filler_init(struct dt_filler *f, const struct dt_rows *rows,
                   const struct dt_loader_options *options,
                   struct dt_error *err)
{
    const size_t longest = dt_rows_max_length(rows);
    const size_t step = options->multiple_of, tokens = options->tokens;
    *f = (struct dt_filler){.rows = rows,
                            .opt = *options,
                            .samples = dt_rows_count(rows),
                            .B = tokens > 0 ? 1 : options->B,
                            .T = longest};
    if (tokens == 0)
        return 0;
    if (longest > tokens)
        return dt_error_set(err, EX_CONFIG,
                            "data: the longest row has %zu tokens, a batch at "
                            "most %zu (training.micro_batch_tokens)",
                            longest, tokens);
    f->T = (tokens + step - 1) / step * step;
    return 0;
}

bool dt_slot_init(struct dt_slot *slot, const struct dt_filler *f)
{
    size_t bytes;
    const size_t pairs =
        f->opt.B * (f->opt.tokens > 0 ? f->opt.accumulation : 1);
    if (__builtin_mul_overflow(f->B, f->T * sizeof(int32_t), &bytes))
        return false;
    slot->inputs = malloc(bytes);
    slot->targets = malloc(bytes);
    slot->doc_start = malloc(bytes);
    slot->rows = calloc(f->B, sizeof(*slot->rows));
    if (dt_rows_pair(f->rows, 0))
        slot->pairs = calloc(pairs, sizeof(*slot->pairs));
    return slot->inputs && slot->targets && slot->doc_start && slot->rows &&
           (slot->pairs || !dt_rows_pair(f->rows, 0));
}

void dt_slot_fini(struct dt_slot *slot)
{
    free(slot->inputs);
    free(slot->targets);
    free(slot->doc_start);
    free(slot->rows);
    free(slot->pairs);
}
