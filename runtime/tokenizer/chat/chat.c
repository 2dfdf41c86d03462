/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.c - chooses a chat template, tries it and renders conversations with it
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/str.h"
#include "tokenizer/chat/chat_impl.h"

/* --- built-in templates ---
 *
 * They render conversations without tools as the published templates of these
 * families do, and mark the assistant's text. With "training" qwen3 keeps the
 * reasoning of every answer, as in TRL. LLaVA has two, of its own program: that
 * of version 1.5 and, for its first stage, an image and its caption.
 */

/* Made of chat/NAME.jinja: text_NAME. */
#include "tokenizer/chat/chat_texts.inc"

#define IM_CONTROL "<|im_start|>", "<|im_end|>"
#define LLAMA3_CONTROL "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"

/* A built-in template. */
struct named {
    const char *name;
    const char *text;       /* Jinja; may use the variable "training" */
    const char *control[4]; /* texts that must be single tokens */
    bool needs_eos;
};

static const struct named all[] = {
    {"chatml", text_chatml, {IM_CONTROL}, false},
    {"qwen2.5", text_qwen2_5, {IM_CONTROL}, false},
    {"qwen3", text_qwen3, {IM_CONTROL, "<think>", "</think>"}, false},
    {"llama2", text_llama2, {NULL}, true},
    {"llama3", text_llama3, {LLAMA3_CONTROL}, false},
    {"llama3.1", text_llama3_1, {LLAMA3_CONTROL}, false},
    {"mistral", text_mistral, {NULL}, true},
    {"llava", text_llava, {"<image>"}, true},
    {"llava-plain", text_llava_plain, {"<image>"}, false},
};

/* The template with this name, or NULL. */
static const struct named *find_named(const char *name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    return NULL;
}

/* XXH3 of published templates that TRL replaces for training by forms like
 * ours. A newline after their last block is not part of them.
 */
static const struct {
    uint64_t hash;
    const char *name;
} published[] = {
    {UINT64_C(0x2469c9508f79506e), "qwen2.5"}, /* Qwen 2.5 */
    {UINT64_C(0xc9e0155c80737cf2), "qwen3"},   /* Qwen 3 */
};

/* Our template that serves as the form for training of a published one, as in
 * TRL; NULL: none.
 */
static const struct named *training_form(const char *source)
{
    size_t n = strlen(source);
    n -= n >= 3 && memcmp(source + n - 3, "%}\n", 3) == 0;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (XXH3_64bits(source, n) == published[i].hash)
            return find_named(published[i].name);
    return NULL;
}

/* --- trying a template ---
 *
 * A rendering shows best whether a template writes the messages at all, and how
 * it ends answers. Headers such as <|user|> are plain text in many published
 * models, so they alone prove nothing; a model does not stop at an end of
 * several tokens.
 */

enum {
    FORMS = 4,          /* of a conversation */
    LITERAL_BYTES = 64, /* of a control token */
};

static const char answer[] = "An answer.";

/* A message; `parts`: its content is a list. */
static json_t *make_message(const char *role, const char *content, bool parts)
{
    return parts ? json_pack("{ss, s[{ss, ss}]}", "role", role, "content",
                             "type", "text", "text", content)
                 : json_pack("{ss, ss}", "role", role, "content", content);
}

/* Renders a question and its answer in one of the forms. False: the template
 * refuses them.
 */
static bool render_form(const struct dt_chat *chat, int form,
                        const char *question, const char *reply,
                        struct dt_template_text *out)
{
    const bool parts = form & 1, system = form & 2;
    json_t *messages = json_array();
    struct dt_error err;
    if (system)
        json_array_append_new(messages,
                              make_message("system", question, parts));
    json_array_append_new(messages, make_message("user", question, parts));
    json_array_append_new(messages, make_message("assistant", reply, parts));
    const struct dt_chat_input input = {.messages = messages,
                                        .count = json_array_size(messages)};
    int rc = dt_chat_apply(chat, chat->template, &input, messages, input.count,
                           0, out, &err);
    json_decref(messages);
    return rc == 0;
}

/* --- control tokens --- */

/* The <...> at the beginning of a text; false: there is none. */
static bool read_literal(const char *text, char literal[LITERAL_BYTES])
{
    if (text[0] != '<')
        return false;
    size_t n = strcspn(text + 1, "< \t\r\n>") + 2;
    if (text[n - 1] != '>' || n >= LITERAL_BYTES)
        return false;
    memcpy(literal, text, n);
    literal[n] = '\0';
    return true;
}

/* The text after the last answer in a rendering; NULL: unknown. */
static const char *find_end(const char *text)
{
    const char *end = NULL;
    for (const char *at = text; (at = strstr(at, answer)); at++)
        end = at + strlen(answer);
    return end ? end + strspn(end, " \t\r\n") : NULL;
}

/* Warns of texts that look like control tokens, or are the end, but are not
 * tokens.
 */
static void warn_missing(struct dt_chat *chat, const char *name,
                         const char *text, const char *end,
                         const struct dt_tokenizer *tokenizer)
{
    char missing[256] = "", literal[LITERAL_BYTES];
    size_t n = 0;
    for (const char *at = text; (at = strchr(at, '<')); at++)
        if (read_literal(at, literal) && (at == end || at[1] == '|') &&
            dt_tokenizer_id(tokenizer, literal) < 0 &&
            !strstr(missing, literal) &&
            n + strlen(literal) + 2 < sizeof(missing))
            n += (size_t)snprintf(missing + n, sizeof(missing) - n, "%s%s",
                                  n ? ", " : "", literal);
    dt_error_add(&chat->warning, EX_DATAERR,
                 "the tokenizer has no single token for %s, which the chat "
                 "template %s writes: each becomes several tokens",
                 missing, name);
}

static void look_at_end(struct dt_chat *chat, const char *name,
                        const char *text, const struct dt_tokenizer *tokenizer)
{
    const char *end = find_end(text);
    char literal[LITERAL_BYTES];
    if (!end || !read_literal(end, literal))
        return;
    chat->end = dt_tokenizer_id(tokenizer, literal);
    if (chat->end < 0 && !chat->ours)
        warn_missing(chat, name, text, end, tokenizer);
}

/* --- all of it --- */

/* Finds chat->end, and warns of control tokens that the tokenizer lacks; `name`
 * is the template's for messages. -1: EX_CONFIG, it ignores the messages.
 */
static int probe(struct dt_chat *chat, const char *name,
                 const struct dt_tokenizer *tokenizer, struct dt_error *err)
{
    struct dt_template_text one = {0}, other = {0};
    int form = 0, same = 0;
    bool found = false;
    chat->end = -1;
    for (; form < FORMS && !found; form++) {
        if (!render_form(chat, form, "A question?", answer, &one) ||
            !render_form(chat, form, "Why?", "So.", &other))
            continue;
        found = strcmp(one.text, other.text) != 0;
        same += !found;
    }
    if (found)
        look_at_end(chat, name, one.text, tokenizer);
    dt_template_text_fini(&one);
    dt_template_text_fini(&other);
    return same < FORMS
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "%s: the chat template writes nothing of the "
                              "messages: is it one, and does it go over "
                              "\"messages\"?",
                              name);
}

/* --- choosing --- */

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

/* A built-in template, whose name is in its messages. */
static struct dt_template *make_named(const struct named *named,
                                      struct dt_error *err)
{
    char file[64];
    snprintf(file, sizeof(file), "chat template %s", named->name);
    return make_template(file, named->text, err);
}

static void warn_tokens(struct dt_chat *chat, const struct named *named,
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

static int choose_named(struct dt_chat *chat, const struct named *named,
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

/* The template of the tokenizer's files. */
static int choose_auto(struct dt_chat *chat,
                       const struct dt_tokenizer *tokenizer,
                       struct dt_error *err)
{
    const char *text = dt_tokenizer_chat_template(tokenizer);
    const char *tools = dt_tokenizer_tool_template(tokenizer);
    const struct named *training;
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
    training = training_form(dt_template_source(chat->template));
    if (training && !(chat->training = make_named(training, err)))
        return -1;
    return 0;
}

static int choose_template(struct dt_chat *chat, const char *name,
                           const struct dt_tokenizer *tokenizer,
                           struct dt_error *err)
{
    const struct named *named = find_named(name);
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

/* Adds the text of a special token under its name, if there is one. */
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
        probe(chat, file, tokenizer, err) < 0) {
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

const char *dt_chat_source(const struct dt_chat *chat)
{
    return dt_template_source(chat->template);
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
