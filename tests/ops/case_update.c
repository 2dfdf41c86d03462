/* SPDX-License-Identifier: Apache-2.0 */
/* case_update.c - sums, zeros, conversions, AdamW */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"

void test_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        struct dt_view x = tensor_of(TYPES[i], 5003);
        double *want = doubles(x);
        ops->zero(NULL, dt_view_slice(x, 1, x.count - 2));
        memset(want + 1, 0, (x.count - 2) * sizeof(*want));
        check_close("zero", x, want, 0.0);
    }
}

/* The nearest, ties to even, is what set_element writes. */
void test_convert(void **state)
{
    enum { COUNT = 5003 };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        struct dt_view x = tensor(COUNT), back = tensor(COUNT);
        struct dt_view out = tensor_of(TYPES[i], COUNT);
        struct dt_view want = tensor_of(TYPES[i], COUNT);
        for (size_t j = 0; j < COUNT; j++)
            set_element(want, j, element(x, j));
        ops->convert(NULL, out, x);
        assert_memory_equal(dt_view_data(out), dt_view_data(want),
                            COUNT * dt_dtype_bytes(TYPES[i]));
        ops->convert(NULL, back, out);
        check_close("back", back, doubles(want), 0.0);
    }
}

void test_sum_of_squares(void **state)
{
    const size_t counts[] = {0, 1, 63, 64, 65, 65537, 300007};
    (void)state;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct dt_view x = tensor(counts[i]);
        double *copy = doubles(x), want = dot(copy, copy, x.count);
        double got = ops->sum_of_squares(NULL, x);
        assert_true(fabs(got - want) <= 1e-12 * want);
    }
}

static void adamw_case(enum dt_dtype type, bool coupled)
{
    enum { COUNT = 1003, STEPS = 3 };
    struct dt_view p = tensor(COUNT), m = tensor(COUNT), v = tensor(COUNT);
    struct dt_view w = tensor_of(type, type == DT_F32 ? 0 : COUNT);
    double *want_p = doubles(p), *want_m = zeros(COUNT);
    double *want_v = zeros(COUNT);

    ops->zero(NULL, m);
    ops->zero(NULL, v);
    for (int n = 1; n <= STEPS; n++) {
        struct dt_view g = tensor(COUNT);
        struct dt_adamw a = {.lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .weight_decay = 0.1f,
                             .grad_scale = 0.5f,
                             .coupled = coupled};
        a.bias1 = 1.0 - pow(0.9, n);
        a.bias2 = 1.0 - pow(0.95, n);
        ops->adamw(NULL, p, w, g, m, v, &a);
        for (size_t i = 0; i < COUNT; i++) {
            double d = 0.5 * (double)dt_view_f32(g)[i];
            d += coupled ? 0.1 * want_p[i] : 0.0;
            want_m[i] = 0.9 * want_m[i] + 0.1 * d;
            want_v[i] = 0.95 * want_v[i] + 0.05 * d * d;
            want_p[i] -= coupled ? 0.0 : 0.01 * 0.1 * want_p[i];
            want_p[i] -= 0.01 / a.bias1 * want_m[i] /
                         (sqrt(want_v[i]) / sqrt(a.bias2) + 1e-8);
        }
    }
    check_close("p", p, want_p, 1e-6);
    check_close("m", m, want_m, 1e-6);
    check_close("v", v, want_v, 1e-6);
    for (size_t i = 0; i < w.count; i++) {
        struct dt_view rounded = w;
        double got = element(w, i);
        set_element(rounded, i, (double)dt_view_f32(p)[i]);
        assert_true(got == element(rounded, i));
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
