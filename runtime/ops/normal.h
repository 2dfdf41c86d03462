/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normal.h - the normal distribution function, by one formula on every kind of
 * hardware
 *
 * GELU is x P(X <= x) of a normal X, 1/2 (1 + erf(x / sqrt 2)) of x. Far below
 * 0 that sum has no digits left, so the smaller tail is computed by itself:
 * e^(x^2/2) (1 + |x|) times it is a polynomial in (|x| - k) / (|x| + k)
 * (Shepherd, Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
 * erfc x", Math. Comp. 36, 1981, with k = 4 here). Near 0 the distance from
 * 1/2 is odd, x times a polynomial in x^2. Coefficients are those of Chebyshev
 * interpolation; their errors are below 5e-9.
 */
#ifndef DT_OPS_NORMAL_H
#define DT_OPS_NORMAL_H

#ifdef __CUDACC__
#define DT_NORMAL_FUNCTION __host__ __device__ static inline
#else
#define DT_NORMAL_FUNCTION static inline
#endif

/* The density at x is this times e = exp(-x^2/2). */
#define DT_NORMAL_DENSITY 0.398942280f

/* P(X <= x), where e = exp(-x^2/2): relative error below 2e-7 from x = 0 on and
 * below 6e-7 under it, besides that of e. NaN may become a number.
 */
DT_NORMAL_FUNCTION float dt_normal(float x, float e)
{
    const float distance = x < 0.0f ? -x : x;
    const float size = distance < 14.0f ? distance : 14.0f;
    const float square = x * x;
    const float sum = size + 4.0f, scale = size + 1.0f;
    const float inverse = 1.0f / (sum * scale);
    const float t = (size - 4.0f) * scale * inverse;
    float tail = 6.40653947e-4f, near = -7.66260837e-6f;

    tail = tail * t - 3.46399116e-4f;
    tail = tail * t - 4.99079283e-3f;
    tail = tail * t + 1.79501399e-2f;
    tail = tail * t - 3.21987607e-2f;
    tail = tail * t + 2.85991356e-2f;
    tail = tail * t + 1.39996549e-2f;
    tail = tail * t - 9.67034474e-2f;
    tail = tail * t + 4.72053200e-1f;
    tail *= sum * inverse * e;
    near = near * square + 1.13507478e-4f;
    near = near * square - 1.18634850e-3f;
    near = near * square + 9.97333042e-3f;
    near = near * square - 6.64903596e-2f;
    near = near * square + 3.98942292e-1f;
    near = near * x + 0.5f;
    return size < 1.0f ? near : x < 0.0f ? tail : 1.0f - tail;
}

#endif /* DT_OPS_NORMAL_H */
