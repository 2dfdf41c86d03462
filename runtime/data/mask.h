/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - a record as tokens, with a bit on each that is to be learned */
#ifndef DT_DATA_MASK_H
#define DT_DATA_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/chat.h"
#include "data/examples.h"
#include "data/jsonl.h"

/* Tokens as in a cache. Zero it first; free(tokens). */
struct dt_marked {
    uint32_t *tokens;
    size_t count, capacity;
};

struct dt_masker; /* one thread's encoder and buffers */

/* `chat` renders messages; NULL: a record of messages is refused with the text
 * of `no_chat`. `loss_on` is not AUTO. NULL and err: EX_OSERR.
 */
struct dt_masker *dt_masker_create(const struct dt_tokenizer *tokenizer,
                                   const struct dt_chat *chat,
                                   const struct dt_error *no_chat,
                                   enum dt_loss_on loss_on, bool parse_special,
                                   struct dt_error *err);
void dt_masker_destroy(struct dt_masker *masker); /* NULL is fine */

/* Appends the record's tokens to *out. *seam: the tokens of the prompt are not
 * the first of those of prompt and completion. -1: EX_DATAERR, the record is
 * bad; any other status is not its fault.
 */
int dt_masker_add(struct dt_masker *masker, const struct dt_record *record,
                  struct dt_marked *out, bool *seam, struct dt_error *err);

/* The same for a text, or a piece of one: `first` gets what the tokenizer puts
 * in front of texts, `last` EOS.
 */
int dt_masker_add_text(struct dt_masker *masker, const char *text, size_t bytes,
                       bool first, bool last, struct dt_marked *out,
                       struct dt_error *err);

#endif /* DT_DATA_MASK_H */
