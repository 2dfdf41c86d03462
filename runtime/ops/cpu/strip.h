/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip.h - the innermost loop of matmul_rows.c: some stored rows of one
 * operand by all that is packed of the other
 *
 * Operands are words of 32 bits: numbers of fp32, or pairs of bf16, which a
 * processor may multiply and add at once. The file that includes this says
 * which, by ADD_WORDS(sum, w, x): sum + w x, of a vector of sums, a word and a
 * vector of words.
 */
#ifndef DT_OPS_CPU_STRIP_H
#define DT_OPS_CPU_STRIP_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/vec.h"

/* The tile of sums that fits into the registers, STRIP x PANEL, and words of a
 * packed row.
 */
enum {
    STRIP = 6,
    VECS = LANES == 16 ? 4 : 2,
    PANEL = VECS * LANES,
    DEPTH = 768,
    LINE = 64, /* bytes */
    WORDS = LINE / sizeof(float),
};

_Static_assert(DT_CPU_SOME_ROWS % PANEL == 0, "rows are whole panels");

/* STRIP rows, `stride` words apart, and memory to fetch meanwhile: for each
 * line of their words STRIP lines, `next_stride` bytes apart.
 */
struct dt_strip {
    const float *row;
    size_t stride;
    uintptr_t next;
    size_t next_stride;
    size_t next_step; /* bytes from the lines of one time to the next */
};

/* sum(STRIP, rows) = or += strip x, over `depth` words, at most DEPTH; packed
 * x(rows / PANEL, DEPTH, PANEL), `rows` a multiple of LANES. Rows of sum are
 * DT_CPU_SOME_ROWS apart.
 */
typedef void dt_strip_multiply(float *sum, const struct dt_strip *strip,
                               const float *x, size_t rows, size_t depth,
                               bool add);

/* Of pairs of bf16; only where dt_cpu_has_pairs says so. */
extern dt_strip_multiply DT_CPU(multiply_pairs);

#ifdef ADD_WORDS
/* vecs is a constant at each call. */
static inline __attribute__((always_inline)) void multiply_tile(
    size_t vecs, float *to, const struct dt_strip *strip, const float *x,
    size_t depth, bool add)
{
    const float *w = strip->row;
    const size_t stride = strip->stride;
    dt_vec sum[STRIP][VECS];

#pragma GCC unroll 8
    for (size_t i = 0; i < STRIP; i++) {
#pragma GCC unroll 8
        for (size_t j = 0; j < vecs; j++)
            sum[i][j] = add ? ((dt_vec *)(to + i * DT_CPU_SOME_ROWS))[j]
                            : (dt_vec){0.0f};
    }
    for (size_t first = 0; first < depth; first += WORDS) {
        const uintptr_t next = strip->next + first / WORDS * strip->next_step;
        const size_t end = first + WORDS < depth ? first + WORDS : depth;
#pragma GCC unroll 8
        for (size_t i = 0; i < STRIP; i++)
            __builtin_prefetch((const void *)(next + i * strip->next_stride), 0,
                               2);
        for (size_t k = first; k < end; k++) {
            const dt_vec *row = (const dt_vec *)(x + k * PANEL);
#pragma GCC unroll 8
            for (size_t i = 0; i < STRIP; i++) {
#pragma GCC unroll 8
                for (size_t j = 0; j < vecs; j++)
                    sum[i][j] = ADD_WORDS(sum[i][j], w[i * stride + k], row[j]);
            }
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < STRIP; i++) {
#pragma GCC unroll 8
        for (size_t j = 0; j < vecs; j++)
            ((dt_vec *)(to + i * DT_CPU_SOME_ROWS))[j] = sum[i][j];
    }
}

/* dt_strip_multiply */
static void multiply_strip(float *sum, const struct dt_strip *strip,
                           const float *x, size_t rows, size_t depth, bool add)
{
    for (size_t i = 0; i < rows; i += PANEL, x += PANEL * DEPTH) {
        const size_t vecs = (rows - i) / LANES;
        if (vecs >= VECS)
            multiply_tile(VECS, sum + i, strip, x, depth, add);
        else if (vecs == 1)
            multiply_tile(1, sum + i, strip, x, depth, add);
        else if (vecs == 2)
            multiply_tile(2, sum + i, strip, x, depth, add);
        else
            multiply_tile(VECS - 1, sum + i, strip, x, depth, add);
    }
}
#endif

#endif /* DT_OPS_CPU_STRIP_H */
