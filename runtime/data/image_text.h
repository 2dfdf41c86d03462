/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_text.h - the text that an image becomes, before it is encoded
 *
 * A chat template writes a mark for an image. A model's processor puts the text
 * of the image in its place: a placeholder for each picture, and what the
 * family has around it. The text is encoded, and each placeholder becomes as
 * many tokens as the tower makes of the picture. That is the same as to repeat
 * it in the text, since it is a control token, which no other token joins.
 */
#ifndef DT_DATA_IMAGE_TEXT_H
#define DT_DATA_IMAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "image/processor.h"

/* The marker of an image in the strings of ShareGPT's and LLaVA's files. */
#define DT_IMAGE_MARKER "<image>"

/* How a family writes images. */
struct dt_image_text {
    const char *mark;        /* written by chat templates */
    const char *placeholder; /* of a picture: a control token */
    const char *before;      /* each picture */
    const char *after;       /* the last picture of an image */
    const char *whole;       /* before the picture of all tiles, as before each
                                tile its row and column; NULL: no tiles */
    bool line; /* chat templates write a line break behind the mark */
};

/* The text of a family by its name in config.json, such as "qwen2_5_vl"; NULL:
 * it is not known.
 */
const struct dt_image_text *dt_image_text_find(const char *family);

/* The number of times that a text has the mark. */
size_t dt_image_text_marks(const struct dt_image_text *text, const char *from,
                           size_t bytes);

/* Where a mark was, and where the text in its place is. */
struct dt_image_place {
    size_t begin, end;
    size_t new_begin, new_end;
};

/* Copies `from` with the text of the image of plan i in the place of mark i;
 * there are `count` of both. Sets places (count) and *new_bytes. Returns a
 * NUL-terminated text for free(). NULL and err: EX_OSERR.
 */
char *dt_image_text_expand(const struct dt_image_text *text,
                           const struct dt_image_plan *plans, size_t count,
                           const char *from, size_t bytes,
                           struct dt_image_place *places, size_t *new_bytes,
                           struct dt_error *err);

#endif /* DT_DATA_IMAGE_TEXT_H */
