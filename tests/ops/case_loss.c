/* SPDX-License-Identifier: Apache-2.0 */
/* case_loss.c - the head with cross entropy */
#include "config.h"

#include <math.h>

#include "harness.h"
#include "tensor/batch.h"

struct head {
    size_t N, C, V;
    double *x, *w, *logits; /* logits(V) */
    const int32_t *target;
    double scale;
};

static double head_loss(void *context)
{
    const struct head *h = context;
    double total = 0.0;

    for (size_t n = 0; n < h->N; n++) {
        double most = -INFINITY, sum = 0.0;
        if (h->target[n] == DT_IGNORE)
            continue;
        for (size_t v = 0; v < h->V; v++) {
            h->logits[v] = dot(h->x + n * h->C, h->w + v * h->C, h->C);
            most = fmax(most, h->logits[v]);
        }
        for (size_t v = 0; v < h->V; v++)
            sum += exp(h->logits[v] - most);
        total += most + log(sum) - h->logits[h->target[n]];
    }
    return h->scale * total;
}

static void loss_case(size_t N, size_t C, size_t V, size_t scratch_count,
                      bool accumulate)
{
    struct dt_view x = tensor(N * C), w = tensor(V * C);
    struct dt_view dx = tensor(N * C), dw = tensor(V * C);
    struct dt_view targets = tensor_ids(N, V), none = tensor(0);
    struct dt_view scratch = tensor(scratch_count);
    double *before = doubles(dw), want, got, alone;
    struct head h = {
        N, C, V, doubles(x), doubles(w), zeros(V), dt_view_i32(targets), 1.0};

    for (size_t n = 2; n < N; n += 3)
        dt_view_i32(targets)[n] = DT_IGNORE;
    want = head_loss(&h);
    alone = ops->linear_cross_entropy(NULL, none, none, x, w, targets, scratch,
                                      0.0f, 0.0f, N, C, V, false);
    h.scale = 0.25;
    got = ops->linear_cross_entropy(NULL, dx, dw, x, w, targets, scratch,
                                    (float)h.scale, 0.0f, N, C, V, accumulate);
    assert_true(fabs(got - want) <= 1e-6 * fabs(want));
    assert_true(got == alone);
    check_gradient("dx", dx, h.x, head_loss, &h, NULL);
    check_gradient("dw", dw, h.w, head_loss, &h, accumulate ? before : NULL);
}

void test_cross_entropy(void **state)
{
    (void)state;
    loss_case(1, 3, 257, 257, false);
    loss_case(5, 3, 3, 3 * 5, false);
    loss_case(7, 33, 257, 257 * 2 + 5, true);
    loss_case(10, 16, 257, 257 * 4, false);
    loss_case(1100, 4, 5, 5 * 2000, true);
}
