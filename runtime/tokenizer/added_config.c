/* SPDX-License-Identifier: Apache-2.0 */
/* added_config.c - what tokenizer_config.json changes of added tokens, and
 *                  which tokens begin and end a text
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

/* --- added_tokens_decoder --- */

/* A token of added_tokens: one of added_tokens_decoder with its id. */
static json_t *make_token(const char *key, json_t *value, struct dt_error *err)
{
    char *end, shown[DT_TOK_SHOWN_BYTES];
    long id = strtol(key, &end, 10);
    if (*key < '0' || *key > '9' || *end || id >= DT_TOK_IDS_MAX ||
        !json_is_string(json_object_get(value, "content"))) {
        dt_error_set(err, EX_DATAERR,
                     "%s: expected an id from 0 to %d, and a token with "
                     "\"content\"",
                     dt_tok_shown(key, 40, shown), DT_TOK_IDS_MAX - 1);
        return NULL;
    }
    json_t *token = json_copy(value);
    if (json_object_set_new(token, "id", json_integer(id)) == 0)
        return token;
    json_decref(token);
    dt_error_set(err, EX_OSERR, "out of memory");
    return NULL;
}

json_t *dt_tok_overrides(const char *directory, int *rc, struct dt_error *err)
{
    static const char name[] = "tokenizer_config.json";
    json_t *root = dt_tok_file_load(directory, name, rc, err);
    json_t *decoder = json_object_get(root, "added_tokens_decoder");
    json_t *list = json_object_size(decoder) > 0 ? json_array() : NULL;
    json_t *value;
    const char *key;
    json_object_foreach(decoder, key, value)
    {
        json_t *token = *rc == 0 ? make_token(key, value, err) : NULL;
        if (*rc == 0 && json_array_append_new(list, token) < 0)
            *rc = dt_error_prefix(err, "%s/%s: added_tokens_decoder", directory,
                                  name);
    }
    json_decref(root);
    if (*rc == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* The place in a list of the token with this one's id and text, or its size. */
static size_t find_token(const json_t *list, const json_t *token)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_equal(json_object_get(item, "id"),
                       json_object_get(token, "id")) &&
            json_equal(json_object_get(item, "content"),
                       json_object_get(token, "content")))
            break;
    }
    return i;
}

static json_int_t token_id(const json_t *token)
{
    return json_integer_value(json_object_get(token, "id"));
}

/* Refuses tokens with ids that transformers would not give them: it appends
 * each to the vocabulary, whose next id is `next`.
 */
static int check_ids(const json_t *list, const json_t *overrides, size_t next,
                     struct dt_error *err)
{
    size_t i, last = next;
    json_t *token;
    json_int_t most = (json_int_t)next - 1;
    json_array_foreach(overrides, i, token)
    {
        if (token_id(token) < (json_int_t)next ||
            find_token(list, token) < json_array_size(list))
            continue;
        last++;
        most = token_id(token) > most ? token_id(token) : most;
    }
    if (most == (json_int_t)last - 1)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "tokenizer_config.json: added_tokens_decoder: id "
                        "%lld: expected ids from %zu on without a gap",
                        (long long)most, next);
}

int dt_tok_added_override(json_t *list, const json_t *overrides, size_t next,
                          struct dt_error *err)
{
    size_t i;
    json_t *token;
    if (check_ids(list, overrides, next, err) < 0)
        return -1;
    json_array_foreach(overrides, i, token)
    {
        size_t at = find_token(list, token);
        const json_t *old = json_array_get(list, at);
        int rc = 0;
        /* what was special once stays so */
        if (json_is_true(json_object_get(old, "special")))
            rc = json_object_set_new(token, "special", json_true());
        if (rc == 0)
            rc = old ? json_array_set(list, at, token)
                     : json_array_append(list, token);
        if (rc < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

void dt_tok_added_end(const json_t *list, size_t *end)
{
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token)
    {
        json_int_t id = json_integer_value(json_object_get(token, "id"));
        /* dt_tok_added_read reports ids that are out of range */
        if (id >= 0 && id < DT_TOK_IDS_MAX && (size_t)id >= *end)
            *end = (size_t)id + 1;
    }
}

/* --- add_bos_token, add_eos_token --- */

/* Classes of transformers whose texts begin or end with a token although no
 * file says so.
 */
static const struct {
    const char *class;
    bool bos, eos;
} classes[] = {
    {"LlamaTokenizer", true, false},
    {"CodeLlamaTokenizer", true, false},
    {"GemmaTokenizer", true, false},
    {"T5Tokenizer", false, true},
};

/* What the class of a model of SentencePiece does, unless the file says it.
 * -1: it is not known.
 */
static int class_ends(const json_t *root, bool *bos, bool *eos,
                      struct dt_error *err)
{
    const char *class =
        json_string_value(json_object_get(root, "tokenizer_class"));
    char shown[DT_TOK_SHOWN_BYTES];
    for (size_t i = 0; class && i < sizeof(classes) / sizeof(classes[0]); i++) {
        size_t n = strlen(classes[i].class);
        if (strncmp(class, classes[i].class, n) == 0 &&
            (!class[n] || strcmp(class + n, "Fast") == 0)) {
            *bos = classes[i].bos;
            *eos = classes[i].eos;
            return 0;
        }
    }
    if (json_object_get(root, "add_bos_token") &&
        json_object_get(root, "add_eos_token"))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "tokenizer_class \"%s\": not known with a model of "
                        "SentencePiece; say with add_bos_token and "
                        "add_eos_token whether texts begin with BOS and end "
                        "with EOS",
                        class ? dt_tok_shown(class, 40, shown) : "");
}

static int set_end(int32_t **ids, size_t *count, bool add, int32_t id,
                   struct dt_error *err)
{
    if (!*ids && !(*ids = malloc(sizeof(**ids))))
        return dt_error_set(err, EX_OSERR, "out of memory");
    *count = add && id >= 0;
    if (*count)
        **ids = id;
    return 0;
}

int dt_tok_ends_read(struct dt_tokenizer *tokenizer, const json_t *root,
                     struct dt_error *err)
{
    bool bos = false, eos = false;
    if (!tokenizer->spm)
        return 0;
    if (class_ends(root, &bos, &eos, err) < 0 ||
        dt_tok_json_flag(root, "add_bos_token", bos, &bos, err) < 0 ||
        dt_tok_json_flag(root, "add_eos_token", eos, &eos, err) < 0)
        return -1;
    if (set_end(&tokenizer->before, &tokenizer->before_count, bos,
                tokenizer->special[DT_TOKEN_BOS], err) < 0)
        return -1;
    return set_end(&tokenizer->after, &tokenizer->after_count, eos,
                   tokenizer->special[DT_TOKEN_EOS], err);
}
