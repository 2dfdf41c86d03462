/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer_config.c - reads the files next to that of the tokenizer: special
 * tokens, templates
 */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/tokenizer_impl.h"

/* --- added_tokens_decoder --- */

/* A token for added_tokens, made of an entry of added_tokens_decoder and its
 * id.
 */
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

/* The tokens of added_tokens_decoder; NULL: there are none, or *rc is -1. */
static json_t *list_decoder(const json_t *root, int *rc, struct dt_error *err)
{
    json_t *decoder = json_object_get(root, "added_tokens_decoder");
    json_t *list = json_object_size(decoder) > 0 ? json_array() : NULL;
    json_t *value;
    const char *key;
    json_object_foreach(decoder, key, value)
    {
        json_t *token = *rc == 0 ? make_token(key, value, err) : NULL;
        if (*rc == 0 && json_array_append_new(list, token) < 0)
            *rc = dt_error_prefix(err, "added_tokens_decoder");
    }
    return list;
}

/* --- tokens without ids --- */

/* Appends a special token without an id: a text, or an object with "content".
 * `role`: the token has a role such as beginning or ending a text, so it must
 * be in the vocabulary.
 */
static int add_name(json_t *named, const json_t *value, bool role,
                    struct dt_error *err)
{
    json_t *token = json_is_object(value)
                        ? json_copy((json_t *)value)
                        : json_pack("{sO}", "content", (json_t *)value);
    if (!json_is_string(json_object_get(token, "content"))) {
        json_decref(token);
        return dt_error_set(err, EX_DATAERR,
                            "expected a string, or an object with \"content\"");
    }
    json_object_set_new(token, "special", json_true());
    json_object_set_new(token, "role", json_boolean(role));
    return json_array_append_new(named, token) == 0
               ? 0
               : dt_error_set(err, EX_OSERR, "out of memory");
}

static int add_names(json_t *named, const json_t *root, struct dt_error *err)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token",
                                        "sep_token", "pad_token", "cls_token",
                                        "mask_token"};
    static const char *const lists[] = {"additional_special_tokens",
                                        "extra_special_tokens"};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        const json_t *value = json_object_get(root, roles[i]);
        if (value && !json_is_null(value) && !json_is_false(value) &&
            add_name(named, value, true, err) < 0)
            return dt_error_prefix(err, "%s", roles[i]);
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        json_t *list = json_object_get(root, lists[i]), *value;
        const char *key;
        size_t k;
        int rc = 0;
        json_array_foreach(list, k, value)
        {
            if (rc == 0)
                rc = add_name(named, value, false, err);
        }
        json_object_foreach(list, key, value)
        {
            if (rc == 0)
                rc = add_name(named, value, false, err);
        }
        if (rc < 0)
            return dt_error_prefix(err, "%s", lists[i]);
    }
    return 0;
}

int dt_tok_beside_load(struct dt_tok_beside *beside, const char *directory,
                       struct dt_error *err)
{
    static const char *const names[] = {"tokenizer_config.json",
                                        "special_tokens_map.json"};
    *beside = (struct dt_tok_beside){.named = json_array()};
    int rc = beside->named ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    /* as in transformers, the second only if the first lists no tokens */
    for (size_t i = 0; i < 2 && rc == 0 && !beside->decoder; i++) {
        json_t *root = dt_tok_file_load(directory, names[i], &rc, err);
        if (root && i == 0)
            beside->decoder = list_decoder(root, &rc, err);
        if (root && rc == 0)
            rc = add_names(beside->named, root, err);
        if (root && rc < 0)
            dt_error_prefix(err, "%s/%s", directory, names[i]);
        json_decref(root);
    }
    if (rc < 0)
        dt_tok_beside_fini(beside);
    return rc;
}

void dt_tok_beside_fini(struct dt_tok_beside *beside)
{
    json_decref(beside->decoder);
    json_decref(beside->named);
    *beside = (struct dt_tok_beside){NULL, NULL};
}

/* The texts of a list of tokens, as keys. NULL: out of memory. */
static json_t *texts_of(const json_t *list)
{
    json_t *texts = json_object(), *token;
    size_t i;
    json_array_foreach(list, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text && json_object_set_new(texts, text, json_true()) < 0) {
            json_decref(texts);
            return NULL;
        }
    }
    return texts;
}

/* Appends the tokens without ids, each once, with the ids that transformers
 * gives them: those of the vocabulary, or the next ones.
 */
static int add_named(json_t *list, const json_t *named, const json_t *vocab,
                     size_t next, struct dt_error *err)
{
    json_t *texts = texts_of(list), *token;
    int rc = texts ? 0 : -1;
    size_t i;
    json_array_foreach(named, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        const json_t *id = json_object_get(vocab, text);
        const bool role = json_is_true(json_object_get(token, "role"));
        if (rc < 0 || json_object_get(texts, text) || (role && !id))
            continue;
        json_t *with_id = json_copy(token);
        json_object_set_new(
            with_id, "id",
            json_integer(id ? json_integer_value(id) : (json_int_t)next++));
        rc = json_object_set_new(texts, text, json_true()) < 0 ||
                     json_array_append_new(list, with_id) < 0
                 ? -1
                 : 0;
    }
    json_decref(texts);
    return rc == 0 ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static json_int_t token_id(const json_t *token)
{
    return json_integer_value(json_object_get(token, "id"));
}

/* A list of tokens, with the index of the first one for each id. */
struct places {
    json_t *list;
    int32_t *first; /* by id; -1: no token has it */
    size_t end;     /* of ids */
};

static bool has_place(const struct places *places, const json_t *token)
{
    return token_id(token) >= 0 && token_id(token) < (json_int_t)places->end;
}

static void note_place(struct places *places, size_t at)
{
    const json_t *token = json_array_get(places->list, at);
    if (has_place(places, token) && places->first[token_id(token)] < 0)
        places->first[token_id(token)] = (int32_t)at;
}

/* Makes room for the ids of the list and of tokens that will be added. */
static int init_places(struct places *places, json_t *list,
                       const json_t *overrides, struct dt_error *err)
{
    size_t end = 0;
    dt_tok_added_end(list, &end);
    dt_tok_added_end(overrides, &end);
    *places = (struct places){list, malloc((end + 1) * sizeof(int32_t)), end};
    if (!places->first)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memset(places->first, 0xff, (end + 1) * sizeof(int32_t));
    for (size_t i = 0; i < json_array_size(list); i++)
        note_place(places, i);
    return 0;
}

/* The index of the token with this one's id and text, or the list's size. */
static size_t find_token(const struct places *places, const json_t *token)
{
    const int32_t at =
        has_place(places, token) ? places->first[token_id(token)] : -1;
    return at >= 0 && json_equal(json_object_get(
                                     json_array_get(places->list, (size_t)at),
                                     "content"),
                                 json_object_get(token, "content"))
               ? (size_t)at
               : json_array_size(places->list);
}

/* Refuses tokens with ids that transformers would not give them: it appends
 * each to the vocabulary, whose next id is `next`.
 */
static int check_ids(const struct places *places, const json_t *overrides,
                     size_t next, struct dt_error *err)
{
    size_t i, last = next;
    json_t *token;
    json_int_t most = (json_int_t)next - 1;
    json_array_foreach(overrides, i, token)
    {
        if (token_id(token) < (json_int_t)next ||
            find_token(places, token) < json_array_size(places->list))
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

/* Replaces the token that is the same, or appends this one. */
static int put_token(struct places *places, json_t *token)
{
    size_t at = find_token(places, token);
    const json_t *old = json_array_get(places->list, at);
    int rc = 0;
    /* a token that was special stays special */
    if (json_is_true(json_object_get(old, "special")))
        rc = json_object_set_new(token, "special", json_true());
    if (rc == 0)
        rc = old ? json_array_set(places->list, at, token)
                 : json_array_append(places->list, token);
    if (rc == 0)
        note_place(places, at);
    return rc;
}

static int override(json_t *list, const json_t *overrides, size_t next,
                    struct dt_error *err)
{
    struct places places;
    size_t i;
    json_t *token;
    if (init_places(&places, list, overrides, err) < 0)
        return -1;
    int rc = check_ids(&places, overrides, next, err);
    json_array_foreach(overrides, i, token)
    {
        if (rc == 0 && put_token(&places, token) < 0)
            rc = dt_error_set(err, EX_OSERR, "out of memory");
    }
    free(places.first);
    return rc;
}

int dt_tok_added_override(json_t *list, const struct dt_tok_beside *beside,
                          const json_t *vocab, size_t next,
                          struct dt_error *err)
{
    if (!beside)
        return 0;
    if (beside->decoder && override(list, beside->decoder, next, err) < 0)
        return -1;
    dt_tok_added_end(list, &next);
    return add_named(list, beside->named, vocab, next, err);
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

/* The choice of the class of a SentencePiece model, unless the file makes it.
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

/* For a SentencePiece model: reads which tokens begin and end a text, from the
 * class in tokenizer_config.json, or its add_bos_token and add_eos_token, which
 * have no effect if there is a tokenizer.json. -1: EX_DATAERR, EX_OSERR.
 */
static int read_ends(struct dt_tokenizer *tokenizer, const json_t *root,
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

/* --- special tokens and the chat template --- */

static const char *const role_keys[] = {
    [DT_TOKEN_BOS] = "bos_token",
    [DT_TOKEN_EOS] = "eos_token",
    [DT_TOKEN_PAD] = "pad_token",
    [DT_TOKEN_UNK] = "unk_token",
};

/* Texts that should begin or end a text but are not tokens: an error for each
 * role.
 */
struct unknown {
    struct dt_error role[DT_TOKEN_EOS + 1]; /* status 0: none */
};

/* Transformers would append the text to the vocabulary, with an id that the
 * model does not have.
 */
static void set_unknown(struct dt_error *unknown, const char *path, size_t role,
                        const json_t *text)
{
    char shown[DT_TOK_SHOWN_BYTES];
    dt_error_set(unknown, EX_DATAERR,
                 "%s: %s \"%s\" is not in the vocabulary of the tokenizer: "
                 "name one that is, or null",
                 path, role_keys[role],
                 dt_tok_shown(json_string_value(text), 40, shown));
}

/* Reads "bos_token" and similar keys: a text, an object with "content", or
 * null.
 */
static int read_roles(struct dt_tokenizer *tokenizer, const json_t *root,
                      const char *path, struct unknown *unknown,
                      struct dt_error *err)
{
    for (size_t role = 0; role <= DT_TOKEN_UNK; role++) {
        const json_t *value = json_object_get(root, role_keys[role]);
        const json_t *content = json_object_get(value, "content");
        const json_t *text = content ? content : value;
        if (!value || json_is_null(value) || json_is_false(value))
            continue;
        if (!json_is_string(text))
            return dt_error_set(err, EX_DATAERR, "%s: %s: expected a string",
                                path, role_keys[role]);
        int32_t id =
            dt_tok_vocab_find(&tokenizer->vocab, json_string_value(text),
                              json_string_length(text));
        if (id >= 0)
            tokenizer->special[role] = id;
        if (role > DT_TOKEN_EOS)
            continue;
        unknown->role[role].status = 0;
        if (id < 0)
            set_unknown(&unknown->role[role], path, role, text);
    }
    return 0;
}

/* Refuses an "add_prefix_space" that differs from that of ByteLevel in
 * tokenizer.json: transformers' choice between them depends on tokenizer_class
 * and on its version.
 */
static int check_prefix(const struct dt_tokenizer *tokenizer,
                        const json_t *root, const char *path,
                        struct dt_error *err)
{
    const json_t *prefix = json_object_get(root, "add_prefix_space");
    bool ours = tokenizer->prefix_space;
    if (!tokenizer->model.byte_level || !json_is_boolean(prefix) ||
        json_is_true(prefix) == ours)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: add_prefix_space is %s, but %s in the "
                        "pre_tokenizer of tokenizer.json: make both say what "
                        "the model was trained with",
                        path, ours ? "false" : "true", ours ? "true" : "false");
}

/* Refuses to remove spaces from decoded text, which transformers does only with
 * models other than BPE.
 */
static int check_cleanup(const struct dt_tokenizer *tokenizer,
                         const json_t *root, const char *path,
                         struct dt_error *err)
{
    static const char key[] = "clean_up_tokenization_spaces";
    if (tokenizer->model.kind == DT_TOK_BPE ||
        !json_is_true(json_object_get(root, key)))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: %s: true is supported with BPE only, where it "
                        "does nothing: make it false",
                        path, key);
}

/* Keeps a template, replacing an earlier one; text NULL: none. */
static int keep_template(struct dt_tok_template *template,
                         const char *directory, const char *name,
                         const char *text, struct dt_error *err)
{
    char path[PATH_MAX];
    free(template->text);
    free(template->file);
    *template = (struct dt_tok_template){NULL, NULL};
    if (!text)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    template->text = strdup(text);
    template->file = strdup(path);
    return template->text && template->file
               ? 0
               : dt_error_set(err, EX_OSERR, "out of memory");
}

/* Reads "chat_template": a text, or a list of named texts, of which "default"
 * and "tool_use" are used.
 */
static int read_template(struct dt_tokenizer *tokenizer, const char *directory,
                         const json_t *root, struct dt_error *err)
{
    static const char file[] = "tokenizer_config.json (chat_template)";
    const json_t *value = json_object_get(root, "chat_template");
    const char *text = json_string_value(value), *tools = NULL;
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *body = json_string_value(json_object_get(item, "template"));
        if (name && !strcmp(name, "default"))
            text = body;
        if (name && !strcmp(name, "tool_use"))
            tools = body;
    }
    if (!text)
        return 0;
    return keep_template(&tokenizer->chat_template, directory, file, text,
                         err) < 0
               ? -1
               : keep_template(&tokenizer->tool_template, directory, file,
                               tools, err);
}

/* Reads templates in files of their own, which hide all of those in
 * tokenizer_config.json, as in transformers.
 */
static int read_template_files(struct dt_tokenizer *tokenizer,
                               const char *directory, struct dt_error *err)
{
    static const char *const names[] = {
        "chat_template.jinja", "additional_chat_templates/tool_use.jinja"};
    struct dt_tok_template *const templates[] = {&tokenizer->chat_template,
                                                 &tokenizer->tool_template};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX], *text = NULL;
        int rc = dt_tok_file_find(directory, names[i], path, err);
        if (rc > 0 && !(text = dt_file_read(path, DT_TOK_FILE_MAX_BYTES, err)))
            rc = -1;
        if (rc > 0 && i == 0)
            rc = keep_template(templates[1], directory, names[1], NULL, err);
        if (rc >= 0 && text)
            rc = keep_template(templates[i], directory, names[i], text, err);
        free(text);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Reads one of the files with the roles of tokens; NULL: there is none.
 * `config`: it is tokenizer_config.json.
 */
static int read_config(struct dt_tokenizer *tokenizer, const char *directory,
                       const char *path, const json_t *root, bool config,
                       struct unknown *unknown, struct dt_error *err)
{
    if (root && (read_roles(tokenizer, root, path, unknown, err) < 0 ||
                 check_prefix(tokenizer, root, path, err) < 0))
        return -1;
    if (root && config && check_cleanup(tokenizer, root, path, err) < 0)
        return -1;
    if (config && read_ends(tokenizer, root, err) < 0)
        return dt_error_prefix(err, "%s", path);
    return root ? read_template(tokenizer, directory, root, err) : 0;
}

int dt_tok_files_read(struct dt_tokenizer *tokenizer, const char *directory,
                      struct dt_error *err)
{
    /* Later files take precedence. */
    static const char *const names[] = {"special_tokens_map.json",
                                        "tokenizer_config.json"};
    struct unknown unknown = {0};
    char path[PATH_MAX];
    int rc = 0;
    for (size_t i = 0; i < 2; i++) {
        json_t *root = dt_tok_file_load(directory, names[i], &rc, err);
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        if (rc == 0)
            rc = read_config(tokenizer, directory, path, root, i == 1, &unknown,
                             err);
        json_decref(root);
        if (rc < 0)
            return -1;
    }
    for (size_t role = 0; role <= DT_TOKEN_EOS; role++)
        if (unknown.role[role].status) {
            if (err)
                *err = unknown.role[role];
            return -1;
        }
    return read_template_files(tokenizer, directory, err);
}
