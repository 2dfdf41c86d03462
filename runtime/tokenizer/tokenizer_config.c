/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_config.c - reads special tokens and the chat template of a model */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/impl.h"

static const char *const role_keys[] = {
    [DT_TOKEN_BOS] = "bos_token",
    [DT_TOKEN_EOS] = "eos_token",
    [DT_TOKEN_PAD] = "pad_token",
    [DT_TOKEN_UNK] = "unk_token",
};

/* What begins or ends a text, but is no token: an error for each role. */
struct unknown {
    struct dt_error role[DT_TOKEN_EOS + 1]; /* status 0: none */
};

/* Transformers would append it to the vocabulary, with an id that the model
 * does not have.
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

/* Reads "bos_token" and the like: a text, an object with "content", or null. */
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
 * tokenizer.json: which one transformers uses depends on tokenizer_class and on
 * its version.
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

/* Refuses to remove spaces from decoded text, which transformers does with
 * models other than BPE only.
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

/* Keeps a template in place of one that was read before; text NULL: none. */
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

/* Reads templates that stand in files of their own, which hide all of those in
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

/* Reads one of the files that say what the tokens are for; NULL: there is none.
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
    if (config && dt_tok_ends_read(tokenizer, root, err) < 0)
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
