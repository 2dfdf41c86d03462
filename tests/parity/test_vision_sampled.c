/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vision_sampled.c - completions of prompts with images have the loss and
 * the gradients that make_vision_sampled.py had from TRL's GRPOTrainer, and
 * those of a critic in torch
 *
 * All completions are in one row, and the tower sees the pictures of a prompt
 * once. So does that of a reward model which scores them.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "data/example.h"
#include "loss/grpo_loss.h"
#include "reward/scorer.h"
#include "tests/parity/claims.h"
#include "tests/parity/picture_variant.h"
#include "tests/parity/stored.h"
#include "tests/parity/variant.h"

enum { COMPLETIONS = 7, TOKENS = 8, MOST = COMPLETIONS * PICTURE_WIDTH };

static json_t *pictures; /* vision.json */
static json_t *file;     /* vision_sampled.json */

/* The micro-batch of all completions. */
struct scene {
    struct picture_variant v;
    struct subject s;
    const json_t *stored;
    struct dt_batch batch;
    int32_t inputs[MOST], targets[MOST], doc_start[MOST], picked[MOST];
    struct dt_batch_picture pictures[PICTURE_MOST];
    uint8_t *pixels;
    size_t patches;
    size_t first[PICTURE_DOCUMENTS], of[PICTURE_DOCUMENTS]; /* first place of a
                               document, and number of its first picture */
    bool there[PICTURE_DOCUMENTS];
    size_t count[COMPLETIONS];
};

static void add_token(struct scene *scene, int32_t id, size_t start)
{
    struct dt_batch *b = &scene->batch;
    scene->inputs[b->T] = id;
    scene->targets[b->T] = DT_IGNORE;
    scene->doc_start[b->T++] = (int32_t)start;
}

/* Pictures of document p, which begins at `start`: with pixels the first time.
 */
static void add_pictures(struct scene *scene, size_t p, size_t start)
{
    const struct picture_variant *v = &scene->v;
    const size_t row = dt_vision_row_bytes(v->config.vision);
    struct dt_batch *b = &scene->batch;
    const size_t first = b->picture_count;
    size_t patches = 0;
    for (size_t i = 0; i < v->batch.picture_count; i++) {
        struct dt_batch_picture picture = v->pictures[i];
        picture.first = picture.first - v->first[p] + start;
        picture.repeats = scene->there[p] ? first - scene->of[p] : 0;
        patches += (size_t)picture.height * picture.width;
        assert_in_range(b->picture_count, 0, PICTURE_MOST - 1);
        scene->pictures[b->picture_count++] = picture;
    }
    if (scene->there[p])
        return;
    scene->there[p] = true;
    scene->of[p] = first;
    scene->pixels =
        realloc(scene->pixels, (scene->patches + patches + 1) * row);
    assert_non_null(scene->pixels);
    if (patches > 0)
        memcpy(scene->pixels + scene->patches * row, v->pixels, patches * row);
    scene->patches += patches;
}

/* Completion r follows its prompt; its last token is a target alone. */
static void add_completion(struct scene *scene, size_t r)
{
    const size_t p =
        (size_t)variant_number_at(json_object_get(file, "prompts"), r);
    const json_t *ids = json_array_get(json_object_get(file, "completions"), r);
    struct picture_variant *v = &scene->v;
    struct dt_batch *b = &scene->batch;
    const size_t start = b->T;
    picture_variant_take(v, &p, 1, false);
    for (size_t t = 0; t < v->length[p]; t++)
        add_token(scene, v->inputs[v->first[p] + t], start);
    if (scene->inputs[b->T - 1] < 0)
        add_token(scene, (int32_t)variant_number(file, "next"), start);
    add_pictures(scene, p, start);
    scene->count[r] = json_array_size(ids);
    for (size_t t = 0; t < scene->count[r]; t++) {
        const int32_t id = (int32_t)variant_number_at(ids, t);
        if (t > 0)
            add_token(scene, (int32_t)variant_number_at(ids, t - 1), start);
        scene->targets[b->T - 1] = id;
        scene->picked[b->picked_count++] = (int32_t)(b->T - 1);
    }
}

static void begin(struct scene *scene, const char *name, bool scores)
{
    struct dt_model_options options = {
        .train = true, .values = true, .places = COMPLETIONS};
    *scene = (struct scene){.batch = {.B = 1}};
    picture_variant_open(&scene->v, pictures, name, true);
    picture_variant_options(&scene->v, &options);
    options.B = 1;
    options.T = MOST;
    scene->v.config.scores = scores;
    scene->stored = json_object_get(json_object_get(file, "variants"), name);
    for (size_t r = 0; r < COMPLETIONS; r++)
        add_completion(scene, r);
    options.patches = scene->patches; /* no copy has any */
    subject_init(&scene->s, &scene->v.config, &options);
    picture_variant_fill(&scene->s);
    scene->batch.inputs = scene->inputs;
    scene->batch.targets = scene->targets;
    scene->batch.doc_start = scene->doc_start;
    scene->batch.picked = scene->picked;
    scene->batch.pictures = scene->pictures;
    scene->batch.pixels = scene->pixels;
}

static void end(struct scene *scene)
{
    free(scene->pixels);
    subject_fini(&scene->s);
    picture_variant_close(&scene->v);
}

/* --- passes --- */

static void move(const struct subject *s, void *to, const void *from,
                 size_t bytes)
{
    struct dt_error err = {0};
    if (s->exec->device->copy(s->exec->stream, to, from, bytes, &err) < 0 ||
        s->exec->device->stream_wait(s->exec->stream, &err) < 0)
        fail_msg("%s", err.text);
}

/* value(picked) of all tokens of completions. */
static void forward(struct scene *scene, float *value)
{
    struct subject *s = &scene->s;
    const struct dt_step_params params = {.loss_scale = 1};
    subject_begin(s, &params);
    subject_forward(s, &scene->batch, true);
    dt_model_values_forward(s->model);
    move(s, value, dt_view_data(dt_model_values(s->model).value),
         scene->batch.picked_count * sizeof(*value));
}

static void backward(struct scene *scene, const float *weight)
{
    struct subject *s = &scene->s;
    move(s, dt_view_data(dt_model_values(s->model).weight), weight,
         scene->batch.picked_count * sizeof(*weight));
    dt_model_values_backward(s->model, s->step, false);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, false);
    move(s, s->grads_here, s->grads_buf->data, s->grads_buf->bytes);
}

/* --- comparisons --- */

static void expect_near(double is, double want, double limit, const char *what)
{
    if (!(fabs(is - want) < limit))
        fail_msg("%s: %.8g, expected %.8g", what, is, want);
}

/* values(count) of row r of a list of rows. */
static void floats_of(const json_t *rows, size_t r, size_t count, float *values)
{
    for (size_t t = 0; t < count; t++)
        values[t] = (float)variant_number_at(json_array_get(rows, r), t);
}

/* The gradients of `grads`, all divided by `by`. */
static void expect_gradients(const struct scene *scene, const json_t *grads,
                             double by)
{
    const struct subject *s = &scene->s;
    assert_int_equal(json_object_size(grads), s->layout->param_count);
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        const json_t *stored = json_object_get(grads, param->name);
        const float *g = subject_grads(s, i);
        const double norm = variant_number_at(stored, 0);
        double squares = 0;
        for (size_t j = 0; j < param->count; j++)
            squares += (double)g[j] * (double)g[j];
        expect_near(sqrt(squares) / by, norm, 2e-5 * norm + 1e-7, param->name);
        expect_near(variant_project(g, param->count, param->name) / by,
                    variant_number_at(stored, 1), 1e-4 * norm + 1e-7,
                    param->name);
    }
}

/* --- claims --- */

/* Adds the loss of completion r, whose log-probabilities these are. */
static void weigh(const struct scene *scene, size_t r, const float *logp,
                  float *weights, struct dt_grpo_sums *sums)
{
    const struct dt_grpo_options options = {.type = DT_GRPO_GRPO,
                                            .level = DT_GRPO_TOKEN,
                                            .epsilon = 0.2,
                                            .epsilon_high = 0.2,
                                            .kl_unbiased = true,
                                            .beta =
                                                variant_number(file, "beta")};
    float old[TOKENS], ref[TOKENS];
    floats_of(json_object_get(scene->stored, "old"), r, scene->count[r], old);
    floats_of(json_object_get(scene->stored, "ref"), r, scene->count[r], ref);
    const struct dt_grpo_row row = {
        .count = scene->count[r],
        .logp = logp,
        .old = old,
        .ref = ref,
        .advantage = variant_number_at(json_object_get(file, "advantages"), r),
    };
    dt_grpo_loss(&options, &row, 0, weights, sums);
}

static void completions_have_the_loss_and_gradients_of_trl(void **state)
{
    struct scene *scene = malloc(sizeof(*scene));
    float logp[MOST], weights[MOST], *stored = weights;
    struct dt_grpo_sums sums;
    begin(scene, *state, false);
    forward(scene, logp);
    size_t at = 0;
    for (size_t r = 0; r < COMPLETIONS; at += scene->count[r++]) {
        floats_of(json_object_get(scene->stored, "logps"), r, scene->count[r],
                  stored);
        for (size_t t = 0; t < scene->count[r]; t++)
            expect_near((double)logp[at + t], (double)stored[t], 1e-5,
                        "a log-probability");
    }
    dt_grpo_sums_clear(&sums);
    at = 0;
    for (size_t r = 0; r < COMPLETIONS; at += scene->count[r++])
        weigh(scene, r, logp + at, weights + at, &sums);
    expect_near(sums.loss / COMPLETIONS, variant_number(scene->stored, "loss"),
                1e-6, "the loss");
    backward(scene, weights);
    expect_gradients(scene, json_object_get(scene->stored, "grads"),
                     COMPLETIONS);
    end(scene);
    free(scene);
}

static void values_have_the_loss_and_gradients_of_torch(void **state)
{
    struct scene *scene = malloc(sizeof(*scene));
    float value[MOST], weights[MOST], returns[TOKENS], want[TOKENS];
    double loss = 0;
    begin(scene, *state, true);
    forward(scene, value);
    size_t at = 0;
    for (size_t r = 0; r < COMPLETIONS; at += scene->count[r++]) {
        floats_of(json_object_get(scene->stored, "returns"), r, scene->count[r],
                  returns);
        floats_of(json_object_get(scene->stored, "values"), r, scene->count[r],
                  want);
        for (size_t t = 0; t < scene->count[r]; t++) {
            const double off = (double)value[at + t] - (double)returns[t];
            expect_near((double)value[at + t], (double)want[t], 2e-5,
                        "a value");
            weights[at + t] = (float)off;
            loss += off * off / 2;
        }
    }
    const double tokens = (double)at;
    const double stored = variant_number(scene->stored, "value_loss");
    expect_near(loss / tokens, stored, 1e-6 * stored, "the loss of values");
    backward(scene, weights);
    expect_gradients(scene, json_object_get(scene->stored, "value_grads"),
                     tokens);
    end(scene);
    free(scene);
}

/* --- scores --- */

static size_t looks; /* at pictures: passes of a tower */
static const struct dt_ops *ops;

static void look(struct dt_stream *stream, struct dt_view out,
                 struct dt_view rows, struct dt_view grid, struct dt_view table,
                 size_t frames, size_t N, size_t width)
{
    looks++;
    ops->patch_rows(stream, out, rows, grid, table, frames, N, width);
}

/* The reward model of a scene, with operations that count looks. */
static struct dt_engine engine_of(const struct scene *scene)
{
    static struct dt_ops counting;
    const struct subject *s = &scene->s;
    struct dt_engine engine = {.exec = *s->exec,
                               .config = scene->v.config,
                               .layout = s->layout,
                               .weights = s->master};
    ops = s->exec->ops;
    counting = *ops;
    counting.patch_rows = look;
    engine.exec.ops = &counting;
    return engine;
}

/* A prompt with a completion, and its pictures. */
struct text {
    struct dt_scored_text of;
    uint32_t tokens[PICTURE_WIDTH];
    struct dt_batch_picture pictures[PICTURE_MOST];
    uint8_t *pixels;
    size_t prompt;
};

static void take_text(struct scene *scene, size_t r, struct text *text)
{
    const json_t *ids = json_array_get(json_object_get(file, "completions"), r);
    struct picture_variant *v = &scene->v;
    const size_t row = dt_vision_row_bytes(v->config.vision);
    size_t n = 0, patches = 0;
    text->prompt =
        (size_t)variant_number_at(json_object_get(file, "prompts"), r);
    picture_variant_take(v, &text->prompt, 1, false);
    for (; n < v->length[text->prompt]; n++)
        text->tokens[n] =
            (uint32_t)v->inputs[v->first[text->prompt] + n] & ~DT_TARGET_BIT;
    for (size_t t = 0; t < json_array_size(ids); t++)
        text->tokens[n++] = (uint32_t)variant_number_at(ids, t);
    for (size_t i = 0; i < v->batch.picture_count; i++) {
        text->pictures[i] = v->pictures[i];
        text->pictures[i].first -= v->first[text->prompt];
        for (size_t t = 0; t < v->pictures[i].tokens; t++)
            text->tokens[text->pictures[i].first + t] = 0;
        patches += (size_t)v->pictures[i].height * v->pictures[i].width;
    }
    text->pixels = malloc(patches * row + 1);
    assert_non_null(text->pixels);
    if (patches > 0)
        memcpy(text->pixels, v->pixels, patches * row);
    text->of = (struct dt_scored_text){.tokens = text->tokens,
                                       .count = n,
                                       .pictures = text->pictures,
                                       .picture_count = v->batch.picture_count,
                                       .pixels = text->pixels};
}

struct scores {
    float of[2 * COMPLETIONS];
    size_t count;
};

static void keep_score(void *ctx, float score)
{
    struct scores *scores = ctx;
    scores->of[scores->count++] = score;
}

/* Scores the texts of this order, each with a model of its own or with one. */
static void score(const struct scene *scene, const struct text *texts,
                  const size_t *order, size_t count, size_t shape, bool alone,
                  struct scores *scores)
{
    struct dt_engine engine = engine_of(scene);
    const struct dt_scorer_room room = {.longest = PICTURE_WIDTH,
                                        .shape = shape,
                                        .patches = scene->v.patches,
                                        .pictures = scene->v.picture_count,
                                        .colors = &scene->v.colors.of[0][0]};
    struct dt_scorer *scorer = NULL;
    struct dt_error err = {0};
    *scores = (struct scores){.count = 0};
    looks = 0;
    for (size_t i = 0; i < count; i++) {
        if (!scorer)
            scorer = dt_scorer_create(&engine, &room, keep_score, scores, &err);
        if (!scorer || dt_scorer_add(scorer, &texts[order[i]].of, &err) < 0)
            fail_msg("%s", err.text);
        if (!alone && i + 1 < count)
            continue;
        assert_int_equal(dt_scorer_flush(scorer, &err), 0);
        dt_scorer_destroy(scorer);
        scorer = NULL;
    }
    assert_int_equal(scores->count, count);
}

/* --- a device that counts what it has given --- */

static const struct dt_device *device;
static size_t held;

static int allocate(size_t bytes, void **data, struct dt_error *err)
{
    held += bytes;
    return device->allocate(bytes, data, err);
}

static void release(void *data, size_t bytes)
{
    held -= bytes;
    device->release(data, bytes);
}

static void expect_planned(struct dt_engine *engine,
                           const struct dt_scorer_room *room)
{
    struct dt_error err = {0};
    const size_t planned =
        dt_scorer_bytes(&engine->config, engine->exec.ops, DT_F32, room);
    struct dt_scorer *scorer =
        dt_scorer_create(engine, room, keep_score, NULL, &err);
    assert_non_null(scorer);
    assert_in_range(held, planned, planned + 1024);
    dt_scorer_destroy(scorer);
    assert_int_equal(held, 0);
}

static void a_scorer_takes_the_bytes_that_are_planned(void **state)
{
    static struct dt_device counting;
    struct scene *scene = malloc(sizeof(*scene));
    begin(scene, *state, true);
    struct dt_engine engine = engine_of(scene);
    device = engine.exec.device;
    counting = *device;
    counting.allocate = allocate;
    counting.release = release;
    engine.exec.device = &counting;
    const struct picture_variant *v = &scene->v;
    const struct dt_scorer_room rooms[] = {
        {.longest = 100},
        {.longest = 100, .patches = v->patches, .pictures = v->picture_count},
        {.longest = 2049, .patches = 4096, .pictures = 64},
    };
    for (size_t i = 0; i < 3; i++)
        expect_planned(&engine, &rooms[i]);
    end(scene);
    free(scene);
}

/* How often other pictures come in this order than were there before. */
static size_t changes(const struct text *texts, const size_t *order,
                      size_t count)
{
    size_t n = 0, last = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct text *text = &texts[order[i]];
        if (text->of.picture_count == 0 || text->prompt == last)
            continue;
        last = text->prompt;
        n++;
    }
    return n;
}

/* Of prompts 0, 0, 0, 2, 2, 0, 1, 1, 1, in rows for several texts, for one, and
 * without a shape. Prompts without pictures between others do not matter. A row
 * of a shape has as many rows whatever is in it, and so the same bits; if it
 * has several texts, only where they begin at tiles of attention. Without a
 * shape another number of rows may have another kernel for its products.
 */
static void the_pictures_of_a_prompt_are_scored_with_one_look(void **state)
{
    enum { ALL = 9, SHORT = 16 };
    static const size_t order[ALL] = {0, 3, 6, 1, 5, 0, 2, 4, 4};
    static const size_t shapes[] = {1024, SHORT, 0};
    struct scene *scene = malloc(sizeof(*scene));
    struct text *texts = calloc(COMPLETIONS, sizeof(*texts));
    struct scores alone, together;
    assert_true(scene && texts);
    begin(scene, *state, true);
    for (size_t r = 0; r < COMPLETIONS; r++)
        take_text(scene, r, &texts[r]);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (shapes[i] > 0)
            score(scene, texts, order, ALL, shapes[i], true, &alone);
        score(scene, texts, order, ALL, shapes[i], false, &together);
        assert_int_equal(looks, changes(texts, order, ALL));
        for (size_t k = 0; k < ALL; k++)
            expect_near((double)together.of[k], (double)alone.of[k], 1e-5,
                        "a score");
        if (shapes[i] == SHORT || (shapes[i] > 0 && ops->key_tile > 0))
            assert_memory_equal(alone.of, together.of, ALL * sizeof(float));
    }
    for (size_t r = 0; r < COMPLETIONS; r++)
        free(texts[r].pixels);
    free(texts);
    end(scene);
    free(scene);
}

static const struct claim claims[] = {
    CLAIM(completions_have_the_loss_and_gradients_of_trl),
    CLAIM(values_have_the_loss_and_gradients_of_torch),
    CLAIM(the_pictures_of_a_prompt_are_scored_with_one_look),
    CLAIM(a_scorer_takes_the_bytes_that_are_planned),
};

int main(void)
{
    pictures = stored_load("vision.json");
    file = stored_load("vision_sampled.json");
    const int rc =
        claims_run("vision, sampled", json_object_get(file, "variants"), claims,
                   sizeof(claims) / sizeof(claims[0]));
    json_decref(pictures);
    json_decref(file);
    return rc;
}
