/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - prompts of `disttrain generate` (private to cmd/) */
#ifndef DT_CMD_GENERATE_H
#define DT_CMD_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "batch/pictures.h"
#include "rollout/rollout.h"

struct dt_chat;
struct dt_engine;
struct dt_turns;

/* Makes prompts for a model. */
struct dt_prompter;

/* For conversations a `chat`; if it is NULL, they are refused with the error
 * *no_chat. Relative paths of images are in `image_root`; NULL: paths are
 * refused. All of it must remain. NULL and err: EX_USAGE, the model has no
 * tokenizer; of a model with a tower, as dt_image_processor_load,
 * dt_sight_load and dt_masker_use_images; EX_CANTCREAT, EX_OSERR.
 */
struct dt_prompter *dt_prompter_create(const struct dt_engine *engine,
                                       const struct dt_chat *chat,
                                       const struct dt_error *no_chat,
                                       const char *image_root,
                                       struct dt_error *err);
void dt_prompter_destroy(struct dt_prompter *prompter); /* NULL is fine */

/* Whether the model has a tower, and what bytes of colors become for it, as in
 * struct dt_model_options.
 */
bool dt_prompter_sees(const struct dt_prompter *prompter);
const float *dt_prompter_colors(const struct dt_prompter *prompter);

/* How it reads the images of lines, with a store of its own; NULL: the model
 * sees only text.
 */
const struct dt_example_images *dt_prompter_reads(
    const struct dt_prompter *prompter);

/* Appends the image in a file to values for the calls below. -1: EX_DATAERR,
 * the model sees only text, or the file is too large; EX_NOINPUT, EX_IOERR,
 * EX_OSERR.
 */
int dt_prompter_image(struct dt_prompter *prompter, const char *path,
                      json_t *images, struct dt_error *err);

/* The images that a line lists (dt_row_images_listed); release with
 * json_decref. NULL and err: EX_DATAERR, the model sees only text; EX_OSERR.
 */
json_t *dt_prompter_images(const struct dt_prompter *prompter,
                           const json_t *line, struct dt_error *err);

/* A prompt, ready but for its pixels. */
struct dt_made_prompt {
    int32_t *ids; /* (count) as in struct dt_prompt */
    size_t count;
    struct dt_pictures found; /* its images; the arrays are owned */
    size_t patches;           /* of all pictures */
};
void dt_made_prompt_fini(struct dt_made_prompt *made); /* a zeroed one is fine
                                                        */

/* Makes a prompt of a text, which may have U+0000 and marks of its images, or
 * of messages, whose contents become parts where the model sees images.
 * dt_made_prompt_fini in any case. -1: EX_USAGE, it is empty and nothing begins
 * texts; EX_DATAERR, EX_NOINPUT, an image is missing or bad; as
 * dt_masker_prompt.
 */
int dt_prompter_text(struct dt_prompter *prompter, const char *text,
                     size_t bytes, const json_t *images,
                     struct dt_made_prompt *made, struct dt_error *err);
int dt_prompter_turns(struct dt_prompter *prompter, struct dt_turns *turns,
                      json_t *images, struct dt_made_prompt *made,
                      struct dt_error *err);

/* Sets tokens and pictures of *prompt, and decodes its images to *pixels, which
 * is freed before and belongs to the caller. -1: as dt_pictures_read, with the
 * number of the image; EX_OSERR.
 */
int dt_prompter_give(const struct dt_prompter *prompter,
                     const struct dt_made_prompt *made, uint8_t **pixels,
                     struct dt_prompt *prompt, struct dt_error *err);

#endif /* DT_CMD_GENERATE_H */
