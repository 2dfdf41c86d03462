/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - generates tokens in a loop of decoding and sampling */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>

#include "rollout/generate.h"

static bool is_stop(const struct dt_generation *g, int32_t id)
{
    for (size_t i = 0; i < g->stop_count; i++)
        if (g->stop[i] == id)
            return true;
    return false;
}

/* Draws the next token of every row that has not ended; next[b] is -1 for the
 * others. Returns how many rows continue after it.
 */
static size_t draw_tokens(const struct dt_generation *g, size_t n,
                          float *logits, float *scratch, size_t rows, size_t V,
                          const size_t *counts, size_t length, int32_t *next)
{
    size_t going = 0;
    for (size_t b = 0; b < rows; b++) {
        size_t place = counts[b] + n;
        if (next[b] < 0)
            continue;
        uint64_t index = (g->first_row + b) << 32 | place;
        next[b] = dt_sample(&g->sampling, logits + b * V, V, scratch, index);
        g->token(g->ctx, b, next[b]);
        if (is_stop(g, next[b]) || n + 1 == g->max_tokens ||
            place + 1 == length)
            next[b] = -1;
        going += next[b] >= 0;
    }
    return going;
}

int dt_generate(struct dt_decoder *decoder, const int32_t *ids,
                const size_t *counts, size_t rows, size_t T, size_t length,
                size_t V, const struct dt_generation *generation,
                struct dt_error *err)
{
    float *logits = calloc((rows + 2) * V, sizeof(*logits));
    int32_t *next = calloc(rows, sizeof(*next));
    int result = 0;
    if (logits && next) {
        for (size_t b = 0; b < rows; b++)
            next[b] = counts[b] < length ? 0 : -1;
        result = dt_decoder_begin(decoder, ids, counts, T, logits, err);
        for (size_t n = 0; result == 0 &&
                           draw_tokens(generation, n, logits, logits + rows * V,
                                       rows, V, counts, length, next) > 0;
             n++)
            result = dt_decoder_next(decoder, next, logits, err);
    } else {
        result = dt_error_set(err, EX_OSERR, "out of memory for the logits");
    }
    free(next);
    free(logits);
    return result;
}
