/* SPDX-License-Identifier: Apache-2.0 */
/* case_step.c - the scalars of a step, and AdamW with them */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"

/* Two ways to round a few operations in double. */
static void check_scalar(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-15 * fabs(want)))
        fail_msg("%s is %.17g, should be %.17g", what, got, want);
}

void test_sum_of_squares(void **state)
{
    const size_t counts[] = {0, 1, 63, 64, 65, 4099, 65537, 300007};
    (void)state;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        /* neither its beginning nor its end fits a vector */
        struct dt_view x = dt_view_slice(tensor(counts[i] + 1), 1, counts[i]);
        struct dt_view step = tensor_step(1.0);
        double *s = dt_view_f64(step);
        double *copy = doubles(x), want = 0.5 + dot(copy, copy, x.count);
        s[DT_STEP_SQUARES] = 0.5;
        ops->sum_of_squares(NULL, step, x);
        assert_true(fabs(s[DT_STEP_SQUARES] - want) <= 1e-12 * want);
    }
}

/* Parameters follow from the previous outcome; only the sums are reset. */
void test_step_begin(void **state)
{
    const struct dt_step_params params[DT_STEP_OUTCOMES] = {
        [DT_STEP_TAKEN] = {1.0, 0.1, 0.01, 0.001},
        [DT_STEP_OVERFLOW] = {2.0, 0.2, 0.02, 0.002},
        [DT_STEP_EMPTY] = {3.0, 0.3, 0.03, 0.003},
    };
    struct dt_view step = tensor_step(0.0);
    double *s = dt_view_f64(step);
    (void)state;

    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        s[DT_STEP_OUTCOME] = i;
        ops->step_begin(NULL, step, params);
        assert_true(s[DT_STEP_LOSS] == 0.0 && s[DT_STEP_TARGETS] == 0.0);
        assert_true(s[DT_STEP_STOP] == 0.0 && s[DT_STEP_SQUARES] == 0.0);
        assert_true(s[DT_STEP_LOSS_SCALE] == params[i].loss_scale);
        assert_true(s[DT_STEP_LR] == params[i].lr);
        assert_true(s[DT_STEP_BIAS1] == params[i].bias1);
        assert_true(s[DT_STEP_BIAS2] == params[i].bias2);
        ops->step_add(NULL, step, 5.0 + i, 1.0);
        ops->step_add(NULL, step, 3.0, 0.0);
        assert_true(s[DT_STEP_TARGETS] == 8.0 + i && s[DT_STEP_STOP] == 1.0);
        s[DT_STEP_LOSS] = s[DT_STEP_SQUARES] = 7.0;
    }
}

/* Decides about gradients with this sum of squares: the clip factor. */
static void decide(double squares, double targets, double max_norm,
                   enum dt_step_outcome outcome, double clip)
{
    const double loss_scale = 64.0, scale = 1.0 / (targets * loss_scale);
    struct dt_view step = tensor_step(loss_scale);
    double *s = dt_view_f64(step);

    s[DT_STEP_SQUARES] = squares;
    s[DT_STEP_TARGETS] = targets;
    ops->clip_and_check(NULL, step, max_norm);
    assert_int_equal((int)s[DT_STEP_OUTCOME], outcome);
    assert_true(outcome != DT_STEP_OVERFLOW || !isfinite(s[DT_STEP_NORM]));
    if (outcome != DT_STEP_TAKEN)
        return;
    check_scalar("norm", s[DT_STEP_NORM], scale * sqrt(squares));
    check_scalar("grad_scale", s[DT_STEP_GRAD_SCALE], clip * scale);
}

void test_clip_and_check(void **state)
{
    const double norm = 3.0 / (5.0 * 64.0); /* of squares 9, 5 targets */
    (void)state;

    decide(9.0, 5.0, 0.0, DT_STEP_TAKEN, 1.0);
    decide(9.0, 5.0, 1.0, DT_STEP_TAKEN, 1.0);
    decide(9.0, 5.0, 1e-3, DT_STEP_TAKEN, 1e-3 / (norm + 1e-6));
    decide(9.0, 5.0, norm, DT_STEP_TAKEN, norm / (norm + 1e-6));
    decide(0.0, 5.0, 1e-3, DT_STEP_TAKEN, 1.0);
    decide(INFINITY, 5.0, 1.0, DT_STEP_OVERFLOW, 0.0);
    decide(NAN, 5.0, 1.0, DT_STEP_OVERFLOW, 0.0);
    decide(NAN, 5.0, 0.0, DT_STEP_OVERFLOW, 0.0);
    decide(9.0, 0.0, 1.0, DT_STEP_EMPTY, 0.0);
    decide(NAN, 0.0, 1.0, DT_STEP_EMPTY, 0.0);
}

/* A gradient that is not finite, wherever it is, is an overflow. */
void test_step_overflow(void **state)
{
    enum { COUNT = 5001 };
    const double bad[] = {INFINITY, -INFINITY, NAN};
    const size_t places[] = {0, 2500, COUNT - 1};
    struct dt_view x = tensor(COUNT);
    (void)state;

    for (size_t i = 0; i < 9; i++) {
        struct dt_view step = tensor_step(1.0);
        float *at = dt_view_f32(x) + places[i / 3], keep = *at;
        *at = (float)bad[i % 3];
        ops->step_add(NULL, step, 1.0, 0.0);
        ops->sum_of_squares(NULL, step, x);
        ops->clip_and_check(NULL, step, 1.0);
        *at = keep;
        assert_true(dt_view_f64(step)[DT_STEP_OUTCOME] == DT_STEP_OVERFLOW);
    }
}

/* The largest floats are no overflow: their squares are added in double. */
void test_step_large(void **state)
{
    struct dt_view x = tensor(100), step = tensor_step(1.0);
    (void)state;

    for (size_t i = 0; i < x.count; i++)
        set_element(x, i, 3e38);
    ops->step_add(NULL, step, 1.0, 0.0);
    ops->sum_of_squares(NULL, step, x);
    ops->clip_and_check(NULL, step, 0.0);
    assert_true(dt_view_f64(step)[DT_STEP_OUTCOME] == DT_STEP_TAKEN);
    assert_true(fabs(dt_view_f64(step)[DT_STEP_NORM] - 3e39) <= 1e33);
}

enum { COUNT = 1003 };
/* Every second run decays; the first is empty, the third one element. */
static const int64_t BOUNDS[] = {0, 0, 100, 101, 700, COUNT};
enum { BOUND_COUNT = sizeof(BOUNDS) / sizeof(BOUNDS[0]) };

static bool decays(size_t i)
{
    return i < 100 || (i >= 101 && i < 700);
}

static struct dt_adamw adamw_of(bool coupled)
{
    return (struct dt_adamw){.beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .coupled = coupled,
                             .bounds = tensor_bounds(BOUND_COUNT, BOUNDS)};
}

/* A step whose scalars are those of update n */
static struct dt_view update_step(int n)
{
    struct dt_view step = tensor_step(1.0);
    double *s = dt_view_f64(step);

    s[DT_STEP_LR] = 0.01;
    s[DT_STEP_GRAD_SCALE] = 0.5;
    s[DT_STEP_BIAS1] = 1.0 - pow(0.9, n);
    s[DT_STEP_BIAS2] = 1.0 - pow(0.95, n);
    return step;
}

static void adamw_case(enum dt_dtype type, bool coupled)
{
    enum {
        STEPS = 3,
        MORE = 16
    }; /* MORE: numbers behind p, which stay there */
    struct dt_view all = tensor(COUNT + MORE), p = dt_view_slice(all, 0, COUNT);
    struct dt_view m = tensor(COUNT), v = tensor(COUNT);
    struct dt_view w = tensor_of(type, type == DT_F32 ? 0 : COUNT);
    struct dt_adamw args = adamw_of(coupled);
    double *want_p = doubles(p), *want_m = zeros(COUNT);
    double *want_v = zeros(COUNT);

    memset(dt_view_f32(m), 0, COUNT * sizeof(float));
    memset(dt_view_f32(v), 0, COUNT * sizeof(float));
    for (int n = 1; n <= STEPS; n++) {
        struct dt_view g = tensor(COUNT), step = update_step(n);
        const double *s = dt_view_f64(step);
        ops->adamw(NULL, step, p, w, g, m, v, &args);
        for (size_t i = 0; i < COUNT; i++) {
            double decay = decays(i) ? 0.1 : 0.0;
            double d = 0.5 * (double)dt_view_f32(g)[i];
            d += coupled ? decay * want_p[i] : 0.0;
            want_m[i] = 0.9 * want_m[i] + 0.1 * d;
            want_v[i] = 0.95 * want_v[i] + 0.05 * d * d;
            want_p[i] -= coupled ? 0.0 : 0.01 * decay * want_p[i];
            want_p[i] -= 0.01 / s[DT_STEP_BIAS1] * want_m[i] /
                         (sqrt(want_v[i]) / sqrt(s[DT_STEP_BIAS2]) + 1e-8);
        }
    }
    check_close("p", p, want_p, 1e-6);
    check_close("m", m, want_m, 1e-6);
    check_close("v", v, want_v, 1e-6);
    for (size_t i = 0; i < w.count; i++) {
        double got = element(w, i);
        set_element(w, i, (double)dt_view_f32(p)[i]);
        assert_true(got == element(w, i));
    }
}

void test_adamw(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++) {
        adamw_case(TYPES[i], false);
        adamw_case(TYPES[i], true);
    }
}

/* Without a finite gradient, or without any, nothing is touched. */
void test_adamw_skipped(void **state)
{
    struct dt_adamw args = adamw_of(false);
    (void)state;

    for (int i = DT_STEP_OVERFLOW; i < DT_STEP_OUTCOMES; i++) {
        struct dt_view p = tensor(COUNT), m = tensor(COUNT), v = tensor(COUNT);
        struct dt_view w = tensor_of(DT_BF16, COUNT), g = tensor(COUNT);
        struct dt_view step = update_step(1);
        double *before[] = {doubles(p), doubles(w), doubles(m), doubles(v)};
        dt_view_f64(step)[DT_STEP_OUTCOME] = i;
        set_element(g, 3, NAN);
        ops->adamw(NULL, step, p, w, g, m, v, &args);
        check_close("p", p, before[0], 0.0);
        for (size_t j = 0; j < COUNT; j++)
            assert_true(element(w, j) == before[1][j]);
        check_close("m", m, before[2], 0.0);
        check_close("v", v, before[3], 0.0);
    }
}

/* A rank that owns a part of a flat buffer updates it alone. */
void test_adamw_parts(void **state)
{
    static const size_t parts[] = {0, 128, 256, 640, COUNT};
    struct dt_adamw args = adamw_of(false);
    struct dt_view step = update_step(3), g = tensor(COUNT);
    struct dt_view p = tensor(COUNT), m = tensor(COUNT), v = tensor(COUNT);
    struct dt_view w = tensor_of(DT_BF16, COUNT), same_p = tensor(COUNT);
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        dt_view_f32(v)[i] = fabsf(dt_view_f32(v)[i]);
    struct dt_view same_m = tensor(COUNT), same_v = tensor(COUNT);
    struct dt_view same_w = tensor_of(DT_BF16, COUNT);
    memcpy(dt_view_data(same_p), dt_view_data(p), COUNT * sizeof(float));
    memcpy(dt_view_data(same_m), dt_view_data(m), COUNT * sizeof(float));
    memcpy(dt_view_data(same_v), dt_view_data(v), COUNT * sizeof(float));
    ops->adamw(NULL, step, p, w, g, m, v, &args);
    for (size_t i = 0; i + 1 < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t first = args.first = parts[i], n = parts[i + 1] - first;
        ops->adamw(NULL, step, dt_view_slice(same_p, first, n),
                   dt_view_slice(same_w, first, n), dt_view_slice(g, first, n),
                   dt_view_slice(same_m, first, n),
                   dt_view_slice(same_v, first, n), &args);
    }
    check_close("p", same_p, doubles(p), 0.0);
    check_close("m", same_m, doubles(m), 0.0);
    check_close("v", same_v, doubles(v), 0.0);
    assert_memory_equal(dt_view_data(same_w), dt_view_data(w),
                        COUNT * sizeof(uint16_t));
}
