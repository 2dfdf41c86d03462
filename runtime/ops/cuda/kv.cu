/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.cu - attention of one new position to the cached keys and values
 *
 * A block computes the query heads that share a head of keys and values, over
 * part of the slots: the cache is read once, and the whole GPU works even if
 * there are few rows. The groups of lanes of a warp take slots in turn. Each
 * group has its own running maximum m, sum l and sum of values (Milakov,
 * Gimelshein, "Online normalizer calculation for softmax", alg. 3); these are
 * merged at the end: groups of a warp, warps of a block, parts.
 */
#include "config.h"

#include "ops/cuda/rows.cuh"

/* k and v of row n of qkv, copied to places(n); a negative place stores
 * nothing.
 */
template <typename X, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    kv_store_kernel(X *k, X *v, const X *qkv, const int32_t *places, size_t N,
                    size_t stride, unsigned keys, unsigned row,
                    unsigned per_row)
{
    const Tile tile = this_tile(per_row);
    const unsigned vecs = tile.n < N ? keys / W : 0;
    Vec<X, W> ks[TILE_VECS], vs[TILE_VECS];

    if (tile.first >= vecs)
        return;
    const int32_t place = places[tile.n];
    if (place < 0)
        return;
    const X *from = qkv + tile.n * row + (row - 2 * keys);
    const size_t to = (unsigned)place / DT_KV_BLOCK * stride +
                      (unsigned)place % DT_KV_BLOCK * keys;
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned at = (tile.first + i * WARP) * W;
        if (at < keys) {
            ks[i] = load_vec<X, W>(from + at);
            vs[i] = load_vec<X, W>(from + keys + at);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned at = (tile.first + i * WARP) * W;
        if (at < keys) {
            store_vec<X, W>(k + to + at, ks[i]);
            store_vec<X, W>(v + to + at, vs[i]);
        }
    }
}

extern "C" void dt_cuda_kv_store(struct dt_stream *stream,
                                 const struct dt_kv *kv, struct dt_view qkv,
                                 struct dt_view places, size_t N)
{
    const size_t keys = kv->NKV * kv->HS;
    const size_t row = kv->NH * kv->HS + 2 * keys;

    assert(qkv.count == N * row && places.count == N);
    assert(kv->k.dtype == qkv.dtype && kv->v.dtype == qkv.dtype);
    if (N * keys == 0)
        return;
    with_type(qkv.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *k = data_of<X>(kv->k), *v = data_of<X>(kv->v);
        const X *from = data_of<const X>(qkv);
        const bool is_wide = aligned(keys, wide<X>(), sizeof(X), k, v, from) &&
                             row % wide<X>() == 0 &&
                             kv->stride % wide<X>() == 0;
        with_width<X>(is_wide, [&](auto width) {
            constexpr int W = decltype(width)::value;
            launch(stream, kv_store_kernel<X, W>, tile_blocks(N, keys / W),
                   TILE_THREADS, k, v, from, data_of<const int32_t>(places), N,
                   kv->stride, (unsigned)keys, (unsigned)row,
                   tiles_of_row(keys / W));
        });
    });
}

/* Warps of a block, fewest slots of a part, blocks for a multiprocessor. */
enum { WARPS = 4, PART = 256, BLOCKS = 4 };

template <typename X> struct Decode {
    X *out;
    const X *qkv, *k, *v;
    const int32_t *positions, *table;
    float *partial; /* (B, NH, parts, HS + 2): m, l, sum; NULL: one part */
    size_t stride;  /* of blocks of keys and values */
    unsigned blocks, NH, NKV, HS, window;
    unsigned lanes; /* of a head */
    unsigned cuts;  /* blocks for the query heads of a head of keys */
    unsigned parts;
    float scale, cap; /* with log2(e): weights are powers of 2; with a softcap
                         (0: none) scale is that of the argument of tanh */
};

/* The online softmax of a query head. A lane has PER vectors of W elements. */
template <int W, int PER> struct OnlineSoftmax {
    float m, l, v[PER][W];

    /* Changes the maximum to `next`. */
    __device__ void rescale(float next)
    {
        float by = m > -INFINITY ? exp2f(m - next) : 0.0f;
        m = next;
        l *= by;
#pragma unroll
        for (int p = 0; p < PER; p++) {
#pragma unroll
            for (int i = 0; i < W; i++)
                v[p][i] *= by;
        }
    }

    /* Merges with the lanes `step` away. */
    __device__ void merge(unsigned step)
    {
        rescale(fmaxf(m, __shfl_xor_sync(0xffffffffu, m, step)));
        l += __shfl_xor_sync(0xffffffffu, l, step);
#pragma unroll
        for (int p = 0; p < PER; p++) {
#pragma unroll
            for (int i = 0; i < W; i++)
                v[p][i] += __shfl_xor_sync(0xffffffffu, v[p][i], step);
        }
    }
};

/* A head of keys and values of a sequence: that of its position s begins at
 * element at(s).
 */
struct Sequence {
    const int32_t *table;
    size_t stride;  /* of blocks */
    unsigned width; /* of all heads of a position */

    __device__ size_t at(unsigned s) const
    {
        return table[s / DT_KV_BLOCK] * stride +
               (size_t)(s % DT_KV_BLOCK) * width;
    }
};

/* A lane's slice of the heads: q of H heads, and the keys and values of the
 * SLOTS slots that are loaded at once, `step` apart.
 */
template <typename X, int W, int PER, int H> struct HeadSlice {
    static constexpr int SLOTS = PER == 1 ? 4 : 1;
    Vec<X, W> q[H][PER], k[SLOTS][PER], v[SLOTS][PER];
    OnlineSoftmax<W, PER> sums[H];
    unsigned first, apart, HS; /* element(p) exists if below HS */

    __device__ unsigned element(int p) const
    {
        return first + p * apart;
    }

    /* Loads q of `heads` heads, 0 for the others, and resets the sums. */
    __device__ void load_queries(const X *from, unsigned heads)
    {
#pragma unroll
        for (int h = 0; h < H; h++) {
            sums[h] = {-INFINITY, 0.0f, {}};
#pragma unroll
            for (int p = 0; p < PER; p++) {
                q[h][p] = {};
                if ((unsigned)h < heads && element(p) < HS)
                    q[h][p] = load_vec<X, W>(from + h * HS + element(p));
            }
        }
    }

    __device__ void load_keys(const X *keys, const X *values,
                              const Sequence &sequence, unsigned slot,
                              unsigned step, unsigned end)
    {
#pragma unroll
        for (int j = 0; j < SLOTS; j++) {
            const unsigned s = slot + j * step;
            const size_t at = s < end ? sequence.at(s) : 0;
#pragma unroll
            for (int p = 0; p < PER; p++) {
                if (s < end && element(p) < HS) {
                    k[j][p] = load_vec<X, W>(keys + at + element(p));
                    v[j][p] = load_vec<X, W>(values + at + element(p));
                }
            }
        }
    }

    /* Head h attends to the loaded slots below `end`. */
    __device__ void attend(int h, unsigned slot, unsigned step, unsigned end,
                           unsigned lanes, float scale, float cap)
    {
        float scores[SLOTS], most = sums[h].m;
#pragma unroll
        for (int j = 0; j < SLOTS; j++) {
            const bool there = slot + j * step < end;
            float sum = 0.0f;
#pragma unroll
            for (int p = 0; p < PER; p++) {
                if (there && element(p) < HS) {
                    float a[W], b[W];
                    to_floats<X, W>(a, q[h][p]);
                    to_floats<X, W>(b, k[j][p]);
#pragma unroll
                    for (int i = 0; i < W; i++)
                        sum += a[i] * b[i];
                }
            }
            for (unsigned i = lanes / 2; i > 0; i /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, i);
            sum *= scale;
            if (cap > 0.0f)
                sum = cap * tanhf(sum);
            scores[j] = there ? sum : -INFINITY;
            most = fmaxf(most, scores[j]);
        }
        sums[h].rescale(most);
#pragma unroll
        for (int j = 0; j < SLOTS; j++) {
            if (slot + j * step >= end)
                continue;
            const float weight = exp2f(scores[j] - most);
            sums[h].l += weight;
#pragma unroll
            for (int p = 0; p < PER; p++) {
                if (element(p) < HS) {
                    float x[W];
                    to_floats<X, W>(x, v[j][p]);
#pragma unroll
                    for (int i = 0; i < W; i++)
                        sums[h].v[p][i] += weight * x[i];
                }
            }
        }
    }
};

/* Merges element d of the online softmax of `count` warps (or parts) of one
 * head. Their m and l are `stride` apart, their sums sum_stride. Returns the
 * sum.
 */
__device__ static inline float merge_sums(float &m, float &l, const float *ms,
                                          const float *ls, const float *sums,
                                          unsigned count, size_t stride,
                                          size_t sum_stride)
{
    float sum = 0.0f;

    m = -INFINITY;
    l = 0.0f;
    for (unsigned i = 0; i < count; i++)
        m = fmaxf(m, ms[i * stride]);
    for (unsigned i = 0; i < count; i++) {
        float by = ms[i * stride] > -INFINITY ? exp2f(ms[i * stride] - m) : 0;
        l += by * ls[i * stride];
        sum += by * sums[i * sum_stride];
    }
    return sum;
}

/* The slots [from, end) that part `part` of row b attends to. */
struct SlotRange {
    unsigned from, end;
};
template <typename X>
__device__ static inline SlotRange slots_of(const Decode<X> &a, size_t b,
                                            unsigned part)
{
    const unsigned all = (unsigned)(a.positions[b] + 1);
    const unsigned skip = a.window > 0 && all > a.window ? all - a.window : 0;
    const unsigned length = (all - skip + a.parts - 1) / a.parts;
    const unsigned from = skip + part * length;
    return {from, all - from < length || from > all ? all : from + length};
}

/* Stores element d of query head `head`, counted over all rows. */
template <typename X>
__device__ static inline void store_sum(const Decode<X> &a, size_t head,
                                        unsigned d, float m, float l, float sum)
{
    if (a.partial) {
        float *to =
            a.partial + (head * a.parts + blockIdx.y) * (size_t)(a.HS + 2);
        to[2 + d] = sum;
        if (d == 0) {
            to[0] = m;
            to[1] = l;
        }
    } else {
        a.out[head * a.HS + d] = from_float<X>(l == 0.0f ? 0.0f : sum / l);
    }
}

/* out = softmax(scale q k^T) v of one position, over the keys of its sequence
 * so far. Block (row, head of keys, cut; part) has H query heads, and its warps
 * take slots in turn.
 */
template <typename X, int W, int PER, int H>
__global__ static void __launch_bounds__(WARPS *WARP)
    kv_attention_kernel(Decode<X> a)
{
    alignas(32) __shared__ float sums[WARPS][H][WARP * W * PER];
    __shared__ float ms[WARPS][H], ls[WARPS][H];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned shared = a.NH / a.NKV, cut = blockIdx.x % a.cuts;
    const unsigned kv_head = blockIdx.x / a.cuts % a.NKV;
    const size_t b = blockIdx.x / a.cuts / a.NKV;
    const unsigned head = kv_head * shared + cut * H;
    const unsigned heads = shared - cut * H < H ? shared - cut * H : H;
    const SlotRange slots = slots_of(a, b, blockIdx.y);
    const unsigned groups = WARP / a.lanes, step = WARPS * groups;
    const Sequence sequence = {a.table + b * a.blocks, a.stride, a.NKV * a.HS};
    HeadSlice<X, W, PER, H> own;

    own.first = lane % a.lanes * W;
    own.apart = a.lanes * W;
    own.HS = a.HS;
    own.load_queries(a.qkv + (b * (a.NH + 2 * a.NKV) + head) * a.HS, heads);
    for (unsigned base = slots.from; base < slots.end;
         base += step * own.SLOTS) {
        const unsigned slot = base + warp * groups + lane / a.lanes;
        own.load_keys(a.k + kv_head * a.HS, a.v + kv_head * a.HS, sequence,
                      slot, step, slots.end);
#pragma unroll
        for (int h = 0; h < H; h++)
            own.attend(h, slot, step, slots.end, a.lanes, a.scale, a.cap);
    }
#pragma unroll
    for (int h = 0; h < H; h++) {
        for (unsigned i = a.lanes; i < WARP; i *= 2)
            own.sums[h].merge(i);
        if (lane == 0) {
            ms[warp][h] = own.sums[h].m;
            ls[warp][h] = own.sums[h].l;
        }
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (lane < a.lanes && own.element(p) < a.HS)
                store_floats<float, W>(&sums[warp][h][own.element(p)],
                                       own.sums[h].v[p]);
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < heads * a.HS; i += WARPS * WARP) {
        const unsigned h = i / a.HS, d = i % a.HS;
        float m, l;
        float sum = merge_sums(m, l, &ms[0][h], &ls[0][h], &sums[0][h][d],
                               WARPS, H, (size_t)H * (WARP * W * PER));
        store_sum(a, b * a.NH + head + h, d, m, l, sum);
    }
}

/* out(row, head) from its parts; one block each */
template <typename X>
__global__ static void __launch_bounds__(WARPS *WARP)
    merge_parts_kernel(Decode<X> a)
{
    const size_t stride = a.HS + 2;
    const float *partial = a.partial + blockIdx.x * a.parts * stride;

    for (unsigned d = threadIdx.x; d < a.HS; d += WARPS * WARP) {
        float m, l;
        float sum = merge_sums(m, l, partial, partial + 1, partial + 2 + d,
                               a.parts, stride, stride);
        a.out[blockIdx.x * (size_t)a.HS + d] =
            from_float<X>(l == 0.0f ? 0.0f : sum / l);
    }
}

/* Positions of a sequence, at most. */
static size_t length_of(const struct dt_kv *kv)
{
    return kv->blocks * DT_KV_BLOCK;
}

/* Enough parts to occupy every multiprocessor. */
static unsigned parts_for(const struct dt_kv *kv, size_t blocks)
{
    size_t all = length_of(kv);
    size_t slots = kv->window > 0 && kv->window < all ? kv->window : all;
    size_t most = blocks_for(slots, PART);
    size_t parts = (size_t)dt_cuda_facts.multiprocessors * BLOCKS / blocks;

    parts = parts < most ? parts : most;
    return parts > 0 ? (unsigned)parts : 1;
}

template <typename X, int W, int PER, int H>
static void launch_kernel(struct dt_stream *stream, Decode<X> a,
                          const struct dt_kv *kv)
{
    a.cuts = blocks_for(a.NH / a.NKV, H);
    const size_t blocks = kv->B * a.NKV * a.cuts;
    a.parts = parts_for(kv, blocks);
    a.partial = a.parts > 1 ? (float *)stream->workspace : nullptr;
    assert(kv->B * kv->NH * a.parts * (kv->HS + 2) * sizeof(float) <=
               stream->workspace_bytes ||
           a.parts == 1);
    launch(stream, kv_attention_kernel<X, W, PER, H>,
           dim3((unsigned)blocks, a.parts), WARPS * WARP, a);
    if (a.partial)
        launch(stream, merge_parts_kernel<X>, (unsigned)(kv->B * kv->NH),
               WARPS * WARP, a);
}

template <typename X>
static void launch_attention(struct dt_stream *stream, Decode<X> a,
                             const struct dt_kv *kv)
{
    constexpr int W = wide<X>();
    const size_t vecs = kv->HS / W, shared = kv->NH / kv->NKV;

    a.lanes = 1;
    while (a.lanes < WARP && a.lanes < vecs)
        a.lanes *= 2;
    if (!aligned(kv->HS, W, sizeof(X), a.k, a.v, a.qkv) ||
        kv->stride % W != 0 || vecs > WARP) {
        a.lanes = WARP;
        launch_kernel<X, 1, DT_MAX_HEAD_SIZE / WARP, 1>(stream, a, kv);
    } else if (shared == 1) {
        launch_kernel<X, W, 1, 1>(stream, a, kv);
    } else if (shared == 2) {
        launch_kernel<X, W, 1, 2>(stream, a, kv);
    } else if (shared <= 4) {
        launch_kernel<X, W, 1, 4>(stream, a, kv);
    } else {
        launch_kernel<X, W, 1, 8>(stream, a, kv);
    }
}

static const float LOG2E = 1.44269504f;

extern "C" void dt_cuda_kv_attention(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view qkv,
                                     struct dt_view positions,
                                     const struct dt_kv *kv)
{
    assert(out.count == kv->B * kv->NH * kv->HS && positions.count == kv->B);
    assert(qkv.count == kv->B * (kv->NH + 2 * kv->NKV) * kv->HS);
    assert(kv->HS <= DT_MAX_HEAD_SIZE && length_of(kv) < INT32_MAX);
    assert(kv->table.count == kv->B * kv->blocks && kv->scale > 0.0f);
    if (kv->B == 0)
        return;
    with_type(qkv.dtype, [&](auto zero) {
        using X = decltype(zero);
        Decode<X> a = {};
        a.out = data_of<X>(out);
        a.qkv = data_of<const X>(qkv);
        a.k = data_of<const X>(kv->k);
        a.v = data_of<const X>(kv->v);
        a.positions = data_of<const int32_t>(positions);
        a.table = data_of<const int32_t>(kv->table);
        a.stride = kv->stride;
        a.blocks = (unsigned)kv->blocks;
        a.NH = (unsigned)kv->NH;
        a.NKV = (unsigned)kv->NKV;
        a.HS = (unsigned)kv->HS;
        a.window = kv->window < length_of(kv) ? (unsigned)kv->window : 0;
        a.cap = LOG2E * kv->softcap;
        a.scale = kv->scale * LOG2E;
        if (kv->softcap > 0.0f)
            a.scale = kv->scale / kv->softcap;
        launch_attention<X>(stream, a, kv);
    });
}
