/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_tokens.c - a tokenizer.json as the values that llama.cpp reads
 *
 * llama.cpp splits text by patterns of its own, which have names. Only
 * tokenizers whose pattern is one of these are written, since any other would
 * give other tokens without a word.
 */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"
#include "weights/gguf_model.h"

enum {
    FILE_BYTES = 256 << 20,
    NORMAL = 1, /* types of tokens */
    CONTROL = 3,
    USER_DEFINED = 4,
    UNUSED = 5,
};

/* Patterns of the pre-tokenizer Split, and their names. */
static const struct {
    const char *pattern, *name;
} patterns[] = {
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "llama-bpe"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "qwen2"},
};

/* The values that are made of a file. */
struct vocabulary {
    const char *path; /* of tokenizer.json */
    const json_t *root;
    const char **texts; /* of each token */
    int32_t *types;
    char **joined; /* merges */
    size_t count, merges;
};

static int bad(const struct vocabulary *v, const char *what,
               struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s: GGUF: %s", v->path, what);
}

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

/* --- the pre-tokenizer --- */

/* The name of the pattern of a part of the pre-tokenizer, or NULL. */
static const char *name_of(const json_t *part)
{
    const char *pattern = json_string_value(
        json_object_get(json_object_get(part, "pattern"), "Regex"));
    if (strcmp(type_of(part), "ByteLevel") == 0)
        return json_is_false(json_object_get(part, "use_regex")) ? NULL
                                                                 : "gpt-2";
    for (size_t i = 0; pattern && i < 2; i++)
        if (strcmp(pattern, patterns[i].pattern) == 0)
            return patterns[i].name;
    return NULL;
}

static const char *find_pattern(const struct vocabulary *v,
                                struct dt_error *err)
{
    const json_t *pre = json_object_get(v->root, "pre_tokenizer");
    const json_t *parts = json_object_get(pre, "pretokenizers");
    const json_t *normalizer = json_object_get(v->root, "normalizer");
    const char *name = NULL;
    bool plain = !normalizer || json_is_null(normalizer) ||
                 strcmp(type_of(normalizer), "NFC") == 0;
    if (json_array_size(parts) == 2 &&
        strcmp(type_of(json_array_get(parts, 1)), "ByteLevel") == 0 &&
        !name_of(json_array_get(parts, 1)))
        name = name_of(json_array_get(parts, 0));
    else if (!parts)
        name = name_of(pre);
    if (!name || !plain)
        bad(v,
            "its pre-tokenizer is none that llama.cpp is known to have (those "
            "of GPT-2, Llama 3 and Qwen 2), so that tokens would differ",
            err);
    return plain ? name : NULL;
}

/* --- tokens --- */

static int set_token(struct vocabulary *v, const char *text,
                     const json_t *number, int32_t type, struct dt_error *err)
{
    const json_int_t id = json_integer_value(number);
    if (!text || !json_is_integer(number) || id < 0 || (size_t)id >= v->count)
        return bad(v, "a token that the model has no row for", err);
    v->texts[id] = text;
    v->types[id] = type;
    return 0;
}

static int read_tokens(struct vocabulary *v, struct dt_error *err)
{
    const json_t *model = json_object_get(v->root, "model");
    const json_t *added = json_object_get(v->root, "added_tokens");
    const char *text;
    json_t *id;
    if (strcmp(type_of(model), "BPE") != 0 ||
        json_is_true(json_object_get(model, "byte_fallback")))
        return bad(v, "only byte-level BPE is written", err);
    json_object_foreach(json_object_get(model, "vocab"), text, id)
    {
        if (set_token(v, text, id, NORMAL, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        bool special = json_is_true(json_object_get(token, "special"));
        if (set_token(v, json_string_value(json_object_get(token, "content")),
                      json_object_get(token, "id"),
                      special ? CONTROL : USER_DEFINED, err) < 0)
            return -1;
    }
    return 0;
}

/* Rows of the embedding without a token, as llama.cpp's converter names them.
 */
static void name_unused(struct vocabulary *v, char (*room)[32])
{
    for (size_t i = 0; i < v->count; i++) {
        if (v->texts[i])
            continue;
        snprintf(room[i], sizeof(room[i]), "[PAD%zu]", i);
        v->texts[i] = room[i];
        v->types[i] = UNUSED;
    }
}

/* "a b" for each merge, which files write so or as ["a", "b"]. */
static int read_merges(struct vocabulary *v, struct dt_error *err)
{
    const json_t *merges =
        json_object_get(json_object_get(v->root, "model"), "merges");
    const size_t count = json_array_size(merges);
    v->joined = calloc(count + 1, sizeof(*v->joined));
    if (!v->joined)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (; v->merges < count; v->merges++) {
        const json_t *merge = json_array_get(merges, v->merges);
        const char *a = json_string_value(json_array_get(merge, 0));
        const char *b = json_string_value(json_array_get(merge, 1));
        const char *both = json_string_value(merge);
        if (!both && (!a || !b))
            return bad(v, "a merge that is no pair", err);
        size_t n = both ? strlen(both) + 1 : strlen(a) + strlen(b) + 2;
        char *text = malloc(n);
        v->joined[v->merges] = text;
        if (!text)
            return dt_error_set(err, EX_OSERR, "out of memory");
        snprintf(text, n, "%s%s%s", both ? both : a, both ? "" : " ",
                 both ? "" : b);
    }
    return 0;
}

/* --- values --- */

static void put_id(struct dt_gguf *gguf, const char *key, int32_t id)
{
    if (id >= 0)
        dt_gguf_put_u32(gguf, key, (uint32_t)id);
}

static void put_roles(struct dt_gguf *gguf, const struct dt_tokenizer *t,
                      const struct dt_model_config *config)
{
    const int32_t bos = dt_tokenizer_special(t, DT_TOKEN_BOS);
    const int32_t eos = dt_tokenizer_special(t, DT_TOKEN_EOS);
    const char *chat = dt_tokenizer_chat_template(t);
    put_id(gguf, "tokenizer.ggml.bos_token_id", bos >= 0 ? bos : config->bos);
    put_id(gguf, "tokenizer.ggml.eos_token_id",
           eos >= 0                ? eos
           : config->eos_count > 0 ? config->eos[0]
                                   : -1);
    put_id(gguf, "tokenizer.ggml.padding_token_id",
           dt_tokenizer_special(t, DT_TOKEN_PAD));
    if (chat)
        dt_gguf_put_string(gguf, "tokenizer.chat_template", chat);
}

/* Whether an encoded text begins with the token that begins texts. */
static int put_begins(struct dt_gguf *gguf, const struct dt_tokenizer *t,
                      struct dt_error *err)
{
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(t, err);
    const int32_t bos = dt_tokenizer_special(t, DT_TOKEN_BOS);
    int rc =
        encoder ? dt_encode(encoder, "", 0, DT_ENCODE_POST, &tokens, err) : -1;
    if (rc == 0)
        dt_gguf_put_bool(gguf, "tokenizer.ggml.add_bos_token",
                         tokens.count > 0 && tokens.ids[0] == bos);
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    return rc;
}

static int put_vocabulary(struct dt_gguf *gguf, struct vocabulary *v,
                          struct dt_error *err)
{
    const char *pattern = find_pattern(v, err);
    char(*room)[32] = calloc(v->count, sizeof(*room));
    v->texts = calloc(v->count, sizeof(*v->texts));
    v->types = calloc(v->count, sizeof(*v->types));
    int rc = pattern ? 0 : -1;
    if (rc == 0 && (!room || !v->texts || !v->types))
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0)
        rc = read_tokens(v, err);
    if (rc == 0)
        rc = read_merges(v, err);
    if (rc == 0) {
        name_unused(v, room);
        dt_gguf_put_string(gguf, "tokenizer.ggml.model", "gpt2");
        dt_gguf_put_string(gguf, "tokenizer.ggml.pre", pattern);
        dt_gguf_put_strings(gguf, "tokenizer.ggml.tokens", v->texts, v->count);
        dt_gguf_put_integers(gguf, "tokenizer.ggml.token_type", v->types,
                             v->count);
        dt_gguf_put_strings(gguf, "tokenizer.ggml.merges",
                            (const char *const *)v->joined, v->merges);
    }
    for (size_t i = 0; v->joined && i < v->merges; i++)
        free(v->joined[i]);
    free(v->joined);
    free(v->texts);
    free(v->types);
    free(room);
    return rc;
}

int dt_gguf_put_tokenizer(struct dt_gguf *gguf, const char *dir,
                          const struct dt_model_config *config,
                          struct dt_error *err)
{
    char path[PATH_MAX];
    struct vocabulary v = {.path = path, .count = config->vocab_size};
    if (snprintf(path, sizeof(path), "%s/tokenizer.json", dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    if (access(path, F_OK) < 0) {
        dt_gguf_put_string(gguf, "tokenizer.ggml.model", "none");
        return 0;
    }
    char *text = dt_file_read(path, FILE_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    struct dt_tokenizer *tokenizer = root ? dt_tokenizer_load(dir, err) : NULL;
    v.root = root;
    int rc = tokenizer ? put_vocabulary(gguf, &v, err) : -1;
    if (rc == 0)
        put_roles(gguf, tokenizer, config);
    if (rc == 0)
        rc = put_begins(gguf, tokenizer, err);
    dt_tokenizer_destroy(tokenizer);
    json_decref(root);
    free(text);
    return rc;
}
