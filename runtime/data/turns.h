/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - reads the messages of a conversation from JSON */
#ifndef DT_DATA_TURNS_H
#define DT_DATA_TURNS_H

#include <stddef.h>

#include <jansson.h>

#include "base/error.h"
#include "tokenizer/chat.h"

/* Messages; the JSON that they were read from owns their strings. Starts
 * zeroed.
 */
struct dt_turns {
    struct dt_chat_message *messages;
    size_t count;
    size_t renamed; /* those with the role human or gpt, which were mapped */
};
void dt_turns_fini(struct dt_turns *turns); /* a zeroed one is fine */

/* Appends the messages of an array, the value of `key`. -1: EX_DATAERR with the
 * number of the message and what is wrong; EX_OSERR.
 */
int dt_turns_add(struct dt_turns *turns, const json_t *array, const char *key,
                 struct dt_error *err);

/* The same for a single message, the value of `key`. */
int dt_turns_add_one(struct dt_turns *turns, const json_t *message,
                     const char *key, struct dt_error *err);

/* Appends the system message that a line has beside its `messages`, an array:
 * {"system": text, ..}, as in ShareGPT's files. An empty one is none. -1:
 * EX_DATAERR, it is no text or the messages begin with another; EX_OSERR.
 */
int dt_turns_add_system(struct dt_turns *turns, const json_t *line,
                        const json_t *messages, struct dt_error *err);

/* Refuses a key that changes what the text of a conversation is, and that is
 * not rendered here; leaving it out would train on other data than the file
 * holds. Null and what is empty do no harm. -1: EX_DATAERR.
 */
int dt_turns_refuse(const json_t *object, const char *key,
                    struct dt_error *err);

#endif /* DT_DATA_TURNS_H */
