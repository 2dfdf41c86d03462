/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - reads the messages of a conversation from JSON */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/forms/forms.h"
#include "data/turns.h"

/* Whether a value is this string, without a U+0000 in it. */
static bool is_word(const json_t *value, const char *word)
{
    return json_string_length(value) == strlen(word) &&
           !strcmp(json_string_value(value), word);
}

/* --- roles --- */

static const char *role_of(const json_t *role, struct dt_turns *turns)
{
    static const char *const roles[] = {"system", "developer", "user",
                                        "assistant", "tool"};
    static const char *const others[][2] = {{"human", "user"},
                                            {"gpt", "assistant"}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (is_word(role, roles[i]))
            return roles[i];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (is_word(role, others[i][0])) {
            turns->renamed++;
            return others[i][1];
        }
    return NULL;
}

/* The value of `key` or else of `other`, and the key found; NULL for none and
 * null.
 */
static json_t *either_value(const json_t *message, const char *key,
                            const char *other, const char **name)
{
    *name = json_object_get(message, key) || !json_object_get(message, other)
                ? key
                : other;
    return dt_line_value(message, *name);
}

static const char *read_role(const json_t *json, size_t n,
                             struct dt_turns *turns, struct dt_error *err)
{
    const char *key, *role;
    const json_t *value = either_value(json, "role", "from", &key);
    char shown[40];
    if (!json_is_string(value)) {
        dt_error_set(err, EX_DATAERR,
                     "message %zu: %s: expected a string, got "
                     "%s",
                     n, key, dt_line_kind(value));
        return NULL;
    }
    role = role_of(value, turns);
    if (role)
        return role;
    dt_line_printable(json_string_value(value), shown, sizeof(shown));
    dt_error_set(err, EX_DATAERR,
                 "message %zu: role '%s': expected system, developer, user, "
                 "assistant, tool, human or gpt",
                 n, shown);
    return NULL;
}

/* --- contents --- */

/* Checks that parts are objects of the type text or, if allowed, image. */
static int check_parts(const json_t *parts, const char *key, size_t n,
                       bool images, struct dt_error *err)
{
    const json_t *part;
    size_t i;
    json_array_foreach(parts, i, part)
    {
        const json_t *type = json_object_get(part, "type");
        char shown[40];
        if (is_word(type, "text") &&
            json_is_string(json_object_get(part, "text")))
            continue;
        if (images && (is_word(type, "image") || is_word(type, "image_url")))
            continue;
        if (!json_is_string(type) || is_word(type, "text"))
            return dt_error_set(err, EX_DATAERR,
                                "message %zu: %s: part %zu: expected an object "
                                "with type and text",
                                n, key, i + 1);
        dt_line_printable(json_string_value(type), shown, sizeof(shown));
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: %s: a part of type %s: only text %s "
                            "trained on",
                            n, key, shown, images ? "and images are" : "is");
    }
    return 0;
}

static bool has_calls(const json_t *message)
{
    return json_array_size(json_object_get(message, "tool_calls")) > 0;
}

static int check_content(const json_t *json, size_t n, bool images,
                         struct dt_error *err)
{
    const char *key;
    const json_t *content = either_value(json, "content", "value", &key);
    if (json_is_array(content))
        return check_parts(content, key, n, images, err);
    if (json_is_string(content) || (!content && has_calls(json)))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "message %zu: %s: expected a string, got %s", n, key,
                        dt_line_kind(json_object_get(json, key)));
}

/* The reasoning of a message, under one of its names; NULL: none. */
static json_t *find_reasoning(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking",
                                        "reasoning"};
    json_t *value = NULL;
    for (size_t i = 0; i < 3 && !value; i++)
        value = dt_line_value(message, names[i]);
    return value;
}

/* Sets a key of a message to a value of the file, or another; -1: out of
 * memory.
 */
static int set_key(json_t *message, const json_t *json, const char *key,
                   json_t *value, const char *role)
{
    bool from = !strcmp(key, "from") && !json_object_get(json, "role");
    bool said = !strcmp(key, "value") && !json_object_get(json, "content");
    if (from || !strcmp(key, "role"))
        return json_object_set_new(message, "role", json_string(role));
    if (json_is_null(value))
        return 0;
    return json_object_set(message, said ? "content" : key, value);
}

/* A message for a template, with keys in the file's order, and its reasoning
 * under the names that templates read, as in transformers. NULL: out of memory.
 */
static json_t *make_message(const json_t *json, const char *role)
{
    json_t *message = json_object(), *value, *reasoning = find_reasoning(json);
    const char *key;
    int rc = message ? 0 : -1;
    if (rc == 0 && reasoning)
        rc = json_object_set(message, "thinking", reasoning);
    json_object_foreach((json_t *)json, key, value)
    {
        if (rc == 0)
            rc = set_key(message, json, key, value, role);
    }
    if (rc == 0 && reasoning)
        rc = json_object_set(message, "reasoning_content", reasoning);
    if (rc == 0)
        return message;
    json_decref(message);
    return NULL;
}

/* Keys that say whether to train on a message; the first has a number. */
static const char *const said[] = {"weight", "train", "training", "loss"};
enum { SAID = sizeof(said) / sizeof(said[0]) };

static int check_said(const json_t *json, size_t n, struct dt_error *err)
{
    for (size_t i = 0; i < SAID; i++) {
        const json_t *value = dt_line_value(json, said[i]);
        const double number = json_number_value(value);
        bool good = i > 0 ? json_is_boolean(value)
                          : json_is_number(value) && (!number || number == 1);
        if (value && !good)
            return dt_error_set(err, EX_DATAERR,
                                "message %zu: %s: expected %s, whether it is "
                                "trained on",
                                n, said[i], i > 0 ? "true or false" : "0 or 1");
    }
    return 0;
}

static int read_message(const json_t *json, size_t n, struct dt_turns *turns,
                        struct dt_error *err)
{
    if (!json_is_object(json))
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: expected an object, got %s", n,
                            dt_line_kind(json));
    const char *role = read_role(json, n, turns, err);
    if (!role || check_content(json, n, turns->allow_images, err) < 0 ||
        check_said(json, n, err) < 0)
        return -1;
    if (!turns->messages)
        turns->messages = json_array();
    json_t *message = make_message(json, role);
    if (!message || json_array_append_new(turns->messages, message) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    turns->count++;
    return 0;
}

int dt_turns_add_one(struct dt_turns *turns, const json_t *message,
                     const char *key, struct dt_error *err)
{
    if (read_message(message, 1, turns, err) < 0)
        return dt_error_prefix(err, "%s", key);
    return 0;
}

/* Whether a value is the text of an array, as in tables. */
static bool is_json_text(const json_t *value)
{
    const char *s = json_is_string(value) ? json_string_value(value) : "";
    return s[0] == '[' && strchr("{]", s[1 + strspn(s + 1, " \n")]);
}

int dt_turns_add(struct dt_turns *turns, const json_t *array, const char *key,
                 struct dt_error *err)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array))
        return dt_error_set(
            err, EX_DATAERR, "%s: expected an array of messages, got %s%s", key,
            dt_line_kind(array),
            is_json_text(array) ? " with JSON in it: json.loads makes the "
                                  "array of it"
                                : "");
    if (n == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no messages", key);
    for (size_t i = 0; i < n; i++)
        if (read_message(json_array_get(array, i), i + 1, turns, err) < 0)
            return dt_error_prefix(err, "%s", key);
    return 0;
}

/* The "system" of a line; NULL: none, or an empty one. */
static json_t *find_system(const json_t *line)
{
    json_t *system = dt_line_value(line, "system");
    return json_is_string(system) && json_string_length(system) == 0 ? NULL
                                                                     : system;
}

int dt_turns_add_system(struct dt_turns *turns, const json_t *line,
                        const json_t *messages, struct dt_error *err)
{
    const json_t *system = find_system(line);
    const json_t *first = json_array_get(messages, 0);
    const json_t *role = json_object_get(first, "role");
    if (!role)
        role = json_object_get(first, "from");
    if (!system)
        return 0;
    if (!json_is_string(system))
        return dt_error_set(err, EX_DATAERR,
                            "system: expected a string, got %s",
                            dt_line_kind(system));
    if (is_word(role, "system"))
        return dt_error_set(err, EX_DATAERR,
                            "system: the messages begin with a system message "
                            "already");
    json_t *message =
        json_pack("{ss, sO}", "role", "system", "content", system);
    if (!turns->messages)
        turns->messages = json_array();
    if (!message || json_array_append_new(turns->messages, message) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    turns->count++;
    return 0;
}

/* --- other keys of a line --- */

static int read_tools(struct dt_turns *turns, json_t *value,
                      struct dt_error *err)
{
    if (json_is_string(value)) /* tables have no other way to keep them */
        turns->tools = json_loadb(json_string_value(value),
                                  json_string_length(value), 0, NULL);
    else
        turns->tools = json_incref(value);
    if (json_is_array(turns->tools))
        return 0;
    return dt_error_set(err, EX_DATAERR, "tools: expected an array, got %s",
                        json_is_string(value) ? "a string that holds none"
                                              : dt_line_kind(value));
}

/* A whole number among the real numbers, of at least this size, at this depth
 * or below; NaN: there is none.
 */
static double find_whole(const json_t *value, double least, int depth)
{
    const json_t *item;
    const char *key;
    size_t i;
    double d = json_real_value(value), found = NAN;
    if (json_is_real(value) && depth <= 0 && fabs(d) >= least && d == floor(d))
        return d;
    json_array_foreach(value, i, item) found =
        isnan(found) ? find_whole(item, least, depth - 1) : found;
    json_object_foreach((json_t *)value, key, item) found =
        isnan(found) ? find_whole(item, least, depth - 1) : found;
    return found;
}

/* Refuses a line with an integer beyond 64 bits and other numbers:
 * dt_line_parse then reads all as reals, and a template would write 3.0 for the
 * 3 in a call of a tool.
 */
static int check_integers(const json_t *line, struct dt_error *err)
{
    const double large = find_whole(line, 0x1p63, 0);
    if (isnan(large) || isnan(find_whole(line, 0, 2)))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%g is beyond the integers of 64 bits, and numbers in "
                        "messages or tools would be written as 3.0 beside it: "
                        "write it as a string",
                        large);
}

int dt_turns_add_options(struct dt_turns *turns, const json_t *line,
                         struct dt_error *err)
{
    if (check_integers(line, err) < 0)
        return -1;
    json_t *tools = dt_line_value(line, "tools");
    json_t *variables = dt_line_value(line, "chat_template_kwargs");
    if (tools && read_tools(turns, tools, err) < 0)
        return -1;
    if (!variables)
        return 0;
    if (!json_is_object(variables))
        return dt_error_set(err, EX_DATAERR,
                            "chat_template_kwargs: expected an object, got %s",
                            dt_line_kind(variables));
    turns->variables = json_incref(variables);
    return 0;
}

int dt_turns_refuse_options(const json_t *line, struct dt_error *err)
{
    static const char *const keys[] = {"tools", "chat_template_kwargs"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = dt_line_value(line, keys[i]);
        if (value && !(json_is_array(value) && json_array_size(value) == 0) &&
            !(json_is_object(value) && json_object_size(value) == 0))
            return dt_error_set(err, EX_DATAERR,
                                "%s: only messages are rendered with it, and "
                                "this line has none",
                                keys[i]);
    }
    return 0;
}

int dt_turns_refuse_system(const json_t *line, struct dt_error *err)
{
    return find_system(line)
               ? dt_error_set(err, EX_DATAERR,
                              "system: a text has no place for it: give such "
                              "lines as messages")
               : 0;
}

const char *dt_turns_role(const struct dt_turns *turns, size_t i)
{
    return json_string_value(
        json_object_get(json_array_get(turns->messages, i), "role"));
}

enum dt_said dt_turns_said(const struct dt_turns *turns, size_t i,
                           const char **key)
{
    enum dt_said found = DT_SAID_NOTHING;
    for (size_t k = 0; k < SAID && found != DT_SAID_NO; k++) {
        const json_t *value =
            json_object_get(json_array_get(turns->messages, i), said[k]);
        if (!value)
            continue;
        *key = said[k];
        found = json_is_true(value) || json_number_value(value) == 1
                    ? DT_SAID_YES
                    : DT_SAID_NO;
    }
    return found;
}

bool dt_turns_is_empty(const struct dt_turns *turns, size_t i)
{
    const json_t *message = json_array_get(turns->messages, i);
    const json_t *content = json_object_get(message, "content");
    return !has_calls(message) && json_string_length(content) == 0 &&
           json_array_size(content) == 0;
}

struct dt_chat_input dt_turns_input(const struct dt_turns *turns, size_t count)
{
    return (struct dt_chat_input){turns->messages, count, turns->tools,
                                  turns->variables};
}

void dt_turns_fini(struct dt_turns *turns)
{
    json_decref(turns->messages);
    json_decref(turns->tools);
    json_decref(turns->variables);
    *turns = (struct dt_turns){0};
}

/* --- Alpaca: instruction, input and output --- */

bool dt_alpaca_is(const json_t *root)
{
    return dt_line_value(root, "instruction") != NULL;
}

/* [{"role": role, "content": content}] */
static json_t *plain_message(const char *role, const json_t *content,
                             const char *key, struct dt_error *err)
{
    if (!json_is_string(content)) {
        dt_error_set(err, EX_DATAERR, "%s: expected a string, got %s", key,
                     dt_line_kind(content));
        return NULL;
    }
    json_t *array = json_pack("[{s:s, s:s}]", "role", role, "content",
                              json_string_value(content));
    if (!array)
        dt_error_set(err, EX_OSERR, "out of memory");
    return array;
}

static bool has_history(const json_t *root)
{
    const json_t *history = dt_line_value(root, "history");
    return history &&
           !(json_is_array(history) && json_array_size(history) == 0);
}

json_t *dt_alpaca_prompt(const json_t *root, struct dt_error *err)
{
    const json_t *instruction = dt_line_value(root, "instruction");
    const json_t *input = dt_line_value(root, "input");
    if (has_history(root)) {
        dt_error_set(err, EX_DATAERR,
                     "history: earlier turns are read from messages only: give "
                     "such conversations as messages");
        return NULL;
    }
    if (!input || !json_is_string(instruction) ||
        (json_is_string(input) && !json_string_length(input)))
        return plain_message("user", instruction, "instruction", err);
    if (!json_is_string(input))
        return plain_message("user", input, "input", err);
    json_t *joined = json_sprintf("%s\n%s", json_string_value(instruction),
                                  json_string_value(input));
    json_t *prompt = plain_message("user", joined, "input", err);
    json_decref(joined);
    return prompt;
}

json_t *dt_alpaca_answer(const json_t *content, const char *key,
                         struct dt_error *err)
{
    return plain_message("assistant", content, key, err);
}
