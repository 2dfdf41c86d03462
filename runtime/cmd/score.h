/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - what a reward model gives to the texts of a file (private to cmd/)
 */
#ifndef DT_CMD_SCORE_H
#define DT_CMD_SCORE_H

#include "cmd/generate.h"
#include "data/examples.h"

/* Scores the texts of `path` in their order, of a pair the chosen one and then
 * the rejected one: done(ctx, score). Lines are tokenized as options say, with
 * images as the prompter of `engine` reads them, in a cache of the process
 * alone. `engine` holds a reward model. -1: EX_NOINPUT, EX_DATAERR with file
 * and line, EX_CANTCREAT, EX_IOERR, EX_OSERR, or the device failed.
 */
int dt_score_file(struct dt_engine *engine, const struct dt_prompter *prompter,
                  const char *path, const struct dt_example_options *options,
                  void (*done)(void *ctx, float score), void *ctx,
                  struct dt_error *err);

#endif /* DT_CMD_SCORE_H */
