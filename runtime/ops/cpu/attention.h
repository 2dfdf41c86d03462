/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - what both passes of attention share */
#ifndef DT_OPS_CPU_ATTENTION_H
#define DT_OPS_CPU_ATTENTION_H

#include "ops/ops.h"

/* Elements of a row of qkv. */
static inline size_t dt_attention_width(const struct dt_attention *a)
{
    return (a->NH + 2 * a->NKV) * a->HS;
}

/* The first position that position t of row b sees. */
static inline size_t dt_attention_first(const struct dt_attention *a, size_t b,
                                        size_t t)
{
    size_t first = a->window && t >= a->window ? t - a->window + 1 : 0;
    size_t start = 0;

    if (a->starts.count != 0)
        start = (size_t)dt_view_i32(a->starts)[b * a->T + t];
    return start > first ? start : first;
}

#endif /* DT_OPS_CPU_ATTENTION_H */
