/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.h - encodes text to tokens and decodes them, by a model's files
 *
 * Reads tokenizer.json (BPE, Unigram) and the .model files of SentencePiece
 * (Unigram, BPE). The tokens are exactly those of Hugging Face's tokenizers,
 * and those of SentencePiece for its own files. A tokenizer is read-only once
 * loaded; each thread needs an encoder of its own.
 */
#ifndef DT_TOKENIZER_TOKENIZER_H
#define DT_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Byte tokenizer: ids 0..255 are bytes, DT_BYTE_EOT ends a document. */
enum {
    DT_BYTE_EOT = 256,
    DT_BYTE_VOCAB = 257,
};

struct dt_tokenizer;

/* Whether a directory (NULL: no) has a file that dt_tokenizer_load reads. */
bool dt_tokenizer_in(const char *directory);

/* Loads `path`: a directory with tokenizer.json, else tokenizer.model or
 * spiece.model (and tokenizer_config.json, special_tokens_map.json for added
 * and special tokens), one of those files itself, or the word "byte": ids
 * 0..255 are bytes, 256 ends a document. NULL and err: EX_NOINPUT, EX_DATAERR
 * with the file, the key and the expected value.
 */
struct dt_tokenizer *dt_tokenizer_load(const char *path, struct dt_error *err);
void dt_tokenizer_destroy(struct dt_tokenizer *tokenizer); /* NULL is fine */

/* The highest id plus one. The model's embedding may have more rows. */
size_t dt_tokenizer_vocab_size(const struct dt_tokenizer *tokenizer);

/* XXH3 of everything that affects the tokens, for use in keys of caches. */
uint64_t dt_tokenizer_hash(const struct dt_tokenizer *tokenizer);

/* The id of the token with exactly this text, or -1. */
int32_t dt_tokenizer_id(const struct dt_tokenizer *tokenizer, const char *text);

enum dt_token_role { DT_TOKEN_BOS, DT_TOKEN_EOS, DT_TOKEN_PAD, DT_TOKEN_UNK };

/* The id of the special token of a role, or -1. */
int32_t dt_tokenizer_special(const struct dt_tokenizer *tokenizer,
                             enum dt_token_role role);

/* The id that is an empty text: BOS, or EOS without one; -1: there is neither.
 */
int32_t dt_tokenizer_empty(const struct dt_tokenizer *tokenizer);

/* The Jinja chat template of the model's files (chat_template.jinja, else
 * chat_template of tokenizer_config.json), or NULL.
 */
const char *dt_tokenizer_chat_template(const struct dt_tokenizer *tokenizer);

/* The template for conversations with tools, if the files have a separate one
 * (additional_chat_templates/tool_use.jinja, else "tool_use" of
 * tokenizer_config.json), or NULL.
 */
const char *dt_tokenizer_tool_template(const struct dt_tokenizer *tokenizer);

/* The places of the two templates, for messages: "<path>/chat_template.jinja";
 * "" if there is none.
 */
const char *dt_tokenizer_template_file(const struct dt_tokenizer *tokenizer);
const char *dt_tokenizer_tool_template_file(
    const struct dt_tokenizer *tokenizer);

/* Whether a token is marked as special; special tokens are not parsed without
 * DT_ENCODE_SPECIAL.
 */
bool dt_tokenizer_is_special(const struct dt_tokenizer *tokenizer, int32_t id);

/* Whether no token that is marked as special can be found in a text, so that
 * DT_ENCODE_SPECIAL changes nothing. A quick check, which may be false although
 * there is none.
 */
bool dt_tokenizer_plain(const struct dt_tokenizer *tokenizer, const char *text,
                        size_t bytes);

/* The tokens of one text. Starts zeroed and grows as needed. */
struct dt_tokens {
    int32_t *ids;
    uint32_t *begin, *end; /* the bytes of the text that each token covers;
                              NULL without DT_ENCODE_OFFSETS */
    size_t count, capacity;
};

void dt_tokens_fini(struct dt_tokens *tokens); /* may be reused */

enum dt_encode_flags {
    DT_ENCODE_POST = 1,    /* add the tokens of the post-processor, as BOS */
    DT_ENCODE_SPECIAL = 2, /* parse text that spells special tokens */
    DT_ENCODE_OFFSETS = 4,
};

struct dt_encoder;

/* Creates one thread's workspace and cache. NULL and err: EX_OSERR. */
struct dt_encoder *dt_encoder_create(const struct dt_tokenizer *tokenizer,
                                     struct dt_error *err);
void dt_encoder_destroy(struct dt_encoder *encoder); /* NULL is fine */

/* Replaces *tokens by those of `text`, of up to 2^31 - 1 bytes, NULs allowed.
 * Malformed UTF-8 becomes U+FFFD, one for each maximal bad part (Unicode 15,
 * 3.9). -1: EX_OSERR, EX_DATAERR (a text too long or a limit of PCRE2).
 */
int dt_encode(struct dt_encoder *encoder, const char *text, size_t bytes,
              unsigned flags, struct dt_tokens *tokens, struct dt_error *err);

/* Bytes [begin, end) of a text. */
struct dt_text_span {
    size_t begin, end;
};

/* The same with DT_ENCODE_SPECIAL and DT_ENCODE_OFFSETS for a text of several
 * authors: what spells a special token becomes it within one of the spans, and
 * elsewhere stays text.
 */
int dt_encode_within(struct dt_encoder *encoder, const char *text, size_t bytes,
                     const struct dt_text_span *spans, size_t count,
                     unsigned flags, struct dt_tokens *tokens,
                     struct dt_error *err);

/* The first offset at or after `from` where a text can be cut without changing
 * its tokens, if the two parts are encoded in order and only the first with
 * DT_ENCODE_POST. It is between a letter and a newline. Returns `bytes` if
 * there is none, or if cutting is not known to be safe for this tokenizer.
 */
size_t dt_tokenizer_cut(const struct dt_tokenizer *tokenizer, const char *text,
                        size_t bytes, size_t from);

/* Turns a stream of ids into text. Bytes of an incomplete character are held
 * until the next token. Bytes that cannot form a character become U+FFFD: one
 * for each maximal bad part or, with byte fallback, one for each byte of it.
 * (With byte fallback the reference sees all tokens at once and writes one for
 * each byte of the whole run.)
 */
struct dt_detokenizer {
    const struct dt_tokenizer *tokenizer;
    bool skip_special;
    bool begun;             /* past the first token, which alone is stripped */
    unsigned char held[16]; /* bytes of an incomplete character */
    size_t held_count;
};

/* Writes the text that `id` completes to out and returns its length. The text
 * is NUL-terminated, and cut after a whole character if `size` is too small; 1
 * KiB is enough for any real vocabulary. Ids outside the vocabulary produce
 * nothing.
 */
size_t dt_detokenize(struct dt_detokenizer *state, int32_t id, char *out,
                     size_t size);

/* Writes the bytes that are still held at the end as U+FFFD. Returns the length
 * as dt_detokenize does.
 */
size_t dt_detokenize_end(struct dt_detokenizer *state, char *out, size_t size);

/* The text of ids(count), malloc'ed and NUL-terminated, and its length. NULL:
 * out of memory.
 */
char *dt_detokenize_all(const struct dt_tokenizer *tokenizer, bool skip_special,
                        const int32_t *ids, size_t count, size_t *bytes);

/* The libraries in use: "PCRE2 10.42, utf8proc 2.8.0". */
const char *dt_tokenizer_library(void);

#endif /* DT_TOKENIZER_TOKENIZER_H */
