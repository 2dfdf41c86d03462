/* SPDX-License-Identifier: Apache-2.0 */
/* test_families.c - variants of all families compute what transformers does */
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

#include "optim/optim.h"
#include "rollout/rollout.h"
#include "tests/parity/claims.h"
#include "tests/parity/logits.h"
#include "tests/parity/stored.h"
#include "tests/parity/subject.h"
#include "tests/parity/variant.h"

enum { MOST_NEW = 32 };

static json_t *file; /* families.json */

static void fill(struct subject *s)
{
    for (size_t i = 0; i < s->layout->param_count; i++)
        variant_fill(s->config, &s->layout->params[i], subject_weights(s, i));
    subject_publish(s);
}

static void begin(struct variant *v, struct subject *s, const char *name,
                  const struct dt_model_options *like)
{
    struct dt_model_options options = *like;
    options.B = VARIANT_ROWS;
    options.T = ROWS_WIDTH;
    options.documents = true;
    variant_open(v, file, name);
    subject_init(s, &v->config, &options);
    fill(s);
}

static void end(struct variant *v, struct subject *s)
{
    subject_fini(s);
    variant_close(v);
}

/* logits(tokens, V) of one document after the other; free() them. *count is
 * that of tokens.
 */
static float *logits_of(struct subject *s, const struct variant *v,
                        size_t *count)
{
    size_t V = v->config.vocab_size;
    float *logits = calloc(VARIANT_ROWS * ROWS_WIDTH * V, sizeof(*logits));
    assert_non_null(logits);
    subject_forward(s, &v->rows.batch, false);
    *count = 0;
    for (size_t i = 0; i < VARIANT_DOCUMENTS; i++)
        for (size_t t = 0; t < v->length[i]; t++, (*count)++) {
            size_t n = v->first[i] + t;
            assert_int_equal(position_logits(s->model, n / ROWS_WIDTH,
                                             n % ROWS_WIDTH,
                                             logits + *count * V, NULL),
                             0);
        }
    return logits;
}

static void logits_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {0}, low = {.compute = DT_BF16};
    struct variant v;
    struct subject s;
    size_t count, V;
    begin(&v, &s, *state, &options);
    const json_t *stored = json_object_get(v.stored, "logits");
    float *want = logits_of(&s, &v, &count);
    V = v.config.vocab_size;
    assert_int_equal(count, json_array_size(stored));
    for (size_t t = 0; t < count; t++) {
        double got = variant_project(want + t * V, V, "logits");
        if (!(fabs(got - variant_number_at(stored, t)) < 1e-4))
            fail_msg("token %zu: %.8g, expected %.8g", t, got,
                     variant_number_at(stored, t));
    }
    end(&v, &s);

    /* 16 bits move ours no more than twice as far as those of the reference */
    begin(&v, &s, *state, &low);
    float *got = logits_of(&s, &v, &count);
    double off = 0, all = 0;
    for (size_t i = 0; i < count * V; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    assert_true(off > 0 &&
                sqrt(off / all) < 2 * variant_number(v.stored, "bf16"));
    free(got);
    free(want);
    end(&v, &s);
}

/* --- gradients and steps --- */

/* The forward and the backward pass of all documents. */
static void pass(struct subject *s, const struct dt_batch *batch)
{
    subject_forward(s, batch, true);
    dt_model_loss_and_backward(s->model, s->step, false);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, false);
}

static void check_gradient(const struct subject *s, const json_t *grads,
                           size_t i, double targets)
{
    const struct dt_param *param = &s->layout->params[i];
    const json_t *stored = json_object_get(grads, param->name);
    const json_t *shape = json_array_get(stored, 0);
    const float *g = subject_grads(s, i);
    double squares = 0;
    assert_int_equal(json_array_size(shape), param->ndim);
    for (int d = 0; d < param->ndim; d++)
        assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)),
                         param->shape[d]);
    for (size_t j = 0; j < param->count; j++)
        squares += (double)g[j] * (double)g[j];
    double norm = sqrt(squares) / targets, want = variant_number_at(stored, 1);
    double along = variant_project(g, param->count, param->name) / targets;
    if (!(fabs(norm - want) < 1e-4 * want + 1e-7) ||
        !(fabs(along - variant_number_at(stored, 2)) < 1e-3 * want + 1e-7))
        fail_msg("%s: norm %.8g, expected %.8g; along hashes %.8g, expected "
                 "%.8g",
                 param->name, norm, want, along, variant_number_at(stored, 2));
}

/* Names and shapes are those of the reference's files, too. */
static void gradients_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {.train = true};
    struct variant v;
    struct subject s;
    begin(&v, &s, *state, &options);
    const json_t *grads = json_object_get(v.stored, "grads");
    assert_int_equal(json_object_size(grads), s.layout->param_count);
    subject_train(&s, &v.rows.batch, 1, false);
    for (size_t i = 0; i < s.layout->param_count; i++)
        check_gradient(&s, grads, i, (double)v.rows.batch.target_count);
    end(&v, &s);
}

static void train_twice(const char *name, const struct dt_model_options *a,
                        const struct dt_model_options *b)
{
    struct variant v, w;
    struct subject s, t;
    begin(&v, &s, name, a);
    begin(&w, &t, name, b);
    assert_true(subject_train(&s, &v.rows.batch, 1, false) ==
                subject_train(&t, &w.rows.batch, 1, false));
    for (size_t i = 0; i < s.layout->param_count; i++)
        assert_memory_equal(subject_grads(&s, i), subject_grads(&t, i),
                            s.layout->params[i].count * sizeof(float));
    end(&v, &s);
    end(&w, &t);
}

static void recomputed_or_saved_activations_have_the_same_bits(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16};
    for (size_t i = 0; i < 2; i++) {
        struct dt_model_options plain = {.compute = types[i], .train = true};
        struct dt_model_options again = plain, saved = plain;
        again.recompute = true;
        saved.save_activations = true;
        train_twice(*state, &plain, &again);
        if (subject_exec()->device->is_host)
            train_twice(*state, &plain, &saved);
    }
}

/* Step k; returns the mean loss. *norm is that of the gradients. */
static double step(struct subject *s, struct dt_optim *optim,
                   const struct variant *v, struct dt_view moments, size_t k,
                   double *norm)
{
    const struct dt_ops *ops = s->exec->ops;
    size_t count = s->layout->count;
    double scalars[DT_STEP_COUNT];
    struct dt_step_params params =
        dt_optim_step_params(optim, (long)k + 1, variant_number(v->all, "lr"));
    params.loss_scale = 1;
    subject_begin(s, &params);
    ops->step_add(s->exec->stream, s->step, (double)v->rows.batch.target_count,
                  0);
    pass(s, &v->rows.batch);
    ops->sum_of_squares(s->exec->stream, s->step, s->grads);
    ops->clip_and_check(s->exec->stream, s->step,
                        variant_number(v->all, "max_norm"));
    dt_optim_update(optim, false, s->step, 0, s->master, (struct dt_view){0},
                    s->grads, dt_view_slice(moments, 0, count),
                    dt_view_slice(moments, count, count), NULL);
    subject_scalars(s, scalars);
    *norm = scalars[DT_STEP_NORM];
    return scalars[DT_STEP_LOSS] / (double)v->rows.batch.target_count;
}

static void losses_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {.train = true};
    struct variant v;
    struct subject s;
    struct dt_error err = {0};
    begin(&v, &s, *state, &options);
    const json_t *betas = json_object_get(v.all, "betas");
    const struct dt_optim_options optim_options = {
        .beta1 = variant_number_at(betas, 0),
        .beta2 = variant_number_at(betas, 1),
        .eps = variant_number(v.all, "eps"),
        .weight_decay = variant_number(v.all, "weight_decay"),
    };
    struct dt_optim *optim =
        dt_optim_create(s.layout, s.exec, &optim_options, &err);
    struct dt_buffer *buf = dt_buffer_create(
        s.exec->device, 2 * s.layout->count * sizeof(float), "a test", &err);
    assert_true(optim && buf);
    s.exec->ops->zero(s.exec->stream, dt_view_of(buf, DT_F32));
    s.exec->ops->zero(s.exec->stream, s.grads); /* padding, too */
    for (size_t k = 0; k < VARIANT_STEPS; k++) {
        double norm,
            want = variant_number_at(json_object_get(v.stored, "losses"), k);
        double norm_want =
            variant_number_at(json_object_get(v.stored, "norms"), k);
        double loss = step(&s, optim, &v, dt_view_of(buf, DT_F32), k, &norm);
        if (!(fabs(loss / want - 1) < 1e-5 &&
              fabs(norm / norm_want - 1) < 1e-4))
            fail_msg("step %zu: loss %.8g, expected %.8g; norm %.8g, expected "
                     "%.8g",
                     k, loss, want, norm, norm_want);
    }
    dt_optim_destroy(optim);
    dt_buffer_destroy(buf);
    end(&v, &s);
}

/* --- decoding --- */

struct decoding {
    const struct variant *v;
    bool given;
    int32_t prompt[ROWS_WIDTH], ids[MOST_NEW];
    size_t count;
};

static int give(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    struct decoding *d = ctx;
    size_t count = (size_t)variant_number(d->v->all, "prompt");
    (void)err;
    if (d->given)
        return 0;
    d->given = true;
    memcpy(d->prompt, d->v->rows.inputs, count * sizeof(*d->prompt));
    *prompt = (struct dt_prompt){.number = 0, .ids = d->prompt, .count = count};
    return 1;
}

static int take(void *ctx, const struct dt_completion *completion,
                struct dt_error *err)
{
    struct decoding *d = ctx;
    (void)err;
    assert_in_range(completion->count, 1, MOST_NEW);
    d->count = completion->count;
    memcpy(d->ids, completion->ids, d->count * sizeof(*d->ids));
    return 0;
}

/* Tokens that follow the beginning of the first document, by a cache; those of
 * a model whose angles change with the length end before that.
 */
static void greedy_tokens_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {0};
    struct variant v;
    struct subject s;
    struct dt_error err = {0};
    begin(&v, &s, *state, &options);
    const json_t *want = json_object_get(v.stored, "greedy");
    size_t prompt = (size_t)variant_number(v.all, "prompt");
    size_t room = dt_model_room(&v.config) - prompt;
    size_t count = json_array_size(want) < room ? json_array_size(want) : room;
    struct dt_rollout_options rollout_options = {
        .slots = 1,
        .copies = 1,
        .max_prompt = prompt,
        .max_tokens = json_array_size(want),
        .sampling = {.top_p = 1, .repetition_penalty = 1},
    };
    struct decoding decoding = {.v = &v};
    const struct dt_rollout_io io = {give, take, .ctx = &decoding};
    struct dt_buffer *memory = dt_buffer_create(
        s.exec->device,
        dt_rollout_bytes(&v.config, s.exec->ops, &rollout_options), "a test",
        &err);
    assert_non_null(memory);
    struct dt_rollout *rollout =
        dt_rollout_create(&v.config, s.layout, s.exec, dt_places_flat(s.master),
                          memory, &rollout_options, &err);
    if (!rollout || dt_rollout_run(rollout, &io, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(decoding.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(decoding.ids[i],
                         json_integer_value(json_array_get(want, i)));
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    end(&v, &s);
}

/* --- all of them --- */

static const struct claim claims[] = {
    CLAIM(logits_are_those_of_the_reference),
    CLAIM(gradients_are_those_of_the_reference),
    CLAIM(recomputed_or_saved_activations_have_the_same_bits),
    CLAIM(losses_are_those_of_the_reference),
    CLAIM(greedy_tokens_are_those_of_the_reference),
};

int main(void)
{
    file = stored_load("families.json");
    const int rc = claims_run("families", json_object_get(file, "variants"),
                              claims, sizeof(claims) / sizeof(claims[0]));
    json_decref(file);
    return rc;
}
