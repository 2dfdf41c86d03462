/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8.h - fp32 in 8 bits, rounded up or down at random; for comm/ only
 *
 * A block of 128 elements has one scale s = a / 127, where a is the largest
 * magnitude. An element x becomes q = floor(x * (127 / a) + d) in [-127, 127],
 * where d is one of 256 values in (0, 1) that depends on the number of the
 * element, the step and the rank, and on nothing else: so q * s is x in the
 * mean. Blocks below 2^-100 become zeros. In a block with an element that is
 * not finite s is NaN, so that an overflow is still seen after the sum.
 *
 * Stochastic rounding by blocks: Wang et al., "SDP4Bit", arXiv 2410.15526.
 */
#ifndef DT_COMM_INT8_H
#define DT_COMM_INT8_H

#include "comm/comm.h"

/* Bytes of `count` elements, a multiple of DT_INT8_BLOCK: first all q, then the
 * scales.
 */
static inline size_t dt_int8_bytes(size_t count)
{
    return count + count / DT_INT8_BLOCK * sizeof(float);
}

/* Packs x(count), elements noise->first + `from` .. of the reduction, as `rank`
 * sends them; `out` is aligned to 4 bytes.
 */
void dt_int8_pack(void *out, const float *x, size_t count, size_t from,
                  int rank, const struct dt_noise *noise);

/* acc(count) += what was packed, or = if `first`. */
void dt_int8_add(float *acc, const void *packed, size_t count, bool first);

#endif /* DT_COMM_INT8_H */
