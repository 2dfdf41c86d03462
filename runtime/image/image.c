/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - memory for pixels, and transparent ones on white */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "image/image_impl.h"

enum { SPARE_BYTES = 64 }; /* after the pixels, so that vectors can be read */

int dt_image_init(struct dt_image *image, uint32_t height, uint32_t width,
                  struct dt_error *err)
{
    const size_t bytes = (size_t)height * width * 3;
    *image = (struct dt_image){.height = height, .width = width};
    image->rgb = malloc(bytes + SPARE_BYTES);
    if (!image->rgb)
        return dt_error_set(err, EX_OSERR,
                            "out of memory for an image of %lu x %lu pixels",
                            (unsigned long)width, (unsigned long)height);
    memset(image->rgb + bytes, 0, SPARE_BYTES);
    return 0;
}

void dt_image_fini(struct dt_image *image)
{
    free(image->rgb);
    *image = (struct dt_image){0};
}

/* 255 * 255 and below divided by 255, rounded, as Pillow does it. */
static unsigned divide_255(unsigned value)
{
    value += 128;
    return ((value >> 8) + value) >> 8;
}

void dt_image_on_white(uint8_t *rgb, const uint8_t *rgba, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned alpha = rgba[4 * i + 3], white = 255 * (255 - alpha);
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] =
                (uint8_t)divide_255(rgba[4 * i + c] * alpha + white);
    }
}
