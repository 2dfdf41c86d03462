/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - reads the messages of a conversation from JSON
 *
 * A message has a role and, as its content, a string or parts of text, and of
 * images where the model sees them; an
 * assistant's may have tool_calls instead. All other keys are kept for the
 * template, except those that are null.
 */
#ifndef DT_DATA_TURNS_H
#define DT_DATA_TURNS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"
#include "tokenizer/chat/chat.h"

/* Messages for a template. Starts zeroed. */
struct dt_turns {
    json_t *messages; /* an array of objects */
    size_t count;
    size_t renamed;    /* messages that had the role human or gpt */
    json_t *tools;     /* an array, or NULL */
    json_t *variables; /* for the template: an object, or NULL */
    bool allow_images; /* set before messages are added: parts may be images */
};
void dt_turns_fini(struct dt_turns *turns); /* a zeroed one is fine */

/* Appends the messages of an array, the value of `key`. -1: EX_DATAERR with the
 * number of the message and the cause; EX_OSERR.
 */
int dt_turns_add(struct dt_turns *turns, const json_t *array, const char *key,
                 struct dt_error *err);

/* The same for a single message, the value of `key`. */
int dt_turns_add_one(struct dt_turns *turns, const json_t *message,
                     const char *key, struct dt_error *err);

/* Appends the system message of a line that has it apart from its `messages`,
 * an array: {"system": text, ..}, as in ShareGPT's files. An empty one is
 * ignored. -1: EX_DATAERR, it is not text or the messages begin with another;
 * EX_OSERR.
 */
int dt_turns_add_system(struct dt_turns *turns, const json_t *line,
                        const json_t *messages, struct dt_error *err);

/* Reads a line's options: "tools", an array or its text, and
 * "chat_template_kwargs", an object. -1: EX_DATAERR.
 */
int dt_turns_add_options(struct dt_turns *turns, const json_t *line,
                         struct dt_error *err);

/* Refuses options in a line that has text instead of messages, since ignoring
 * them would train on other data than the file holds. -1: EX_DATAERR.
 */
int dt_turns_refuse_options(const json_t *line, struct dt_error *err);

/* The same for "system" in a line with a prompt and a completion as text. */
int dt_turns_refuse_system(const json_t *line, struct dt_error *err);

/* The number of images in the first messages. */
size_t dt_turns_images(const json_t *messages, size_t count);

/* Makes parts of all contents, with a part {"type": "image"} for each image,
 * and returns the images in the order of their parts, for json_decref: values
 * of the parts and, where a part has none, the next one of `listed`, the line's
 * own. line: the line break beside a marker belongs to the marker. NULL and
 * err: EX_DATAERR, there are not as many places as images, both are named;
 * EX_OSERR.
 */
json_t *dt_turns_place_images(struct dt_turns *turns, json_t *listed, bool line,
                              struct dt_error *err);

/* The role of message i. */
const char *dt_turns_role(const struct dt_turns *turns, size_t i);

/* Whether a file says to train on a message. */
enum dt_said { DT_SAID_NOTHING, DT_SAID_YES, DT_SAID_NO };

/* The file's choice for message i, by a weight of 0 or 1 (OpenAI's files) or by
 * true or false for "train" or "training" (axolotl's) or "loss" (ms-swift's).
 * *key is the key that decided; a no wins.
 */
enum dt_said dt_turns_said(const struct dt_turns *turns, size_t i,
                           const char **key);

/* Whether message i has no content and calls no tool. */
bool dt_turns_is_empty(const struct dt_turns *turns, size_t i);

/* The first `count` messages, for a template. */
struct dt_chat_input dt_turns_input(const struct dt_turns *turns, size_t count);

/* Whether an object has an instruction. */
bool dt_alpaca_is(const json_t *root);

/* The user's message in an array; release with json_decref. NULL and err:
 * EX_DATAERR, a key holds a value that is not text, or there is a history;
 * EX_OSERR.
 */
json_t *dt_alpaca_prompt(const json_t *root, struct dt_error *err);

/* The assistant's message in an array, with this content; messages name it
 * `key`. NULL and err: as above.
 */
json_t *dt_alpaca_answer(const json_t *content, const char *key,
                         struct dt_error *err);

#endif /* DT_DATA_TURNS_H */
