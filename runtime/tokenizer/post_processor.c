/* SPDX-License-Identifier: Apache-2.0 */
/* post_processor.c - reads the tokens that are added before and after a text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

enum { ADDED_MAX = 64 };

/* The tokens that a template adds on one side of the text. */
struct side {
    int32_t ids[ADDED_MAX];
    size_t count;
};

static int add_ids(const struct dt_tokenizer *tokenizer, const json_t *special,
                   struct side *side, struct dt_error *err)
{
    const json_t *ids = dt_tok_json_get(special, "ids", JSON_ARRAY, err);
    json_t *value;
    size_t i;
    if (!ids)
        return -1;
    json_array_foreach(ids, i, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 ||
            (size_t)id >= tokenizer->vocab.count)
            return dt_error_set(err, EX_DATAERR,
                                "ids[%zu]: expected an id below %zu", i,
                                tokenizer->vocab.count);
        if (side->count == ADDED_MAX)
            return dt_error_set(err, EX_DATAERR, "more than %d tokens",
                                ADDED_MAX);
        side->ids[side->count++] = (int32_t)id;
    }
    return 0;
}

/* Reads one piece of a template: a special token, or the text ("A"). */
static int read_piece(const struct dt_tokenizer *tokenizer,
                      const json_t *template, const json_t *piece,
                      struct side sides[2], size_t *sequences,
                      struct dt_error *err)
{
    const json_t *special = json_object_get(piece, "SpecialToken");
    const json_t *tokens =
        dt_tok_json_get(template, "special_tokens", JSON_OBJECT, err);
    char shown[DT_TOK_SHOWN_BYTES];
    if (!tokens)
        return -1;
    if (!special) {
        const json_t *name =
            json_object_get(json_object_get(piece, "Sequence"), "id");
        if (!json_is_string(name) || strcmp(json_string_value(name), "A") != 0)
            return dt_error_set(err, EX_DATAERR,
                                "expected a SpecialToken or the Sequence A");
        return ++*sequences == 1
                   ? 0
                   : dt_error_set(err, EX_DATAERR, "the Sequence A twice");
    }
    const json_t *name = dt_tok_json_get(special, "id", JSON_STRING, err);
    if (!name)
        return -1;
    special = json_object_get(tokens, json_string_value(name));
    if (!special)
        return dt_error_set(err, EX_DATAERR, "\"%s\" is not in special_tokens",
                            dt_tok_shown(json_string_value(name), 60, shown));
    if (add_ids(tokenizer, special, &sides[*sequences], err) < 0)
        return dt_error_prefix(
            err, "special_tokens: %s",
            dt_tok_shown(json_string_value(name), 60, shown));
    return 0;
}

/* Adds the tokens of a side before those of earlier processors, or at the end.
 */
static int surround(int32_t **ids, size_t *count, const struct side *side,
                    bool in_front, struct dt_error *err)
{
    int32_t *grown =
        realloc(*ids, (*count + side->count + 1) * sizeof(grown[0]));
    if (!grown)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (in_front)
        memmove(grown + side->count, grown, *count * sizeof(grown[0]));
    memcpy(in_front ? grown : grown + *count, side->ids,
           side->count * sizeof(grown[0]));
    *ids = grown;
    *count += side->count;
    return 0;
}

static int add_sides(struct dt_tokenizer *tokenizer, const struct side sides[2],
                     struct dt_error *err)
{
    if (surround(&tokenizer->before, &tokenizer->before_count, &sides[0], true,
                 err) < 0)
        return -1;
    return surround(&tokenizer->after, &tokenizer->after_count, &sides[1],
                    false, err);
}

static int read_template(struct dt_tokenizer *tokenizer, const json_t *value,
                         struct dt_error *err)
{
    const json_t *single = dt_tok_json_get(value, "single", JSON_ARRAY, err);
    struct side sides[2] = {{.count = 0}};
    size_t i, sequences = 0;
    json_t *piece;
    if (!single)
        return -1;
    json_array_foreach(single, i, piece)
    {
        if (read_piece(tokenizer, value, piece, sides, &sequences, err) < 0)
            return dt_error_prefix(err, "single[%zu]", i);
    }
    if (sequences == 0)
        return dt_error_set(err, EX_DATAERR, "single: no Sequence A");
    return add_sides(tokenizer, sides, err);
}

/* Reads BertProcessing or RobertaProcessing: "cls" before, "sep" after the
 * text.
 */
static int read_pair(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err)
{
    static const char *const keys[] = {"cls", "sep"};
    struct side sides[2] = {{.count = 1}, {.count = 1}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *id = json_array_get(json_object_get(value, keys[i]), 1);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            (size_t)json_integer_value(id) >= tokenizer->vocab.count)
            return dt_error_set(err, EX_DATAERR,
                                "%s: expected [TEXT, ID], an id below %zu",
                                keys[i], tokenizer->vocab.count);
        sides[i].ids[0] = (int32_t)json_integer_value(id);
    }
    return add_sides(tokenizer, sides, err);
}

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    if (!type)
        return -1;
    if (!strcmp(type, "ByteLevel")) /* changes only offsets */
        return 0;
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(tokenizer, value, err);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        return read_pair(tokenizer, value, err);
    return dt_tok_json_unsupported(type,
                                   "TemplateProcessing, BertProcessing, "
                                   "RobertaProcessing, ByteLevel and Sequence",
                                   err);
}

int dt_tok_post_read(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err)
{
    return dt_tok_json_parts(value, "processors", read_one, tokenizer, err);
}
