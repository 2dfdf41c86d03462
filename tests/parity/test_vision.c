/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision.c - models with a tower compute what transformers does */
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
#include "tests/parity/claims.h"
#include "tests/parity/logits.h"
#include "tests/parity/picture_variant.h"
#include "tests/parity/stored.h"
#include "tests/parity/variant.h"

static json_t *file; /* vision.json */

static void begin(struct picture_variant *v, struct subject *s,
                  const char *name, const struct dt_model_options *like,
                  bool packed)
{
    struct dt_model_options options = *like;
    picture_variant_open(v, file, name, packed);
    picture_variant_options(v, &options);
    subject_init(s, &v->config, &options);
    picture_variant_fill(s);
}

static void end(struct picture_variant *v, struct subject *s)
{
    subject_fini(s);
    picture_variant_close(v);
}

/* --- features --- */

/* features(M, C) of the batch in the order of their tokens; free() them. */
static float *features_of(struct subject *s, const struct picture_variant *v,
                          size_t *count)
{
    const struct dt_tower *t = s->model->tower;
    const size_t C = v->config.n_embd;
    struct dt_error err;
    subject_forward(s, &v->batch, false);
    const struct dt_view features = t->acts.projectors[0].features;
    const struct dt_view tokens = t->pictures.tokens;
    const size_t M = tokens.count, N = v->batch.B * v->batch.T;
    float *got = malloc(M * C * sizeof(*got));
    float *sorted = malloc(M * C * sizeof(*sorted));
    int32_t *at = malloc(M * sizeof(*at));
    int32_t *feature = malloc(N * sizeof(*feature));
    assert_true(got && sorted && at && feature);
    const struct dt_device *device = s->exec->device;
    assert_int_equal(device->copy(s->exec->stream, got, dt_view_data(features),
                                  dt_view_bytes(features), &err),
                     0);
    assert_int_equal(device->copy(s->exec->stream, at, dt_view_data(tokens),
                                  dt_view_bytes(tokens), &err),
                     0);
    assert_int_equal(device->stream_wait(s->exec->stream, &err), 0);
    for (size_t n = 0; n < N; n++)
        feature[n] = -1;
    for (size_t m = 0; m < M; m++)
        if (at[m] >= 0) /* others are fillers */
            feature[at[m]] = (int32_t)m;
    *count = 0;
    for (size_t n = 0; n < N; n++)
        if (feature[n] >= 0)
            memcpy(sorted + (*count)++ * C, got + (size_t)feature[n] * C,
                   C * sizeof(*got));
    assert_in_range(*count, 1, M);
    free(feature);
    free(at);
    free(got);
    return sorted;
}

static void features_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {0};
    struct picture_variant v;
    struct subject s;
    size_t count;
    begin(&v, &s, *state, &options, true);
    const json_t *stored = json_object_get(v.stored, "features");
    const size_t C = v.config.n_embd;
    float *got = features_of(&s, &v, &count);
    assert_int_equal(count, json_array_size(stored));
    for (size_t m = 0; m < count; m++) {
        const double want = variant_number_at(stored, m);
        const double is = variant_project(got + m * C, C, "features");
        double squares = 0;
        for (size_t c = 0; c < C; c++)
            squares += pow((double)got[m * C + c], 2);
        if (!(fabs(is - want) < 5e-6 * sqrt(squares)))
            fail_msg("feature %zu: %.8g, expected %.8g", m, is, want);
    }
    free(got);
    end(&v, &s);
}

/* Of a picture by itself, and among others, with other lengths of all. */
static void features_do_not_depend_on_the_batch(void **state)
{
    static const size_t first[] = {0}, others[] = {3, 0, 2};
    const struct dt_model_options options = {.exact_rows = true};
    struct picture_variant v;
    struct subject s;
    size_t count, more;
    if (!subject_exec()->device->is_host)
        skip();
    begin(&v, &s, *state, &options, true);
    const size_t C = v.config.n_embd;
    picture_variant_take(&v, others, 3, false);
    float *among = features_of(&s, &v, &more);
    picture_variant_take(&v, first, 1, false);
    float *alone = features_of(&s, &v, &count);
    const size_t before = v.first[0]; /* features of document 3 come first */
    assert_int_equal(before, 0);
    picture_variant_take(&v, others, 1, false);
    size_t skip;
    free(features_of(&s, &v, &skip));
    assert_memory_equal(among + skip * C, alone, count * C * sizeof(*alone));
    free(among);
    free(alone);
    end(&v, &s);
}

/* --- logits --- */

/* logits(tokens, V) of one document after the other; free() them. */
static float *logits_of(struct subject *s, const struct picture_variant *v,
                        size_t *count)
{
    const size_t V = v->config.vocab_size, T = v->batch.T;
    float *logits = calloc(v->batch.B * T * V, sizeof(*logits));
    assert_non_null(logits);
    subject_forward(s, &v->batch, false);
    *count = 0;
    for (size_t i = 0; i < PICTURE_DOCUMENTS; i++)
        for (size_t t = 0; t < v->length[i]; t++, (*count)++) {
            const size_t n = v->first[i] + t;
            assert_int_equal(position_logits(s->model, n / T, n % T,
                                             logits + *count * V, NULL),
                             0);
        }
    return logits;
}

static void check_logits(const struct picture_variant *v, const float *got,
                         size_t count)
{
    const json_t *stored = json_object_get(v->stored, "logits");
    const size_t V = v->config.vocab_size;
    assert_int_equal(count, json_array_size(stored));
    for (size_t t = 0; t < count; t++) {
        const double want = variant_number_at(stored, t);
        const double is = variant_project(got + t * V, V, "logits");
        if (!(fabs(is - want) < 1e-4))
            fail_msg("token %zu: %.8g, expected %.8g", t, is, want);
    }
}

static void logits_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {0}, low = {.compute = DT_BF16};
    struct picture_variant v;
    struct subject s;
    size_t count;
    begin(&v, &s, *state, &options, false);
    float *apart = logits_of(&s, &v, &count);
    check_logits(&v, apart, count);
    free(apart);
    end(&v, &s);

    begin(&v, &s, *state, &options, true);
    float *want = logits_of(&s, &v, &count);
    check_logits(&v, want, count);
    const size_t V = v.config.vocab_size;
    end(&v, &s);

    /* 16 bits move ours no more than twice as far as those of the reference */
    begin(&v, &s, *state, &low, true);
    float *got = logits_of(&s, &v, &count);
    double off = 0, all = 0;
    for (size_t i = 0; i < count * V; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    const json_t *moved = json_object_get(v.stored, "bf16");
    assert_true(off > 0 && sqrt(off / all) < 2 * variant_number_at(moved, 1));
    free(got);
    free(want);
    end(&v, &s);
}

/* --- gradients and steps --- */

static void check_gradient(const struct subject *s, const json_t *grads,
                           size_t i, double targets)
{
    const struct dt_param *param = &s->layout->params[i];
    const json_t *stored = json_object_get(grads, param->name);
    const json_t *shape = json_array_get(stored, 0);
    const float *g = subject_grads(s, i);
    double squares = 0;
    if (json_array_size(shape) != (size_t)param->ndim)
        fail_msg("%s: another shape", param->name);
    for (int d = 0; d < param->ndim; d++)
        assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)),
                         param->shape[d]);
    for (size_t j = 0; j < param->count; j++)
        squares += (double)g[j] * (double)g[j];
    const double norm = sqrt(squares) / targets;
    const double want = variant_number_at(stored, 1);
    const double along =
        variant_project(g, param->count, param->name) / targets;
    if (!(fabs(norm - want) < 2e-5 * want + 1e-7) ||
        !(fabs(along - variant_number_at(stored, 2)) < 1e-4 * want + 1e-7))
        fail_msg("%s: norm %.8g, expected %.8g; along hashes %.8g, expected "
                 "%.8g",
                 param->name, norm, want, along, variant_number_at(stored, 2));
}

/* Names and shapes are those of the reference's files, too; parameters that the
 * reference has besides have no gradient there.
 */
static void gradients_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {.train = true};
    for (int packed = 0; packed < 2; packed++) {
        struct picture_variant v;
        struct subject s;
        const char *name;
        const json_t *grad;
        size_t trained = 0;
        begin(&v, &s, *state, &options, packed);
        json_t *grads = json_object_get(v.stored, "grads");
        json_object_foreach(grads, name, grad) trained +=
            json_array_size(grad) > 1;
        assert_int_equal(trained, s.layout->param_count);
        const double loss = subject_train(&s, &v.batch, 1, false);
        const double targets = (double)v.batch.target_count;
        const double want = variant_number(v.stored, "loss");
        if (!(fabs(loss / targets / want - 1) < 1e-6))
            fail_msg("loss %.8g, expected %.8g", loss / targets, want);
        for (size_t i = 0; i < s.layout->param_count; i++)
            check_gradient(&s, grads, i, targets);
        end(&v, &s);
    }
}

static void train_twice(const char *name, const struct dt_model_options *a,
                        const struct dt_model_options *b)
{
    struct picture_variant v, w;
    struct subject s, t;
    begin(&v, &s, name, a, true);
    begin(&w, &t, name, b, true);
    assert_true(subject_train(&s, &v.batch, 1, false) ==
                subject_train(&t, &w.batch, 1, false));
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

/* The tower of a batch of text has gradients of 0, and adds nothing to those of
 * other batches.
 */
static void text_alone_has_no_gradient_of_the_tower(void **state)
{
    static const size_t text[] = {1};
    const struct dt_model_options options = {.train = true};
    struct picture_variant v;
    struct subject s;
    begin(&v, &s, *state, &options, true);
    subject_train(&s, &v.batch, 1, false);
    const size_t bytes = s.layout->count * sizeof(float);
    float *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, s.grads_here, bytes);
    picture_variant_take(&v, text, 1, false);
    assert_int_equal(v.batch.picture_count, 0);
    subject_train(&s, &v.batch, 1, true);
    const size_t first = dt_model_first_unit(&v.config);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *param = &s.layout->params[i];
        if (param->unit < first)
            assert_memory_equal(subject_grads(&s, i), before + param->offset,
                                param->count * sizeof(float));
    }
    subject_spoil(&s);
    subject_train(&s, &v.batch, 1, false);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *param = &s.layout->params[i];
        for (size_t j = 0; param->unit < first && j < param->count; j++)
            assert_true(subject_grads(&s, i)[j] == 0);
    }
    free(before);
    end(&v, &s);
}

/* Trains on two documents twice: each picture by itself or, in the second pass
 * over them, as a copy. Returns the loss.
 */
static double train_copies(struct picture_variant *v, struct subject *s,
                           const char *name, bool copies)
{
    static const size_t twice[] = {0, 3, 0, 3};
    struct dt_model_options options = {.train = true, .exact_rows = true};
    picture_variant_open(v, file, name, true);
    picture_variant_take(v, twice, 4, true);
    picture_variant_options(v, &options);
    const size_t each = v->batch.picture_count / 2;
    assert_in_range(each, 2, PICTURE_MOST / 2);
    options.places = copies ? 2 : 1;
    options.pictures = copies ? each : 2 * each;
    options.patches = 0;
    for (size_t i = 0; i < options.pictures; i++)
        options.patches += (size_t)v->pictures[i].height * v->pictures[i].width;
    for (size_t i = options.pictures; i < 2 * each; i++)
        v->pictures[i].repeats = each;
    subject_init(s, &v->config, &options);
    picture_variant_fill(s);
    return subject_train(s, &v->batch, 1, false);
}

/* Of the text to the bit: its activations are the same. */
static void gradients_of_copies_are_those_of_pictures(void **state)
{
    const bool host = subject_exec()->device->is_host;
    struct picture_variant v, w;
    struct subject s, t;
    const double apart = train_copies(&v, &s, *state, false);
    const double shared = train_copies(&w, &t, *state, true);
    if (host ? apart != shared : !(fabs(apart / shared - 1) < 1e-6))
        fail_msg("loss %.9g, with copies %.9g", apart, shared);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *param = &s.layout->params[i];
        const float *a = subject_grads(&s, i), *b = subject_grads(&t, i);
        double all = 0, off = 0;
        for (size_t k = 0; k < param->count; k++) {
            all += pow((double)a[k], 2);
            off += pow((double)a[k] - (double)b[k], 2);
        }
        if (host && param->unit >= dt_model_first_unit(&v.config))
            assert_memory_equal(a, b, param->count * sizeof(*a));
        /* those of the biases of keys are noise about 0 */
        if (!(sqrt(off) <= 1e-5 * sqrt(all) + 1e-6))
            fail_msg("%s: off by %.3g of %.3g", param->name, sqrt(off),
                     sqrt(all));
    }
    end(&v, &s);
    end(&w, &t);
}

/* Below a unit of the tower; the features are those of the weights before. */
static void kept_units_are_computed_once(void **state)
{
    const struct dt_model_options options = {0};
    struct picture_variant v;
    struct subject s;
    size_t count;
    if (!subject_exec()->device->is_host)
        skip();
    begin(&v, &s, *state, &options, true);
    const size_t projector = dt_model_first_unit(&v.config) - 1;
    float *was = features_of(&s, &v, &count);
    const size_t bytes = count * v.config.n_embd * sizeof(*was);
    for (size_t i = 0; i < s.layout->param_count; i++)
        if (s.layout->params[i].unit < projector)
            memset(subject_weights(&s, i), 0,
                   s.layout->params[i].count * sizeof(float));
    subject_publish(&s);
    const struct dt_view features = s.model->tower->acts.projectors[0].features;
    float *first = malloc(dt_view_bytes(features));
    assert_non_null(first);
    memcpy(first, dt_view_data(features), dt_view_bytes(features));
    for (size_t kept = projector + 2; kept-- > projector;) {
        dt_model_keep(s.model, kept);
        for (size_t u = 0; u + 1 < s.layout->unit_count; u++)
            dt_model_forward(s.model, u);
        assert_memory_equal(first, dt_view_data(features),
                            dt_view_bytes(features));
    }
    float *is = features_of(&s, &v, &count); /* which binds a batch */
    assert_memory_not_equal(was, is, bytes);
    free(first);
    free(was);
    free(is);
    end(&v, &s);
}

static void copies_need_their_memory_and_a_picture(void **state)
{
    const struct dt_model_options options = {0};
    struct picture_variant v;
    struct subject s;
    struct dt_error err = {0};
    begin(&v, &s, *state, &options, true);
    v.pictures[0].repeats = 1;
    assert_int_equal(dt_model_bind(s.model, &v.batch, false, &err), -1);
    assert_string_equal(err.text, "picture 0 of a batch is a copy of none: "
                                  "please report this");
    v.pictures[0].repeats = 0;
    v.pictures[1] = v.pictures[0];
    v.pictures[1].repeats = 1;
    v.batch.picture_count = 2;
    assert_int_equal(dt_model_bind(s.model, &v.batch, false, &err), -1);
    assert_non_null(strstr(err.text, " tokens of copies, but there is memory "
                                     "for "));
    assert_non_null(strstr(err.text, " and 0: please report this"));
    end(&v, &s);
}

/* Step k; returns the mean loss. *norm is that of the gradients. */
static double step(struct subject *s, struct dt_optim *optim,
                   const struct picture_variant *v, struct dt_view moments,
                   size_t k, double *norm)
{
    const struct dt_ops *ops = s->exec->ops;
    const size_t count = s->layout->count;
    double scalars[DT_STEP_COUNT];
    struct dt_step_params params =
        dt_optim_step_params(optim, (long)k + 1, variant_number(v->all, "lr"));
    params.loss_scale = 1;
    subject_begin(s, &params);
    ops->step_add(s->exec->stream, s->step, (double)v->batch.target_count, 0);
    subject_forward(s, &v->batch, true);
    dt_model_loss_and_backward(s->model, s->step, false);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, false);
    ops->sum_of_squares(s->exec->stream, s->step, s->grads);
    ops->clip_and_check(s->exec->stream, s->step,
                        variant_number(v->all, "max_norm"));
    dt_optim_update(optim, false, s->step, 0, s->master, (struct dt_view){0},
                    s->grads, dt_view_slice(moments, 0, count),
                    dt_view_slice(moments, count, count), NULL);
    subject_scalars(s, scalars);
    *norm = scalars[DT_STEP_NORM];
    return scalars[DT_STEP_LOSS] / (double)v->batch.target_count;
}

static void losses_are_those_of_the_reference(void **state)
{
    const struct dt_model_options options = {.train = true};
    struct picture_variant v;
    struct subject s;
    struct dt_error err = {0};
    begin(&v, &s, *state, &options, true);
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
        double norm;
        const double want =
            variant_number_at(json_object_get(v.stored, "losses"), k);
        const double norm_want =
            variant_number_at(json_object_get(v.stored, "norms"), k);
        const double loss =
            step(&s, optim, &v, dt_view_of(buf, DT_F32), k, &norm);
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

/* --- all of them --- */

static const struct claim claims[] = {
    CLAIM(features_are_those_of_the_reference),
    CLAIM(features_do_not_depend_on_the_batch),
    CLAIM(logits_are_those_of_the_reference),
    CLAIM(gradients_are_those_of_the_reference),
    CLAIM(recomputed_or_saved_activations_have_the_same_bits),
    CLAIM(text_alone_has_no_gradient_of_the_tower),
    CLAIM(gradients_of_copies_are_those_of_pictures),
    CLAIM(copies_need_their_memory_and_a_picture),
    CLAIM(kept_units_are_computed_once),
    CLAIM(losses_are_those_of_the_reference),
};

int main(void)
{
    file = stored_load("vision.json");
    const int rc = claims_run("vision", json_object_get(file, "variants"),
                              claims, sizeof(claims) / sizeof(claims[0]));
    json_decref(file);
    return rc;
}
