/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - an image file becomes the bytes that the reference decodes
 *
 * A vision tower was trained on the numbers that one program made of its
 * images. Another program's numbers are another input: a different rounding in
 * a resize, an orientation that is not applied or a black background in place
 * of a white one costs quality, and no message says so. This room computes, bit
 * for bit, the numbers of transformers' image processors with Pillow 13 or
 * torchvision. All of it is integers: decode to 8 bits, resize with integer
 * weights, and a table of 256 numbers for each channel.
 *
 *   bytes   dt_image_info    sizes, from the header alone: plans need no more
 *           dt_image_decode  upright RGB, 8 bits
 *           dt_image_resize  the same in another size
 *
 * Files are untrusted. Sizes are compared with limits before memory is
 * allocated, decoding of a file that ends early or is damaged fails, and
 * nothing is read that has no influence on pixels: of EXIF and XMP the
 * orientation, of PNG no text and no color profile.
 */
#ifndef DT_IMAGE_IMAGE_H
#define DT_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dt_image_format {
    DT_IMAGE_JPEG,
    DT_IMAGE_PNG,
    DT_IMAGE_WEBP,
};

/* Colors of a file, before they become RGB. */
enum dt_image_mode {
    DT_IMAGE_GRAY,
    DT_IMAGE_GRAY_ALPHA,
    DT_IMAGE_PALETTE,
    DT_IMAGE_RGB,
    DT_IMAGE_RGBA,
    DT_IMAGE_CMYK,
};

struct dt_image_limits {
    size_t bytes;      /* of a file */
    uint32_t side;     /* pixels of its width and of its height */
    uint64_t pixels;   /* in all */
    uint32_t aspect;   /* the longer side is at most so often the shorter */
    unsigned scans;    /* of a progressive JPEG file */
    unsigned warnings; /* of libjpeg about one file */
};

/* 64 MiB; 16384; 89,478,485 as Pillow's; 200 as Qwen2-VL's; 100; 100. */
extern const struct dt_image_limits dt_image_limits_usual;

/* The header of a file. */
struct dt_image_info {
    enum dt_image_format format;
    enum dt_image_mode mode;
    bool transparent;       /* has an alpha channel or a transparent color */
    unsigned bits;          /* of a sample, or of an index of the palette */
    unsigned orientation;   /* of EXIF: 1 to 8 */
    uint32_t height, width; /* as it is shown: after the orientation */
};

/* Pixels in rows from the top, each R, G, B. */
struct dt_image {
    uint32_t height, width;
    uint8_t *rgb; /* (height, width, 3), and a few bytes after it */
};

/* Reads the header of a file in memory. Errors are without its name. -1:
 * EX_DATAERR, not a JPEG, PNG or WebP file that is read here: the text names
 * its format if that is known;
 * beyond the limits; the header is damaged.
 */
int dt_image_info(struct dt_image_info *info, const void *data, size_t bytes,
                  const struct dt_image_limits *limits, struct dt_error *err);

/* Compares a size, from a header or written down before, with the limits. -1:
 * EX_DATAERR.
 */
int dt_image_check_size(uint32_t height, uint32_t width,
                        const struct dt_image_limits *limits,
                        struct dt_error *err);

/* Decodes a file in memory and turns it upright. Transparent pixels are shown
 * on white, gray of 16 bits is cut at 255, CMYK is inverted as Adobe's is: as
 * Pillow does. Release with dt_image_fini. -1: as dt_image_info; EX_DATAERR,
 * damaged or cut short; EX_CONFIG, this build has no WebP; EX_OSERR.
 */
int dt_image_decode(struct dt_image *image, const void *data, size_t bytes,
                    const struct dt_image_limits *limits, struct dt_error *err);

/* Allocates pixels that are not set. -1: EX_OSERR. */
int dt_image_init(struct dt_image *image, uint32_t height, uint32_t width,
                  struct dt_error *err);
void dt_image_fini(struct dt_image *image); /* a zeroed one is fine */

/* The program whose resize is computed: they differ by a step of 255 in a few
 * of a thousand bytes. transformers takes torchvision where it is installed.
 */
enum dt_image_backend {
    DT_IMAGE_TORCHVISION, /* 0.29 */
    DT_IMAGE_PILLOW,      /* 13 */
};

/* With the numbers that Pillow and preprocessor_config.json have for them. */
enum dt_image_filter {
    DT_IMAGE_LANCZOS = 1,
    DT_IMAGE_BILINEAR = 2,
    DT_IMAGE_BICUBIC = 3,
};

/* Part of an image. */
struct dt_image_box {
    uint32_t top, left, height, width;
};

struct dt_image_resize {
    enum dt_image_backend backend;
    enum dt_image_filter filter;
    uint32_t height, width;   /* of the new size */
    struct dt_image_box keep; /* only this part of it is computed */
    bool portable; /* without instructions that few processors have (tests) */
};

/* Resizes an image. Release with dt_image_fini. -1: EX_OSERR. */
int dt_image_resize(struct dt_image *to, const struct dt_image *from,
                    const struct dt_image_resize *how, struct dt_error *err);

#endif /* DT_IMAGE_IMAGE_H */
