/* SPDX-License-Identifier: Apache-2.0 */
/* generate_file.h - continues the prompts of a file of JSON lines */
#ifndef DT_CMD_GENERATE_FILE_H
#define DT_CMD_GENERATE_FILE_H

#include "comm/comm.h"
#include "rollout/engine.h"

/* Encodes a question to *out, after a system message (NULL: none) and up to the
 * start of the assistant's answer. -1: as dt_engine_encode_chat; EX_USAGE, they
 * are not UTF-8 text.
 */
int dt_generate_encode(struct dt_engine *engine, const struct dt_chat *chat,
                       const char *system, const char *question,
                       struct dt_tokens *out, struct dt_error *err);

/* Prints the warning of dt_chat_warning, if there is one, on stderr. */
void dt_generate_warn(const struct dt_chat *chat);

/* Continues the prompts of `path`, as many at a time as options have slots.
 * Each line is an object with prompt (text) or messages (a conversation;
 * without `chat` that is the error `no_chat`). Prints each line's object with
 * the key completion added, in order, and the warning about `chat` on stderr if
 * it is used. All ranks of comm call it and share the prompts; rank 0 prints.
 * -1: EX_NOINPUT, EX_DATAERR with file and line, EX_IOERR, EX_OSERR,
 * EX_UNAVAILABLE.
 */
int dt_generate_file(struct dt_engine *engine, const char *path,
                     const struct dt_chat *chat, const struct dt_error *no_chat,
                     const struct dt_rollout_options *options,
                     struct dt_comm *comm, struct dt_error *err);

#endif /* DT_CMD_GENERATE_FILE_H */
