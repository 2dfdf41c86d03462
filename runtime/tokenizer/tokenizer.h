/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.h - text to tokens and back, as a model's tokenizer.json says
 *
 * Byte-level BPE (GPT-2, Llama 3, Qwen) and SentencePiece-style BPE with byte
 * fallback (Llama 2, Mistral), token for token as Hugging Face's tokenizers.
 * A tokenizer is read-only once loaded; each thread encodes with an encoder of
 * its own.
 */
#ifndef DT_DATA_TOKENIZER_H
#define DT_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dt_tokenizer;

/* Loads `path`: a directory with tokenizer.json (and tokenizer_config.json,
 * special_tokens_map.json for the names of special tokens), that file itself,
 * or the word "byte": ids 0..255 are bytes, 256 ends a document. NULL and err:
 * EX_NOINPUT, EX_DATAERR with the file, the key and what was expected.
 */
struct dt_tokenizer *dt_tokenizer_load(const char *path, struct dt_error *err);
void dt_tokenizer_destroy(struct dt_tokenizer *tokenizer); /* NULL is fine */

/* Ids are below it; rows of the embedding may be more. */
size_t dt_tokenizer_vocab_size(const struct dt_tokenizer *tokenizer);

/* XXH3 of everything that changes what encoding gives: of a cache's key. */
uint64_t dt_tokenizer_hash(const struct dt_tokenizer *tokenizer);

/* Id of the token with exactly this text (added tokens first), or -1. */
int32_t dt_tokenizer_id(const struct dt_tokenizer *tokenizer, const char *text);

enum dt_token_role { DT_TOKEN_BOS, DT_TOKEN_EOS, DT_TOKEN_PAD, DT_TOKEN_UNK };

/* Special tokens by role, -1 if there is none. */
int32_t dt_tokenizer_special(const struct dt_tokenizer *tokenizer,
                             enum dt_token_role role);

/* The Jinja chat template of the model's files (chat_template.jinja, else
 * chat_template of tokenizer_config.json), or NULL.
 */
const char *dt_tokenizer_chat_template(const struct dt_tokenizer *tokenizer);

/* Tokens of one text; grows as needed. Zero it first. */
struct dt_tokens {
    int32_t *ids;
    uint32_t *begin, *end; /* bytes of the text that each token stands for;
                              NULL unless asked for with DT_ENCODE_OFFSETS */
    size_t count, capacity;
};

void dt_tokens_fini(struct dt_tokens *tokens); /* may be used again */

enum dt_encode_flags {
    DT_ENCODE_POST = 1,    /* what the post-processor adds: BOS and the like */
    DT_ENCODE_SPECIAL = 2, /* text that spells a special token becomes it */
    DT_ENCODE_OFFSETS = 4,
};

struct dt_encoder;

/* One thread's working memory and cache. NULL and err: EX_OSERR. */
struct dt_encoder *dt_encoder_create(const struct dt_tokenizer *tokenizer,
                                     struct dt_error *err);
void dt_encoder_destroy(struct dt_encoder *encoder); /* NULL is fine */

/* Replaces *tokens by those of text(bytes), up to 2^31 - 1 bytes, NULs allowed.
 * Malformed UTF-8 becomes U+FFFD, one for each maximal bad part (Unicode 15,
 * 3.9). -1: EX_OSERR, EX_DATAERR (a text too long or a limit of PCRE2).
 */
int dt_encode(struct dt_encoder *encoder, const char *text, size_t bytes,
              unsigned flags, struct dt_tokens *tokens, struct dt_error *err);

/* The first place at or after `from` where a text can be cut into two that
 * encode, one behind the other and DT_ENCODE_POST for the first only, to the
 * tokens of the whole: between a letter and a newline, if the tokenizer is one
 * of which that is known. Else `bytes`.
 */
size_t dt_tokenizer_cut(const struct dt_tokenizer *tokenizer, const char *text,
                        size_t bytes, size_t from);

/* Turns a stream of ids into text: bytes of a character that is not complete
 * yet wait for the next token. What cannot become one is U+FFFD: for each
 * maximal bad part, or with byte fallback for each byte of it (the reference,
 * which sees all tokens at once, for each byte of the whole run).
 */
struct dt_detokenizer {
    const struct dt_tokenizer *tokenizer;
    bool skip_special;
    bool begun;             /* a token was seen: the decoder's first strip */
    unsigned char held[16]; /* bytes of an incomplete character */
    size_t held_count;
};

/* Writes the text that `id` completes to out (NUL-terminated, cut to a whole
 * character if `size` is too small; 1 KiB is enough for any real vocabulary)
 * and returns its bytes. Ids outside the vocabulary give nothing.
 */
size_t dt_detokenize(struct dt_detokenizer *state, int32_t id, char *out,
                     size_t size);

/* What is still held at the end, as U+FFFD; same return. */
size_t dt_detokenize_end(struct dt_detokenizer *state, char *out, size_t size);

/* The libraries behind it: "PCRE2 10.42, utf8proc 2.8.0". */
const char *dt_tokenizer_library(void);

#endif /* DT_DATA_TOKENIZER_H */
