/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - continues sequences token by token by sampling */
#ifndef DT_ROLLOUT_GENERATE_H
#define DT_ROLLOUT_GENERATE_H

#include "base/error.h"
#include "model/model.h"
#include "rollout/sample.h"

struct dt_generation {
    struct dt_sampling sampling;
    uint64_t first_row;  /* index of row 0 among all prompts of the seed */
    size_t max_tokens;   /* how many tokens to generate in each row, at most */
    const int32_t *stop; /* ids that end a row */
    size_t stop_count;
    /* Called for each generated token, including stop tokens. */
    void (*token)(void *ctx, size_t row, int32_t id);
    void *ctx;
};

/* Continues the prompts ids(rows, T), of which row b has counts[b] >= 1 tokens,
 * with a decoder for `rows` rows. A row ends with a stop token, after
 * max_tokens, or at the decoder's `length`. The result of a row does not depend
 * on the other rows. -1: EX_OSERR, or the decoder failed.
 */
int dt_generate(struct dt_decoder *decoder, const int32_t *ids,
                const size_t *counts, size_t rows, size_t T, size_t length,
                size_t V, const struct dt_generation *generation,
                struct dt_error *err);

#endif /* DT_ROLLOUT_GENERATE_H */
