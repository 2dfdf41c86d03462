/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scorer.c - scores texts with a reward model, several in one row
 *
 * A row has the pictures of one text, and copies of them for texts with the
 * same, as completions of a prompt are. The tower's features of these stay, so
 * that further rows of such texts leave its pass out.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/examples.h"
#include "model/decode.h"
#include "model/model.h"
#include "reward/scorer.h"

enum { ROW_TOKENS = 2048 }; /* of a forward pass, unless a text is longer */

/* A row of texts, and the model's outputs for it. */
struct dt_scorer {
    struct dt_engine *engine;
    struct dt_model *model;
    struct dt_scorer_room room;            /* of a row */
    size_t T;                              /* positions of a row */
    int32_t *inputs, *targets, *doc_start; /* (T) */
    int32_t *picked;                       /* (T) 0, 1, ... */
    int32_t *last;                         /* (T) positions that score texts */
    float *scores;                         /* (T) */
    size_t used, count;                    /* tokens and texts in the row */
    struct dt_batch_picture *pictures;     /* of the row, with copies */
    size_t picture_count;
    struct dt_batch_picture *seen; /* (room.pictures) of the last text with any,
                                      and their pixels: */
    uint8_t *pixels;               /* (patches, row bytes) */
    size_t seen_count;
    bool has_features; /* of these */
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
    free(s->pictures);
    free(s->seen);
    free(s->pixels);
    free(s);
}

/* In how many places of a row of T tokens the pictures of the text with most of
 * them, or as many tokens of others, can be.
 */
static size_t most_places(const struct dt_vision_config *vision,
                          const struct dt_scorer_room *room, size_t T)
{
    const size_t features =
        vision ? room->patches / (vision->merge * vision->merge) : 0;
    return features > 0 ? 1 + (T + features - 1) / features : 1;
}

/* No memory of a tower is empty. */
static struct dt_model_options model_options(
    const struct dt_model_config *config, enum dt_dtype dtype,
    const struct dt_scorer_room *room)
{
    const size_t T = room->longest > ROW_TOKENS ? room->longest : ROW_TOKENS;
    struct dt_model_options options = {
        .B = 1,
        .T = T,
        .patches = room->patches,
        .pictures = room->pictures,
        .places = most_places(config->vision, room, T),
        .colors = room->colors,
        .compute = dtype,
        .documents = true,
        .exact_rows = true,
        .values = true,
    };
    if (config->vision && options.pictures == 0) {
        options.patches = config->vision->merge * config->vision->merge;
        options.pictures = 1;
    }
    return options;
}

size_t dt_scorer_bytes(const struct dt_model_config *config,
                       const struct dt_ops *ops, enum dt_dtype dtype,
                       const struct dt_scorer_room *room)
{
    const struct dt_model_options options = model_options(config, dtype, room);
    return dt_model_activation_bytes(config, ops, &options);
}

/* False: out of memory. */
static bool allocate(struct dt_scorer *s)
{
    const struct dt_vision_config *vision = s->engine->config.vision;
    const size_t row = vision ? dt_vision_row_bytes(vision) : 0;
    s->inputs = malloc(s->T * sizeof(*s->inputs));
    s->targets = malloc(s->T * sizeof(*s->targets));
    s->doc_start = malloc(s->T * sizeof(*s->doc_start));
    s->picked = malloc(s->T * sizeof(*s->picked));
    s->last = malloc(s->T * sizeof(*s->last));
    s->scores = malloc(s->T * sizeof(*s->scores));
    s->pictures = calloc(s->T + 1, sizeof(*s->pictures));
    s->seen = calloc(s->room.pictures + 1, sizeof(*s->seen));
    s->pixels = calloc(s->room.patches + 1, row + 1);
    return s->inputs && s->targets && s->doc_start && s->picked && s->last &&
           s->scores && s->pictures && s->seen && s->pixels;
}

struct dt_scorer *dt_scorer_create(struct dt_engine *engine,
                                   const struct dt_scorer_room *room,
                                   void (*done)(void *ctx, float score),
                                   void *ctx, struct dt_error *err)
{
    struct dt_scorer *s = calloc(1, sizeof(*s));
    const struct dt_model_options options =
        model_options(&engine->config, engine->weights.dtype, room);
    if (s) {
        s->engine = engine;
        s->room = *room;
        s->T = options.T;
        s->done = done;
        s->ctx = ctx;
    }
    if (!s || !allocate(s)) {
        dt_error_set(err, EX_OSERR, "out of memory");
        dt_scorer_destroy(s);
        return NULL;
    }
    for (size_t t = 0; t < s->T; t++)
        s->picked[t] = (int32_t)t;
    s->model = dt_model_create(&engine->config, engine->layout, &engine->exec,
                               dt_places_flat(engine->weights),
                               (struct dt_places){0}, &options, err);
    if (s->model)
        return s;
    dt_scorer_destroy(s);
    return NULL;
}

bool dt_scorer_fits(const struct dt_scorer *scorer, size_t tokens,
                    size_t patches, size_t pictures)
{
    return tokens <= scorer->T && patches <= scorer->room.patches &&
           pictures <= scorer->room.pictures;
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
    return s->room.shape > 0 && ops->key_tile > 0
               ? dt_decoder_place(&s->engine->config, ops, s->T, s->used, count)
               : s->used;
}

/* The units of the tower and its projector, if their features are there. */
static size_t units_left_out(const struct dt_scorer *s)
{
    return s->has_features ? dt_model_first_unit(&s->engine->config) : 0;
}

/* All positions of a row have scores, since the bits of a matrix multiplication
 * may depend on its number of rows.
 */
int dt_scorer_flush(struct dt_scorer *s, struct dt_error *err)
{
    const struct dt_exec *exec = &s->engine->exec;
    if (s->count == 0)
        return 0;
    fill_row(s, s->room.shape);
    const struct dt_batch batch = {
        .B = 1,
        .T = s->used,
        .inputs = s->inputs,
        .targets = s->targets,
        .doc_start = s->doc_start,
        .picked = s->picked,
        .picked_count = s->used,
        .pictures = s->pictures,
        .picture_count = s->picture_count,
        .pixels = s->pixels,
    };
    if (dt_model_bind(s->model, &batch, false, err) < 0)
        return -1;
    dt_model_keep(s->model, units_left_out(s));
    for (size_t u = 0; u + 1 < s->engine->layout->unit_count; u++)
        dt_model_forward(s->model, u);
    dt_model_values_forward(s->model);
    s->has_features |= s->picture_count > 0;
    if (exec->device->copy(exec->stream, s->scores,
                           dt_view_data(dt_model_values(s->model).value),
                           s->used * sizeof(*s->scores), err) < 0 ||
        exec->device->stream_wait(exec->stream, err) < 0)
        return -1;
    for (size_t i = 0; i < s->count; i++)
        s->done(s->ctx, s->scores[s->last[i]]);
    s->used = s->count = s->picture_count = 0;
    return 0;
}

/* Bytes of the pixels of a text. */
static size_t pixel_bytes(const struct dt_scorer *s,
                          const struct dt_scored_text *text)
{
    size_t patches = 0;
    for (size_t i = 0; i < text->picture_count; i++)
        patches += (size_t)text->pictures[i].height * text->pictures[i].width;
    return patches > 0 ? patches * dt_vision_row_bytes(s->engine->config.vision)
                       : 0;
}

/* Whether the pictures of a text are those of the last one with any. */
static bool has_seen(const struct dt_scorer *s,
                     const struct dt_scored_text *text)
{
    if (text->picture_count != s->seen_count)
        return false;
    for (size_t i = 0; i < s->seen_count; i++)
        if (text->pictures[i].height != s->seen[i].height ||
            text->pictures[i].width != s->seen[i].width)
            return false;
    return memcmp(text->pixels, s->pixels, pixel_bytes(s, text)) == 0;
}

/* Whether a text fits behind those of the row, which has pictures of one text.
 */
static bool has_room(const struct dt_scorer *s,
                     const struct dt_scored_text *text)
{
    const size_t end = place_text(s, text->count) + text->count;
    return end <= (s->room.shape > 0 ? s->room.shape : s->T) &&
           (text->picture_count == 0 || s->picture_count == 0 ||
            has_seen(s, text));
}

/* Adds the tokens of a text to the row. */
static int add_tokens(struct dt_scorer *s, const struct dt_scored_text *text,
                      struct dt_error *err)
{
    const size_t V = s->engine->config.vocab_size, start = s->used;
    for (size_t t = 0; t < text->count; t++) {
        s->inputs[start + t] = (int32_t)(text->tokens[t] & ~DT_TARGET_BIT);
        s->targets[start + t] = DT_IGNORE;
        s->doc_start[start + t] = (int32_t)start;
    }
    for (size_t i = 0; i < text->picture_count; i++)
        for (size_t t = 0; t < text->pictures[i].tokens; t++)
            s->inputs[start + text->pictures[i].first + t] = -1;
    for (size_t t = 0; t < text->count; t++)
        if (s->inputs[start + t] >= (int32_t)V)
            return dt_error_set(err, EX_DATAERR,
                                "token %d is not in the model, which has %zu",
                                s->inputs[start + t], V);
    return 0;
}

/* Adds its pictures: copies, if the row has the same. */
static void add_pictures(struct dt_scorer *s, const struct dt_scored_text *text)
{
    const size_t before = s->picture_count;
    if (text->picture_count == 0)
        return;
    if (!has_seen(s, text)) {
        s->seen_count = text->picture_count;
        memcpy(s->seen, text->pictures, s->seen_count * sizeof(*s->seen));
        memcpy(s->pixels, text->pixels, pixel_bytes(s, text));
        s->has_features = false;
    }
    for (size_t i = 0; i < text->picture_count; i++) {
        struct dt_batch_picture *to = &s->pictures[s->picture_count++];
        *to = text->pictures[i];
        to->first += s->used;
        to->repeats = before;
    }
}

int dt_scorer_add(struct dt_scorer *s, const struct dt_scored_text *text,
                  struct dt_error *err)
{
    const size_t count = text->count;
    if (!has_room(s, text) && dt_scorer_flush(s, err) < 0)
        return -1;
    fill_row(s, place_text(s, count));
    if (add_tokens(s, text, err) < 0)
        return -1;
    add_pictures(s, text);
    s->last[s->count++] =
        (int32_t)(s->used + dt_score_token(s->inputs + s->used, count,
                                           s->engine->config.pad));
    s->used += count;
    return s->room.shape > 0 && count > s->room.shape ? dt_scorer_flush(s, err)
                                                      : 0;
}
