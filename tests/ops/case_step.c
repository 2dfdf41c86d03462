/* SPDX-License-Identifier: Apache-2.0 */
/* case_step.c - the scalars of a step, and AdamW with them */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"
#include "ops/adamw.h"

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
                             .rate = 1.0,
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

static void adamw_case(enum dt_dtype type, bool coupled, double rate)
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
    const double lr = 0.01 * rate;

    args.rate = rate;
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
            want_p[i] -= coupled ? 0.0 : lr * decay * want_p[i];
            want_p[i] -= lr / s[DT_STEP_BIAS1] * want_m[i] /
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
        adamw_case(TYPES[i], false, 1.0);
        adamw_case(TYPES[i], true, 1.0);
        adamw_case(TYPES[i], false, 0.2);
        adamw_case(TYPES[i], true, 4.0);
    }
}

/* The tensors of a step. */
struct update {
    struct dt_view p, w, g, m, v;
};

/* Second moments are positive, and one gradient in eight is so small that its
 * square is a subnormal number.
 */
static struct update random_update(enum dt_dtype type)
{
    struct update u = {.p = tensor(COUNT), .g = tensor(COUNT)};
    u.w = tensor_of(type, type == DT_F32 ? 0 : COUNT);
    u.m = tensor(COUNT);
    u.v = tensor(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        float *v = &dt_view_f32(u.v)[i], *g = &dt_view_f32(u.g)[i];
        *v = i % 8 ? fabsf(*v) * 1e-3f : 0.0f;
        *g *= i % 8 ? 1.0f : 1e-20f;
    }
    return u;
}

static struct dt_view copy_of(struct dt_view v)
{
    struct dt_view copy = tensor_of(v.dtype, v.count);
    memcpy(dt_view_data(copy), dt_view_data(v),
           v.count * dt_dtype_bytes(v.dtype));
    return copy;
}

static struct update copy_update(const struct update *u)
{
    return (struct update){copy_of(u->p), copy_of(u->w), copy_of(u->g),
                           copy_of(u->m), copy_of(u->v)};
}

static void assert_same_bits(struct dt_view a, struct dt_view b)
{
    assert_memory_equal(dt_view_data(a), dt_view_data(b),
                        a.count * dt_dtype_bytes(a.dtype));
}

static void assert_same_update(const struct update *a, const struct update *b)
{
    assert_same_bits(a->m, b->m);
    assert_same_bits(a->v, b->v);
    assert_same_bits(a->p, b->p);
    if (a->w.count > 0)
        assert_same_bits(a->w, b->w);
}

/* Element by element, by the functions of adamw.h as this file has them. */
static void update_here(const struct update *u, struct dt_view step,
                        const struct dt_adamw *args)
{
    const struct dt_adamw_constants c = dt_adamw_constants_of(args);
    const struct dt_adamw_factors all =
        dt_adamw_factors_of(dt_view_f64(step), &c);

    for (size_t i = 0; i < COUNT; i++) {
        struct dt_adamw_factors f = dt_adamw_factors_in(all, decays(i));
        dt_adamw_update(&f, &c, dt_view_f32(u->g)[i], &dt_view_f32(u->p)[i],
                        &dt_view_f32(u->m)[i], &dt_view_f32(u->v)[i]);
        if (u->w.count > 0)
            set_element(u->w, i, (double)dt_view_f32(u->p)[i]);
    }
}

/* All backends and variants have these bits, so they have each other's. */
void test_adamw_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * TYPE_COUNT; i++) {
        struct dt_adamw args = adamw_of(i % 2);
        struct dt_view step = update_step(2);
        args.rate = i < 2 ? 0.3 : 1.0;
        struct update got = random_update(TYPES[i / 2]);
        struct update want = copy_update(&got);
        update_here(&want, step, &args);
        ops->adamw(NULL, step, got.p, got.w, got.g, got.m, got.v, &args);
        assert_same_update(&got, &want);
    }
}

/* A rate has the bits of a step with a learning rate so many times as large. */
void test_adamw_rate(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dt_adamw args = adamw_of(i % 2);
        struct dt_view step = update_step(2), faster = update_step(2);
        struct update got = random_update(DT_BF16);
        struct update want = copy_update(&got);
        dt_view_f64(faster)[DT_STEP_LR] *= 3.0;
        ops->adamw(NULL, faster, want.p, want.w, want.g, want.m, want.v, &args);
        args.rate = 3.0;
        ops->adamw(NULL, step, got.p, got.w, got.g, got.m, got.v, &args);
        assert_same_update(&got, &want);
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

/* One call for each `part` elements. */
static void update_in_parts(const struct update *u, struct dt_view step,
                            struct dt_adamw args, size_t part)
{
    for (size_t first = 0; first < COUNT; first += part) {
        size_t count = COUNT - first < part ? COUNT - first : part;
        struct dt_view w = u->w;
        if (w.count > 0)
            w = dt_view_slice(w, first, count);
        args.first = first;
        ops->adamw(NULL, step, dt_view_slice(u->p, first, count), w,
                   dt_view_slice(u->g, first, count),
                   dt_view_slice(u->m, first, count),
                   dt_view_slice(u->v, first, count), &args);
    }
}

/* A rank that owns a part of a flat buffer updates it alone, and a tile that is
 * offloaded is updated by itself.
 */
void test_adamw_parts(void **state)
{
    static const size_t parts[] = {128, 384, 512, 16};
    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        struct dt_adamw args = adamw_of(i % 2);
        struct dt_view step = update_step(3);
        struct update whole = random_update(TYPES[i % TYPE_COUNT]);
        struct update cut = copy_update(&whole);
        ops->adamw(NULL, step, whole.p, whole.w, whole.g, whole.m, whole.v,
                   &args);
        update_in_parts(&cut, step, args, parts[i]);
        assert_same_update(&cut, &whole);
    }
}
