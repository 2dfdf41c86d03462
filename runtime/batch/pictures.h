/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pictures.h - the images of examples and of rows, where cuts may be, pixels
 *
 * An image becomes pictures: itself or, with a processor of tiles, each of its
 * tiles. Its span goes from the first token of its first picture to the last
 * one of its last, with the text between tiles. A row holds all of a span or
 * nothing of it.
 */
#ifndef DT_BATCH_PICTURES_H
#define DT_BATCH_PICTURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "data/example.h"
#include "image/processor.h"
#include "tensor/tensor.h"

/* --- of an example --- */

/* An image among the tokens of an example. */
struct dt_image_span {
    size_t begin, end; /* of its tokens: [begin, end) */
    size_t pictures, patches;
};

/* The images of an example, in their order. */
struct dt_image_spans {
    struct dt_image_span *at;
    size_t count, room;
};

/* Finds the tokens of an example of `count` words and the spans of its images.
 * Release with dt_image_spans_fini. -1: EX_DATAERR, it is not what this
 * processor makes; EX_OSERR.
 */
int dt_image_spans_find(struct dt_image_spans *spans, const uint32_t *example,
                        size_t count, const struct dt_example_images *options,
                        struct dt_example_parts *parts, struct dt_error *err);
void dt_image_spans_fini(struct dt_image_spans *spans); /* a zeroed one is fine
                                                         */

/* The end of the longest part that begins with token `begin`, ends before or at
 * `limit`, and cuts no image; `begin` if there an image begins that ends later.
 */
size_t dt_image_spans_end(const struct dt_image_spans *spans, size_t begin,
                          size_t limit);

/* The first token from `least` on that is not within an image, or begins it. */
size_t dt_image_spans_begin(const struct dt_image_spans *spans, size_t least);

struct dt_image_sums {
    size_t images, pictures, patches;
};

/* Sums of the images within tokens [begin, end). */
struct dt_image_sums dt_image_spans_sum(const struct dt_image_spans *spans,
                                        size_t begin, size_t end);

/* --- of a row --- */

/* An image of a row. */
struct dt_picture_image {
    const uint32_t *example; /* that has it, only an address, for messages */
    uint32_t line, number;   /* of the file, 0: none; in the example, from 1 */
    uint8_t sha256[DT_SHA256_BYTES]; /* of its file in the store */
    uint32_t height, width;          /* upright, in pixels */
    uint32_t pictures;
};

/* Images of rows in the order of their tokens, and all pictures of the first,
 * of the second, ... in arrays of the caller. Pictures that are copies have no
 * image of their own.
 */
struct dt_pictures {
    struct dt_picture_image *images;
    struct dt_batch_picture *pictures;
    size_t image_count, picture_count;
};

/* Part of an example: `count` tokens from number `from` on. */
struct dt_picture_part {
    const uint32_t *example;
    size_t words; /* of the example */
    uint64_t number;
    size_t from, count;
    struct dt_image_sums sums;
    struct dt_image_sums shared; /* of these: also in the part before it in the
                                    row, the other side of a pair */
};

/* Appends the images of a part and their pictures, whose first tokens count
 * from that of the part. Those that the part `before`, added just now, has,
 * too, become copies; NULL: there is none. -1: EX_DATAERR, they are not those
 * of part->sums and part->shared.
 */
int dt_pictures_add(struct dt_pictures *found,
                    const struct dt_picture_part *part,
                    const struct dt_picture_part *before,
                    const struct dt_example_images *options,
                    struct dt_error *err);

/* Finds the images of a whole example and their pictures, and counts patches.
 * The arrays of *found are owned: dt_pictures_fini in any case. -1: as
 * dt_image_spans_find and dt_pictures_add.
 */
int dt_pictures_find(struct dt_pictures *found, size_t *patches,
                     const uint32_t *example, size_t words,
                     const struct dt_example_images *options,
                     struct dt_error *err);
void dt_pictures_fini(struct dt_pictures *found); /* frees and zeroes */

/* Reads an image from the store, decodes it and cuts it into rows of bytes, as
 * dt_image_rows does: pixels (patches, row bytes). Returns their end, where the
 * rows of the next image begin. NULL and err: EX_NOINPUT, EX_DATAERR, EX_IOERR,
 * EX_OSERR, EX_CONFIG, with the file.
 */
uint8_t *dt_pictures_read(uint8_t *pixels, const struct dt_picture_image *image,
                          const struct dt_example_images *options,
                          struct dt_error *err);

#endif /* DT_BATCH_PICTURES_H */
