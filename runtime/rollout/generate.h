/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - sequences continued by sampling, token by token */
#ifndef DT_ALGO_GENERATE_H
#define DT_ALGO_GENERATE_H

#include "algo/sample.h"
#include "base/error.h"
#include "model/model.h"

struct dt_generation {
    struct dt_sampling sampling;
    uint64_t first_row;  /* number of row 0 among all prompts of the seed */
    size_t max_tokens;   /* of each row */
    const int32_t *stop; /* ids that end a row */
    size_t stop_count;
    /* Row `row` goes on with `id`; a stop token is told too. */
    void (*token)(void *ctx, size_t row, int32_t id);
    void *ctx;
};

/* Continues `rows` prompts, ids(rows, T) of which row b has counts[b] >= 1,
 * with a decoder made for them, until each has ended: by a stop token, after
 * max_tokens, or at `length`, that of the decoder. What a row becomes does not
 * depend on the others. -1: EX_OSERR.
 */
int dt_generate(struct dt_decoder *decoder, const int32_t *ids,
                const size_t *counts, size_t rows, size_t T, size_t length,
                size_t V, const struct dt_generation *generation,
                struct dt_error *err);

#endif /* DT_ALGO_GENERATE_H */
