/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - helpers of all files of the CPU backend
 *
 * Every file of this folder except cpu.c, cpu_step.c and onednn.c is compiled
 * once for each instruction set (variant): DT_CPU_VARIANT is its name,
 * DT_CPU(x) the name of x in it. Code is plain C that the compiler turns into
 * vectors of that variant.
 */
#ifndef DT_OPS_CPU_CPU_H
#define DT_OPS_CPU_CPU_H

#include <assert.h>
#include <omp.h>
#include <stddef.h>

#include "ops/ops.h"
#include "tensor/tensor.h"

/* The i-th variant that this processor runs, the fastest first; NULL after
 * the last. dt_ops_cpu() is variant 0.
 */
const struct dt_ops *dt_cpu_variant(size_t i);

/* Keys of a tile of attention. */
enum { DT_CPU_KEY_TILE = 64 };

#define DT_CPU_PASTE(name, variant) dt_cpu_##name##_##variant
#define DT_CPU_EXPAND(name, variant) DT_CPU_PASTE(name, variant)
#define DT_CPU(name) DT_CPU_EXPAND(name, DT_CPU_VARIANT)

/* One slot of struct dt_ops, with the type it has there. */
#define DT_CPU_SLOT(op, name)                                                  \
    extern __typeof__(*((struct dt_ops *)NULL)->op) name

DT_CPU_SLOT(step_begin, dt_cpu_step_begin);
DT_CPU_SLOT(step_add, dt_cpu_step_add);
DT_CPU_SLOT(clip_and_check, dt_cpu_clip_and_check);

#ifdef DT_CPU_VARIANT
#define DT_CPU_OP(op) DT_CPU_SLOT(op, DT_CPU(op))

DT_CPU_OP(library);
DT_CPU_OP(emulation);
DT_CPU_OP(embedding_forward);
DT_CPU_OP(embedding_backward);
DT_CPU_OP(scatter_rows);
DT_CPU_OP(add_rows);
DT_CPU_OP(patch_rows);
DT_CPU_OP(sparse_matmul);
DT_CPU_OP(linear_forward);
DT_CPU_OP(linear_backward);
DT_CPU_OP(norm_forward);
DT_CPU_OP(residual_norm_forward);
DT_CPU_OP(norm_backward);
DT_CPU_OP(dropout_backward);
DT_CPU_OP(linear_activation_forward);
DT_CPU_OP(linear_activation_backward);
DT_CPU_OP(activation_forward);
DT_CPU_OP(activation_backward);
DT_CPU_OP(low_rank_forward);
DT_CPU_OP(low_rank_backward);
DT_CPU_OP(glu_forward);
DT_CPU_OP(glu_backward);
DT_CPU_OP(heads_norm_forward);
DT_CPU_OP(heads_norm_backward);
DT_CPU_OP(rope_forward);
DT_CPU_OP(rope_backward);
DT_CPU_OP(attention_forward);
DT_CPU_OP(attention_backward);
DT_CPU_OP(attention_workspace);
DT_CPU_OP(kv_store);
DT_CPU_OP(kv_attention);
DT_CPU_OP(sample);
DT_CPU_OP(linear_cross_entropy);
DT_CPU_OP(linear_logprob_forward);
DT_CPU_OP(linear_logprob_backward);
DT_CPU_OP(apply_logit_rule);
DT_CPU_OP(loss_workspace);
DT_CPU_OP(zero);
DT_CPU_OP(convert);
DT_CPU_OP(add);
DT_CPU_OP(add_dithered);
DT_CPU_OP(combine);
DT_CPU_OP(hash);
DT_CPU_OP(sum_of_squares);
DT_CPU_OP(adamw);

/* c(M,N) = or += a(M,K) b(K,N), within one thread, for operands that fit into
 * the cache: a(i, k) is a[i*row_step + k*column_step]; rows of b are b_stride
 * apart, of c c_stride.
 */
void DT_CPU(tile_matmul)(float *c, size_t c_stride, const float *a,
                         size_t row_step, size_t column_step, const float *b,
                         size_t b_stride, size_t M, size_t N, size_t K,
                         bool accumulate);

/* c(PACKED_ROWS, vecs * LANES) = or += a b, both packed: element (i, k) of a is
 * a[k*LANES + i]; (k, j) of b is b[(j/LANES*b_strip + k)*LANES + j%LANES]. vecs
 * is at most PACKED_VECS.
 */
void DT_CPU(tile_packed)(float *c, size_t c_stride, const float *a,
                         const float *b, size_t b_strip, size_t vecs, size_t K,
                         bool accumulate);
#endif

/* Elements, and products of a matrix multiplication, that one thread computes
 * in the time that it takes to wake another: operations on so few have one
 * thread. No bit depends on it.
 */
enum { DT_CPU_SMALL = 1 << 14, DT_CPU_SMALL_MATMUL = 1 << 17 };

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* a / b, rounded up */
static inline size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* The data of v, which must hold `count` floats. */
static inline float *dt_cpu_f32(struct dt_view v, size_t count)
{
    assert(v.count == count);
    (void)count;
    return dt_view_f32(v);
}

/* In a parallel region: the part [*first, *end) of 0..count that belongs to
 * the calling thread; bounds are multiples of `step`.
 */
static inline void dt_cpu_share_by(size_t step, size_t count, size_t *first,
                                   size_t *end)
{
    size_t steps = divide_up(count, step);
    size_t threads = (size_t)omp_get_num_threads();
    size_t i = (size_t)omp_get_thread_num();

    *first = min_size(steps * i / threads * step, count);
    *end = min_size(steps * (i + 1) / threads * step, count);
}

/* The same in cache lines of floats. */
static inline void dt_cpu_share(size_t count, size_t *first, size_t *end)
{
    dt_cpu_share_by(64 / sizeof(float), count, first, end);
}

#endif /* DT_OPS_CPU_CPU_H */
