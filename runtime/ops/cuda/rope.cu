/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope.cu - RoPE: heads of q and k normed and rotated by their position
 *
 * With the norm y = x rstd w of a head and the pairs (a, b) = y[j], y[j +
 * R/2]: out = (a cos - b sin, b cos + a sin). Backward: dy is dout rotated the
 * other way, and dw += dy x rstd,  dx = rstd (w dy - x rstd^2 mean(w dy x)).
 *
 * A warp computes several heads of one row side by side: the lanes of a group
 * share a head, each with W pairs (PER times W where a head is not aligned), so
 * that the angles are read once for all heads of the warp.
 */
#include "config.h"

#include "ops/cuda/parts.cuh"
#include "ops/cuda/rows.cuh"

/* Heads that a group loads at once; blocks per multiprocessor in backward. */
enum { AHEAD = 4, GRAD_BLOCKS = 2 };

template <typename X> struct Rope {
    X *out;
    const X *in;
    float *rstd;              /* (N, NH + NKV) */
    const int32_t *positions; /* (axes, N) */
    const int32_t *axis;      /* (R / 2), NULL: all 0 */
    const float *table;
    const X *q_norm, *k_norm; /* NULL for none */
    float eps, shift, sign;   /* sign -1: backward */
    size_t N;
    unsigned NH, rotated, heads, width; /* rotated: NH + NKV; heads: those
        and the heads of v that are copied; width: elements of a row */
    unsigned HS, R, lanes;   /* R: elements of a head that are rotated; HS if
                                there are norms, or heads of v; lanes: of a head
                              */
    unsigned per_row, tiles; /* a warp takes a tile */
    const X *x;              /* backward: input of the norm */
    float *partial;          /* (blocks, HS of dq_norm, HS of dk_norm) */
};

/* A lane's part of a tile: its row, its first head and the step to the next;
 * pair k of its p-th vector is element(p) + k, if that is below R / 2.
 */
template <typename X, int W> struct LanePart {
    size_t n;
    unsigned head, step, lane, lanes;

    __device__ LanePart(const Rope<X> &a, unsigned tile, int ahead)
    {
        const unsigned thread = threadIdx.x % WARP;
        n = tile / a.per_row;
        lanes = a.lanes;
        step = WARP / lanes;
        head = tile % a.per_row * step * ahead + thread / lanes;
        lane = thread % lanes;
    }
    __device__ unsigned element(int p) const
    {
        return (lane + p * lanes) * W;
    }
    /* The sum over the lanes of a head. */
    __device__ float sum(float x) const
    {
        for (unsigned i = lanes / 2; i > 0; i /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, i);
        return x;
    }
};

/* The two halves of W pairs. */
template <typename X, int W> struct Pairs {
    Vec<X, W> low, high;

    __device__ void load(const X *from, unsigned R)
    {
        low = load_vec<X, W>(from);
        high = load_vec<X, W>(from + R / 2);
    }
};

/* (a, b) rotated by an angle */
template <int W>
__device__ static inline void rotate_pairs(float (&a)[W], float (&b)[W],
                                           const float (&cosine)[W],
                                           const float (&sine)[W], float sign)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        float s = sign * sine[i], x = a[i], y = b[i];
        a[i] = x * cosine[i] - y * s;
        b[i] = y * cosine[i] + x * s;
    }
}

/* Those of W pairs from pair j on, which may have an axis each. */
template <typename X, int W>
__device__ static inline void gather_angles(float (&cosine)[W],
                                            float (&sine)[W], const Rope<X> &a,
                                            size_t n, unsigned j)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        const int32_t *row = a.positions + (size_t)a.axis[j + i] * a.N;
        const float *from = a.table + (size_t)row[n] * a.R + j + i;
        cosine[i] = from[0];
        sine[i] = from[a.R / 2];
    }
}

template <typename X, int W, int PER>
__device__ static inline void load_angles(float (&cosine)[PER][W],
                                          float (&sine)[PER][W],
                                          const Rope<X> &a,
                                          const LanePart<X, W> &at)
{
    const float *table = a.table + (size_t)a.positions[at.n] * a.R;
#pragma unroll
    for (int p = 0; p < PER; p++) {
        const unsigned j = at.element(p);
        if (j >= a.R / 2)
            continue;
        if (a.axis) {
            gather_angles<X, W>(cosine[p], sine[p], a, at.n, j);
        } else {
            load_floats<float, W>(cosine[p], table + j);
            load_floats<float, W>(sine[p], table + a.R / 2 + j);
        }
    }
}

/* One head from `in`: normed and rotated, or copied if it is one of v. */
template <typename X, int W, int PER, bool NORM>
__device__ static inline void rope_head(const Rope<X> &a,
                                        const LanePart<X, W> &at, unsigned h,
                                        const Pairs<X, W> (&in)[PER],
                                        const float (&cosine)[PER][W],
                                        const float (&sine)[PER][W])
{
    const X *weight = h < a.NH ? a.q_norm : a.k_norm;
    const bool there = at.n < a.N && h < a.heads;
    X *to = a.out + at.n * a.width + (size_t)h * a.HS;
    float rstd = 1.0f;

    if constexpr (NORM) {
        float square = 0.0f;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (there && at.element(p) < a.R / 2) {
                float low[W], high[W];
                to_floats<X, W>(low, in[p].low);
                to_floats<X, W>(high, in[p].high);
#pragma unroll
                for (int i = 0; i < W; i++)
                    square += low[i] * low[i] + high[i] * high[i];
            }
        }
        rstd = rsqrtf(at.sum(square) / (float)a.HS + a.eps);
        if (there && h < a.rotated && weight && at.lane == 0)
            a.rstd[at.n * a.rotated + h] = rstd;
    }
#pragma unroll
    for (int p = 0; p < PER; p++) {
        const unsigned j = at.element(p);
        float low[W], high[W];
        if (!there || j >= a.R / 2)
            continue;
        if (h >= a.rotated) {
            store_vec<X, W>(to + j, in[p].low);
            store_vec<X, W>(to + a.R / 2 + j, in[p].high);
            continue;
        }
        to_floats<X, W>(low, in[p].low);
        to_floats<X, W>(high, in[p].high);
        if (NORM && weight) {
            float w[2][W];
            load_floats<X, W>(w[0], weight + j);
            load_floats<X, W>(w[1], weight + a.R / 2 + j);
#pragma unroll
            for (int i = 0; i < W; i++) {
                low[i] *= rstd * (w[0][i] + a.shift);
                high[i] *= rstd * (w[1][i] + a.shift);
            }
        }
        rotate_pairs<W>(low, high, cosine[p], sine[p], a.sign);
        store_floats<X, W>(to + j, low);
        store_floats<X, W>(to + a.R / 2 + j, high);
    }
}

/* Pairs (a, b) of each head of q and k, half a head apart, become (a cos - b
 * sin, b cos + a sin) by the angle of their position, after the norm if there
 * is one. A group of lanes has HEADS heads of a row.
 */
template <typename X, int W, int PER, bool NORM>
__global__ static void __launch_bounds__(TILE_THREADS) rope_kernel(Rope<X> a)
{
    constexpr int HEADS = PER == 1 ? AHEAD : 1;
    const LanePart<X, W> at(a, blockIdx.x * TILE_WARPS + threadIdx.x / WARP,
                            HEADS);
    Pairs<X, W> in[HEADS][PER];
    float cosine[PER][W], sine[PER][W];

#pragma unroll
    for (int i = 0; i < HEADS; i++) {
        const unsigned h = at.head + i * at.step;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (at.n < a.N && h < a.heads && at.element(p) < a.R / 2)
                in[i][p].load(a.in + at.n * a.width + (size_t)h * a.HS +
                                  at.element(p),
                              a.R);
        }
    }
    if (at.n < a.N)
        load_angles<X, W, PER>(cosine, sine, a, at);
#pragma unroll
    for (int i = 0; i < HEADS; i++)
        rope_head<X, W, PER, NORM>(a, at, at.head + i * at.step, in[i], cosine,
                                   sine);
}

/* A lane's sums of dq_norm and dk_norm, for the first and the second half */
template <int W, int PER> struct NormGrads {
    float q[PER][2][W], k[PER][2][W];
};

/* One head: dy becomes dx, sums += dy x rstd. */
template <typename X, int W, int PER>
__device__ static inline void rope_head_backward(
    const Rope<X> &a, const LanePart<X, W> &at, unsigned h,
    const Pairs<X, W> (&dy)[PER], const Pairs<X, W> (&x)[PER],
    const float (&cosine)[PER][W], const float (&sine)[PER][W],
    NormGrads<W, PER> &sums)
{
    const bool there = h < a.rotated;
    const X *weight = h < a.NH ? a.q_norm : a.k_norm;
    const float rstd = there && weight ? a.rstd[at.n * a.rotated + h] : 0.0f;
    X *to = a.out + at.n * a.width + (size_t)h * a.HS;
    float g[PER][2][W], in[PER][2][W], w[PER][2][W], product = 0.0f;

#pragma unroll
    for (int p = 0; p < PER; p++) {
        const unsigned j = at.element(p);
        if (!there || j >= a.R / 2)
            continue;
        to_floats<X, W>(g[p][0], dy[p].low);
        to_floats<X, W>(g[p][1], dy[p].high);
        rotate_pairs<W>(g[p][0], g[p][1], cosine[p], sine[p], -1.0f);
        if (!weight)
            continue;
        to_floats<X, W>(in[p][0], x[p].low);
        to_floats<X, W>(in[p][1], x[p].high);
        load_floats<X, W>(w[p][0], weight + j);
        load_floats<X, W>(w[p][1], weight + a.R / 2 + j);
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                float dw = g[p][half][i] * in[p][half][i] * rstd;
                sums.q[p][half][i] += h < a.NH ? dw : 0.0f;
                sums.k[p][half][i] += h < a.NH ? 0.0f : dw;
                g[p][half][i] *= w[p][half][i] + a.shift;
                product += g[p][half][i] * in[p][half][i];
            }
        }
    }
    product = at.sum(product) * (rstd * rstd / (float)a.HS);
#pragma unroll
    for (int p = 0; p < PER; p++) {
        const unsigned j = at.element(p);
        if (!there || j >= a.R / 2)
            continue;
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (weight)
                    g[p][half][i] =
                        rstd * (g[p][half][i] - in[p][half][i] * product);
            }
            store_floats<X, W>(to + half * (a.R / 2) + j, g[p][half]);
        }
    }
}

/* partial(HS) of the block = the sums of all its lanes: over the lanes of a
 * warp first, then warp by warp.
 */
template <int W, int PER>
__device__ static inline void sum_over_block(float *partial,
                                             float (&sums)[PER][2][W],
                                             unsigned lanes, unsigned HS,
                                             float (&shared)[DT_MAX_HEAD_SIZE])
{
    const unsigned thread = threadIdx.x % WARP, warp = threadIdx.x / WARP;

#pragma unroll
    for (int p = 0; p < PER; p++) {
#pragma unroll
        for (int i = 0; i < 2 * W; i++) {
            float &x = sums[p][i / W][i % W];
            for (unsigned step = lanes; step < WARP; step *= 2)
                x += __shfl_xor_sync(0xffffffffu, x, step);
        }
    }
    for (unsigned round = 0; round < TILE_WARPS; round++) {
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const unsigned j = (thread + p * lanes) * W;
            if (warp != round || thread >= lanes || j >= HS / 2)
                continue;
#pragma unroll
            for (int i = 0; i < 2 * W; i++) {
                float &to = shared[i / W * (HS / 2) + j + i % W];
                to = (round > 0 ? to : 0.0f) + sums[p][i / W][i % W];
            }
        }
        __syncthreads();
    }
    for (unsigned j = threadIdx.x; j < HS; j += TILE_THREADS)
        partial[j] = shared[j];
    __syncthreads();
}

/* Backward with a norm: each block loops over tiles. */
template <typename X, int W, int PER>
__global__ static void __launch_bounds__(TILE_THREADS, PER == 1 ? 2 : 1)
    rope_norm_backward_kernel(Rope<X> a)
{
    __shared__ float shared[DT_MAX_HEAD_SIZE];
    NormGrads<W, PER> sums = {};

    for (unsigned tile = blockIdx.x * TILE_WARPS + threadIdx.x / WARP;
         tile < a.tiles; tile += gridDim.x * TILE_WARPS) {
        const LanePart<X, W> at(a, tile, 1);
        const size_t from = at.n * a.width + (size_t)at.head * a.HS;
        Pairs<X, W> dy[PER], x[PER];
        float cosine[PER][W], sine[PER][W];
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (at.head < a.rotated && at.element(p) < a.R / 2) {
                dy[p].load(a.in + from + at.element(p), a.R);
                x[p].load(a.x + from + at.element(p), a.R);
            }
        }
        load_angles<X, W, PER>(cosine, sine, a, at);
        rope_head_backward<X, W, PER>(a, at, at.head, dy, x, cosine, sine,
                                      sums);
    }
    float *partial = a.partial + (size_t)blockIdx.x * 2 * a.HS;
    sum_over_block<W, PER>(partial, sums.q, a.lanes, a.HS, shared);
    sum_over_block<W, PER>(partial + a.HS, sums.k, a.lanes, a.HS, shared);
}

/* The power of two from `vecs` on. */
static unsigned lanes_for(size_t vecs)
{
    unsigned lanes = 1;
    while (lanes < vecs)
        lanes *= 2;
    return lanes;
}

/* Divides the work into tiles. Returns whether vectors of W pairs are aligned;
 * a group of lanes then takes `wide_heads` heads, otherwise one.
 */
template <typename X> static bool plan_tiles(Rope<X> *a, int wide_heads)
{
    const unsigned W = wide<X>(), pairs = a->R / 2;
    const bool is_wide = aligned(pairs, (int)W, sizeof(X), a->in, a->out,
                                 a->q_norm, a->k_norm) &&
                         aligned(pairs, (int)W, sizeof(X), a->x) &&
                         aligned(pairs, (int)W, sizeof(float), a->table) &&
                         a->HS % W == 0 && pairs / W <= (unsigned)WARP;
    const unsigned heads = is_wide ? (unsigned)wide_heads : 1;

    a->lanes = is_wide ? lanes_for(pairs / W) : (unsigned)WARP;
    a->per_row = blocks_for(a->heads, WARP / a->lanes * heads);
    assert(a->N * a->per_row <= UINT32_MAX);
    a->tiles = (unsigned)(a->N * a->per_row);
    return is_wide;
}

template <typename X> static Rope<X> rope_of(const struct dt_rope *r, size_t N)
{
    Rope<X> a = {};

    assert(r->R % 2 == 0 && r->R <= r->HS && r->HS <= DT_MAX_HEAD_SIZE);
    assert(r->R == r->HS || (!r->q_norm.count && !r->k_norm.count));
    assert(r->axis.count == 0 || r->axis.count == r->R / 2);
    assert(r->positions.count >= N);
    assert(N == 0 || r->positions.count % N == 0);
    a.axis = data_of<const int32_t>(r->axis);
    a.positions = data_of<const int32_t>(r->positions);
    a.table = data_of<const float>(r->table);
    a.q_norm = data_of<const X>(r->q_norm);
    a.k_norm = data_of<const X>(r->k_norm);
    a.eps = r->norm.eps;
    a.shift = r->norm.shift;
    a.sign = 1.0f;
    a.N = N;
    a.NH = (unsigned)r->NH;
    a.rotated = a.heads = (unsigned)(r->NH + r->NKV);
    a.width = (unsigned)((r->NH + 2 * r->NKV) * r->HS);
    a.HS = (unsigned)r->HS;
    a.R = (unsigned)r->R;
    return a;
}

/* Pairs of a lane if heads are not aligned. */
enum { NARROW = DT_MAX_HEAD_SIZE / 2 / WARP };

template <typename X, bool NORM>
static void launch_rope(struct dt_stream *stream, Rope<X> a)
{
    const bool is_wide = plan_tiles(&a, AHEAD);
    const unsigned blocks = blocks_for(a.tiles, TILE_WARPS);
    if (is_wide)
        launch(stream, rope_kernel<X, wide<X>(), 1, NORM>, blocks, TILE_THREADS,
               a);
    else
        launch(stream, rope_kernel<X, 1, NARROW, NORM>, blocks, TILE_THREADS,
               a);
}

extern "C" void dt_cuda_rope_forward(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view rstd,
                                     struct dt_view qkv, size_t N,
                                     const struct dt_rope *rope)
{
    assert(out.count == qkv.count);
    if (N == 0)
        return;
    with_type(qkv.dtype, [&](auto zero) {
        using X = decltype(zero);
        Rope<X> a = rope_of<X>(rope, N);
        assert(qkv.count == N * a.width);
        a.out = data_of<X>(out);
        a.in = data_of<const X>(qkv);
        a.rstd = data_of<float>(rstd);
        assert(a.R == a.HS || a.out == a.in);
        if (a.out != a.in)
            a.heads += (unsigned)rope->NKV;
        if (a.q_norm || a.k_norm)
            launch_rope<X, true>(stream, a);
        else
            launch_rope<X, false>(stream, a);
    });
}

template <typename X>
static void launch_norm_backward(struct dt_stream *stream, Rope<X> a, float *dq,
                                 float *dk, bool accumulate)
{
    const bool is_wide = plan_tiles(&a, 1);
    const size_t blocks = blocks_for(a.tiles, TILE_WARPS);
    const size_t resident = (size_t)dt_cuda_facts.multiprocessors * GRAD_BLOCKS;
    const size_t parts =
        parts_that_fit(stream, 2 * a.HS, blocks < resident ? blocks : resident);

    a.partial = (float *)stream->workspace;
    if (parts > 0 && is_wide)
        launch(stream, rope_norm_backward_kernel<X, wide<X>(), 1>,
               (unsigned)parts, TILE_THREADS, a);
    else if (parts > 0)
        launch(stream, rope_norm_backward_kernel<X, 1, NARROW>, (unsigned)parts,
               TILE_THREADS, a);
    const Sums sums = {{dq, dk}, {accumulate, accumulate}};
    add_parts(stream, sums, a.partial, parts, a.HS, 2 * a.HS);
}

extern "C" void dt_cuda_rope_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dq_norm,
    struct dt_view dk_norm, struct dt_view qkv, struct dt_view rstd, size_t N,
    const struct dt_rope *rope, bool accumulate)
{
    with_type(dqkv.dtype, [&](auto zero) {
        using X = decltype(zero);
        Rope<X> a = rope_of<X>(rope, N);
        assert(dqkv.count == N * a.width);
        a.out = data_of<X>(dqkv);
        a.in = a.out;
        a.rstd = data_of<float>(rstd);
        a.sign = -1.0f;
        if (!a.q_norm && !a.k_norm) {
            if (N > 0)
                launch_rope<X, false>(stream, a);
            return;
        }
        assert(qkv.count == dqkv.count && rstd.count == N * a.rotated);
        a.x = data_of<const X>(qkv);
        launch_norm_backward<X>(stream, a, data_of<float>(dq_norm),
                                data_of<float>(dk_norm), accumulate);
    });
}
