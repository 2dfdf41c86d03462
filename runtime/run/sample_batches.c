/* SPDX-License-Identifier: Apache-2.0 */
/* sample_batches.c - lays out rows of prompts, each followed by its completion
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "run/sample_batches.h"

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
    return b->lengths && b->inputs && b->targets && b->doc_start && b->samples
               ? 0
               : no_memory(err);
}

void dt_sample_batches_fini(struct dt_sample_batches *b)
{
    free(b->order);
    free(b->lengths);
    free(b->inputs);
    free(b->targets);
    free(b->doc_start);
    free(b->samples);
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

void dt_sample_batches_get(struct dt_sample_batches *b, size_t a,
                           struct dt_batch *batch)
{
    const size_t world = (size_t)b->options.world;
    const size_t bin = a * world + (size_t)b->options.rank;
    size_t at = 0, count = 0;
    *batch = (struct dt_batch){.B = 1,
                               .inputs = b->inputs,
                               .targets = b->targets,
                               .doc_start = b->doc_start,
                               .rows = &b->number,
                               .samples = b->samples};
    for (size_t i = 0; i < b->options.rows; i++) {
        size_t row = dt_sample_batches_row(b, i);
        if (b->deal.bin[i] != bin)
            continue;
        at = lay(b, row, at, &b->samples[count]);
        batch->target_count += b->samples[count++].count;
    }
    batch->sample_count = count;
    batch->T = round_up(at, b->options.multiple_of);
    pad(b, at, batch->T);
    b->number = (int64_t)(b->generation * b->experience->rows +
                          (count > 0 ? b->samples[0].number : 0));
}
