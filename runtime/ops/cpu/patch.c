/* SPDX-License-Identifier: Apache-2.0 */
/* patch.c - patches of images: bytes become the numbers that a tower reads */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

/* One color of a patch, (plane) bytes, into the frames of out at element `at`.
 */
static void patch_color(struct dt_view out, size_t at, const uint8_t *bytes,
                        const float *table, size_t frames, size_t plane)
{
    for (size_t first = 0; first < plane; first += DT_CPU_BLOCK) {
        const size_t count = dt_cpu_block(first, plane);
        float values[DT_CPU_BLOCK];
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            values[i] = table[bytes[first + i]];
        for (size_t frame = 0; frame < frames; frame++)
            dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(out), out.dtype,
                                            at + frame * plane + first),
                          values, out.dtype, count);
    }
}

void DT_CPU(patch_rows)(struct dt_stream *stream, struct dt_view out,
                        struct dt_view pixels, struct dt_view rows,
                        struct dt_view table, size_t frames, size_t M, size_t W)
{
    const size_t plane = W / 3, F = frames * W;
    (void)stream;
    assert(W % 3 == 0 && out.count == M * F && table.count == 3 * 256);
    assert(rows.count == 0 || rows.count == M);

#pragma omp parallel for schedule(static) if (out.count > DT_CPU_SMALL)
    for (size_t m = 0; m < M; m++) {
        const int64_t row = rows.count > 0 ? dt_view_i32(rows)[m] : (int64_t)m;
        if (row < 0) {
            memset((void *)dt_cpu_at(dt_view_data(out), out.dtype, m * F), 0,
                   F * dt_dtype_bytes(out.dtype));
            continue;
        }
        const uint8_t *bytes =
            (const uint8_t *)dt_view_data(pixels) + (size_t)row * W;
        assert((size_t)row < pixels.count / W && pixels.dtype == DT_U8);
        for (size_t color = 0; color < 3; color++)
            patch_color(out, m * F + color * frames * plane,
                        bytes + color * plane, dt_view_f32(table) + color * 256,
                        frames, plane);
    }
}
