/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder.c - reads the decoder of tokenizer.json, and decodes tokens by it
 *
 * Tokens are decoded one at a time or all at once. The state holds the bytes of
 * an incomplete character. Bytes that cannot form a character become U+FFFD:
 * one for each maximal bad part with a byte-level vocabulary, one for each byte
 * with <0xNN>.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

/* --- reading --- */

/* The steps of a decoder, in the only order in which they can be streamed. */
enum stage { START, REPLACED, FALLEN_BACK, FUSED, STRIPPED, BYTES };

static int read_replace(struct dt_tok_decoder *decoder, const json_t *value,
                        struct dt_error *err)
{
    const json_t *pattern = dt_tok_json_string_pattern(value, err);
    const json_t *content =
        pattern ? dt_tok_json_get(value, "content", JSON_STRING, err) : NULL;
    if (!content || dt_tok_json_copy(pattern, SIZE_MAX, &decoder->pattern,
                                     &decoder->pattern_bytes, err) < 0)
        return -1;
    return dt_tok_json_copy(content, SIZE_MAX, &decoder->content,
                            &decoder->content_bytes, err);
}

/* Reads Metaspace, which is Replace but, if marks were prepended, removes those
 * of the first token.
 */
static int read_metaspace(struct dt_tok_decoder *decoder, const json_t *value,
                          struct dt_error *err)
{
    const json_t *mark =
        dt_tok_json_get(value, "replacement", JSON_STRING, err);
    const char *scheme =
        json_string_value(json_object_get(value, "prepend_scheme"));
    bool prefix;
    if (!mark ||
        dt_tok_json_flag(value, "add_prefix_space", true, &prefix, err) < 0)
        return -1;
    if (json_string_length(mark) == 0)
        return dt_error_set(err, EX_DATAERR,
                            "replacement: expected one character");
    decoder->strip_pattern = scheme ? strcmp(scheme, "never") != 0 : prefix;
    decoder->content = strdup(" ");
    decoder->content_bytes = 1;
    if (!decoder->content)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return dt_tok_json_copy(mark, SIZE_MAX, &decoder->pattern,
                            &decoder->pattern_bytes, err);
}

static int read_strip(struct dt_tok_decoder *decoder, const json_t *value,
                      enum stage stage, struct dt_error *err)
{
    const char *content = json_string_value(json_object_get(value, "content"));
    json_int_t start = json_integer_value(json_object_get(value, "start"));
    json_int_t stop = json_integer_value(json_object_get(value, "stop"));
    if (stage != FUSED || !content || strcmp(content, " ") != 0 || stop != 0 ||
        start < 0 || start > 1)
        return dt_error_set(err, EX_DATAERR,
                            "expected one space from the start, after Fuse");
    decoder->strip = start == 1;
    return 0;
}

/* The decoder that is being read, and its last step so far. */
struct reading {
    struct dt_tok_decoder *decoder;
    enum stage stage;
};

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    static const struct {
        const char *type;
        enum stage stage;
    } types[] = {{"Replace", REPLACED},         {"Metaspace", REPLACED},
                 {"ByteFallback", FALLEN_BACK}, {"Fuse", FUSED},
                 {"Strip", STRIPPED},           {"ByteLevel", BYTES}};
    const char *type = dt_tok_json_type(value, err);
    struct reading *reading = ctx;
    struct dt_tok_decoder *decoder = reading->decoder;
    enum stage next = START, before = reading->stage;
    if (!type)
        return -1;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(type, types[i].type))
            next = types[i].stage;
    if (next == START)
        return dt_tok_json_unsupported(type,
                                       "ByteLevel, Replace, Metaspace, "
                                       "ByteFallback, Fuse, Strip and "
                                       "Sequence",
                                       err);
    if (next <= before || (next == BYTES && before != START))
        return dt_error_set(err, EX_DATAERR, "%s: not in this place", type);
    reading->stage = next;
    decoder->fallback |= next == FALLEN_BACK;
    decoder->byte_level |= next == BYTES;
    if (next == REPLACED)
        return type[0] == 'R' ? read_replace(decoder, value, err)
                              : read_metaspace(decoder, value, err);
    return next == STRIPPED ? read_strip(decoder, value, before, err) : 0;
}

int dt_tok_decoder_read(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err)
{
    struct reading reading = {&tokenizer->decoder, START};
    tokenizer->decoder.join = !value || json_is_null(value);
    return dt_tok_json_parts(value, "decoders", read_one, &reading, err);
}

/* --- tokens to text --- */

/* The output, which ends before the first character that does not fit. */
struct sink {
    char *out;
    size_t size, count;
    bool full;
};

static void put_bytes(struct sink *sink, const void *s, size_t n)
{
    sink->full |= sink->size == 0 || n > sink->size - 1 - sink->count;
    if (sink->full)
        return;
    memcpy(sink->out + sink->count, s, n);
    sink->count += n;
}

static void put_bad(struct sink *sink, const struct dt_detokenizer *state,
                    size_t bytes)
{
    size_t each = state->tokenizer->decoder.fallback ? 1 : bytes;
    for (size_t i = 0; i < bytes; i += each)
        put_bytes(sink, "\uFFFD", 3);
}

/* Writes one byte of a text that may be malformed. */
static void put_byte(struct sink *sink, struct dt_detokenizer *state,
                     unsigned char byte)
{
    state->held[state->held_count++] = byte;
    while (state->held_count > 0) {
        int n = dt_tok_sequence(state->held, state->held_count);
        size_t bytes = (size_t)(n < 0 ? -n : n);
        if (n == 0)
            return;
        if (n > 0)
            put_bytes(sink, state->held, bytes);
        else
            put_bad(sink, state, bytes);
        state->held_count -= bytes;
        memmove(state->held, state->held + bytes, state->held_count);
    }
}

static void flush_held(struct sink *sink, struct dt_detokenizer *state)
{
    if (state->held_count > 0)
        put_bad(sink, state, state->held_count);
    state->held_count = 0;
}

/* Whether all characters of a text are in the alphabet of ByteLevel. */
static bool is_bytes(const char *s, size_t n)
{
    size_t bytes;
    for (size_t i = 0; i < n; i += bytes)
        if (dt_tok_char_byte(dt_tok_decode(s + i, &bytes)) < 0)
            return false;
    return true;
}

static void put_byte_level(struct sink *sink, struct dt_detokenizer *state,
                           const char *s, size_t n)
{
    bool alphabet = is_bytes(s, n);
    size_t bytes = 1;
    for (size_t i = 0; i < n; i += bytes)
        put_byte(sink, state,
                 alphabet ? (unsigned char)dt_tok_char_byte(
                                dt_tok_decode(s + i, &bytes))
                          : (unsigned char)s[i]);
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found =
        c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* The byte of "<0xNN>", or -1. */
static int fallback_byte(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' ||
        hex_digit(s[3]) < 0 || hex_digit(s[4]) < 0)
        return -1;
    return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

/* Writes a text with its marks replaced. */
static void put_text(struct sink *sink, const struct dt_tokenizer *tokenizer,
                     const char *s, size_t n, bool first)
{
    const struct dt_tok_decoder *d = &tokenizer->decoder;
    size_t bytes;
    for (size_t i = 0; i < n; i += bytes) {
        if (d->pattern && n - i >= d->pattern_bytes &&
            !memcmp(s + i, d->pattern, d->pattern_bytes)) {
            bytes = d->pattern_bytes;
            if (!first || !d->strip_pattern)
                put_bytes(sink, d->content, d->content_bytes);
            continue;
        }
        dt_tok_decode(s + i, &bytes);
        put_bytes(sink, s + i, bytes);
    }
}

/* Ends the output of a token and removes the space at the start of the first.
 * Returns the length.
 */
static size_t finish_text(struct sink *sink, struct dt_detokenizer *state)
{
    if (sink->count > 0 && !state->begun) {
        if (state->tokenizer->decoder.strip && sink->out[0] == ' ')
            memmove(sink->out, sink->out + 1, --sink->count);
        state->begun = sink->count > 0 || !state->tokenizer->decoder.strip_each;
    }
    if (sink->size > 0)
        sink->out[sink->count] = '\0';
    return sink->count;
}

size_t dt_detokenize(struct dt_detokenizer *state, int32_t id, char *out,
                     size_t size)
{
    const struct dt_tokenizer *tokenizer = state->tokenizer;
    const struct dt_tok_decoder *d = &tokenizer->decoder;
    struct sink sink = {out, size, 0, false};
    bool known = id >= 0 && (size_t)id < tokenizer->vocab.count;
    unsigned flags = known ? tokenizer->vocab.entries[id].flags : 0;
    bool first = !state->begun;
    if (flags == 0 || (state->skip_special && flags & DT_TOK_SPECIAL))
        return finish_text(&sink, state);
    const struct dt_tok_entry *entry = &tokenizer->vocab.entries[id];
    const bool shown = flags & DT_TOK_SHOWN;
    const char *s =
        tokenizer->vocab.texts + (shown ? entry->shown : entry->text);
    size_t n = shown ? entry->shown_bytes : entry->bytes;
    int byte = d->fallback ? fallback_byte(s, n) : -1;
    if (d->byte_level) {
        put_byte_level(&sink, state, s, n);
    } else if (byte >= 0) {
        put_byte(&sink, state, (unsigned char)byte);
    } else {
        flush_held(&sink, state);
        if (d->join && !first)
            put_bytes(&sink, " ", 1);
        put_text(&sink, tokenizer, s, n, first);
    }
    if (d->strip_pattern || d->join)
        state->begun = true;
    return finish_text(&sink, state);
}

size_t dt_detokenize_end(struct dt_detokenizer *state, char *out, size_t size)
{
    struct sink sink = {out, size, 0, false};
    flush_held(&sink, state);
    return finish_text(&sink, state);
}

char *dt_detokenize_all(const struct dt_tokenizer *tokenizer, bool skip_special,
                        const int32_t *ids, size_t count, size_t *bytes)
{
    enum { TOKEN_BYTES = 1024 };
    struct dt_detokenizer state = {.tokenizer = tokenizer,
                                   .skip_special = skip_special};
    size_t room = 0;
    char *text = NULL, *grown;
    *bytes = 0;
    for (size_t i = 0; i <= count; i++) {
        if (*bytes + TOKEN_BYTES > room) {
            room = 2 * room + TOKEN_BYTES;
            if (!(grown = realloc(text, room))) {
                free(text);
                return NULL;
            }
            text = grown;
        }
        char *end = text + *bytes;
        *bytes += i < count ? dt_detokenize(&state, ids[i], end, TOKEN_BYTES)
                            : dt_detokenize_end(&state, end, TOKEN_BYTES);
    }
    return text;
}
