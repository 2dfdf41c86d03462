/* SPDX-License-Identifier: Apache-2.0 */
/* case_update.c - sums, zeros, AdamW; and what threads must not change */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness.h"

void test_elementwise(void **state)
{
    enum { COUNT = 1003 };
    struct dt_view x = tensor(COUNT), y = tensor(COUNT), sum = tensor(COUNT);
    double *want = zeros(COUNT);
    (void)state;

    for (size_t i = 0; i < COUNT; i++)
        want[i] = (double)dt_view_f32(x)[i] + (double)dt_view_f32(y)[i];
    ops->residual_forward(NULL, sum, x, y);
    check_close("sum", sum, want, 1e-7);
    ops->residual_forward(NULL, x, x, y);
    check_close("sum in place", x, want, 1e-7);
    ops->zero(NULL, dt_view_slice(x, 1, COUNT - 2));
    memset(want + 1, 0, (COUNT - 2) * sizeof(*want));
    check_close("zero", x, want, 1e-7);
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

void test_adamw(void **state)
{
    enum { COUNT = 1003, STEPS = 3 };
    struct dt_view p = tensor(COUNT), m = tensor(COUNT), v = tensor(COUNT);
    double *want_p = doubles(p), *want_m = zeros(COUNT);
    double *want_v = zeros(COUNT);
    (void)state;

    ops->zero(NULL, m);
    ops->zero(NULL, v);
    for (int n = 1; n <= STEPS; n++) {
        struct dt_view g = tensor(COUNT);
        struct dt_adamw a = {.lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .weight_decay = 0.1f,
                             .grad_scale = 0.5f};
        a.bias1 = 1.0 - pow(0.9, n);
        a.bias2 = 1.0 - pow(0.95, n);
        ops->adamw(NULL, p, g, m, v, &a);
        for (size_t i = 0; i < COUNT; i++) {
            double d = 0.5 * (double)dt_view_f32(g)[i];
            want_m[i] = 0.9 * want_m[i] + 0.1 * d;
            want_v[i] = 0.95 * want_v[i] + 0.05 * d * d;
            want_p[i] -= 0.01 * 0.1 * want_p[i];
            want_p[i] -= 0.01 / a.bias1 * want_m[i] /
                         (sqrt(want_v[i]) / sqrt(a.bias2) + 1e-8);
        }
    }
    check_close("p", p, want_p, 1e-6);
    check_close("m", m, want_m, 1e-6);
    check_close("v", v, want_v, 1e-6);
}

/* Everything that reduces over rows, into one tensor; the input is the same
 * at every call.
 */
static struct dt_view reductions(int threads)
{
    enum { B = 2, T = 37, N = B * T, C = 67, V = 11, COUNT = 70001 };
    struct dt_view out = tensor((V + T) * C + 2 * C + 2);
    struct dt_view x = tensor(N * C), dout = tensor(N * C), w = tensor(C);
    struct dt_view ids = tensor_ids(N, V), large = tensor(COUNT);
    struct dt_view mean = tensor(N), rstd = tensor(N), dx = tensor(N * C);
    double sum;

    omp_set_num_threads(threads);
    ops->embedding_backward(NULL, dt_view_slice(out, 0, V * C),
                            dt_view_slice(out, V * C, T * C), dout, ids, B, T,
                            C, true);
    ops->layernorm_backward(NULL, dx, dt_view_slice(out, (V + T) * C, C),
                            dt_view_slice(out, (V + T + 1) * C, C), dout, x, w,
                            mean, rstd, N, C, false);
    sum = ops->sum_of_squares(NULL, large);
    omp_set_num_threads(3);
    memcpy(dt_view_f32(out) + out.count - 2, &sum, sizeof(sum));
    return out;
}

void test_threads(void **state)
{
    struct dt_view one, other;

    one = reductions(1);
    for (int threads = 2; threads <= 3; threads++) {
        case_setup(state);
        other = reductions(threads);
        assert_memory_equal(dt_view_f32(other), dt_view_f32(one),
                            one.count * sizeof(float));
    }
}
