/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vision_sampled.c - completions of prompts with images have the loss and
 * the gradients that make_vision_sampled.py had from TRL's GRPOTrainer, and
 * those of a critic in torch
 *
 * All completions are in one row, and the tower sees the pictures of a prompt
 * once.
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

#include "loss/grpo_loss.h"
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

static const struct claim claims[] = {
    CLAIM(completions_have_the_loss_and_gradients_of_trl),
    CLAIM(values_have_the_loss_and_gradients_of_torch),
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
