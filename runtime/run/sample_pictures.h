/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_pictures.h - the pictures of a micro-batch of completions
 *
 * Completions of the same prompt in a micro-batch repeat its pictures, which
 * the tower sees once (tensor/tensor.h). Files of images are decoded again for
 * each micro-batch, by several threads: what is kept of a prompt is references.
 */
#ifndef DT_RUN_SAMPLE_PICTURES_H
#define DT_RUN_SAMPLE_PICTURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "batch/pictures.h"
#include "data/prompts.h"
#include "tensor/tensor.h"

/* Zeroed before dt_sample_pictures_init, released with _fini. */
struct dt_sample_pictures {
    const struct dt_prompts *prompts; /* not owned */
    size_t row_bytes, patches;        /* of pixels */
    uint8_t *pixels;                  /* (patches, row bytes) */

    /* the current micro-batch */
    struct dt_batch_picture *at; /* (count) */
    size_t count, room;
    struct dt_sample_prompt *of; /* (prompt_count) with their pictures */
    size_t prompt_count, prompt_room;
    struct dt_sample_image *image; /* (image_count) of pictures with pixels */
    size_t image_count, image_room;
    size_t used; /* patches of these */
};

/* Allocates memory for micro-batches of so many patches. -1: EX_OSERR. */
int dt_sample_pictures_init(struct dt_sample_pictures *p,
                            const struct dt_prompts *prompts, size_t patches,
                            struct dt_error *err);
void dt_sample_pictures_fini(struct dt_sample_pictures *p); /* zeroed: fine */

/* Begins a micro-batch. */
void dt_sample_pictures_begin(struct dt_sample_pictures *p);

/* Adds the pictures of prompt `number` of the stream, whose first token is at
 * position `at`, behind those added before. -1: EX_DATAERR, EX_OSERR;
 * EX_SOFTWARE, more patches than there is memory for.
 */
int dt_sample_pictures_add(struct dt_sample_pictures *p, uint64_t number,
                           size_t at, struct dt_error *err);

/* Decodes the images, and gives the batch its pictures. -1: an image cannot be
 * read, with the line of its prompt.
 */
int dt_sample_pictures_read(const struct dt_sample_pictures *p,
                            struct dt_batch *batch, struct dt_error *err);

/* Prompts of a micro-batch. */
struct dt_sample_room {
    size_t rows;    /* of a step, at most */
    size_t prompts; /* of a generation */
    size_t tokens;  /* of a micro-batch, at most */
};

/* The most that there is. */
struct dt_sample_most {
    size_t prompt_patches, prompt_pictures;   /* of a prompt */
    size_t patches, pictures;                 /* of a micro-batch */
    size_t places;                            /* of one of its pictures */
    double all_patches, all_pictures, tokens; /* of all prompts together */
};

/* Finds them, whatever the order of prompts is; all 0 if no prompt has an
 * image. -1: EX_DATAERR, EX_OSERR.
 */
int dt_sample_pictures_most(const struct dt_prompts *prompts,
                            const struct dt_sample_room *room,
                            struct dt_sample_most *most, struct dt_error *err);

#endif /* DT_RUN_SAMPLE_PICTURES_H */
