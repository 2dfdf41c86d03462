/* SPDX-License-Identifier: Apache-2.0 */
/* compose_tokens.c - the language model's tokenizer, with tokens of images */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compose/compose_impl.h"
#include "tokenizer/chat/chat.h"
#include "weights/weights.h"

/* --- the new tokens --- */

/* A token of added_tokens; with its id, if that is not -1. */
static json_t *make_token(const char *text, int32_t id)
{
    json_t *token = json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text,
                              "single_word", 0, "lstrip", 0, "rstrip", 0,
                              "normalized", 0, "special", 1);
    if (token && id >= 0)
        json_object_set_new(token, "id", json_integer(id));
    return token;
}

/* The new tokens as items of a list, with a comma before each unless `first`.
 * NULL: out of memory.
 */
static char *list_tokens(const struct dt_halves *halves, bool first)
{
    const struct {
        bool is_new;
        const char *text;
        int32_t id;
    } tokens[] = {
        {halves->image_is_new, DT_COMPOSE_TOKEN, halves->image},
        {halves->pad_is_new, DT_COMPOSE_PAD, halves->pad},
    };
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < 2; i++) {
        json_t *token =
            tokens[i].is_new ? make_token(tokens[i].text, tokens[i].id) : NULL;
        if (!token)
            continue;
        fputs(first ? "\n    " : ",\n    ", out);
        json_dumpf(token, out, 0);
        json_decref(token);
        first = false;
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* --- tokenizer.json ---
 *
 * It may have keys that a parser cannot hold, and numbers that it would round,
 * so the new tokens go into the text.
 */

/* The end of the string that begins at `p`, which is a quote. */
static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* The bracket that ends the list added_tokens of the object `text`, which is
 * valid JSON; NULL: it has none.
 */
static const char *find_end(const char *text)
{
    static const char key[] = "\"added_tokens\"";
    bool inside = false;
    int depth = 0;
    for (const char *p = text; *p;) {
        if (*p == '"') {
            if (depth == 1 && strncmp(p, key, sizeof(key) - 1) == 0)
                inside = true;
            p = skip_string(p);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (*p == ']' && depth == 1 && inside)
            return p;
        p++;
    }
    return NULL;
}

/* Whether the list that ends at `end` is empty. */
static bool is_empty(const char *text, const char *end)
{
    while (end > text && strchr(" \t\r\n", end[-1]))
        end--;
    return end > text && end[-1] == '[';
}

static int make_tokenizer(struct dt_composed *composed,
                          const struct dt_halves *halves, struct dt_error *err)
{
    const char *dir = halves->compose->language;
    char path[PATH_MAX], *text, *list;
    if (!dt_weights_has_file(dir, "tokenizer.json"))
        return 0;
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (!(text = dt_file_read(path, DT_COMPOSE_FILE_BYTES, err)))
        return -1;
    const char *end = find_end(text);
    const char *brace = strchr(text, '{');
    const bool first = !end || is_empty(text, end);
    list = list_tokens(halves, first);
    int n = !list || !brace ? -1
            : end           ? asprintf(&composed->tokenizer, "%.*s%s%s",
                                       (int)(end - text), text, list, end)
                            : asprintf(&composed->tokenizer,
                                       "{\n  \"added_tokens\": [%s],%s", list, brace + 1);
    free(list);
    free(text);
    if (n >= 0)
        return 0;
    composed->tokenizer = NULL;
    return dt_error_set(err, EX_OSERR, "out of memory");
}

/* --- the files beside it --- */

/* Adds the new tokens to added_tokens_decoder, where a tokenizer of another
 * file has them.
 */
static int add_decoder(json_t *root, const struct dt_halves *halves,
                       bool needed)
{
    json_t *decoder = json_object_get(root, "added_tokens_decoder");
    char id[16];
    if (!decoder && !needed)
        return 0;
    if (!json_is_object(decoder)) {
        decoder = json_object();
        if (json_object_set_new(root, "added_tokens_decoder", decoder) < 0)
            return -1;
    }
    snprintf(id, sizeof(id), "%d", halves->image);
    if (halves->image_is_new &&
        json_object_set_new(decoder, id, make_token(DT_COMPOSE_TOKEN, -1)) < 0)
        return -1;
    snprintf(id, sizeof(id), "%d", halves->pad);
    return halves->pad_is_new ? json_object_set_new(
                                    decoder, id, make_token(DT_COMPOSE_PAD, -1))
                              : 0;
}

/* tokenizer_config.json: the class of the processor, the token of padding, and
 * no template if there is another one.
 */
static int make_tokenizer_config(struct dt_composed *composed,
                                 const struct dt_halves *halves,
                                 struct dt_error *err)
{
    json_t *root = dt_compose_json(halves->compose->language,
                                   "tokenizer_config.json", err);
    if (!root && err->text[0])
        return -1;
    if (!root)
        root = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    int bad = json_object_set_new(root, "processor_class",
                                  json_string("LlavaProcessor")) |
              add_decoder(root, halves, !composed->tokenizer);
    if (halves->pad >= 0)
        bad |=
            json_object_set_new(root, "pad_token", json_string(DT_COMPOSE_PAD));
    if (composed->template)
        json_object_del(root, "chat_template");
    if (bad != 0) {
        json_decref(root);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    composed->tokenizer_config = dt_compose_dump(root, err);
    return composed->tokenizer_config ? 0 : -1;
}

/* A file of the language model, with a key if that has a value. */
static int copy_with(char **text, const struct dt_halves *halves,
                     const char *name, const char *key, json_t *value,
                     struct dt_error *err)
{
    json_t *root = dt_compose_json(halves->compose->language, name, err);
    if (!root) {
        json_decref(value);
        return err->text[0] ? -1 : 0;
    }
    if (value && json_object_set_new(root, key, value) < 0) {
        json_decref(root);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    *text = dt_compose_dump(root, err);
    return *text ? 0 : -1;
}

static int make_beside(struct dt_composed *composed,
                       const struct dt_halves *halves, struct dt_error *err)
{
    const bool pads = halves->pad >= 0;
    if (copy_with(&composed->special_tokens, halves, "special_tokens_map.json",
                  "pad_token", pads ? json_string(DT_COMPOSE_PAD) : NULL,
                  err) < 0)
        return -1;
    return copy_with(&composed->generation, halves, "generation_config.json",
                     "pad_token_id", pads ? json_integer(halves->pad) : NULL,
                     err);
}

/* --- the chat template --- */

/* Whether the template writes a token for an image, and the text beside it. */
static bool shows_images(const struct dt_chat *chat)
{
    json_t *messages =
        json_pack("[{s:s, s:[{s:s}, {s:s, s:s}]}]", "role", "user", "content",
                  "type", "image", "type", "text", "text", "A question?");
    const struct dt_chat_input input = {.messages = messages, .count = 1};
    struct dt_chat_text out = {0};
    struct dt_error err;
    bool shows = messages && dt_chat_render(chat, &input, 0, &out, &err) == 0;
    if (shows) {
        const char *text = out.whole.text;
        const char *token = text ? strstr(text, DT_COMPOSE_TOKEN) : NULL;
        shows = token && !strstr(token + 1, DT_COMPOSE_TOKEN) &&
                strstr(token, "A question?");
    }
    dt_chat_text_fini(&out);
    json_decref(messages);
    return shows;
}

/* That of LLaVA, unless the language model's own shows images. */
static int make_template(struct dt_composed *composed,
                         const struct dt_halves *halves, struct dt_error *err)
{
    struct dt_error ignored;
    struct dt_chat *own =
        dt_tokenizer_chat_template(halves->tokenizer)
            ? dt_chat_create("auto", NULL, halves->tokenizer, &ignored)
            : NULL;
    const bool shows = own && shows_images(own);
    dt_chat_destroy(own);
    if (shows)
        return 0;
    struct dt_chat *llava =
        dt_chat_create("llava", NULL, halves->tokenizer, err);
    if (!llava)
        return -1;
    composed->template = strdup(dt_chat_source(llava));
    dt_chat_destroy(llava);
    return composed->template ? 0
                              : dt_error_set(err, EX_OSERR, "out of memory");
}

int dt_compose_token_texts(struct dt_composed *composed,
                           const struct dt_halves *halves, struct dt_error *err)
{
    if (make_template(composed, halves, err) < 0 ||
        make_tokenizer(composed, halves, err) < 0 ||
        make_tokenizer_config(composed, halves, err) < 0 ||
        make_beside(composed, halves, err) < 0)
        return dt_error_prefix(err, "model.language");
    return 0;
}
