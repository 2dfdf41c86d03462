/* SPDX-License-Identifier: Apache-2.0 */
/* decode_webp.c - decodes WebP files with libwebp */
#include "config.h"

#include <stdlib.h>

#ifdef HAVE_WEBP
#include <webp/decode.h>
#endif

#include "image/image_impl.h"

#ifdef HAVE_WEBP

static int damaged(struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "a WebP file that is damaged or cut short");
}

static int decode_alpha(const struct dt_image_source *source, uint8_t *rgb,
                        struct dt_error *err)
{
    const size_t count = (size_t)source->height * source->width;
    uint8_t *rgba = malloc(count * 4);
    if (!rgba)
        return dt_error_set(err, EX_OSERR, "out of memory for a WebP file");
    const void *done = WebPDecodeRGBAInto(source->data, source->bytes, rgba,
                                          count * 4, (int)source->width * 4);
    if (done)
        dt_image_on_white(rgb, rgba, count);
    free(rgba);
    return done ? 0 : damaged(err);
}

int dt_image_decode_webp(const struct dt_image_source *source, uint8_t *rgb,
                         struct dt_error *err)
{
    int width, height;
    if (!WebPGetInfo(source->data, source->bytes, &width, &height) ||
        (uint32_t)width != source->width || (uint32_t)height != source->height)
        return damaged(err);
    if (source->info->transparent)
        return decode_alpha(source, rgb, err);
    const size_t row_bytes = (size_t)source->width * 3;
    if (!WebPDecodeRGBInto(source->data, source->bytes, rgb,
                           row_bytes * source->height, (int)row_bytes))
        return damaged(err);
    return 0;
}

#else

int dt_image_decode_webp(const struct dt_image_source *source, uint8_t *rgb,
                         struct dt_error *err)
{
    (void)source;
    (void)rgb;
    return dt_error_set(err, EX_CONFIG,
                        "a WebP file, which this build of disttrain cannot "
                        "decode: convert it to PNG or JPEG, or configure "
                        "disttrain --with-webp");
}

#endif
