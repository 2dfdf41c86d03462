/* SPDX-License-Identifier: Apache-2.0 */
/* case_loss.c - the head with cross entropy */
#include "config.h"

#include <math.h>

#include "harness.h"
#include "tensor/tensor.h"

struct head {
    size_t N, C, V;
    double *x, *w, *logits; /* logits(V) */
    const int32_t *target;
    double scale, smoothing;
    struct dt_logit_rule rule;
};

static const struct dt_logit_rule PLAIN = {1.0f, 0.0f, 1.0f};

static double logit_of(const struct head *h, double product)
{
    const double cap = (double)h->rule.softcap;
    const double z = product * (double)h->rule.scale;

    return cap > 0.0 ? cap * tanh(z / cap) : z;
}

static double head_loss(void *context)
{
    const struct head *h = context;
    double total = 0.0;

    for (size_t n = 0; n < h->N; n++) {
        double most = -INFINITY, sum = 0.0, mean = 0.0;
        if (h->target[n] == DT_IGNORE)
            continue;
        for (size_t v = 0; v < h->V; v++) {
            h->logits[v] =
                logit_of(h, dot(h->x + n * h->C, h->w + v * h->C, h->C));
            most = fmax(most, h->logits[v]);
            mean += h->logits[v] / (double)h->V;
        }
        for (size_t v = 0; v < h->V; v++)
            sum += exp(h->logits[v] - most);
        total += most + log(sum) - h->smoothing * mean -
                 (1.0 - h->smoothing) * h->logits[h->target[n]];
    }
    return h->scale * total;
}

/* Rows first, first + step, ... have no target. */
static void ignore(struct dt_view targets, size_t first, size_t step)
{
    for (size_t n = first; n < targets.count; n += step)
        dt_view_i32(targets)[n] = DT_IGNORE;
}

/* The loss of x w^T, and its gradients unless dx is absent, `rows` at a time.
 */
static double loss_of(struct dt_view dx, struct dt_view dw, struct dt_view x,
                      struct dt_view w, struct dt_view targets,
                      const struct dt_logit_rule *rule, size_t rows,
                      double scale, float smoothing, bool accumulate)
{
    const size_t N = targets.count, C = x.count / N, V = w.count / C;
    struct dt_view step = tensor_step(scale);
    struct dt_view space =
        workspace(ops->loss_workspace(x.dtype, rows, C, V, false));

    dt_view_f64(step)[DT_STEP_LOSS] = 1000.0;
    ops->linear_cross_entropy(NULL, step, dx, dw, x, w, targets, space, rule,
                              smoothing, N, C, V, accumulate);
    assert_true(dt_view_f64(step)[DT_STEP_LOSS_SCALE] == scale);
    return dt_view_f64(step)[DT_STEP_LOSS] - 1000.0;
}

static void loss_case(size_t N, size_t C, size_t V, size_t rows,
                      float smoothing, bool accumulate,
                      struct dt_logit_rule rule)
{
    struct dt_view x = tensor(N * C), w = tensor(V * C);
    struct dt_view dx = tensor(N * C), dw = tensor(V * C);
    struct dt_view targets = tensor_ids(N, V), none = tensor(0);
    double *before = doubles(dw), want, got, alone;
    struct head h = {.N = N,
                     .C = C,
                     .V = V,
                     .x = doubles(x),
                     .w = doubles(w),
                     .logits = zeros(V),
                     .target = dt_view_i32(targets),
                     .scale = 1.0,
                     .smoothing = (double)smoothing,
                     .rule = rule};

    ignore(targets, 2, 3);
    want = head_loss(&h);
    alone =
        loss_of(none, none, x, w, targets, &rule, rows, 0.0, smoothing, false);
    h.scale = 0.25;
    got = loss_of(dx, dw, x, w, targets, &rule, rows, h.scale, smoothing,
                  accumulate);
    assert_true(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12);
    assert_true(got == alone);
    check_gradient("dx", dx, h.x, head_loss, &h, NULL);
    check_gradient("dw", dw, h.w, head_loss, &h, accumulate ? before : NULL);
}

/* Against fp32: the gradients of the logits are rounded before they are
 * multiplied.
 */
static void half_case(enum dt_dtype type, float smoothing, size_t rows,
                      struct dt_logit_rule rule)
{
    enum { N = 10, C = 16, V = 257 };
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, V * C);
    struct dt_view dx = tensor_of(type, N * C), dw = tensor(V * C);
    struct dt_view targets = tensor_ids(N, V);
    struct dt_view wide_x = tensor(N * C), wide_w = tensor(V * C);
    struct dt_view wide_dx = tensor(N * C), wide_dw = tensor(V * C);
    const double allowed = rounding(type) + inner(type);
    double got, want;

    ignore(targets, 2, 3);
    ops->convert(NULL, wide_x, x);
    ops->convert(NULL, wide_w, w);
    got = loss_of(dx, dw, x, w, targets, &rule, rows, 2.0, smoothing, false);
    want = loss_of(wide_dx, wide_dw, wide_x, wide_w, targets, &rule, rows, 2.0,
                   smoothing, false);
    assert_true(fabs(got - want) <= (1e-6 + inner(type)) * fabs(want));
    check_close("dx", dx, doubles(wide_dx), allowed);
    check_close("dw", dw, doubles(wide_dw), allowed);
}

void test_cross_entropy(void **state)
{
    (void)state;
    loss_case(1, 3, 257, 1, 0.0f, false, PLAIN);
    loss_case(5, 3, 3, 1, 0.1f, false, PLAIN);
    loss_case(7, 33, 257, 2, 0.0f, true, PLAIN);
    loss_case(10, 16, 257, 4, 0.1f, false, PLAIN);
    loss_case(70, 8, 1000, 70, 0.0f, false, PLAIN);
    loss_case(1100, 4, 5, 900, 0.0f, true, PLAIN);
    half_case(DT_BF16, 0.0f, 5, PLAIN);
    half_case(DT_F16, 0.1f, 10, PLAIN);
}

/* Scaled logits, and capped ones. */
void test_logit_rules(void **state)
{
    const struct dt_logit_rule scaled = {0.125f, 0.0f, 1.0f};
    const struct dt_logit_rule capped = {1.0f, 1.5f, 1.0f};
    const struct dt_logit_rule both = {2.0f, 30.0f, 1.0f};
    const struct dt_logit_rule warm = {2.0f, 3.0f, 0.5f};
    struct dt_view logits = tensor(2000);
    double *want = doubles(logits);
    (void)state;

    loss_case(7, 33, 257, 2, 0.0f, true, scaled);
    loss_case(7, 33, 257, 2, 0.0f, false, capped);
    loss_case(10, 16, 257, 4, 0.1f, true, capped);
    loss_case(10, 16, 257, 4, 0.1f, false, both);
    loss_case(3, 2, 9001, 2, 0.1f, true, both); /* rounds of a block */
    half_case(DT_BF16, 0.1f, 5, both);
    half_case(DT_F16, 0.0f, 10, capped);
    for (size_t i = 0; i < logits.count; i++)
        want[i] = 3.0 * tanh(2.0 * want[i] / 3.0) / 0.5;
    ops->apply_logit_rule(NULL, logits, &warm);
    check_close("logits", logits, want, 1e-6);
}

/* Without a target there is no loss and no gradient. */
void test_no_targets(void **state)
{
    enum { N = 3, C = 4, V = 5 };
    struct dt_view x = tensor(N * C), w = tensor(V * C), dx = tensor(N * C);
    struct dt_view dw = tensor(V * C), targets = tensor_ids(N, V);
    double *before = doubles(dw);
    (void)state;

    ignore(targets, 0, 1);
    assert_true(loss_of(dx, dw, x, w, targets, &PLAIN, 1, 1.0, 0.0f, true) ==
                0.0);
    check_close("dx", dx, zeros(N * C), 0.0);
    check_close("dw", dw, before, 0.0);
    loss_of(dx, dw, x, w, targets, &PLAIN, 1, 1.0, 0.0f, false);
    check_close("dw from nothing", dw, zeros(V * C), 0.0);
}

/* A run plans its workspace for the larger one of the batches of training and
 * evaluation, whose sizes must not change the order in which training adds.
 * Eight rows are one chunk of logits, and nine are two.
 */
void test_planned_rows(void **state)
{
    enum { C = 1, V = 1 << 22 };
    struct dt_view w = tensor(V * C), first = tensor(V * C);
    struct dt_view other = tensor(V * C);
#ifdef SANITIZER
    const bool is_slow = true;
#else
    const bool is_slow = false;
#endif
    (void)state;

    if (is_slow || ops != dt_ops_cpu())
        nothing_here();
    for (size_t N = 8; N <= 9; N++) {
        struct dt_view x = tensor(N * C), dx = tensor(N * C);
        struct dt_view targets = tensor_ids(N, V);
        const double loss =
            loss_of(dx, first, x, w, targets, &PLAIN, N, 1.0, 0.0f, false);
        const size_t rows = N == 8 ? 9 : 17; /* of a chunk more */
        assert_true(loss == loss_of(dx, other, x, w, targets, &PLAIN, rows, 1.0,
                                    0.0f, false));
        assert_memory_equal(dt_view_f32(first), dt_view_f32(other),
                            V * C * sizeof(float));
    }
}
