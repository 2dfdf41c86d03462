/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.cu - activations of MLPs, alone and as gates
 *
 * All but one are x s, where s = 1 / (1 + e) is the logistic function of t(x),
 * e = exp(-t): one exp and one division. t is x (SiLU), 1.702 x (quick GELU),
 * or 2u, u = sqrt(2/pi) (x + 0.044715 x^3), 0.5 (1 + tanh u) being s:
 *   (x s)' = s + x s (e s) t'(x), e s being 1 - s
 * GELU itself is x P, P the normal distribution function, whose derivative is
 * its density p:
 *   (x P)' = P + x p
 * Gated: out = act(g) u,  dg = dout u act'(g),  du = dout act(g)
 */
#include "config.h"

#include "ops/cuda/rows.cuh"
#include "ops/normal.h"

static constexpr float TWO_U1 = 1.59576912f;   /* 2 sqrt(2/pi) */
static constexpr float TWO_U3 = 0.0713548163f; /* 2 sqrt(2/pi) 0.044715 */
static constexpr float QUICK = 1.702f;

/* exp(x) and 1 / x, as exact as results of type X need. */
template <typename X> __device__ static inline float exp_for(float x)
{
    return std::is_same<X, float>::value ? expf(x) : __expf(x);
}
template <typename X> __device__ static inline float inverse_for(float x)
{
    return std::is_same<X, float>::value ? 1.0f / x : __fdividef(1.0f, x);
}

template <typename X> __device__ static inline float logistic(float x)
{
    return inverse_for<X>(1.0f + exp_for<X>(-x));
}

/* Also e = exp(-x), bounded so that e s is never infinity times zero. */
template <typename X> __device__ static inline float logistic(float x, float &e)
{
    e = exp_for<X>(fminf(-x, 80.0f));
    return inverse_for<X>(1.0f + e);
}

/* t, and its derivative */
template <enum dt_activation ACT>
__device__ static inline float logistic_argument(float x)
{
    return ACT == DT_SILU         ? x
           : ACT == DT_QUICK_GELU ? QUICK * x
                                  : x * (TWO_U1 + TWO_U3 * x * x);
}
template <enum dt_activation ACT>
__device__ static inline float argument_slope(float x)
{
    return ACT == DT_SILU         ? 1.0f
           : ACT == DT_QUICK_GELU ? QUICK
                                  : TWO_U1 + 3.0f * TWO_U3 * x * x;
}

/* act(x) / x */
template <typename X, enum dt_activation ACT>
__device__ static inline float share_of(float x)
{
    if constexpr (ACT == DT_GELU_ERF)
        return dt_normal(x, exp_for<X>(-0.5f * x * x));
    else
        return logistic<X>(logistic_argument<ACT>(x));
}

/* act'(x), and act(x) / x */
template <typename X, enum dt_activation ACT>
__device__ static inline float slope_of(float x, float &share)
{
    if constexpr (ACT == DT_GELU_ERF) {
        const float e = exp_for<X>(-0.5f * x * x);
        share = dt_normal(x, e);
        return share + x * (DT_NORMAL_DENSITY * e);
    } else {
        float e, s = logistic<X>(logistic_argument<ACT>(x), e);
        share = s;
        return s + x * s * (e * s) * argument_slope<ACT>(x);
    }
}

template <enum dt_activation ACT> struct Activate {
    static constexpr bool TWO = false; /* inputs */
    template <typename X> __device__ static float apply(float, float x)
    {
        return x * share_of<X, ACT>(x);
    }
};

template <enum dt_activation ACT> struct ActivateBackward {
    static constexpr bool TWO = true;
    template <typename X> __device__ static float apply(float d, float x)
    {
        float share;
        return d * slope_of<X, ACT>(x, share);
    }
};

/* Calls f with an activation that is a constant. */
template <enum dt_activation ACT> struct Chosen {
    static constexpr enum dt_activation value = ACT;
};
template <typename F>
static inline void with_activation(enum dt_activation activation, F f)
{
    switch (activation) {
    case DT_SILU:
        f(Chosen<DT_SILU>());
        break;
    case DT_GELU_TANH:
        f(Chosen<DT_GELU_TANH>());
        break;
    case DT_GELU_ERF:
        f(Chosen<DT_GELU_ERF>());
        break;
    case DT_QUICK_GELU:
        f(Chosen<DT_QUICK_GELU>());
        break;
    }
}

/* out = F(d, x) element by element; d only if F takes it */
template <typename X, int W, typename F>
__global__ static void __launch_bounds__(TILE_THREADS)
    map_kernel(X *out, const X *d, const X *x, size_t vecs)
{
    const size_t first = flat_first();
    Vec<X, W> xs[TILE_VECS], ds[TILE_VECS];

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            xs[i] = load_vec<X, W>(x + v * W);
            if constexpr (F::TWO)
                ds[i] = load_vec<X, W>(d + v * W);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            float in[W], grad[W] = {}, to[W];
            to_floats<X, W>(in, xs[i]);
            if constexpr (F::TWO)
                to_floats<X, W>(grad, ds[i]);
#pragma unroll
            for (int j = 0; j < W; j++)
                to[j] = F::template apply<X>(grad[j], in[j]);
            store_floats<X, W>(out + v * W, to);
        }
    }
}

template <typename F>
static void launch_map(struct dt_stream *stream, struct dt_view out,
                       struct dt_view d, struct dt_view x)
{
    if (x.count == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *to = data_of<X>(out);
        const X *grad = data_of<const X>(d), *in = data_of<const X>(x);
        with_width<X>(aligned(x.count, wide<X>(), sizeof(X), to, grad, in),
                      [&](auto width) {
                          constexpr int W = decltype(width)::value;
                          launch(stream, map_kernel<X, W, F>,
                                 flat_blocks(x.count / W), TILE_THREADS, to,
                                 grad, in, x.count / W);
                      });
    });
}

extern "C" void dt_cuda_activation_forward(struct dt_stream *stream,
                                           struct dt_view out, struct dt_view x,
                                           enum dt_activation activation)
{
    assert(out.count == x.count);
    with_activation(activation, [&](auto chosen) {
        launch_map<Activate<decltype(chosen)::value>>(stream, out, {}, x);
    });
}

extern "C" void dt_cuda_activation_backward(struct dt_stream *stream,
                                            struct dt_view dx,
                                            struct dt_view dout,
                                            struct dt_view x,
                                            enum dt_activation activation)
{
    assert(dx.count == x.count && dout.count == x.count);
    with_activation(activation, [&](auto chosen) {
        launch_map<ActivateBackward<decltype(chosen)::value>>(stream, dx, dout,
                                                              x);
    });
}

/* out(I) = act(g) u of each row, where a row of x is g(I), then u(I). A warp
 * has a tile of a row, a thread TILE_VECS vectors of it.
 */
template <typename X, int W, enum dt_activation ACT>
__global__ static void __launch_bounds__(TILE_THREADS)
    glu_kernel(X *out, const X *x, size_t N, unsigned I, unsigned per_row)
{
    const Tile tile = this_tile(per_row);
    const unsigned vecs = tile.n < N ? I / W : 0;
    const X *row = x + tile.n * 2 * I;
    Vec<X, W> gs[TILE_VECS], us[TILE_VECS];

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs) {
            gs[i] = load_vec<X, W>(row + v * W);
            us[i] = load_vec<X, W>(row + I + v * W);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs) {
            float g[W], u[W];
            to_floats<X, W>(g, gs[i]);
            to_floats<X, W>(u, us[i]);
#pragma unroll
            for (int j = 0; j < W; j++)
                g[j] = g[j] * share_of<X, ACT>(g[j]) * u[j];
            store_floats<X, W>(out + tile.n * I + v * W, g);
        }
    }
}

/* Half as many vectors at a time: three inputs and two outputs. */
enum { BACKWARD_VECS = TILE_VECS / 2 };

template <typename X, int W, enum dt_activation ACT>
__device__ static inline void glu_gradient(X *to, unsigned I,
                                           const Vec<X, W> &ds,
                                           const Vec<X, W> &gs,
                                           const Vec<X, W> &us)
{
    float d[W], g[W], u[W];

    to_floats<X, W>(d, ds);
    to_floats<X, W>(g, gs);
    to_floats<X, W>(u, us);
#pragma unroll
    for (int j = 0; j < W; j++) {
        float share, slope = slope_of<X, ACT>(g[j], share);
        u[j] = d[j] * u[j] * slope;
        g[j] = d[j] * g[j] * share;
    }
    store_floats<X, W>(to, u);
    store_floats<X, W>(to + I, g);
}

/* dx(2I) from dout(I) and x(2I), row by row: dg, then du. Nothing of the
 * forward pass is kept; the logistic function is computed again.
 */
template <typename X, int W, enum dt_activation ACT>
__global__ static void __launch_bounds__(TILE_THREADS)
    glu_backward_kernel(X *dx, const X *dout, const X *x, size_t N, unsigned I,
                        unsigned per_row)
{
    const Tile tile = this_tile(per_row);
    const unsigned vecs = tile.n < N ? I / W : 0;
    const X *row = x + tile.n * 2 * I;
    Vec<X, W> ds[BACKWARD_VECS], gs[BACKWARD_VECS], us[BACKWARD_VECS];

    for (int part = 0; part < TILE_VECS; part += BACKWARD_VECS) {
        const unsigned first = tile.first + part * WARP;
#pragma unroll
        for (int i = 0; i < BACKWARD_VECS; i++) {
            unsigned v = first + i * WARP;
            if (v < vecs) {
                ds[i] = load_vec<X, W>(dout + tile.n * I + v * W);
                gs[i] = load_vec<X, W>(row + v * W);
                us[i] = load_vec<X, W>(row + I + v * W);
            }
        }
#pragma unroll
        for (int i = 0; i < BACKWARD_VECS; i++) {
            unsigned v = first + i * WARP;
            if (v < vecs)
                glu_gradient<X, W, ACT>(dx + tile.n * 2 * I + v * W, I, ds[i],
                                        gs[i], us[i]);
        }
    }
}

/* Backward: dx(N,2I), and out is dout(N,I); forward: no dx. */
template <enum dt_activation ACT>
static void launch_glu(struct dt_stream *stream, struct dt_view dx,
                       struct dt_view out, struct dt_view x, size_t N, size_t I)
{
    assert(out.count == N * I && x.count == 2 * N * I && I <= INT32_MAX);
    if (N * I == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *grad = data_of<X>(dx), *to = data_of<X>(out);
        const X *in = data_of<const X>(x);
        with_width<X>(
            aligned(I, wide<X>(), sizeof(X), grad, to, in), [&](auto width) {
                constexpr int W = decltype(width)::value;
                const unsigned blocks = tile_blocks(N, I / W);
                const unsigned per_row = tiles_of_row(I / W);
                if (grad)
                    launch(stream, glu_backward_kernel<X, W, ACT>, blocks,
                           TILE_THREADS, grad, to, in, N, (unsigned)I, per_row);
                else
                    launch(stream, glu_kernel<X, W, ACT>, blocks, TILE_THREADS,
                           to, in, N, (unsigned)I, per_row);
            });
    });
}

extern "C" void dt_cuda_glu_forward(struct dt_stream *stream,
                                    struct dt_view out, struct dt_view x,
                                    enum dt_activation activation, size_t N,
                                    size_t I)
{
    with_activation(activation, [&](auto chosen) {
        launch_glu<decltype(chosen)::value>(stream, {}, out, x, N, I);
    });
}

extern "C" void dt_cuda_glu_backward(struct dt_stream *stream,
                                     struct dt_view dx, struct dt_view dout,
                                     struct dt_view x,
                                     enum dt_activation activation, size_t N,
                                     size_t I)
{
    assert(dx.count == x.count);
    with_activation(activation, [&](auto chosen) {
        launch_glu<decltype(chosen)::value>(stream, dx, dout, x, N, I);
    });
}
