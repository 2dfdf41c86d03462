/* SPDX-License-Identifier: Apache-2.0 */
/* case_patch.c - patches of images as rows of numbers */
#include "config.h"

#include "harness.h"

struct sizes {
    size_t P, M, patch, frames;
    size_t gap;    /* every gap-th row is -1; 0: none, 1: all */
    bool in_order; /* no table of rows */
};

/* Bits of the table, rounded to `type`: nothing is computed. */
static void patch_case(enum dt_dtype type, struct sizes z)
{
    const size_t plane = z.patch * z.patch, W = 3 * plane, F = z.frames * W;
    struct dt_view pixels = tensor_pixels(z.P * W), table = tensor(3 * 256);
    struct dt_view rows = tensor_ids(z.in_order ? 0 : z.M, z.P);
    struct dt_view out = tensor_of(type, z.M * F);
    struct dt_view want = tensor_of(type, z.M * F);
    const uint8_t *bytes = dt_view_data(pixels);

    for (size_t m = 0; m < rows.count && z.gap > 0; m += z.gap)
        dt_view_i32(rows)[m] = -1;
    for (size_t i = 0; i < z.M * F; i++) {
        const size_t color = i % F / (z.frames * plane), m = i / F;
        const int32_t row = z.in_order ? (int32_t)m : dt_view_i32(rows)[m];
        if (row >= 0) {
            size_t byte = ((size_t)row * 3 + color) * plane + i % plane;
            set_element(want, i, element(table, color * 256 + bytes[byte]));
        } else {
            set_element(want, i, 0.0);
        }
    }
    ops->patch_rows(NULL, out, pixels, rows, table, z.frames, z.M, W);
    assert_memory_equal(dt_view_data(out), dt_view_data(want),
                        dt_view_bytes(want));
}

void test_patch_rows(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 0, true},    {3, 3, 2, 2, 0, true},
        {9, 5, 3, 1, 2, false},   {20, 31, 14, 2, 3, false},
        {20, 20, 16, 1, 0, true}, {4, 7, 14, 1, 1, false},
        {2, 3, 33, 2, 0, false}, /* several blocks of a plane */
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            patch_case(TYPES[i], SIZES[j]);
    }
}
