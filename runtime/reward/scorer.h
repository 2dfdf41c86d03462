/* SPDX-License-Identifier: Apache-2.0 */
/* scorer.h - scores texts with a reward model, several in one row */
#ifndef DT_REWARD_SCORER_H
#define DT_REWARD_SCORER_H

#include "rollout/engine.h"

/* Prepares passes of `engine`, a reward model that must outlive the scorer,
 * over rows with room for the longest text, or more. A row has the texts that
 * fit; or `shape` tokens, texts and padding, so that the bits of a score do not
 * depend on the other texts of the row, and a longer text has a row of its own.
 * 0: no such shape. The scores are given to done(ctx, score) in the order of
 * the texts. NULL and err: EX_OSERR, or the device failed. Release with
 * dt_scorer_destroy.
 */
struct dt_scorer *dt_scorer_create(struct dt_engine *engine, size_t longest,
                                   size_t shape,
                                   void (*done)(void *ctx, float score),
                                   void *ctx, struct dt_error *err);
void dt_scorer_destroy(struct dt_scorer *scorer); /* NULL is fine */

/* Device bytes that such a scorer allocates, with weights of `dtype`. SIZE_MAX
 * if that overflows.
 */
size_t dt_scorer_bytes(const struct dt_model_config *config,
                       const struct dt_ops *ops, enum dt_dtype dtype,
                       size_t longest);

/* The longest text that a row has room for. */
size_t dt_scorer_room(const struct dt_scorer *scorer);

/* Adds a text of count >= 1 tokens, up to dt_scorer_room; DT_TARGET_BIT is
 * ignored. Scores those in the row if it does not fit. -1: EX_DATAERR, a token
 * is not in the model; or the device failed.
 */
int dt_scorer_add(struct dt_scorer *scorer, const uint32_t *tokens,
                  size_t count, struct dt_error *err);

/* Scores the texts that are left in the row. -1: the device failed. */
int dt_scorer_flush(struct dt_scorer *scorer, struct dt_error *err);

#endif /* DT_REWARD_SCORER_H */
