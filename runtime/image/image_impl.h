/* SPDX-License-Identifier: Apache-2.0 */
/* image_impl.h - decoders, one for each format, and files (private to image/)
 */
#ifndef DT_IMAGE_IMAGE_IMPL_H
#define DT_IMAGE_IMAGE_IMPL_H

#include "image/image.h"

/* A file whose header was read and is within the limits. Width and height are
 * those of the file: before the orientation.
 */
struct dt_image_source {
    const uint8_t *data;
    size_t bytes;
    uint32_t height, width;
    const struct dt_image_info *info;
    const struct dt_image_limits *limits;
};

/* Decode to the pixels of `rgb`, height * width * 3 bytes. The library's own
 * reading of the header must agree with ours. -1: EX_DATAERR, EX_OSERR,
 * EX_CONFIG as dt_image_decode.
 */
int dt_image_decode_jpeg(const struct dt_image_source *source, uint8_t *rgb,
                         struct dt_error *err);
int dt_image_decode_png(const struct dt_image_source *source, uint8_t *rgb,
                        struct dt_error *err);
int dt_image_decode_webp(const struct dt_image_source *source, uint8_t *rgb,
                         struct dt_error *err);

/* Writes a row of `count` pixels R, G, B, A as seen on white. `rgb` may begin
 * where `rgba` does.
 */
void dt_image_on_white(uint8_t *rgb, const uint8_t *rgba, size_t count);

#endif /* DT_IMAGE_IMAGE_IMPL_H */
