/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.cu - GELU by the tanh approximation, and the gated MLP's
 * activations
 *
 * With u = sqrt(2/pi) (x + 0.044715 x^3), 0.5 (1 + tanh u) is the logistic
 * function s = 1 / (1 + e), e = exp(-2u): one exp and one division.
 *   gelu(x) = x s,  gelu'(x) = s + x s (e s) 2 u'(x), e s being 1 - s
 * Gated, with t = g (SiLU) or 2u of g (GELU), s = 1 / (1 + e), e = exp(-t):
 *   out = g s u,  dg = dout u s (1 + g e s t'(g)),  du = dout g s
 */
#include "config.h"

#include "ops/cuda/rows.cuh"

static constexpr float TWO_U1 = 1.59576912f;   /* 2 sqrt(2/pi) */
static constexpr float TWO_U3 = 0.0713548163f; /* 2 sqrt(2/pi) 0.044715 */

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

struct Gelu {
    static constexpr bool TWO = false; /* inputs */
    template <typename X> __device__ static float apply(float, float x)
    {
        return x * logistic<X>(x * (TWO_U1 + TWO_U3 * x * x));
    }
};

struct GeluBackward {
    static constexpr bool TWO = true;
    template <typename X> __device__ static float apply(float d, float x)
    {
        float e, s = logistic<X>(x * (TWO_U1 + TWO_U3 * x * x), e);
        float slope = TWO_U1 + 3.0f * TWO_U3 * x * x;
        return d * (s + x * s * (e * s) * slope);
    }
};

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

extern "C" void dt_cuda_gelu_forward(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view x)
{
    assert(out.count == x.count);
    launch_map<Gelu>(stream, out, {}, x);
}

extern "C" void dt_cuda_gelu_backward(struct dt_stream *stream,
                                      struct dt_view dx, struct dt_view dout,
                                      struct dt_view x)
{
    assert(dx.count == x.count && dout.count == x.count);
    launch_map<GeluBackward>(stream, dx, dout, x);
}

/* t of a gate, and its derivative */
template <enum dt_gate GATE>
__device__ static inline float gate_argument(float g)
{
    return GATE == DT_GATE_SILU ? g : g * (TWO_U1 + TWO_U3 * g * g);
}
template <enum dt_gate GATE> __device__ static inline float gate_slope(float g)
{
    return GATE == DT_GATE_SILU ? 1.0f : TWO_U1 + 3.0f * TWO_U3 * g * g;
}

/* out(I) = act(g) u of each row, where a row of x is g(I), then u(I). A warp
 * has a tile of a row, a thread TILE_VECS vectors of it.
 */
template <typename X, int W, enum dt_gate GATE>
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
                g[j] = g[j] * logistic<X>(gate_argument<GATE>(g[j])) * u[j];
            store_floats<X, W>(out + tile.n * I + v * W, g);
        }
    }
}

/* Half as many vectors at a time: three inputs and two outputs. */
enum { BACKWARD_VECS = TILE_VECS / 2 };

template <typename X, int W, enum dt_gate GATE>
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
        float e, s = logistic<X>(gate_argument<GATE>(g[j]), e);
        float slope = gate_slope<GATE>(g[j]);
        u[j] = d[j] * u[j] * (s + g[j] * s * (e * s) * slope);
        g[j] = d[j] * g[j] * s;
    }
    store_floats<X, W>(to, u);
    store_floats<X, W>(to + I, g);
}

/* dx(2I) from dout(I) and x(2I), row by row: dg, then du. Nothing of the
 * forward pass is kept; the logistic function is computed again.
 */
template <typename X, int W, enum dt_gate GATE>
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
                glu_gradient<X, W, GATE>(dx + tile.n * 2 * I + v * W, I, ds[i],
                                         gs[i], us[i]);
        }
    }
}

/* Backward: dx(N,2I), and out is dout(N,I); forward: no dx. */
template <enum dt_gate GATE>
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
                    launch(stream, glu_backward_kernel<X, W, GATE>, blocks,
                           TILE_THREADS, grad, to, in, N, (unsigned)I, per_row);
                else
                    launch(stream, glu_kernel<X, W, GATE>, blocks, TILE_THREADS,
                           to, in, N, (unsigned)I, per_row);
            });
    });
}

extern "C" void dt_cuda_glu_forward(struct dt_stream *stream,
                                    struct dt_view out, struct dt_view x,
                                    enum dt_gate gate, size_t N, size_t I)
{
    if (gate == DT_GATE_SILU)
        launch_glu<DT_GATE_SILU>(stream, {}, out, x, N, I);
    else
        launch_glu<DT_GATE_GELU>(stream, {}, out, x, N, I);
}

extern "C" void dt_cuda_glu_backward(struct dt_stream *stream,
                                     struct dt_view dx, struct dt_view dout,
                                     struct dt_view x, enum dt_gate gate,
                                     size_t N, size_t I)
{
    assert(dx.count == x.count);
    if (gate == DT_GATE_SILU)
        launch_glu<DT_GATE_SILU>(stream, dx, dout, x, N, I);
    else
        launch_glu<DT_GATE_GELU>(stream, dx, dout, x, N, I);
}
