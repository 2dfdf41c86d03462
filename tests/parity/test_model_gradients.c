/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_gradients.c - gradients are derivatives; batches can be split */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "tests/parity/logits.h"
#include "tests/parity/reference.h"
#include "tests/families.h"

enum { B = 4, T = 6, V = 11 };

/* Uneven sizes: nothing is a multiple of a vector. */
static const struct dt_model_config odd[] = {
    {.family = &dt_family_gpt2,
     .padding_row = -1,
     .vocab_size = V,
     .n_positions = 8,
     .n_embd = 18,
     .n_layer = 2,
     .n_head = 3,
     .n_kv_head = 3,
     .head_size = 6,
     .n_inner = 21,
     .norm_epsilon = 1e-5,
     .tie_word_embeddings = false,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true},
    {.family = &dt_family_qwen3,
     .padding_row = -1,
     .vocab_size = V,
     .n_positions = 8,
     .n_embd = 13,
     .n_layer = 2,
     .n_head = 6,
     .n_kv_head = 2,
     .head_size = 6,
     .n_inner = 7,
     .norm_epsilon = 1e-5,
     .tie_word_embeddings = true,
     .qkv_bias = true,
     .out_bias = true,
     .rope_theta = 100,
     .window = 3},
};

static const struct dt_model_options plain = {.B = B, .T = T, .train = true};

/* Rows of one or two documents, with targets here and there. */
static void make_rows(struct rows *rows)
{
    static const struct {
        size_t documents, count[2];
    } lengths[B] = {{2, {4, 2}}, {1, {6}}, {2, {1, 4}}, {1, {5}}};
    rows_init(rows, B, T);
    for (size_t b = 0; b < B; b++) {
        for (size_t n = 0; n < lengths[b].documents; n++) {
            struct document document = {.count = lengths[b].count[n]};
            for (size_t t = 0; t < document.count; t++) {
                document.ids[t] = (int32_t)(b * 7 + n * 5 + t * 3) % V;
                document.target[t] = (b + t) % 4 != 3;
            }
            rows_add(rows, b, &document);
        }
    }
}

/* Derivative of the loss by *w: five points, error O(h^4). */
static double derivative(struct subject *s, const struct dt_batch *batch,
                         float *w)
{
    const float at = *w, h = 0.015625f;
    double f[4];
    for (int i = 0; i < 4; i++) {
        static const float steps[] = {-2, -1, 1, 2};
        *w = at + steps[i] * h;
        subject_publish(s);
        f[i] = subject_train(s, batch, 1.0f, false);
    }
    *w = at;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * (double)h);
}

/* Gradients of six elements of each parameter are derivatives. */
static void check_derivatives(const struct dt_model_config *config,
                              const struct dt_model_options *options)
{
    struct rows rows;
    struct subject s;
    double worst = 0;
    make_rows(&rows);
    subject_init(&s, config, options);
    subject_randomize(&s, 0.3);
    subject_train(&s, &rows.batch, 1.0f, false);
    float *grads = malloc(s.grads_buf->bytes);
    memcpy(grads, s.grads_here, s.grads_buf->bytes);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *param = &s.layout->params[i];
        for (uint64_t n = 0; n < 6 && n < param->count; n++) {
            size_t j = dt_rng_permute(3, i, n, param->count);
            double got = grads[param->offset + j];
            double want =
                derivative(&s, &rows.batch, &subject_weights(&s, i)[j]);
            double off = fabs(got - want) / (1 + fabs(want));
            if (off > 1e-3)
                fail_msg("%s[%zu]: %g, expected %g", param->name, j, got, want);
            worst = fmax(worst, off);
        }
    }
    print_message("largest difference of a derivative: %.2g\n", worst);
    free(grads);
    subject_fini(&s);
}

static void gradients_are_derivatives_of_the_loss(void **state)
{
    struct dt_model_options smooth = plain;
    (void)state;
    smooth.label_smoothing = 0.1f;
    for (size_t i = 0; i < 2; i++) {
        check_derivatives(&odd[i], &plain);
        check_derivatives(&odd[i], &smooth);
    }
}

/* As transformers' Trainer does it. */
static void labels_are_smoothed_where_a_model_is_measured_too(void **state)
{
    struct dt_model_options smooth = plain;
    double loss[2];
    (void)state;
    smooth.label_smoothing = 0.1f;
    for (size_t i = 0; i < 2; i++) {
        const struct dt_model_options *options = i ? &smooth : &plain;
        struct subject s;
        struct rows rows;
        subject_init(&s, &odd[0], options);
        subject_randomize(&s, 0.3);
        make_rows(&rows);
        loss[i] = subject_evaluate(&s, &rows.batch);
        subject_fini(&s);
    }
    assert_true(loss[0] > 0 && loss[0] != loss[1]);
}

/* With dropout, too: the masks are a function of the rows' numbers. */
static void gradients_are_derivatives_with_dropout_too(void **state)
{
    struct dt_model_options options = plain;
    (void)state;
    options.dropout = true;
    options.seed = 3;
    for (size_t i = 0; i < 2; i++) {
        struct dt_model_config config = odd[i];
        config.attn_dropout = 0.3;
        if (i == 0)
            config.embd_dropout = config.resid_dropout = 0.2;
        check_derivatives(&config, &options);
    }
}

/* A batch of 4 rows is two of 2 rows whose gradients are added. */
static void gradients_of_a_split_batch_add_up(void **state)
{
    struct rows rows, half;
    struct subject whole, parts;
    (void)state;
    make_rows(&rows);
    for (size_t i = 0; i < 2; i++) {
        subject_init(&whole, &odd[i], &plain);
        subject_init(&parts, &odd[i], &plain);
        subject_randomize(&whole, 0.3);
        subject_randomize(&parts, 0.3);
        subject_spoil(&parts);
        double loss = subject_train(&whole, &rows.batch, 0.25f, false);
        double sum = 0;
        for (size_t n = 0; n < 2; n++) {
            rows_take(&half, &rows, n, 2, 2);
            sum += subject_train(&parts, &half.batch, 0.25f, n > 0);
        }
        assert_true(fabs(loss - sum) < 1e-6 * loss);
        const float *x = whole.grads_here;
        const float *y = parts.grads_here;
        for (size_t j = 0; j < whole.layout->count; j++)
            if (fabsf(x[j] - y[j]) > 1e-5f * (1 + fabsf(x[j])))
                fail_msg("element %zu: %g and %g", j, (double)x[j],
                         (double)y[j]);
        subject_fini(&whole);
        subject_fini(&parts);
    }
}

/* The same loss and gradients to the last bit. */
static void check_same_bits(const struct dt_model_config *config,
                            const struct dt_model_options *one,
                            const struct dt_model_options *other,
                            const struct dt_batch *batch)
{
    struct subject a, b;
    subject_init(&a, config, one);
    subject_init(&b, config, other);
    subject_randomize(&a, 0.3);
    subject_randomize(&b, 0.3);
    for (int n = 0; n < 2; n++)
        assert_true(subject_train(&a, batch, 1.0f, n > 0) ==
                    subject_train(&b, batch, 1.0f, n > 0));
    assert_memory_equal(a.grads_here, b.grads_here, a.grads_buf->bytes);
    subject_fini(&a);
    subject_fini(&b);
}

/* Gradients that differ in their rounding only. */
static void check_alike(const struct dt_model_config *config,
                        const struct dt_model_options *one,
                        const struct dt_model_options *other,
                        const struct dt_batch *batch, double tolerance)
{
    struct subject a, b;
    double off = 0, all = 0;
    subject_init(&a, config, one);
    subject_init(&b, config, other);
    subject_randomize(&a, 0.3);
    subject_randomize(&b, 0.3);
    subject_train(&a, batch, 1.0f, false);
    subject_train(&b, batch, 1.0f, false);
    for (size_t i = 0; i < a.layout->count; i++) {
        double x = (double)a.grads_here[i], y = (double)b.grads_here[i];
        off += (x - y) * (x - y);
        all += x * x;
    }
    print_message("relative difference: %.2g\n", sqrt(off / all));
    assert_true(all > 0 && sqrt(off / all) <= tolerance);
    subject_fini(&a);
    subject_fini(&b);
}

static void a_model_made_for_more_rows_gives_the_same_bits(void **state)
{
    struct dt_model_options larger = plain;
    struct rows rows, three;
    (void)state;
    larger.T += 2;
    make_rows(&rows);
    rows_take(&three, &rows, 0, 1, 3);
    for (size_t i = 0; i < 2; i++)
        check_same_bits(&odd[i], &plain, &larger, &three.batch);
}

/* Recomputed or saved, activations give the same gradients. */
static void recomputed_or_saved_activations_change_no_gradient(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    static const double tolerances[] = {1e-5, 2e-2, 3e-3};
    struct reference r;
    struct rows rows;
    reference_open(&r, *state);
    reference_rows(&r, 0, true, false, &rows, NULL);
    r.config.attn_dropout = 0.1;
    r.config.embd_dropout = r.config.resid_dropout =
        r.config.family == &dt_family_gpt2 ? 0.1 : 0;
    for (size_t i = 0; i < 3; i++) {
        struct dt_model_options saved = {.B = ROWS_MAX,
                                         .T = ROWS_WIDTH,
                                         .compute = types[i],
                                         .train = true,
                                         .dropout = true,
                                         .seed = 9};
        struct dt_model_options again = saved;
        again.recompute = true;
        assert_true(dt_model_activation_bytes(&r.config, dt_ops_cpu(), &again) <
                    dt_model_activation_bytes(&r.config, dt_ops_cpu(), &saved));
        check_same_bits(&r.config, &saved, &again, &rows.batch);
        again = saved;
        again.save_activations = true;
        assert_true(dt_model_activation_bytes(&r.config, dt_ops_cpu(), &again) >
                    dt_model_activation_bytes(&r.config, dt_ops_cpu(), &saved));
        if (subject_exec()->device->is_host)
            check_same_bits(&r.config, &saved, &again, &rows.batch);
        else
            check_alike(&r.config, &saved, &again, &rows.batch, tolerances[i]);
    }
    reference_close(&r);
}

/* Without gradients all blocks share their activations: same logits. */
static void a_model_without_gradients_has_the_same_logits(void **state)
{
    struct dt_model_options forward = plain;
    struct rows rows;
    struct subject train, infer;
    (void)state;
    forward.train = false;
    make_rows(&rows);
    for (size_t i = 0; i < 2; i++) {
        float a[V], b[V];
        subject_init(&train, &odd[i], &plain);
        subject_init(&infer, &odd[i], &forward);
        subject_randomize(&train, 0.3);
        subject_randomize(&infer, 0.3);
        subject_forward(&train, &rows.batch, true);
        subject_forward(&infer, &rows.batch, false);
        for (size_t n = 0; n < B * T; n++) {
            assert_int_equal(
                position_logits(train.model, n / T, n % T, a, NULL), 0);
            assert_int_equal(
                position_logits(infer.model, n / T, n % T, b, NULL), 0);
            assert_memory_equal(a, b, sizeof(a));
        }
        assert_true(subject_evaluate(&train, &rows.batch) ==
                    subject_evaluate(&infer, &rows.batch));
        subject_fini(&train);
        subject_fini(&infer);
    }
}

static void rows_without_targets_have_zero_gradients(void **state)
{
    struct rows rows;
    struct subject s;
    (void)state;
    rows_init(&rows, B, T);
    for (size_t i = 0; i < 2; i++) {
        subject_init(&s, &odd[i], &plain);
        subject_randomize(&s, 0.3);
        subject_spoil(&s);
        assert_true(subject_train(&s, &rows.batch, 1.0f, false) == 0);
        for (size_t j = 0; j < s.layout->count; j++)
            assert_true(s.grads_here[j] == 0);
        subject_fini(&s);
    }
}

/* The stored gradient of parameter i; free() it. */
static float *stored_gradient(const struct reference *r,
                              const struct subject *s, size_t i)
{
    const struct dt_param *param = &s->layout->params[i];
    char name[128];
    snprintf(name, sizeof(name), "grad.%s", param->name);
    return reference_tensor(r, name, param->ndim, param->shape);
}

/* Largest difference of a gradient of parameter i, relative to the largest
 * gradient of that parameter.
 */
static double gradient_difference(const struct reference *r,
                                  const struct subject *s, size_t i)
{
    double worst = 0, largest = 0;
    float *want = stored_gradient(r, s, i);
    for (size_t j = 0; j < s->layout->params[i].count; j++) {
        worst = fmax(worst, fabs(subject_grads(s, i)[j] - want[j]));
        largest = fmax(largest, fabs(want[j]));
    }
    free(want);
    assert_true(largest > 0);
    return worst / largest;
}

static void check_stored(const struct reference *r, bool packed)
{
    const struct dt_model_options options = {
        .B = ROWS_MAX, .T = ROWS_WIDTH, .train = true};
    struct subject s;
    struct rows rows;
    double worst = 0;
    subject_init(&s, &r->config, &options);
    reference_load(r, &s);
    reference_rows(r, 0, packed, false, &rows, NULL);
    subject_train(&s, &rows.batch, 1.0f / (float)rows.batch.target_count,
                  false);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        double difference = gradient_difference(r, &s, i);
        if (difference > 1e-4)
            fail_msg("%s: %.2g", s.layout->params[i].name, difference);
        worst = fmax(worst, difference);
    }
    print_message("largest relative difference: %.2g\n", worst);
    subject_fini(&s);
}

static void gradients_are_those_of_the_reference(void **state)
{
    struct reference r;
    reference_open(&r, *state);
    check_stored(&r, false);
    check_stored(&r, true);
    reference_close(&r);
}

/* Rounding to 16 bits moves our gradients no more than twice as far as those of
 * the reference (root of the mean square, relative).
 */
static void check_half(void **state, enum dt_dtype compute, float scale,
                       const char *run)
{
    const struct dt_model_options options = {
        .B = ROWS_MAX, .T = ROWS_WIDTH, .compute = compute, .train = true};
    struct reference r;
    struct subject s;
    struct rows rows;
    double squares = 0, total = 0;
    reference_open(&r, *state);
    subject_init(&s, &r.config, &options);
    reference_load(&r, &s);
    reference_rows(&r, 0, true, false, &rows, NULL);
    subject_train(&s, &rows.batch, scale / (float)rows.batch.target_count,
                  false);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        float *want = stored_gradient(&r, &s, i);
        for (size_t j = 0; j < s.layout->params[i].count; j++) {
            double off = (double)subject_grads(&s, i)[j] / scale - want[j];
            squares += off * off;
            total += (double)want[j] * want[j];
        }
        free(want);
    }
    double ours = sqrt(squares / total);
    double theirs = reference_error(&r, run, "grads_error");
    print_message("relative difference: %.2g, the reference's: %.2g\n", ours,
                  theirs);
    assert_true(ours > 0 && ours < 2 * theirs);
    subject_fini(&s);
    reference_close(&r);
}

static void bf16_moves_gradients_at_most_twice_as_far(void **state)
{
    check_half(state, DT_BF16, 1, "bf16");
}

static void fp16_moves_gradients_at_most_twice_as_far(void **state)
{
    check_half(state, DT_F16, 128, "fp16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(gradients_are_those_of_the_reference),
        REFERENCE_TESTS(bf16_moves_gradients_at_most_twice_as_far),
        REFERENCE_TESTS(fp16_moves_gradients_at_most_twice_as_far),
        REFERENCE_TESTS(recomputed_or_saved_activations_change_no_gradient),
        cmocka_unit_test(gradients_are_derivatives_of_the_loss),
        cmocka_unit_test(labels_are_smoothed_where_a_model_is_measured_too),
        cmocka_unit_test(gradients_are_derivatives_with_dropout_too),
        cmocka_unit_test(gradients_of_a_split_batch_add_up),
        cmocka_unit_test(a_model_made_for_more_rows_gives_the_same_bits),
        cmocka_unit_test(a_model_without_gradients_has_the_same_logits),
        cmocka_unit_test(rows_without_targets_have_zero_gradients),
    };
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return cmocka_run_group_tests_name("model_gradients", tests, NULL, NULL);
}
