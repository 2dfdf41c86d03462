/* SPDX-License-Identifier: Apache-2.0 */
/* generate_file.h - prompts from a file of JSON lines */
#ifndef DT_CMD_GENERATE_FILE_H
#define DT_CMD_GENERATE_FILE_H

#include "cmd/speaker.h"

/* Continues the prompts of `path`, `batch` at a time: each line is an object
 * with prompt (text) or messages (a conversation, for which `chat` must not be
 * NULL). Prints each line's object with the key completion added, in order.
 * -1: EX_NOINPUT, EX_DATAERR with file and line.
 */
int dt_generate_file(struct dt_speaker *speaker, const char *path,
                     const struct dt_chat *chat, size_t batch,
                     const struct dt_generation *generation,
                     struct dt_error *err);

#endif /* DT_CMD_GENERATE_FILE_H */
