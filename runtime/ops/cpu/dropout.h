/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.h - the random decisions of dropout, a vector at a time */
#ifndef DT_OPS_CPU_DROPOUT_H
#define DT_OPS_CPU_DROPOUT_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"

#ifdef DT_CPU_VARIANT
/* factors[i], i < count: what dropout multiplies element first + i of row
 * number `row` by, 0 or 1 / (1 - rate).
 */
void DT_CPU(dropout_factors)(float *factors, const struct dt_dropout *dropout,
                             int64_t row, uint64_t first, size_t count);

/* x(count), elements first... of row b of the batch, times their factors. */
void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count);
#endif

/* A word below this drops its element. */
static inline uint32_t dt_dropout_limit(const struct dt_dropout *dropout)
{
    return (uint32_t)(dropout->rate * 0x1p32);
}

static inline float dt_dropout_scale(const struct dt_dropout *dropout)
{
    return (float)(1.0 / (1.0 - dropout->rate));
}

#endif /* DT_OPS_CPU_DROPOUT_H */
