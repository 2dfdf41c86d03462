/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision_decode.c - prompts with pictures are completed as by transformers
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

#include <jansson.h>

#include "model/decode.h"
#include "model/model_impl.h"
#include "rollout/rollout.h"
#include "tests/parity/claims.h"
#include "tests/parity/picture_variant.h"
#include "tests/parity/stored.h"
#include "tests/parity/variant.h"

enum { COPIES = 3, NEW = 45, MOST = PICTURE_WIDTH + NEW };

static json_t *file; /* vision.json */

/* A document as a prompt. */
struct prompt {
    int32_t ids[MOST];
    size_t count;
    struct dt_batch_picture pictures[PICTURE_MOST];
    size_t picture_count, patches;
    uint8_t *pixels;
};

struct completion {
    int32_t ids[NEW];
    float logps[NEW];
    size_t count;
};

struct scene {
    struct picture_variant v;
    struct subject s;
    struct prompt prompts[PICTURE_DOCUMENTS];
};

/* The prompts of a run, and what came of them. */
struct work {
    const struct scene *scene;
    size_t order[PICTURE_DOCUMENTS], count, given;
    struct completion of[PICTURE_DOCUMENTS][COPIES];
    struct dt_rollout_counts counts;
};

/* A prompt ends with text: a document that does not gets a token. */
static void copy_document(struct scene *scene, size_t i)
{
    struct picture_variant *v = &scene->v;
    struct prompt *p = &scene->prompts[i];
    picture_variant_take(v, &i, 1, false);
    p->count = v->length[i];
    memcpy(p->ids, v->inputs + v->first[i], p->count * sizeof(*p->ids));
    if (p->ids[p->count - 1] < 0)
        p->ids[p->count++] = 7;
    p->picture_count = v->batch.picture_count;
    memcpy(p->pictures, v->pictures, sizeof(p->pictures));
    for (size_t k = 0; k < p->picture_count; k++) {
        p->pictures[k].first -= v->first[i];
        p->patches += (size_t)p->pictures[k].height * p->pictures[k].width;
    }
    p->pixels = v->pixels;
    v->pixels = NULL;
}

static void begin(struct scene *scene, const char *name,
                  const struct dt_model_options *like)
{
    struct dt_model_options options = *like;
    *scene = (struct scene){0};
    picture_variant_open(&scene->v, file, name, true);
    picture_variant_options(&scene->v, &options);
    subject_init(&scene->s, &scene->v.config, &options);
    picture_variant_fill(&scene->s);
    for (size_t i = 0; i < PICTURE_DOCUMENTS; i++)
        copy_document(scene, i);
}

static void end(struct scene *scene)
{
    for (size_t i = 0; i < PICTURE_DOCUMENTS; i++)
        free(scene->prompts[i].pixels);
    subject_fini(&scene->s);
    picture_variant_close(&scene->v);
}

static int give(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    struct work *work = ctx;
    (void)err;
    if (work->given == work->count)
        return 0;
    const size_t n = work->order[work->given++];
    const struct prompt *p = &work->scene->prompts[n];
    *prompt = (struct dt_prompt){
        .number = n,
        .ids = p->ids,
        .count = p->count,
        .pictures = p->pictures,
        .picture_count = p->picture_count,
        .pixels = p->pixels,
    };
    return 1;
}

static int take(void *ctx, const struct dt_completion *completion,
                struct dt_error *err)
{
    struct work *work = ctx;
    struct completion *to = &work->of[completion->prompt][completion->copy];
    (void)err;
    assert_in_range(completion->count, 1, NEW);
    assert_int_equal(to->count, 0);
    to->count = completion->count;
    memcpy(to->ids, completion->ids, to->count * sizeof(*to->ids));
    memcpy(to->logps, completion->logps, to->count * sizeof(*to->logps));
    return 0;
}

static struct dt_rollout_options options_of(const struct scene *scene,
                                            size_t slots)
{
    struct dt_rollout_options options = {
        .compute = scene->s.copy_buf ? scene->s.copy.dtype : DT_F32,
        .slots = slots,
        .copies = COPIES,
        .max_tokens = NEW,
        .colors = &scene->v.colors.of[0][0],
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        .seed = 3,
    };
    for (size_t i = 0; i < PICTURE_DOCUMENTS; i++) {
        const struct prompt *p = &scene->prompts[i];
        if (p->count > options.max_prompt)
            options.max_prompt = p->count;
        if (p->patches > options.patches)
            options.patches = p->patches;
        if (p->picture_count > options.pictures)
            options.pictures = p->picture_count;
    }
    return options;
}

static int try_run(struct work *work, const struct dt_rollout_options *options,
                   struct dt_error *err)
{
    const struct dt_rollout_io io = {.next = give, .done = take, .ctx = work};
    const struct subject *s = &work->scene->s;
    struct dt_buffer *memory = dt_buffer_create(
        s->exec->device, dt_rollout_bytes(s->config, s->exec->ops, options),
        "a rollout", err);
    assert_non_null(memory);
    struct dt_rollout *rollout =
        dt_rollout_create(s->config, s->layout, s->exec,
                          dt_places_flat(s->copy_buf ? s->copy : s->master),
                          memory, options, err);
    int rc = rollout ? dt_rollout_run(rollout, &io, err) : -1;
    if (rollout)
        work->counts = dt_rollout_counts(rollout);
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    return rc;
}

/* Completes the prompts `order`, a digit each. */
static void run(struct work *work, const struct scene *scene,
                const struct dt_rollout_options *options, const char *order)
{
    struct dt_error err = {0};
    *work = (struct work){.scene = scene, .count = strlen(order)};
    for (size_t i = 0; i < work->count; i++)
        work->order[i] = (size_t)(order[i] - '0');
    if (try_run(work, options, &err) != 0)
        fail_msg("%s", err.text);
}

/* --- against transformers --- */

static void greedy_tokens_are_those_of_the_reference(void **state)
{
    const struct dt_model_options like = {0};
    struct scene *scene = malloc(sizeof(*scene));
    struct work *work = malloc(sizeof(*work));
    begin(scene, *state, &like);
    struct dt_rollout_options options = options_of(scene, 1);
    const json_t *stored = json_object_get(scene->v.stored, "greedy");
    options.copies = 1;
    options.max_tokens = json_array_size(json_array_get(stored, 0));
    options.sampling.temperature = 0;
    run(work, scene, &options, "0");
    const struct completion *got = &work->of[0][0];
    assert_int_equal(got->count, options.max_tokens);
    for (size_t i = 0; i < got->count; i++) {
        const double want = variant_number_at(json_array_get(stored, 1), i);
        assert_int_equal(got->ids[i],
                         variant_number_at(json_array_get(stored, 0), i));
        if (!(fabs((double)got->logps[i] - want) < 1e-5))
            fail_msg("token %zu: %.8g, expected %.8g", i, (double)got->logps[i],
                     want);
    }
    end(scene);
    free(work);
    free(scene);
}

/* What M-RoPE adds to the index of a token behind a document; others nothing.
 */
static void shifts_are_those_of_the_reference(void **state)
{
    const struct dt_model_options like = {0};
    struct scene *scene = malloc(sizeof(*scene));
    begin(scene, *state, &like);
    const json_t *stored = json_object_get(scene->v.stored, "deltas");
    for (size_t i = 0; i < PICTURE_DOCUMENTS; i++) {
        const struct prompt *p = &scene->prompts[i];
        assert_int_equal(
            dt_decoder_shift(&scene->v.config, p->pictures, p->picture_count),
            json_integer_value(json_array_get(stored, i)));
    }
    end(scene);
    free(scene);
}

/* --- against the forward pass of training --- */

/* The largest difference of log-probabilities of prompt n and a completion. */
static double compare_forward(struct scene *scene, size_t n,
                              const struct completion *c)
{
    const struct prompt *p = &scene->prompts[n];
    const struct dt_device *device = scene->s.exec->device;
    int32_t ids[MOST], targets[MOST], picked[NEW];
    float values[NEW];
    struct dt_error err;
    double largest = 0;
    const size_t T = p->count + c->count;
    memcpy(ids, p->ids, p->count * sizeof(*ids));
    memcpy(ids + p->count, c->ids, c->count * sizeof(*ids));
    for (size_t t = 0; t < T; t++)
        targets[t] = t + 1 < T ? ids[t + 1] : DT_IGNORE;
    for (size_t i = 0; i < c->count; i++)
        picked[i] = (int32_t)(p->count - 1 + i);
    const struct dt_batch batch = {.B = 1,
                                   .T = T,
                                   .inputs = ids,
                                   .targets = targets,
                                   .picked = picked,
                                   .picked_count = c->count,
                                   .pictures = p->pictures,
                                   .picture_count = p->picture_count,
                                   .pixels = p->pixels};
    subject_forward(&scene->s, &batch, false);
    dt_model_values_forward(scene->s.model);
    if (device->copy(scene->s.exec->stream, values,
                     dt_view_data(dt_model_values(scene->s.model).value),
                     c->count * sizeof(*values), &err) < 0 ||
        device->stream_wait(scene->s.exec->stream, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < c->count; i++)
        largest = fmax(largest, fabs((double)values[i] - c->logps[i]));
    return largest;
}

static void decoding_is_the_forward_of_training(void **state)
{
    const struct dt_model_options like = {.values = true};
    struct scene *scene = malloc(sizeof(*scene));
    struct work *work = malloc(sizeof(*work));
    begin(scene, *state, &like);
    const struct dt_rollout_options options = options_of(scene, 3);
    run(work, scene, &options, "0123");
    double largest = 0;
    for (size_t n = 0; n < PICTURE_DOCUMENTS; n++)
        for (size_t g = 0; g < COPIES; g++)
            largest = fmax(largest, compare_forward(scene, n, &work->of[n][g]));
    print_message("%s: largest %.2g\n", (const char *)*state, largest);
    assert_true(largest < 1e-5);
    end(scene);
    free(work);
    free(scene);
}

/* --- the same bits --- */

/* Completes the prompts `order` and expects what `want` has of them. */
static struct dt_rollout_counts expect_same(
    const struct work *want, const struct scene *scene,
    const struct dt_rollout_options *options, const char *order)
{
    struct work *got = malloc(sizeof(*got));
    run(got, scene, options, order);
    for (size_t i = 0; i < got->count; i++) {
        const size_t n = got->order[i];
        assert_memory_equal(got->of[n], want->of[n],
                            options->copies * sizeof(got->of[n][0]));
    }
    const struct dt_rollout_counts counts = got->counts;
    free(got);
    return counts;
}

/* In few blocks sequences are dropped, and prompts computed again. */
static void check_few_blocks(const struct work *want, const struct scene *scene)
{
    struct dt_rollout_options few = options_of(scene, 5);
    size_t again = 0;
    few.blocks = (few.max_prompt + few.max_tokens) / DT_KV_BLOCK + 2;
    for (few.copies = 2; few.copies <= COPIES; few.copies++) {
        const struct dt_rollout_counts counts =
            expect_same(want, scene, &few, "0123");
        again += counts.prompts - PICTURE_DOCUMENTS + counts.preempted;
    }
    assert_true(again > 0);
}

/* The CPU's promise: other devices may round rows of a larger step otherwise.
 */
static void check_neighbors(const char *name, enum dt_dtype compute)
{
    const struct dt_model_options like = {.compute = compute};
    if (!subject_exec()->device->is_host)
        skip();
    struct scene *scene = malloc(sizeof(*scene));
    struct work *want = malloc(sizeof(*want));
    begin(scene, name, &like);
    struct dt_rollout_options many = options_of(scene, 15);
    struct dt_rollout_options one = options_of(scene, 1);
    run(want, scene, &many, "0123");
    assert_int_equal(want->counts.prompts, PICTURE_DOCUMENTS);
    assert_int_equal(want->counts.preempted, 0);
    expect_same(want, scene, &one, "0321");
    check_few_blocks(want, scene);
#ifndef SANITIZER /* test_rollout has it of text */
    expect_same(want, scene, &many, "3120");
    expect_same(want, scene, &many, "2");
    expect_same(want, scene, &many, "3");

    /* every step has as many rows */
    many = options_of(scene, 16);
    run(want, scene, &many, "0123");
    one.exact = true;
    expect_same(want, scene, &one, "3210");
#endif
    end(scene);
    free(want);
    free(scene);
}

static void neighbors_order_and_slots_change_nothing(void **state)
{
    check_neighbors(*state, DT_F32);
}

static void nor_in_bf16(void **state)
{
    check_neighbors(*state, DT_BF16);
}

/* --- what is not drawn, and what is refused --- */

/* At a temperature that makes all tokens alike. */
static void placeholders_are_not_drawn(void **state)
{
    const struct dt_model_options like = {0};
    struct scene *scene = malloc(sizeof(*scene));
    struct work *work = malloc(sizeof(*work));
    begin(scene, *state, &like);
    const struct dt_vision_config *vision = scene->v.config.vision;
    struct dt_rollout_options options = options_of(scene, 8);
    size_t beyond = 0; /* tokens with larger ids than one of these, or equal */
    options.sampling.temperature = 100;
    for (uint64_t seed = 0; seed < 10; seed++) {
        options.seed = seed;
        run(work, scene, &options, "0123");
        for (size_t n = 0; n < PICTURE_DOCUMENTS; n++)
            for (size_t g = 0; g < COPIES; g++)
                for (size_t i = 0; i < work->of[n][g].count; i++) {
                    const int32_t id = work->of[n][g].ids[i];
                    assert_true(id >= 0 && id != vision->token &&
                                id != vision->video);
                    beyond += id > vision->token - 3;
                }
    }
    assert_true(beyond > 0);
    end(scene);
    free(work);
    free(scene);
}

static void expect_refused(struct scene *scene,
                           const struct dt_rollout_options *options,
                           const char *text)
{
    struct work *work = calloc(1, sizeof(*work));
    struct dt_error err = {0};
    work->scene = scene;
    work->count = 1;
    assert_int_equal(try_run(work, options, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, text);
    free(work);
}

static void prompts_beyond_the_options_are_refused(void **state)
{
    const struct dt_model_options like = {0};
    struct scene *scene = malloc(sizeof(*scene));
    char text[256];
    begin(scene, *state, &like);
    struct prompt *p = &scene->prompts[0];
    const struct dt_rollout_options all = options_of(scene, 2);
    struct dt_rollout_options options = all;
    options.pictures = p->picture_count - 1;
    snprintf(text, sizeof(text),
             "prompt 0 has %zu pictures of %zu patches, expected at most %zu "
             "of %zu",
             p->picture_count, p->patches, options.pictures, options.patches);
    expect_refused(scene, &options, text);
    options = all;
    options.patches = p->patches - 1;
    snprintf(text, sizeof(text),
             "prompt 0 has %zu pictures of %zu patches, expected at most %zu "
             "of %zu",
             p->picture_count, p->patches, options.pictures, options.patches);
    expect_refused(scene, &options, text);
    p->count--;
    while (p->ids[p->count - 1] >= 0)
        p->count--;
    expect_refused(scene, &all,
                   "prompt 0 ends with an image: expected text behind it");
    end(scene);
    free(scene);
}

/* Nothing is reserved for pictures, and nothing is missing, where prompts have
 * none.
 */
static void text_alone_needs_no_memory_of_pictures(void **state)
{
    const struct dt_model_options like = {0};
    struct scene *scene = malloc(sizeof(*scene));
    struct work *want = malloc(sizeof(*want));
    begin(scene, *state, &like);
    const struct dt_ops *ops = scene->s.exec->ops;
    const struct dt_rollout_options all = options_of(scene, 2);
    struct dt_rollout_options text = all;
    text.patches = text.pictures = 0;
    text.colors = NULL;
    run(want, scene, &all, "1");
    expect_same(want, scene, &text, "1");
    const size_t bytes = dt_rollout_own_bytes(scene->s.config, ops, &text);
    assert_in_range(bytes, 1,
                    dt_rollout_own_bytes(scene->s.config, ops, &all) -
                        all.patches *
                            dt_vision_row_bytes(scene->v.config.vision));
    end(scene);
    free(want);
    free(scene);
}

/* --- all of them --- */

static const struct claim claims[] = {
    CLAIM(greedy_tokens_are_those_of_the_reference),
    CLAIM(shifts_are_those_of_the_reference),
    CLAIM(decoding_is_the_forward_of_training),
    CLAIM(neighbors_order_and_slots_change_nothing),
    CLAIM(nor_in_bf16),
    CLAIM(placeholders_are_not_drawn),
    CLAIM(prompts_beyond_the_options_are_refused),
    CLAIM(text_alone_needs_no_memory_of_pictures),
};

int main(void)
{
    file = stored_load("vision.json");
    const int rc =
        claims_run("vision, decoded", json_object_get(file, "variants"), claims,
                   sizeof(claims) / sizeof(claims[0]));
    json_decref(file);
    return rc;
}
