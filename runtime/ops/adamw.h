/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adamw.h - AdamW of one element, in the same bits on every kind of hardware
 *
 * Kernels of all backends call this, so that it does not matter where an
 * element is updated, how a range is cut, or which thread has it. Each
 * operation is rounded to nearest, in the order that is written here: division
 * and square root are exact to that (no fast math, subnormals are kept), and a
 * product is added to something by dt_adamw_fma() only, because compilers may
 * fuse other sums of products as they like.
 */
#ifndef DT_OPS_ADAMW_H
#define DT_OPS_ADAMW_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ops/ops.h"

#ifdef __CUDACC__
#define DT_ADAMW_FUNCTION __host__ __device__ static inline
#else
#define DT_ADAMW_FUNCTION static inline
#endif

/* Constants of a run; c1 is 1 - beta1, c2 is 1 - beta2. */
struct dt_adamw_constants {
    float b1, c1, b2, c2, eps;
    double weight_decay, rate;
    bool coupled;
};

/* The factors of a step. */
struct dt_adamw_factors {
    float grad_scale;
    float decay, l2;      /* of the weight: AdamW's, Adam's */
    float step_size;      /* of the first moment: lr / bias1 */
    float inv_sqrt_bias2; /* of the root of the second moment */
};

/* The constants of an update as ops.h describes it. */
static inline struct dt_adamw_constants dt_adamw_constants_of(
    const struct dt_adamw *args)
{
    struct dt_adamw_constants c;

    c.b1 = (float)args->beta1;
    c.c1 = (float)(1.0 - args->beta1);
    c.b2 = (float)args->beta2;
    c.c2 = (float)(1.0 - args->beta2);
    c.eps = (float)args->eps;
    c.weight_decay = args->weight_decay;
    c.rate = args->rate;
    c.coupled = args->coupled;
    return c;
}

/* The factors of elements that decay, from the scalars of a step
 * (DT_STEP_COUNT).
 */
DT_ADAMW_FUNCTION struct dt_adamw_factors dt_adamw_factors_of(
    const double *step, const struct dt_adamw_constants *c)
{
    const double lr = step[DT_STEP_LR] * c->rate;
    struct dt_adamw_factors f;

    f.grad_scale = (float)step[DT_STEP_GRAD_SCALE];
    f.decay = (float)(c->coupled ? 1.0 : fma(-lr, c->weight_decay, 1.0));
    f.l2 = (float)(c->coupled ? c->weight_decay : 0.0);
    f.step_size = (float)(lr / step[DT_STEP_BIAS1]);
    f.inv_sqrt_bias2 = (float)(1.0 / sqrt(step[DT_STEP_BIAS2]));
    return f;
}

/* The factors of elements that decay, or do not. */
DT_ADAMW_FUNCTION struct dt_adamw_factors dt_adamw_factors_in(
    struct dt_adamw_factors f, bool decays)
{
    f.decay = decays ? f.decay : 1.0f;
    f.l2 = decays ? f.l2 : 0.0f;
    return f;
}

/* a * b + c, rounded once. Where the processor has no instruction for it,
 * fmaf() would take fifty times as long, so the exact product is added in
 * double. Rounding that sum to fp32 is wrong only if its own rounding has moved
 * it halfway between two floats. There it is rounded to odd, which is never
 * halfway (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums",
 * 2008), and so are all subnormal sums, whose halves are anywhere.
 */
DT_ADAMW_FUNCTION float dt_adamw_fma(float a, float b, float c)
{
#if defined(__CUDA_ARCH__) || defined(__FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    const double product = (double)a * (double)b, addend = (double)c;
    double sum = product + addend;
    uint64_t bits;

    memcpy(&bits, &sum, sizeof(bits));
    if ((bits & 0x1fffffff) == 0x10000000 || fabs(sum) < (double)FLT_MIN) {
        const double part = sum - product; /* Knuth's two-sum: exact */
        const double lost = (product - (sum - part)) + (addend - part);
        if (bits % 2 == 0 && lost != 0.0)
            bits += (lost > 0.0) == (sum > 0.0) ? 1 : -1;
        memcpy(&sum, &bits, sizeof(sum));
    }
    return (float)sum;
#endif
}

/* Updates weight p and moments m, v with the gradient g. */
DT_ADAMW_FUNCTION void dt_adamw_update(const struct dt_adamw_factors *f,
                                       const struct dt_adamw_constants *c,
                                       float g, float *p, float *m, float *v)
{
    const float d = dt_adamw_fma(f->l2, *p, f->grad_scale * g);
    const float m_new = dt_adamw_fma(c->b1, *m, c->c1 * d);
    const float v_new = dt_adamw_fma(c->b2, *v, c->c2 * d * d);
    const float root = dt_adamw_fma(sqrtf(v_new), f->inv_sqrt_bias2, c->eps);

    *p = dt_adamw_fma(f->decay, *p, -(f->step_size * m_new / root));
    *m = m_new;
    *v = v_new;
}

#endif /* DT_OPS_ADAMW_H */
