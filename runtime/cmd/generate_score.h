/* SPDX-License-Identifier: Apache-2.0 */
/* generate_score.h - scores the texts of a file with a reward model */
#ifndef DT_CMD_GENERATE_SCORE_H
#define DT_CMD_GENERATE_SCORE_H

#include "rollout/engine.h"

/* Prints a score for each line of `path`: lines of JSON with text, with prompt
 * and completion, or with messages, tokenized as in training. `engine` holds a
 * reward model. -1: EX_USAGE, another model; EX_NOINPUT, EX_DATAERR with file
 * and line, EX_IOERR, EX_OSERR.
 */
int dt_generate_score(struct dt_engine *engine, const char *path,
                      const char *chat_template, const char *chat_variables,
                      struct dt_error *err);

#endif /* DT_CMD_GENERATE_SCORE_H */
