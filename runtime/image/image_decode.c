/* SPDX-License-Identifier: Apache-2.0 */
/* image_decode.c - any file becomes upright pixels of RGB */
#include "config.h"

#include <string.h>

#include "image/image.h"
#include "image/image_impl.h"

enum { BLOCK = 64 }; /* pixels of a block that stays in the cache */

/* Pixel (y, x) of the upright image is pixel `start + y * down + x * right` of
 * the file.
 */
struct walk {
    ptrdiff_t start, down, right;
};

static struct walk find_walk(unsigned orientation, ptrdiff_t height,
                             ptrdiff_t width)
{
    const ptrdiff_t last_row = (height - 1) * width, last = width - 1;
    switch (orientation) {
    case 2: /* mirrored */
        return (struct walk){last, width, -1};
    case 3: /* upside down */
        return (struct walk){last_row + last, -width, -1};
    case 4: /* upside down and mirrored */
        return (struct walk){last_row, -width, 1};
    case 5: /* rows are columns */
        return (struct walk){0, 1, width};
    case 6: /* turn it clockwise */
        return (struct walk){last_row, 1, -width};
    case 7: /* rows are columns, both backwards */
        return (struct walk){last_row + last, -1, -width};
    case 8: /* turn it counterclockwise */
        return (struct walk){last, -1, width};
    default:
        return (struct walk){0, width, 1};
    }
}

/* Copies pixels of one row of a block. */
static void turn_row(uint8_t *to, const uint8_t *from, ptrdiff_t right,
                     size_t count)
{
    for (; count > 0; count--, to += 3, from += 3 * right)
        memcpy(to, from, 3);
}

/* Columns of the upright image may be rows of the file, so it is made in
 * blocks.
 */
static void turn(struct dt_image *to, const uint8_t *from, struct walk walk)
{
    const size_t height = to->height, width = to->width;
    for (size_t y0 = 0; y0 < height; y0 += BLOCK)
        for (size_t x0 = 0; x0 < width; x0 += BLOCK) {
            const size_t count = width - x0 < BLOCK ? width - x0 : BLOCK;
            for (size_t y = y0; y < y0 + BLOCK && y < height; y++)
                turn_row(to->rgb + 3 * (y * width + x0),
                         from + 3 * (walk.start + (ptrdiff_t)y * walk.down +
                                     (ptrdiff_t)x0 * walk.right),
                         walk.right, count);
        }
}

static int decode(const struct dt_image_source *source, uint8_t *rgb,
                  struct dt_error *err)
{
    switch (source->info->format) {
    case DT_IMAGE_JPEG:
        return dt_image_decode_jpeg(source, rgb, err);
    case DT_IMAGE_PNG:
        return dt_image_decode_png(source, rgb, err);
    default:
        return dt_image_decode_webp(source, rgb, err);
    }
}

int dt_image_decode(struct dt_image *image, const void *data, size_t bytes,
                    const struct dt_image_limits *limits, struct dt_error *err)
{
    struct dt_image_info info;
    struct dt_image flat = {0};
    *image = flat;
    if (dt_image_info(&info, data, bytes, limits, err) < 0)
        return -1;
    const bool turned = info.orientation > 4;
    const struct dt_image_source source = {
        .data = data,
        .bytes = bytes,
        .height = turned ? info.width : info.height,
        .width = turned ? info.height : info.width,
        .info = &info,
        .limits = limits,
    };
    if (dt_image_init(&flat, source.height, source.width, err) < 0)
        return -1;
    if (decode(&source, flat.rgb, err) < 0)
        goto error;
    if (info.orientation == 1) {
        *image = flat;
        return 0;
    }
    if (dt_image_init(image, info.height, info.width, err) < 0)
        goto error;
    turn(image, flat.rgb,
         find_walk(info.orientation, source.height, source.width));
    dt_image_fini(&flat);
    return 0;
error:
    dt_image_fini(&flat);
    return -1;
}
