/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl.c - splits JSONL files into lines and reads lines as records */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "data/jsonl.h"

enum {
    IGNORED = -100, /* the label of a token that is not a target */
};

/* --- lines --- */

size_t dt_jsonl_parts(const char *data, size_t bytes, size_t part_bytes,
                      struct dt_part *parts)
{
    size_t begin = 0, count = 0;
    uint64_t line = 1;
    for (; begin < bytes; count++) {
        size_t end = bytes;
        if (bytes - begin > part_bytes) {
            const char *least = data + begin + part_bytes - 1;
            const char *lf =
                memchr(least, '\n', (size_t)(data + bytes - least));
            end = lf ? (size_t)(lf - data) + 1 : bytes;
        }
        parts[count] = (struct dt_part){begin, end, line};
        for (const char *p = data + begin;
             (p = memchr(p, '\n', (size_t)(data + end - p))) != NULL; p++)
            line++;
        begin = end;
    }
    return count;
}

const char *dt_jsonl_next(const char *data, size_t bytes, size_t *at,
                          uint64_t *line, size_t *length)
{
    while (*at < bytes) {
        const char *begin = data + *at;
        const char *lf = memchr(begin, '\n', bytes - *at);
        size_t n = lf ? (size_t)(lf - begin) : bytes - *at;
        if (*at == 0 && n >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0) {
            begin += 3;
            n -= 3;
        }
        *at = lf ? (size_t)(lf - data) + 1 : bytes;
        ++*line;
        if (n > 0 && begin[n - 1] == '\r')
            n--;
        for (size_t i = 0; i < n; i++)
            if (!strchr(" \t\r", begin[i]) || !begin[i]) {
                *length = n;
                return begin;
            }
    }
    return NULL;
}

/* --- one line --- */

/* Copies text from a file for use in a message; control characters become '?'.
 */
static void make_printable(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++)
        out[n] =
            (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    out[n] = '\0';
}

static int syntax_error(const json_error_t *at, struct dt_error *err)
{
    char text[JSON_ERROR_TEXT_LENGTH];
    make_printable(at->text, text, sizeof(text));
    return dt_error_set(err, EX_DATAERR, "byte %d: %s", at->position,
                        json_error_code(at) == json_error_null_character
                            ? "U+0000 in a string (\\u0000) is not read here: "
                              "remove it"
                            : text);
}

/* Parses a line, which must be an object. The caller calls json_decref. */
static json_t *parse(const char *line, size_t length, struct dt_error *err)
{
    json_error_t at;
    json_t *root = json_loadb(line, length, JSON_REJECT_DUPLICATES, &at);
    if (!root && json_error_code(&at) == json_error_numeric_overflow)
        root =
            json_loadb(line, length,
                       JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &at);
    if (!root) {
        syntax_error(&at, err);
        return NULL;
    }
    if (!json_is_object(root)) {
        dt_error_set(err, EX_DATAERR, "expected an object, got an array");
        json_decref(root);
        return NULL;
    }
    return root;
}

/* What a value is; all numbers are the same here. */
static const char *kind_name(const json_t *value)
{
    if (!value)
        return "nothing";
    return dt_json_type_name(json_is_number(value) ? JSON_REAL
                                                   : json_typeof(value));
}

static const char *key_or(const char *key, const char *usual)
{
    return key ? key : usual;
}

/* --- messages --- */

static const char *role_of(const char *role, struct dt_record *record)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    static const char *const others[][2] = {{"human", "user"},
                                            {"gpt", "assistant"}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(role, roles[i]) == 0)
            return roles[i];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(role, others[i][0]) == 0) {
            record->renamed++;
            return others[i][1];
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
    dt_error_set(err, EX_DATAERR, "message %zu: %s: expected a string, got %s",
                 n, key, kind_name(value));
    return NULL;
}

/* Refuses tools and tool calls: we do not render them, and leaving them out
 * silently would train on other data than the file holds.
 */
static int refuse_calls(const json_t *object, const char *key, size_t n,
                        struct dt_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value) ||
        (json_is_array(value) && json_array_size(value) == 0))
        return 0;
    dt_error_set(err, EX_DATAERR,
                 "%s are not rendered here: give such conversations as text",
                 key);
    return n ? dt_error_prefix(err, "message %zu", n) : -1;
}

static int read_message(const json_t *json, size_t n, struct dt_record *record,
                        struct dt_chat_message *out, struct dt_error *err)
{
    if (!json_is_object(json))
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: expected an object, got %s", n,
                            kind_name(json));
    if (refuse_calls(json, "tool_calls", n, err) < 0)
        return -1;
    const char *role = message_string(json, "role", "from", n, err);
    if (!role)
        return -1;
    out->role = role_of(role, record);
    if (!out->role) {
        char shown[40];
        make_printable(role, shown, sizeof(shown));
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

/* Appends the messages of an array to record->turns. */
static int read_messages(const json_t *array, const char *key,
                         struct dt_record *record, struct dt_error *err)
{
    size_t n = json_array_size(array), before = record->turns.count;
    if (!json_is_array(array))
        return dt_error_set(err, EX_DATAERR,
                            "%s: expected an array of messages, got %s", key,
                            kind_name(array));
    if (n == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no messages", key);
    struct dt_chat_message *messages =
        realloc(record->turns.messages, (before + n) * sizeof(*messages));
    if (!messages)
        return dt_error_set(err, EX_OSERR, "out of memory");
    record->turns.messages = messages;
    for (size_t i = 0; i < n; i++)
        if (read_message(json_array_get(array, i), i + 1, record,
                         &messages[before + i], err) < 0)
            return dt_error_prefix(err, "%s", key);
    record->turns.count += n;
    return 0;
}

/* --- formats --- */

static int read_text(const json_t *root, const char *key,
                     struct dt_record *record, struct dt_error *err)
{
    const json_t *value = json_object_get(root, key);
    record->text = json_string_value(value);
    if (!record->text)
        return dt_error_set(err, EX_DATAERR, "%s: expected a string, got %s",
                            key, kind_name(value));
    return 0;
}

static int read_pair(const json_t *root, const char *prompt_key,
                     const char *completion_key, struct dt_record *record,
                     struct dt_error *err)
{
    const json_t *prompt = json_object_get(root, prompt_key);
    const json_t *completion = json_object_get(root, completion_key);
    if (json_is_string(prompt) && json_is_string(completion)) {
        record->prompt = json_string_value(prompt);
        record->completion = json_string_value(completion);
        return 0;
    }
    if (!json_is_array(prompt) || !json_is_array(completion))
        return dt_error_set(err, EX_DATAERR,
                            "%s and %s: expected two strings or two arrays of "
                            "messages, got %s and %s",
                            prompt_key, completion_key, kind_name(prompt),
                            kind_name(completion));
    if (read_messages(prompt, prompt_key, record, err) < 0)
        return -1;
    record->prompt_turns = record->turns.count;
    if (strcmp(record->turns.messages[record->prompt_turns - 1].role,
               "assistant") == 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: the last message is the assistant's, so "
                            "there is nothing left to answer",
                            prompt_key);
    return read_messages(completion, completion_key, record, err);
}

/* Reads the ids. If there are labels, they say which ids are targets. */
static int read_ids(const json_t *ids, const json_t *labels, size_t vocab_size,
                    struct dt_record *record, struct dt_error *err)
{
    for (size_t i = 0; i < record->id_count; i++) {
        const json_t *id = json_array_get(ids, i);
        const json_t *label = labels ? json_array_get(labels, i) : id;
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || (size_t)value >= vocab_size)
            return dt_error_set(err, EX_DATAERR,
                                "input_ids[%zu]: expected an integer from 0 to "
                                "%zu",
                                i, vocab_size - 1);
        record->ids[i] = (int32_t)value;
        record->targets[i] = json_integer_value(label) != IGNORED;
        if (!json_is_integer(label) ||
            (record->targets[i] && json_integer_value(label) != value))
            return dt_error_set(
                err, EX_DATAERR,
                "labels[%zu]: expected %d or the id at the same "
                "place (the shift by one is done here)",
                i, IGNORED);
    }
    return 0;
}

static int read_tokens(const json_t *root, size_t vocab_size,
                       struct dt_record *record, struct dt_error *err)
{
    const json_t *ids = json_object_get(root, "input_ids");
    const json_t *labels = json_object_get(root, "labels");
    size_t n = json_array_size(ids);
    if (n == 0)
        return dt_error_set(
            err, EX_DATAERR, "input_ids: expected an array of ids, got %s",
            json_is_array(ids) ? "an empty one" : kind_name(ids));
    if (labels && json_array_size(labels) != n)
        return dt_error_set(err, EX_DATAERR,
                            "labels: expected an array as long as input_ids, "
                            "%zu",
                            n);
    record->ids = calloc(n, sizeof(*record->ids));
    record->targets = calloc(n, sizeof(*record->targets));
    if (!record->ids || !record->targets)
        return dt_error_set(err, EX_OSERR, "out of memory");
    record->id_count = n;
    return read_ids(ids, labels, vocab_size, record, err);
}

/* The key that holds the array of messages: messages_key, or "conversations" if
 * only that is there.
 */
static const char *find_messages(const json_t *root,
                                 const struct dt_example_options *options)
{
    const char *key = key_or(options->messages_key, "messages");
    return json_object_get(root, key) || !json_object_get(root, "conversations")
               ? key
               : "conversations";
}

int dt_jsonl_read(const char *line, size_t length, enum dt_format format,
                  const struct dt_example_options *options, size_t vocab_size,
                  struct dt_record *record, struct dt_error *err)
{
    *record = (struct dt_record){.format = format};
    json_t *root = parse(line, length, err);
    record->json = root;
    if (!root || refuse_calls(root, "tools", 0, err) < 0)
        return -1;
    switch (format) {
    case DT_FORMAT_TEXT:
        return read_text(root, key_or(options->text_key, "text"), record, err);
    case DT_FORMAT_PROMPT_COMPLETION:
        return read_pair(root, key_or(options->prompt_key, "prompt"),
                         key_or(options->completion_key, "completion"), record,
                         err);
    case DT_FORMAT_TOKENISED:
        return read_tokens(root, vocab_size, record, err);
    default: {
        const char *key = find_messages(root, options);
        return read_messages(json_object_get(root, key), key, record, err);
    }
    }
}

void dt_record_fini(struct dt_record *record)
{
    json_decref(record->json);
    free(record->turns.messages);
    free(record->ids);
    free(record->targets);
    *record = (struct dt_record){0};
}

/* --- which format? --- */

/* Lists the keys of an object for a message: "a, b, c". */
static void list_keys(json_t *root, char *out, size_t size)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    out[0] = '\0';
    json_object_foreach(root, key, value)
    {
        if (n + strlen(key) + 3 >= size)
            continue;
        if (n > 0)
            n += (size_t)snprintf(out + n, size - n, ", ");
        make_printable(key, out + n, size - n);
        n += strlen(key);
    }
}

static int unknown_format(json_t *root, struct dt_error *err)
{
    char keys[200];
    if (json_object_get(root, "chosen") && json_object_get(root, "rejected"))
        return dt_error_set(err, EX_DATAERR,
                            "chosen and rejected are for preference training; "
                            "fine-tuning needs text, prompt with completion, "
                            "or messages");
    if (json_is_boolean(json_object_get(root, "label")))
        return dt_error_set(err, EX_DATAERR,
                            "prompt and completion with a label are unpaired "
                            "preferences, which are not supported; leave out "
                            "label to train on all of them");
    list_keys(root, keys, sizeof(keys));
    return dt_error_set(err, EX_DATAERR,
                        "expected the key text, prompt and completion, "
                        "messages, conversations or input_ids; got %s "
                        "(data.columns renames keys)",
                        keys[0] ? keys : "none");
}

int dt_jsonl_format(const char *line, size_t length,
                    const struct dt_example_options *options,
                    enum dt_format *format, struct dt_error *err)
{
    int rc = 0;
    json_t *root = parse(line, length, err);
    if (!root)
        return -1;
    if (json_object_get(root, find_messages(root, options)))
        *format = DT_FORMAT_MESSAGES;
    else if (json_object_get(root, key_or(options->prompt_key, "prompt")) &&
             json_object_get(root,
                             key_or(options->completion_key, "completion")) &&
             !json_is_boolean(json_object_get(root, "label")))
        *format = DT_FORMAT_PROMPT_COMPLETION;
    else if (json_object_get(root, key_or(options->text_key, "text")))
        *format = DT_FORMAT_TEXT;
    else if (json_object_get(root, "input_ids"))
        *format = DT_FORMAT_TOKENISED;
    else
        rc = unknown_format(root, err);
    json_decref(root);
    return rc;
}
