/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding.cu - token and position embeddings
 *
 * In backward, many rows of dout may add to one row of a table. Rows are sorted
 * by table row (a stable radix sort, which keeps the order of the batch) and
 * cut into pieces of equal length. A run is the rows of dout for one table row.
 * The block of a piece adds the runs that lie within the piece; of a run that
 * crosses its ends it stores the sum in the workspace, and a second kernel adds
 * those sums, piece by piece. So many blocks share one frequent token, and
 * every sum has one order.
 */
#include "config.h"

#include <cub/device/device_radix_sort.cuh>

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/rows.cuh"

template <typename X> struct Tables {
    X *out;
    const X *wte, *wpe; /* wpe: NULL for none */
    const int32_t *ids, *positions;
    size_t N;
    unsigned C, per_row;
    Drops drops;
};

/* out(n) = wte(ids(n)) + wpe(positions(n)), then dropout */
template <typename X, int W, bool DROP>
__global__ static void __launch_bounds__(TILE_THREADS)
    embedding_kernel(Tables<X> a)
{
    const Tile tile = this_tile(a.per_row);
    const unsigned vecs = tile.n < a.N ? a.C / W : 0;
    Vec<X, W> token[TILE_VECS], position[TILE_VECS];
    DropRow row = {};

    if (tile.first >= vecs)
        return;
    const int32_t id = a.ids[tile.n];
    const X *from = id >= 0 ? a.wte + (size_t)id * a.C : nullptr;
    const X *at = a.wpe ? a.wpe + (size_t)a.positions[tile.n] * a.C : nullptr;
    if constexpr (DROP)
        row = drop_row(a.drops, tile.n, a.C);
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs) {
            token[i] = from ? load_vec<X, W>(from + v * W) : Vec<X, W>{};
            if (at)
                position[i] = load_vec<X, W>(at + v * W);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs) {
            float x[W], y[W];
            to_floats<X, W>(x, token[i]);
            if (at) {
                to_floats<X, W>(y, position[i]);
#pragma unroll
                for (int j = 0; j < W; j++)
                    x[j] += y[j];
            }
            if constexpr (DROP)
                apply_dropout<W>(x, a.drops, row, v * W);
            store_floats<X, W>(a.out + tile.n * a.C + v * W, x);
        }
    }
}

extern "C" void dt_cuda_embedding_forward(
    struct dt_stream *stream, struct dt_view out, struct dt_view ids,
    struct dt_view positions, struct dt_view wte, struct dt_view wpe, size_t N,
    size_t C, const struct dt_dropout *dropout)
{
    assert(out.count == N * C && ids.count == N && C <= INT32_MAX);
    assert(wpe.count == 0 || positions.count == N);
    if (N * C == 0)
        return;
    with_type(out.dtype, [&](auto zero) {
        using X = decltype(zero);
        Tables<X> a = {};
        a.out = data_of<X>(out);
        a.wte = data_of<const X>(wte);
        a.wpe = data_of<const X>(wpe);
        a.ids = data_of<const int32_t>(ids);
        a.positions = data_of<const int32_t>(positions);
        a.N = N;
        a.C = (unsigned)C;
        a.drops = drops_of(dropout, N);
        with_width<X>(aligned(C, wide<X>(), sizeof(X), a.out, a.wte, a.wpe),
                      [&](auto width) {
                          constexpr int W = decltype(width)::value;
                          a.per_row = tiles_of_row(C / W);
                          if (a.drops.rows)
                              launch(stream, embedding_kernel<X, W, true>,
                                     tile_blocks(N, C / W), TILE_THREADS, a);
                          else
                              launch(stream, embedding_kernel<X, W, false>,
                                     tile_blocks(N, C / W), TILE_THREADS, a);
                      });
    });
}

/* --- rows by number --- */

/* out[rows(m)] = x[m], or += with ADD, but nothing at row -1 */
template <typename X, int W, bool ADD>
__global__ static void __launch_bounds__(TILE_THREADS)
    scatter_kernel(X *out, const X *x, const int32_t *rows, size_t M,
                   unsigned vecs, unsigned per_row)
{
    const Tile tile = this_tile(per_row);

    if (tile.n >= M || rows[tile.n] < 0)
        return;
    const X *from = x + tile.n * vecs * W;
    X *to = out + (size_t)rows[tile.n] * vecs * W;
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v >= vecs)
            continue;
        if constexpr (ADD) {
            float sum[W], added[W];
            load_floats<X, W>(sum, to + v * W);
            load_floats<X, W>(added, from + v * W);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += added[j];
            store_floats<X, W>(to + v * W, sum);
        } else {
            store_vec<X, W>(to + v * W, load_vec<X, W>(from + v * W));
        }
    }
}

template <bool ADD>
static void launch_scatter(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view rows, size_t N,
                           size_t C, size_t M)
{
    assert(out.count == N * C && x.count == M * C && rows.count == M);
    assert(out.dtype == x.dtype && C <= INT32_MAX);
    if (x.count == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *to = data_of<X>(out);
        const X *from = data_of<const X>(x);
        with_width<X>(
            aligned(C, wide<X>(), sizeof(X), to, from), [&](auto width) {
                constexpr int W = decltype(width)::value;
                launch(stream, scatter_kernel<X, W, ADD>, tile_blocks(M, C / W),
                       TILE_THREADS, to, from, data_of<const int32_t>(rows), M,
                       (unsigned)(C / W), tiles_of_row(C / W));
            });
    });
}

extern "C" void dt_cuda_scatter_rows(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view x,
                                     struct dt_view rows, size_t N, size_t C,
                                     size_t M)
{
    dt_cuda_zero(stream, out);
    launch_scatter<false>(stream, out, x, rows, N, C, M);
}

extern "C" void dt_cuda_add_rows(struct dt_stream *stream, struct dt_view out,
                                 struct dt_view x, struct dt_view rows,
                                 size_t N, size_t C, size_t M)
{
    launch_scatter<true>(stream, out, x, rows, N, C, M);
}

/* --- backward --- */

/* Rows that are sorted at once; rows of the shortest piece, threads of a piece,
 * warps that add the partial sums of a run.
 */
static constexpr size_t SLAB = 1 << 18;
enum { PIECE = 32, PIECE_THREADS = 128, ADDERS = 8 };

/* The key of rows that add to no row of the table. */
static constexpr uint32_t NOWHERE = UINT32_MAX;

/* table(rows, C) += dout at keys; see the head of this file. Sums of the key
 * `skip` are made like others, but not added. NOWHERE comes last, so that its
 * pieces need not be read.
 */
struct Scatter {
    float *table;
    uint32_t skip;
    const uint32_t *keys; /* (N) sorted */
    const uint32_t *from; /* (N) rows of dout */
    float *partial;       /* (pieces, 2, C): of the first run, of the last */
    unsigned N, C, piece, pieces;
};

__global__ static void number_kernel(uint32_t *to, unsigned N)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        to[i] = i;
}

/* Stores the sum of a run: in the table if the run `begun` in this piece and
 * has `ended`, otherwise in the workspace.
 */
template <int W>
__device__ static inline void end_run(const Scatter &a, const float (&sum)[W],
                                      uint32_t key, bool begun, bool ended,
                                      unsigned c)
{
    if (begun && ended && (key == a.skip || key == NOWHERE))
        return;
    if (begun && ended) {
        float before[W];
        float *to = a.table + (size_t)key * a.C + c;
        load_floats<float, W>(before, to);
#pragma unroll
        for (int i = 0; i < W; i++)
            before[i] += sum[i];
        store_floats<float, W>(to, before);
    } else {
        size_t slot = 2 * (size_t)blockIdx.x + (begun ? 1 : 0);
        store_floats<float, W>(a.partial + slot * a.C + c, sum);
    }
}

/* Block (piece, columns): a thread has W neighboring columns. Rows are loaded
 * AHEAD at a time, even if runs end between them.
 */
template <typename X, int W>
__global__ static void __launch_bounds__(PIECE_THREADS)
    add_runs_kernel(Scatter a, const X *dout)
{
    constexpr unsigned AHEAD = 8;
    const unsigned first = blockIdx.x * a.piece;
    const unsigned end = a.N - first < a.piece ? a.N : first + a.piece;
    const unsigned c = (blockIdx.y * PIECE_THREADS + threadIdx.x) * W;
    bool begun = first == 0 || a.keys[first - 1] != a.keys[first];
    uint32_t key = a.keys[first];
    float sum[W] = {};

    if (c >= a.C || key == NOWHERE)
        return;
    for (unsigned i = first; i < end; i += AHEAD) {
        Vec<X, W> rows[AHEAD];
        uint32_t keys[AHEAD];
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++) {
            if (i + j < end) {
                keys[j] = a.keys[i + j];
                rows[j] =
                    load_vec<X, W>(dout + (size_t)a.from[i + j] * a.C + c);
            }
        }
#pragma unroll
        for (unsigned j = 0; j < AHEAD; j++) {
            if (i + j < end) {
                float x[W];
                if (keys[j] != key) {
                    end_run<W>(a, sum, key, begun, true, c);
                    begun = true;
                    key = keys[j];
#pragma unroll
                    for (int k = 0; k < W; k++)
                        sum[k] = 0.0f;
                }
                to_floats<X, W>(x, rows[j]);
#pragma unroll
                for (int k = 0; k < W; k++)
                    sum[k] += x[k];
            }
        }
    }
    end_run<W>(a, sum, key, begun, end == a.N || a.keys[end] != key, c);
}

/* Block (piece, columns): if a run begins in the piece and continues after it,
 * adds the sums that all pieces stored of it. Warps take the pieces in turn; a
 * lane has W neighboring columns. Most blocks find little or nothing to do:
 * they take as long as their first reads, so these are few.
 */
template <int W>
__global__ static void __launch_bounds__(ADDERS *WARP)
    add_pieces_kernel(Scatter a)
{
    __shared__ float sums[ADDERS][W * WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned c = (blockIdx.y * WARP + lane) * W, here = blockIdx.x;
    const unsigned first = here * a.piece, next = first + a.piece;
    const uint32_t key = next < a.N ? a.keys[next - 1] : 0;
    const bool goes_on = next < a.N && a.keys[next] == key;
    const bool begins = first == 0 || a.keys[first - 1] != key;
    unsigned low = here + 1, high = a.pieces;
    float *to = a.table + (size_t)key * a.C + c;
    float sum[W] = {}, total[W] = {};

    if (!goes_on || !begins || key == a.skip || key == NOWHERE)
        return;
    if (warp == 0 && c < a.C)
        load_floats<float, W>(total, to);
    /* the first piece that begins with another key: most often the second next
     * one, so steps grow first, then they are halved
     */
    for (unsigned step = 1; low + step < high; step *= 2) {
        if (a.keys[(low + step) * a.piece] != key)
            high = low + step;
        else
            low += step;
    }
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if (a.keys[middle * a.piece] != key)
            high = middle;
        else
            low = middle;
    }
    if (c < a.C) {
#pragma unroll 4
        for (unsigned i = here + warp; i < high; i += ADDERS) {
            float x[W];
            load_floats<float, W>(
                x, a.partial + (2 * (size_t)i + (i == here)) * a.C + c);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += x[j];
        }
    }
    /* one row of banks for each j, so that lanes do not meet in one */
#pragma unroll
    for (int j = 0; j < W; j++)
        sums[warp][j * WARP + lane] = sum[j];
    __syncthreads();
    if (warp == 0 && c < a.C) {
#pragma unroll
        for (int j = 0; j < W; j++) {
            for (unsigned i = 1; i < ADDERS; i++)
                sum[j] += sums[i][j * WARP + lane];
            total[j] += sum[j];
        }
        store_floats<float, W>(to, total);
    }
}

/* Bytes of a part of the workspace, rounded up. */
static size_t part_bytes(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Sorts keys(N) by their lowest `bits`, and their row numbers with them. */
static void sort_keys(struct dt_stream *stream, Scatter *a,
                      const uint32_t *keys, int bits)
{
    char *at = (char *)stream->workspace;
    const size_t each = part_bytes(a->N * sizeof(uint32_t));
    uint32_t *sorted = (uint32_t *)at, *from = (uint32_t *)(at + each);
    uint32_t *numbers = (uint32_t *)(at + 2 * each);
    size_t bytes = 0;

    dt_cuda_check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted,
                                                  numbers, from, (int)a->N, 0,
                                                  bits, stream->cuda),
                  "cub::DeviceRadixSort");
    assert(3 * each + part_bytes(bytes) < stream->workspace_bytes);
    launch(stream, number_kernel, blocks_for(a->N, 256), 256, numbers, a->N);
    dt_cuda_check(cub::DeviceRadixSort::SortPairs(
                      at + 3 * each, bytes, keys, sorted, numbers, from,
                      (int)a->N, 0, bits, stream->cuda),
                  "cub::DeviceRadixSort");
    a->keys = sorted;
    a->from = from;
    /* only the sort needed the rest */
    a->partial = (float *)(at + 2 * each);
    const size_t pair = 2 * (size_t)a->C * sizeof(float);
    const size_t most = (stream->workspace_bytes - 2 * each) / pair;
    assert(most > 0);
    a->piece = PIECE;
    while (blocks_for(a->N, a->piece) > most)
        a->piece *= 2;
    a->pieces = blocks_for(a->N, a->piece);
}

template <typename X, int W>
static void add_slab(struct dt_stream *stream, const Scatter &a, const X *dout)
{
    launch(stream, add_runs_kernel<X, W>,
           dim3(a.pieces, blocks_for(a.C / W, PIECE_THREADS)), PIECE_THREADS, a,
           dout);
    if (a.pieces > 1) {
        constexpr int FLOATS = W > 1 ? wide<float>() : 1;
        launch(stream, add_pieces_kernel<FLOATS>,
               dim3(a.pieces, blocks_for(a.C, WARP * FLOATS)), ADDERS * WARP,
               a);
    }
}

/* table(., C) F32 += dout(N,C) at keys(N), except at the keys `skip` and -1,
 * whose bits are above all others.
 */
static void scatter_add(struct dt_stream *stream, struct dt_view table,
                        struct dt_view dout, struct dt_view keys, int32_t skip,
                        size_t N, size_t C)
{
    const size_t rows = table.count / C;
    int bits = 1;

    while (bits < 31 && rows >= (size_t)1 << bits)
        bits++;
    for (size_t first = 0; first < N; first += SLAB) {
        Scatter a = {};
        a.table = data_of<float>(table);
        a.skip = (uint32_t)skip;
        a.N = (unsigned)(N - first < SLAB ? N - first : SLAB);
        a.C = (unsigned)C;
        sort_keys(stream, &a, data_of<const uint32_t>(keys) + first, bits);
        with_type(dout.dtype, [&](auto zero) {
            using X = decltype(zero);
            const X *grad = data_of<const X>(dout) + first * C;
            const bool is_wide =
                aligned(C, wide<X>(), sizeof(X), grad) &&
                aligned(C, wide<X>(), sizeof(float), a.table, a.partial);
            with_width<X>(is_wide, [&](auto width) {
                add_slab<X, decltype(width)::value>(stream, a, grad);
            });
        });
    }
}

extern "C" void dt_cuda_embedding_backward(
    struct dt_stream *stream, struct dt_view dwte, struct dt_view dwpe,
    struct dt_view dout, struct dt_view ids, struct dt_view positions,
    int32_t skip, size_t N, size_t C, bool accumulate)
{
    assert(ids.count == N && dout.count == N * C && C <= INT32_MAX);
    if (dwpe.count > 0 && !accumulate)
        dt_cuda_zero(stream, dwpe);
    if (N * C == 0)
        return;
    scatter_add(stream, dwte, dout, ids, skip, N, C);
    if (dwpe.count > 0)
        scatter_add(stream, dwpe, dout, positions, -1, N, C);
}
