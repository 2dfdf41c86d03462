/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c - reads the decoder of tokenizer.json */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

/* The steps of a decoder, in the only order in which they can be streamed. */
enum stage { START, REPLACED, FALLEN_BACK, FUSED, STRIPPED, BYTES };

static int copy_string(char **to, size_t *bytes, const json_t *text,
                       struct dt_error *err)
{
    *bytes = json_string_length(text);
    *to = malloc(*bytes + 1);
    if (!*to)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(*to, json_string_value(text), *bytes + 1);
    return 0;
}

static int read_replace(struct dt_tok_decoder *decoder, const json_t *value,
                        struct dt_error *err)
{
    const json_t *pattern = dt_tok_json_string_pattern(value, err);
    const json_t *content =
        pattern ? dt_tok_json_get(value, "content", JSON_STRING, err) : NULL;
    if (!content || copy_string(&decoder->pattern, &decoder->pattern_bytes,
                                pattern, err) < 0)
        return -1;
    return copy_string(&decoder->content, &decoder->content_bytes, content,
                       err);
}

/* Reads Metaspace, which is like Replace, but if marks were prepended, removes
 * those of the first token.
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
    return copy_string(&decoder->pattern, &decoder->pattern_bytes, mark, err);
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

/* The decoder that is read, and the last step so far. */
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
