/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dropout.cuh - the random decisions of dropout: those of struct dt_dropout
 *
 * A block of Philox is the words of four neighboring elements.
 */
#ifndef DT_OPS_CUDA_DROPOUT_CUH
#define DT_OPS_CUDA_DROPOUT_CUH

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

struct Drops {
    const int64_t *rows; /* NULL: nothing is dropped */
    uint32_t key[2], place;
    uint32_t limit; /* an element with a smaller word is dropped */
    float scale;    /* of elements that are kept */
    unsigned T;     /* positions in a row */
};

/* For N positions. */
static inline struct Drops drops_of(const struct dt_dropout *dropout, size_t N)
{
    struct Drops d = {};
    d.T = (unsigned)N;
    if (dropout->rate > 0.0) {
        assert(dropout->rows.dtype == DT_I64 && dropout->rows.count > 0);
        assert(N % dropout->rows.count == 0 && N <= UINT32_MAX);
        d.rows = data_of<const int64_t>(dropout->rows);
        d.key[0] = (uint32_t)dropout->seed;
        d.key[1] = (uint32_t)(dropout->seed >> 32);
        d.place = dropout->place << 16;
        d.limit = (uint32_t)(dropout->rate * 0x1p32);
        d.scale = (float)(1.0 / (1.0 - dropout->rate));
        d.T = (unsigned)(N / dropout->rows.count);
    }
    return d;
}

/* The factors of elements 4*block ... of row `row` (its global number). */
__device__ static inline void drop_factors(float (&factors)[4], const Drops &d,
                                           uint64_t row, uint64_t block)
{
    uint32_t words[4] = {(uint32_t)block, (uint32_t)(block >> 32) | d.place,
                         (uint32_t)row, (uint32_t)(row >> 32) | 1u << 31};
    philox(words, d.key);
#pragma unroll
    for (int i = 0; i < 4; i++)
        factors[i] = words[i] >= d.limit ? d.scale : 0.0f;
}

/* The factor of one element; drop_factors of four costs as much. */
__device__ static inline float drop_factor(const Drops &d, uint64_t row,
                                           uint64_t element)
{
    float f[4];
    drop_factors(f, d, row, element / 4);
    float low = element & 1 ? f[1] : f[0], high = element & 1 ? f[3] : f[2];
    return element & 2 ? high : low;
}

/* Elements that belong to position n of the batch. */
struct DropRow {
    uint64_t row, first; /* number of the row, element of channel 0 */
};
__device__ static inline DropRow drop_row(const Drops &d, size_t n, size_t C)
{
    unsigned b = (unsigned)n / d.T, t = (unsigned)n % d.T;
    return {(uint64_t)d.rows[b], (uint64_t)t * C};
}

/* Channels c ... of a position; c and the number of channels are multiples of
 * W.
 */
template <int W>
__device__ static inline void apply_dropout(float (&x)[W], const Drops &d,
                                            const DropRow &r, size_t c)
{
    if constexpr (W == 1) {
        x[0] *= drop_factor(d, r.row, r.first + c);
    } else {
#pragma unroll
        for (int i = 0; i < W; i += 4) {
            float f[4];
            drop_factors(f, d, r.row, (r.first + c) / 4 + (unsigned)i / 4);
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[i + j] *= f[j];
        }
    }
}

#endif /* DT_OPS_CUDA_DROPOUT_CUH */
