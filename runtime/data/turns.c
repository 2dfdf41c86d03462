/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - reads the messages of a conversation from JSON */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/line.h"
#include "data/turns.h"

int dt_turns_refuse(const json_t *object, const char *key, struct dt_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value) ||
        (json_is_array(value) && json_array_size(value) == 0) ||
        (json_is_object(value) && json_object_size(value) == 0))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s are not rendered here: give such conversations as "
                        "text",
                        key);
}

static const char *role_of(const char *role, struct dt_turns *turns)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    static const char *const others[][2] = {{"human", "user"},
                                            {"gpt", "assistant"}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(role, roles[i]) == 0)
            return roles[i];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(role, others[i][0]) == 0) {
            turns->renamed++;
            return others[i][1];
        }
    return NULL;
}

/* The type of the first part of a content that is not text, or NULL. */
static const char *other_part(const json_t *content)
{
    static const char *const known[] = {"image", "image_url", "video", "audio"};
    const json_t *part;
    size_t i;
    json_array_foreach(content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        for (size_t k = 0; type && k < sizeof(known) / sizeof(known[0]); k++)
            if (strcmp(type, known[k]) == 0)
                return known[k];
    }
    return NULL;
}

/* The value of `key`, or of `other`, in message number `n`. NULL and err if it
 * is not a string.
 */
static const char *message_string(const json_t *message, const char *key,
                                  const char *other, size_t n,
                                  struct dt_error *err)
{
    const json_t *value = json_object_get(message, key);
    if (!value) {
        value = json_object_get(message, other);
        key = value ? other : key;
    }
    if (json_is_string(value))
        return json_string_value(value);
    const char *type = other_part(value);
    if (type)
        dt_error_set(err, EX_DATAERR,
                     "message %zu: %s: a part of type %s: only text is "
                     "trained on",
                     n, key, type);
    else
        dt_error_set(err, EX_DATAERR,
                     "message %zu: %s: expected a string, got %s", n, key,
                     dt_line_kind(value));
    return NULL;
}

static int read_message(const json_t *json, size_t n, struct dt_turns *turns,
                        struct dt_chat_message *out, struct dt_error *err)
{
    if (!json_is_object(json))
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: expected an object, got %s", n,
                            dt_line_kind(json));
    if (dt_turns_refuse(json, "tool_calls", err) < 0)
        return dt_error_prefix(err, "message %zu", n);
    const char *role = message_string(json, "role", "from", n, err);
    if (!role)
        return -1;
    out->role = role_of(role, turns);
    if (!out->role) {
        char shown[40];
        dt_line_printable(role, shown, sizeof(shown));
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: role '%s': expected system, user, "
                            "assistant, tool, human or gpt",
                            n, shown);
    }
    out->content = message_string(json, "content", "value", n, err);
    out->reasoning =
        json_string_value(json_object_get(json, "reasoning_content"));
    return out->content ? 0 : -1;
}

/* Makes room for `count` messages behind those of turns. NULL and err. */
static struct dt_chat_message *make_room(struct dt_turns *turns, size_t count,
                                         struct dt_error *err)
{
    size_t needed = turns->count + count;
    struct dt_chat_message *messages =
        realloc(turns->messages, needed * sizeof(*messages));
    if (!messages) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    turns->messages = messages;
    return messages + turns->count;
}

int dt_turns_add_one(struct dt_turns *turns, const json_t *message,
                     const char *key, struct dt_error *err)
{
    struct dt_chat_message *to = make_room(turns, 1, err);
    if (!to || read_message(message, 1, turns, to, err) < 0)
        return dt_error_prefix(err, "%s", key);
    turns->count++;
    return 0;
}

int dt_turns_add(struct dt_turns *turns, const json_t *array, const char *key,
                 struct dt_error *err)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array))
        return dt_error_set(err, EX_DATAERR,
                            "%s: expected an array of messages, got %s", key,
                            dt_line_kind(array));
    if (n == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no messages", key);
    struct dt_chat_message *to = make_room(turns, n, err);
    if (!to)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (read_message(json_array_get(array, i), i + 1, turns, to + i, err) <
            0)
            return dt_error_prefix(err, "%s", key);
    turns->count += n;
    return 0;
}

int dt_turns_add_system(struct dt_turns *turns, const json_t *line,
                        const json_t *messages, struct dt_error *err)
{
    const json_t *system = json_object_get(line, "system");
    const json_t *first = json_array_get(messages, 0);
    const json_t *role = json_object_get(first, "role");
    if (!role)
        role = json_object_get(first, "from");
    if (!system || json_is_null(system) ||
        (json_is_string(system) && json_string_length(system) == 0))
        return 0;
    if (!json_is_string(system))
        return dt_error_set(err, EX_DATAERR,
                            "system: expected a string, got %s",
                            dt_line_kind(system));
    if (json_is_string(role) && strcmp(json_string_value(role), "system") == 0)
        return dt_error_set(err, EX_DATAERR,
                            "system: the messages begin with a system message "
                            "already");
    struct dt_chat_message *to = make_room(turns, 1, err);
    if (!to)
        return -1;
    *to = (struct dt_chat_message){.role = "system",
                                   .content = json_string_value(system)};
    turns->count++;
    return 0;
}

void dt_turns_fini(struct dt_turns *turns)
{
    free(turns->messages);
    *turns = (struct dt_turns){0};
}
