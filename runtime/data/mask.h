/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - tokenizes records and marks the tokens that are targets */
#ifndef DT_DATA_MASK_H
#define DT_DATA_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/examples.h"
#include "data/jsonl.h"
#include "data/preferences.h"
#include "tokenizer/chat/chat.h"

/* Tokens as in a cache, with DT_TARGET_BIT. Starts zeroed; the caller frees
 * `tokens`.
 */
struct dt_marked {
    uint32_t *tokens;
    size_t count, capacity;
};

struct dt_masker; /* one thread's encoder and buffers */

/* `chat` renders messages; if it is NULL, a record of messages is refused with
 * the error *no_chat. `loss_on` must not be AUTO. NULL and err: EX_OSERR.
 */
struct dt_masker *dt_masker_create(const struct dt_tokenizer *tokenizer,
                                   const struct dt_chat *chat,
                                   const struct dt_error *no_chat,
                                   enum dt_loss_on loss_on, bool parse_special,
                                   struct dt_error *err);
void dt_masker_destroy(struct dt_masker *masker); /* NULL is fine */

/* Lets records have images, which options read: each example begins with the
 * words about its own. `images` must remain until the masker is
 * destroyed. -1: EX_CONFIG, the tokenizer lacks the placeholder.
 */
int dt_masker_use_images(struct dt_masker *masker,
                         const struct dt_example_images *images,
                         struct dt_error *err);

/* Lets marks of images stay text in messages and completions. */
void dt_masker_keep_marks(struct dt_masker *masker);

/* Appends the record's tokens to *out. A completion begins where the tokens of
 * both part from those of the prompt alone. *seam is set if that is within the
 * prompt. -1: EX_DATAERR, the record is bad; EX_NOINPUT, an image of it is
 * missing or bad; any other status has another cause.
 */
int dt_masker_add(struct dt_masker *masker, const struct dt_record *record,
                  struct dt_marked *out, bool *seam, struct dt_error *err);

/* Appends a pair in the layout of example.h. The prompt is as long as the
 * tokens that its own encoding and both sides have in common; the tokens after
 * it are targets. Text gets EOS at its end. *seam is set if that length is
 * shorter than the prompt's, except for an implicit prompt. Status as above.
 */
int dt_masker_add_preference(struct dt_masker *masker,
                             const struct dt_preference *p,
                             struct dt_marked *out, bool *seam,
                             struct dt_error *err);

/* A prompt alone, for a model to continue. */
struct dt_prompt_of {
    const char *text; /* with this many bytes; NULL: messages, with the
                         template's start of an answer */
    size_t bytes;
    const struct dt_turns *turns;
    const json_t *images; /* as in struct dt_record */
    json_t *line;         /* whose prompt it is, for messages, or NULL */
};

/* Encodes a prompt. *tokens belongs to the masker until its next call. Status
 * as above; images are not looked at.
 */
int dt_masker_prompt(struct dt_masker *masker, const struct dt_prompt_of *of,
                     const struct dt_tokens **tokens, struct dt_error *err);

/* Appends a prompt as an example without targets. Status as above. */
int dt_masker_add_prompt(struct dt_masker *masker,
                         const struct dt_prompt_of *of, struct dt_marked *out,
                         struct dt_error *err);

/* Appends the tokens of a text or of a piece of it. The `first` piece gets the
 * tokens that the tokenizer adds to texts (such as BOS), the `last` one gets
 * EOS.
 */
int dt_masker_add_text(struct dt_masker *masker, const char *text, size_t bytes,
                       bool first, bool last, struct dt_marked *out,
                       struct dt_error *err);

#endif /* DT_DATA_MASK_H */
