/* SPDX-License-Identifier: Apache-2.0 */
/* scorer.c - scores texts with a reward model, several in one row */
#include "config.h"

#include <stdlib.h>

#include "data/examples.h"
#include "model/decode.h"
#include "model/model.h"
#include "reward/scorer.h"

enum { ROW_TOKENS = 2048 }; /* of a forward pass, unless a text is longer */

/* A row of texts, and the model's outputs for it. */
struct dt_scorer {
    struct dt_engine *engine;
    struct dt_model *model;
    size_t T;                              /* room of a row */
    size_t shape;                          /* of a row; 0: any */
    int32_t *inputs, *targets, *doc_start; /* (T) */
    int32_t *picked;                       /* (T) 0, 1, ... */
    int32_t *last;                         /* (T) positions that score texts */
    float *scores;                         /* (T) */
    size_t used, count;                    /* tokens and texts in the row */
    void (*done)(void *ctx, float score);
    void *ctx;
};

void dt_scorer_destroy(struct dt_scorer *s)
{
    if (!s)
        return;
    dt_model_destroy(s->model);
    free(s->inputs);
    free(s->targets);
    free(s->doc_start);
    free(s->picked);
    free(s->last);
    free(s->scores);
    free(s);
}

static struct dt_model_options model_options(enum dt_dtype dtype,
                                             size_t longest)
{
    return (struct dt_model_options){
        .B = 1,
        .T = longest > ROW_TOKENS ? longest : ROW_TOKENS,
        .compute = dtype,
        .documents = true,
        .exact_rows = true,
        .values = true,
    };
}

size_t dt_scorer_bytes(const struct dt_model_config *config,
                       const struct dt_ops *ops, enum dt_dtype dtype,
                       size_t longest)
{
    const struct dt_model_options options = model_options(dtype, longest);
    return dt_model_activation_bytes(config, ops, &options);
}

struct dt_scorer *dt_scorer_create(struct dt_engine *engine, size_t longest,
                                   size_t shape,
                                   void (*done)(void *ctx, float score),
                                   void *ctx, struct dt_error *err)
{
    struct dt_scorer *s = calloc(1, sizeof(*s));
    const struct dt_model_options options =
        model_options(engine->weights.dtype, longest);
    if (s) {
        s->engine = engine;
        s->T = options.T;
        s->shape = shape;
        s->done = done;
        s->ctx = ctx;
        s->inputs = malloc(s->T * sizeof(*s->inputs));
        s->targets = malloc(s->T * sizeof(*s->targets));
        s->doc_start = malloc(s->T * sizeof(*s->doc_start));
        s->picked = malloc(s->T * sizeof(*s->picked));
        s->last = malloc(s->T * sizeof(*s->last));
        s->scores = malloc(s->T * sizeof(*s->scores));
    }
    if (!s || !s->inputs || !s->targets || !s->doc_start || !s->picked ||
        !s->last || !s->scores) {
        dt_error_set(err, EX_OSERR, "out of memory");
    } else {
        for (size_t t = 0; t < s->T; t++)
            s->picked[t] = (int32_t)t;
        s->model =
            dt_model_create(&engine->config, engine->layout, &engine->exec,
                            dt_places_flat(engine->weights),
                            (struct dt_places){0}, &options, err);
    }
    if (s && s->model)
        return s;
    dt_scorer_destroy(s);
    return NULL;
}

size_t dt_scorer_room(const struct dt_scorer *scorer)
{
    return scorer->T;
}

/* Texts of one token fill the row up to `end`. */
static void fill_row(struct dt_scorer *s, size_t end)
{
    for (; s->used < end; s->used++) {
        s->inputs[s->used] = 0;
        s->targets[s->used] = DT_IGNORE;
        s->doc_start[s->used] = (int32_t)s->used;
    }
}

/* Where a text of `count` tokens begins: in rows of one shape where it has the
 * tiles of attention, and so the bits, that it has elsewhere.
 */
static size_t place_text(const struct dt_scorer *s, size_t count)
{
    const struct dt_ops *ops = s->engine->exec.ops;
    return s->shape > 0 && ops->key_tile > 0
               ? dt_decoder_place(&s->engine->config, ops, s->T, s->used, count)
               : s->used;
}

/* All positions of a row have scores, since the bits of a matrix multiplication
 * may depend on its number of rows.
 */
int dt_scorer_flush(struct dt_scorer *s, struct dt_error *err)
{
    const struct dt_exec *exec = &s->engine->exec;
    if (s->count == 0)
        return 0;
    fill_row(s, s->shape);
    const struct dt_batch batch = {
        .B = 1,
        .T = s->used,
        .inputs = s->inputs,
        .targets = s->targets,
        .doc_start = s->doc_start,
        .picked = s->picked,
        .picked_count = s->used,
    };
    if (dt_model_bind(s->model, &batch, false, err) < 0)
        return -1;
    for (size_t u = 0; u + 1 < s->engine->layout->unit_count; u++)
        dt_model_forward(s->model, u);
    dt_model_values_forward(s->model);
    if (exec->device->copy(exec->stream, s->scores,
                           dt_view_data(dt_model_values(s->model).value),
                           s->used * sizeof(*s->scores), err) < 0 ||
        exec->device->stream_wait(exec->stream, err) < 0)
        return -1;
    for (size_t i = 0; i < s->count; i++)
        s->done(s->ctx, s->scores[s->last[i]]);
    s->used = s->count = 0;
    return 0;
}

int dt_scorer_add(struct dt_scorer *s, const uint32_t *tokens, size_t count,
                  struct dt_error *err)
{
    size_t V = s->engine->config.vocab_size;
    if (place_text(s, count) + count > (s->shape > 0 ? s->shape : s->T) &&
        dt_scorer_flush(s, err) < 0)
        return -1;
    fill_row(s, place_text(s, count));
    for (size_t t = 0; t < count; t++) {
        uint32_t id = tokens[t] & ~DT_TARGET_BIT;
        if (id >= V)
            return dt_error_set(err, EX_DATAERR,
                                "token %u is not in the model, which has %zu",
                                id, V);
        s->inputs[s->used + t] = (int32_t)id;
        s->targets[s->used + t] = DT_IGNORE;
        s->doc_start[s->used + t] = (int32_t)s->used;
    }
    s->last[s->count++] =
        (int32_t)(s->used + dt_score_token(s->inputs + s->used, count,
                                           s->engine->config.pad));
    s->used += count;
    return s->shape > 0 && count > s->shape ? dt_scorer_flush(s, err) : 0;
}
