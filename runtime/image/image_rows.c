/* SPDX-License-Identifier: Apache-2.0 */
/* image_rows.c - an image becomes rows of patches, and rows become numbers */
#include "config.h"

#include <string.h>

#include "image/processor.h"

struct dt_image_table dt_image_table(const struct dt_image_processor *processor)
{
    struct dt_image_table table;
    for (int c = 0; c < 3; c++) {
        float mean = (float)processor->mean[c];
        float std = (float)processor->std[c];
        if (processor->backend == DT_IMAGE_TORCHVISION) {
            const float scale = (float)(1 / processor->factor);
            mean *= scale;
            std *= scale;
        }
        for (int v = 0; v < 256; v++) {
            const float value = processor->backend == DT_IMAGE_TORCHVISION
                                    ? (float)v
                                    : (float)(v * processor->factor);
            table.of[c][v] = (value - mean) / std;
        }
    }
    return table;
}

size_t dt_image_row_bytes(const struct dt_image_processor *processor)
{
    return (size_t)3 * processor->patch * processor->patch;
}

size_t dt_image_row_values(const struct dt_image_processor *processor)
{
    return dt_image_row_bytes(processor) * processor->temporal;
}

/* Copies a patch, and separates its colors. */
static void copy_patch(uint8_t *row, const uint8_t *from, size_t stride,
                       size_t side)
{
    uint8_t *red = row, *green = row + side * side, *blue = green + side * side;
    for (size_t y = 0; y < side; y++, from += stride)
        for (size_t x = 0; x < side; x++) {
            *red++ = from[3 * x];
            *green++ = from[3 * x + 1];
            *blue++ = from[3 * x + 2];
        }
}

/* Writes the rows of one tile, whose first pixel is at `from`. Patches that
 * become one token follow each other. Returns where the next tile's begin.
 */
static uint8_t *tile_rows(uint8_t *rows, const struct dt_image_plan *plan,
                          const struct dt_image_processor *processor,
                          const uint8_t *from, size_t stride)
{
    const size_t side = processor->patch, m = processor->merge;
    for (size_t y = 0; y < plan->grid_height; y += m)
        for (size_t x = 0; x < plan->grid_width; x += m)
            for (size_t i = 0; i < m * m; i++) {
                const size_t top = (y + i / m) * side;
                const size_t left = (x + i % m) * side;
                copy_patch(rows, from + top * stride + 3 * left, stride, side);
                rows += dt_image_row_bytes(processor);
            }
    return rows;
}

/* Puts an image into the middle of a square of the background's color. */
static int pad(struct dt_image *to, const struct dt_image *from,
               const struct dt_image_plan *plan,
               const struct dt_image_processor *processor, struct dt_error *err)
{
    const size_t side = plan->square, row = (size_t)from->width * 3;
    const size_t top = (side - from->height) / 2;
    const size_t left = (side - from->width) / 2;
    if (dt_image_init(to, plan->square, plan->square, err) < 0)
        return -1;
    for (size_t i = 0; i < side * side; i++)
        memcpy(to->rgb + 3 * i, processor->background, 3);
    for (size_t y = 0; y < from->height; y++)
        memcpy(to->rgb + 3 * ((top + y) * side + left), from->rgb + y * row,
               row);
    return 0;
}

static struct dt_image_resize resize_to(
    const struct dt_image_processor *processor, uint32_t height, uint32_t width)
{
    return (struct dt_image_resize){
        .backend = processor->backend,
        .filter = processor->filter,
        .height = height,
        .width = width,
        .keep = {0, 0, height, width},
    };
}

/* An image that is one tile. */
static int rows_of_one(uint8_t *rows, const struct dt_image_plan *plan,
                       const struct dt_image_processor *processor,
                       const struct dt_image *image, struct dt_error *err)
{
    struct dt_image padded = {0}, seen;
    struct dt_image_resize how =
        resize_to(processor, plan->height, plan->width);
    how.keep = plan->keep;
    if (plan->square > 0 && pad(&padded, image, plan, processor, err) < 0)
        return -1;
    int rc =
        dt_image_resize(&seen, plan->square > 0 ? &padded : image, &how, err);
    dt_image_fini(&padded);
    if (rc < 0)
        return -1;
    tile_rows(rows, plan, processor, seen.rgb, (size_t)seen.width * 3);
    dt_image_fini(&seen);
    return 0;
}

/* The tiles of `whole`, row by row, and then all of it as one tile. */
static int rows_of_whole(uint8_t *rows, const struct dt_image_plan *plan,
                         const struct dt_image_processor *processor,
                         const struct dt_image *whole, struct dt_error *err)
{
    struct dt_image all;
    const uint32_t side = processor->tile;
    const size_t stride = (size_t)whole->width * 3;
    const struct dt_image_resize how = resize_to(processor, side, side);
    for (size_t y = 0; y < plan->rows; y++)
        for (size_t x = 0; x < plan->columns; x++)
            rows = tile_rows(rows, plan, processor,
                             whole->rgb + y * side * stride + 3 * x * side,
                             stride);
    if (dt_image_resize(&all, whole, &how, err) < 0)
        return -1;
    tile_rows(rows, plan, processor, all.rgb, (size_t)side * 3);
    dt_image_fini(&all);
    return 0;
}

/* A tiled image is resized twice before it is cut; one tile of all is the same
 * in another size, and in this size if there is no other.
 */
static int rows_of_tiles(uint8_t *rows, const struct dt_image_plan *plan,
                         const struct dt_image_processor *processor,
                         const struct dt_image *image, struct dt_error *err)
{
    struct dt_image first, whole;
    struct dt_image_resize how =
        resize_to(processor, plan->first_height, plan->first_width);
    if (dt_image_resize(&first, image, &how, err) < 0)
        return -1;
    how = resize_to(processor, plan->height, plan->width);
    int rc = dt_image_resize(&whole, &first, &how, err);
    dt_image_fini(&first);
    if (rc < 0)
        return -1;
    rc = rows_of_whole(rows, plan, processor, &whole, err);
    dt_image_fini(&whole);
    return rc;
}

int dt_image_rows(uint8_t *rows, const struct dt_image_plan *plan,
                  const struct dt_image_processor *processor,
                  const struct dt_image *image, struct dt_error *err)
{
    if (processor->kind == DT_IMAGE_TILES)
        return rows_of_tiles(rows, plan, processor, image, err);
    return rows_of_one(rows, plan, processor, image, err);
}

void dt_image_values(float *values, const uint8_t *rows, size_t count,
                     const struct dt_image_processor *processor)
{
    const struct dt_image_table table = dt_image_table(processor);
    const size_t pixels = (size_t)processor->patch * processor->patch;
    for (; count > 0; count--)
        for (int c = 0; c < 3; c++, rows += pixels)
            for (uint32_t t = 0; t < processor->temporal; t++)
                for (size_t i = 0; i < pixels; i++)
                    *values++ = table.of[c][rows[i]];
}
