/* SPDX-License-Identifier: Apache-2.0 */
/* patch.cu - patches of images: bytes become the numbers that a tower reads */
#include "config.h"

#include "ops/cuda/rows.cuh"

struct Patches {
    const uint8_t *pixels; /* (P, 3, plane) */
    const int32_t *rows;   /* (M), NULL: row m is m */
    const float *table;    /* (3, 256) */
    size_t M;
    unsigned plane, frames, per_row;
};

/* The row m of out is (3, frames, plane); W neighbors are of one color. */
template <typename X, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    patch_kernel(X *out, Patches a)
{
    const Tile tile = this_tile(a.per_row);
    const unsigned F = 3 * a.frames * a.plane;
    const unsigned vecs = tile.n < a.M ? F / W : 0;

    if (tile.first >= vecs)
        return;
    const int64_t row = a.rows ? a.rows[tile.n] : (int64_t)tile.n;
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        const unsigned at = (tile.first + i * WARP) * W;
        const unsigned color = at / (a.frames * a.plane);
        float x[W] = {};
        if (at >= F)
            continue;
        if (row >= 0) {
            const Vec<uint8_t, W> bytes = load_vec<uint8_t, W>(
                a.pixels + ((size_t)row * 3 + color) * a.plane + at % a.plane);
#pragma unroll
            for (int j = 0; j < W; j++)
                x[j] = a.table[color * 256 + bytes.v[j]];
        }
        store_floats<X, W>(out + tile.n * F + at, x);
    }
}

template <typename X, int W>
static void launch_patches(struct dt_stream *stream, X *out, Patches a)
{
    const size_t vecs = 3 * (size_t)a.frames * a.plane / W;

    a.per_row = tiles_of_row(vecs);
    launch(stream, patch_kernel<X, W>, tile_blocks(a.M, vecs), TILE_THREADS,
           out, a);
}

extern "C" void dt_cuda_patch_rows(struct dt_stream *stream, struct dt_view out,
                                   struct dt_view pixels, struct dt_view rows,
                                   struct dt_view table, size_t frames,
                                   size_t M, size_t W)
{
    Patches a = {};

    assert(W % 3 == 0 && out.count == M * frames * W);
    assert(frames * W <= INT32_MAX && table.count == 3 * 256);
    assert(rows.count == 0 || rows.count == M);
    if (out.count == 0)
        return;
    a.pixels = data_of<const uint8_t>(pixels);
    a.rows = data_of<const int32_t>(rows);
    a.table = data_of<const float>(table);
    a.M = M;
    a.plane = (unsigned)(W / 3);
    a.frames = (unsigned)frames;
    with_type(out.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *to = data_of<X>(out);
        if (aligned(a.plane, 4, sizeof(X), to) &&
            aligned(a.plane, 4, 1, a.pixels))
            launch_patches<X, 4>(stream, to, a);
        else
            launch_patches<X, 1>(stream, to, a);
    });
}
