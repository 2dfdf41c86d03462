/* SPDX-License-Identifier: Apache-2.0 */
/* scorer.h - scores texts with a reward model, several in one row */
#ifndef DT_REWARD_SCORER_H
#define DT_REWARD_SCORER_H

#include "model/model.h"
#include "rollout/engine.h"

/* What a row of texts has room for, or more. A row of a shape has the texts
 * that fit into so many tokens, and padding, so that the bits of a score do not
 * depend on the other texts of the row; a longer text has a row of its own.
 */
struct dt_scorer_room {
    size_t longest;           /* text, in tokens */
    size_t shape;             /* 0: none */
    size_t patches, pictures; /* of the text with most of them */
    const float *colors;      /* as in struct dt_model_options */
};

/* Prepares passes of `engine`, a reward model that must outlive the scorer,
 * over rows with this room. The scores are given to done(ctx, score) in the
 * order of the texts. NULL and err: EX_OSERR, or the device failed. Release
 * with dt_scorer_destroy.
 */
struct dt_scorer *dt_scorer_create(struct dt_engine *engine,
                                   const struct dt_scorer_room *room,
                                   void (*done)(void *ctx, float score),
                                   void *ctx, struct dt_error *err);
void dt_scorer_destroy(struct dt_scorer *scorer); /* NULL is fine */

/* Device bytes that such a scorer allocates, with weights of `dtype`. SIZE_MAX
 * if that overflows.
 */
size_t dt_scorer_bytes(const struct dt_model_config *config,
                       const struct dt_ops *ops, enum dt_dtype dtype,
                       const struct dt_scorer_room *room);

/* Whether there is room for a text of so many tokens and pictures. */
bool dt_scorer_fits(const struct dt_scorer *scorer, size_t tokens,
                    size_t patches, size_t pictures);

/* A text, of count >= 1 tokens, in which DT_TARGET_BIT is ignored. */
struct dt_scored_text {
    const uint32_t *tokens;
    size_t count;
    const struct dt_batch_picture *pictures; /* their first tokens count from
                                                that of the text */
    size_t picture_count;
    const uint8_t *pixels; /* as in struct dt_batch */
};

/* Adds a text for which there is room. Scores those in the row if it does not
 * fit. -1: EX_DATAERR, a token is not in the model; or the device failed.
 */
int dt_scorer_add(struct dt_scorer *scorer, const struct dt_scored_text *text,
                  struct dt_error *err);

/* Scores the texts that are left in the row. -1: the device failed. */
int dt_scorer_flush(struct dt_scorer *scorer, struct dt_error *err);

#endif /* DT_REWARD_SCORER_H */
