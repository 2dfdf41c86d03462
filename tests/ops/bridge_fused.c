/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge_fused.c - wrappers of operations that the CPU computes in parts
 *
 * In the pass of the CPU plain operations take the place of what another
 * backend fuses; see bridge.h.
 */
#include "config.h"

#include <stdlib.h>

#include "bridge.h"
#include "harness.h"

/* sums(C) = the sum of x over rows */
static void sum_rows(struct dt_view sums, struct dt_view x)
{
    const size_t C = sums.count;

    for (size_t c = 0; c < C; c++) {
        double sum = 0.0;
        for (size_t i = c; i < x.count; i += C)
            sum += element(x, i);
        set_element(sums, c, sum);
    }
}

/* Each dx may be off by one rounding, so sums may be by more than dw and db. */
void bridge_norm_backward(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dw, struct dt_view db,
                          struct dt_view sums, struct dt_view dout,
                          struct dt_view x, struct dt_view w,
                          struct dt_view mean, struct dt_view rstd, float shift,
                          size_t N, size_t C, bool accumulate)
{
    const struct dt_view none = {0};
    const double slack = sums.count > 0 ? inner(dx.dtype) : 0.0;

    (void)stream;
    bridge_begin("norm_backward", bridge_ops->norm_backward != NULL, slack);
    while (bridge_pass()) {
        const bool fused = bridge_now->norm_sums;
        bridge_now->norm_backward(bridge_stream, at(dx), at(dw), at(db),
                                  fused ? at(sums) : none, at(dout), at(x),
                                  at(w), at(mean), at(rstd), shift, N, C,
                                  accumulate);
        if (!fused && sums.count > 0)
            sum_rows(at(sums), at(dx));
    }
}

/* sum = base + x w + b by the CPU, which has x w + b in fp32 in between. */
static void add_in_parts(struct dt_view sum, struct dt_view base,
                         struct dt_view x, struct dt_view w, struct dt_view b,
                         enum dt_weight_order order, size_t N, size_t C,
                         size_t OC)
{
    const size_t bytes = (sum.count * sizeof(float) + 63) / 64 * 64;
    struct dt_buffer buf = {.data = aligned_alloc(64, bytes), .bytes = bytes};
    struct dt_view product = {&buf, 0, sum.count, DT_F32};

    assert_non_null(buf.data);
    bridge_now->linear_forward(NULL, product, x, w, b, order, N, C, OC);
    for (size_t i = 0; i < sum.count; i++)
        set_element(sum, i, element(base, i) + element(product, i));
    free(buf.data);
}

void bridge_linear_add_forward(struct dt_stream *stream, struct dt_view sum,
                               struct dt_view base, struct dt_view x,
                               struct dt_view w, struct dt_view b,
                               enum dt_weight_order order, size_t N, size_t C,
                               size_t OC)
{
    (void)stream;
    bridge_begin("linear_add_forward", bridge_ops->linear_add_forward != NULL,
                 0.0);
    while (bridge_pass()) {
        if (bridge_now->linear_add_forward)
            bridge_now->linear_add_forward(bridge_stream, at(sum), at(base),
                                           at(x), at(w), at(b), order, N, C,
                                           OC);
        else
            add_in_parts(at(sum), at(base), at(x), at(w), at(b), order, N, C,
                         OC);
    }
}
