/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alpaca.h - instruction, input and output as messages
 *
 * The instruction and the input, in two lines, are what the user says, and the
 * output is the assistant's answer, as LLaMA-Factory reads the columns of
 * Alpaca; the chat template of the model makes text of them.
 */
#ifndef DT_DATA_ALPACA_H
#define DT_DATA_ALPACA_H

#include <stdbool.h>

#include <jansson.h>

#include "base/error.h"

/* Whether an object has an instruction. */
bool dt_alpaca_is(const json_t *root);

/* The user's message in an array; release with json_decref. NULL and err:
 * EX_DATAERR, a key holds something else than text, or there is a history;
 * EX_OSERR.
 */
json_t *dt_alpaca_prompt(const json_t *root, struct dt_error *err);

/* The assistant's message in an array, with this content; `key` names it in
 * messages. NULL and err: as above.
 */
json_t *dt_alpaca_answer(const json_t *content, const char *key,
                         struct dt_error *err);

#endif /* DT_DATA_ALPACA_H */
