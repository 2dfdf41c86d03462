/* SPDX-License-Identifier: Apache-2.0 */
/* picture_variant.h - what make_vision_reference.py has stored of a variant */
#ifndef TESTS_PARITY_PICTURE_VARIANT_H
#define TESTS_PARITY_PICTURE_VARIANT_H

#include <jansson.h>

#include "image/processor.h"
#include "model/model.h"
#include "tests/parity/subject.h"

enum {
    PICTURE_DOCUMENTS = 4,
    PICTURE_MOST = 16,  /* pictures of a variant */
    PICTURE_WIDTH = 192 /* positions of a row */
};

struct picture_variant {
    const json_t *all, *stored;
    struct dt_model_config config;
    struct dt_image_table colors;
    struct dt_batch batch;
    size_t first[PICTURE_DOCUMENTS], length[PICTURE_DOCUMENTS]; /* in the batch
                                                                 */
    /* of the batch: */
    int32_t *inputs, *targets, *doc_start;
    int64_t rows[PICTURE_DOCUMENTS];
    struct dt_batch_picture pictures[PICTURE_MOST];
    uint8_t *pixels;
    size_t patches, picture_count; /* of all documents */
};

/* Of vision.json, by name; fails the test if it is not there. The batch has all
 * documents, two in a row, or each in a row of its own.
 */
void picture_variant_open(struct picture_variant *v, const json_t *all,
                          const char *name, bool packed);
void picture_variant_close(struct picture_variant *v);

/* Lets the batch have these documents alone, in this order: each in a row of
 * its own, or two in a row.
 */
void picture_variant_take(struct picture_variant *v, const size_t *documents,
                          size_t count, bool packed);

/* Options for such a batch. */
void picture_variant_options(const struct picture_variant *v,
                             struct dt_model_options *options);

/* Sets the weights of a model of the variant, and publishes them. */
void picture_variant_fill(struct subject *s);

#endif /* TESTS_PARITY_PICTURE_VARIANT_H */
