/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - chooses a chat template and gives it its variables */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/str.h"
#include "tokenizer/chat/chat_impl.h"
#include "base/utf8.h"

enum {
    SPECIAL_BYTES = 256, /* room for the text of a special token */
    FILE_BYTES = 16 << 20,
};

/* Variables that a conversation sets. */
static const char *const reserved[] = {"messages", "tools", "documents",
                                       "add_generation_prompt"};

/* --- choosing a template --- */

static struct dt_template *make_template(const char *file, const char *text,
                                         struct dt_error *err)
{
    size_t bytes = strlen(text), good = dt_utf8_check(text, bytes);
    if (dt_foreign_pointer(file, text, bytes, err) < 0)
        return NULL;
    if (good == bytes)
        return dt_template_create(file, text, bytes, err);
    dt_error_set(err, EX_CONFIG, "%s: byte %zu is not UTF-8 text", file, good);
    return NULL;
}

/* One of ours, whose name is in its messages. */
static struct dt_template *make_named(const struct dt_chat_named *named,
                                      struct dt_error *err)
{
    char file[64];
    snprintf(file, sizeof(file), "chat template %s", named->name);
    return make_template(file, named->text, err);
}

static void warn_tokens(struct dt_chat *chat, const struct dt_chat_named *named,
                        const struct dt_tokenizer *tokenizer)
{
    char missing[256] = "";
    size_t n = 0, most = sizeof(named->control) / sizeof(*named->control);
    for (size_t i = 0; i < most && named->control[i]; i++)
        if (dt_tokenizer_id(tokenizer, named->control[i]) < 0)
            n += (size_t)snprintf(missing + n, sizeof(missing) - n, "%s%s",
                                  n ? ", " : "", named->control[i]);
    if (n > 0)
        dt_error_add(&chat->warning, EX_DATAERR,
                     "the tokenizer has no single token for %s, which the chat "
                     "template %s writes: each becomes several tokens",
                     missing, named->name);
}

static int choose_named(struct dt_chat *chat, const struct dt_chat_named *named,
                        const struct dt_tokenizer *tokenizer,
                        struct dt_error *err)
{
    if (named->needs_eos && dt_tokenizer_special(tokenizer, DT_TOKEN_EOS) < 0)
        return dt_error_set(err, EX_CONFIG,
                            "the chat template %s ends answers with EOS, and "
                            "the tokenizer names none",
                            named->name);
    warn_tokens(chat, named, tokenizer);
    chat->ours = true;
    chat->template = make_named(named, err);
    return chat->template ? 0 : -1;
}

static int choose_file(struct dt_chat *chat, const char *path,
                       struct dt_error *err)
{
    char *text = dt_file_read(path, FILE_BYTES, err);
    if (!text)
        return -1;
    chat->template = make_template(path, text, err);
    free(text);
    return chat->template ? 0 : -1;
}

static bool is_auto(const char *name)
{
    return strcmp(name, "auto") == 0;
}

/* That of the tokenizer's files. */
static int choose_auto(struct dt_chat *chat,
                       const struct dt_tokenizer *tokenizer,
                       struct dt_error *err)
{
    const char *text = dt_tokenizer_chat_template(tokenizer);
    const char *tools = dt_tokenizer_tool_template(tokenizer);
    const struct dt_chat_named *training;
    if (!text)
        return dt_error_set(
            err, EX_CONFIG,
            "messages need a chat template, and the tokenizer has none: name "
            "a file with one (data.chat_template, --chat-template), or one "
            "of " DT_CHAT_NAMES);
    chat->template =
        make_template(dt_tokenizer_template_file(tokenizer), text, err);
    if (!chat->template)
        return -1;
    if (tools && !(chat->with_tools = make_template(
                       dt_tokenizer_tool_template_file(tokenizer), tools, err)))
        return -1;
    training = dt_chat_training_form(dt_template_source(chat->template));
    if (training && !(chat->training = make_named(training, err)))
        return -1;
    return 0;
}

static int choose_template(struct dt_chat *chat, const char *name,
                           const struct dt_tokenizer *tokenizer,
                           struct dt_error *err)
{
    const struct dt_chat_named *named = dt_chat_named(name);
    size_t n = strlen(name);
    if (named)
        return choose_named(chat, named, tokenizer, err);
    if (is_auto(name))
        return choose_auto(chat, tokenizer, err);
    if (strchr(name, '/') || (n > 6 && !strcmp(name + n - 6, ".jinja")))
        return choose_file(chat, name, err);
    return dt_error_set(err, EX_CONFIG,
                        "no chat template '%s': expected a file (with a slash, "
                        "or ending with .jinja) or one of " DT_CHAT_NAMES,
                        name);
}

/* --- variables --- */

/* Puts the text of a special token under its name; nothing if there is none. */
static int add_special(struct dt_chat *chat,
                       const struct dt_tokenizer *tokenizer,
                       enum dt_token_role role, const char *name)
{
    char text[SPECIAL_BYTES];
    struct dt_detokenizer state = {.tokenizer = tokenizer};
    int32_t id = dt_tokenizer_special(tokenizer, role);
    if (id < 0)
        return 0;
    size_t n = dt_detokenize(&state, id, text, sizeof(text));
    return json_object_set_new(chat->specials, name, json_stringn(text, n));
}

static int read_variables(struct dt_chat *chat, const char *text,
                          struct dt_error *err)
{
    json_error_t why;
    if (!text)
        return 0;
    chat->variables = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(chat->variables))
        return dt_error_set(err, EX_CONFIG,
                            "chat_template_kwargs: expected an object: %s",
                            chat->variables ? text : why.text);
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (json_object_get(chat->variables, reserved[i]))
            return dt_error_set(err, EX_CONFIG,
                                "chat_template_kwargs: %s is set by each "
                                "conversation",
                                reserved[i]);
    return 0;
}

static int make_variables(struct dt_chat *chat, const char *variables,
                          const struct dt_tokenizer *tokenizer,
                          struct dt_error *err)
{
    chat->specials = json_object();
    if (!chat->specials ||
        add_special(chat, tokenizer, DT_TOKEN_BOS, "bos_token") < 0 ||
        add_special(chat, tokenizer, DT_TOKEN_EOS, "eos_token") < 0 ||
        add_special(chat, tokenizer, DT_TOKEN_PAD, "pad_token") < 0 ||
        add_special(chat, tokenizer, DT_TOKEN_UNK, "unk_token") < 0)
        return dt_error_set(err, EX_OSERR, "chat: out of memory");
    return read_variables(chat, variables, err);
}

/* --- chats --- */

static void warn_date(struct dt_chat *chat)
{
    if (strstr(dt_template_source(chat->template), "strftime_now") &&
        !json_object_get(chat->variables, "date_string"))
        dt_error_add(&chat->warning, EX_DATAERR,
                     "the chat template writes the date of today; here it is "
                     "always 26 Jul 2024, so that a run can be repeated");
}

struct dt_chat *dt_chat_create(const char *name, const char *variables,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err)
{
    struct dt_chat *chat = calloc(1, sizeof(*chat));
    if (!chat) {
        dt_error_set(err, EX_OSERR, "chat: out of memory");
        return NULL;
    }
    const char *file =
        is_auto(name) ? dt_tokenizer_template_file(tokenizer) : name;
    if (make_variables(chat, variables, tokenizer, err) < 0 ||
        choose_template(chat, name, tokenizer, err) < 0 ||
        dt_chat_probe(chat, file, tokenizer, err) < 0) {
        dt_chat_destroy(chat);
        return NULL;
    }
    warn_date(chat);
    return chat;
}

void dt_chat_destroy(struct dt_chat *chat)
{
    if (!chat)
        return;
    dt_template_destroy(chat->template);
    dt_template_destroy(chat->with_tools);
    dt_template_destroy(chat->training);
    json_decref(chat->specials);
    json_decref(chat->variables);
    free(chat);
}

const char *dt_chat_warning(const struct dt_chat *chat)
{
    return chat->warning.text[0] ? chat->warning.text : NULL;
}

int32_t dt_chat_end(const struct dt_chat *chat)
{
    return chat->end;
}

uint64_t dt_chat_hash(const struct dt_chat *chat)
{
    const struct dt_template *const templates[] = {
        chat->template, chat->with_tools, chat->training};
    const json_t *const objects[] = {chat->specials, chat->variables};
    uint64_t hash = 0;
    for (size_t i = 0; i < 3; i++) {
        const char *text = templates[i] ? dt_template_source(templates[i]) : "";
        hash = XXH3_64bits_withSeed(text, strlen(text) + 1, hash);
    }
    for (size_t i = 0; i < 2; i++) {
        char *text = objects[i] ? json_dumps(objects[i], JSON_SORT_KEYS) : NULL;
        hash = XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) : 0,
                                    hash);
        free(text);
    }
    return hash;
}
