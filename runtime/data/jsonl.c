/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl.c - splits JSONL files into lines and reads lines as records */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/forms/forms.h"
#include "data/image_text.h"
#include "data/jsonl.h"
#include "data/row_images.h"
#include "data/turns.h"

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

uint64_t dt_jsonl_count(const char *data, size_t bytes)
{
    const char *p = data, *end = data + bytes;
    uint64_t count = 0;
    for (; p < end; count++) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));
        p = lf ? lf + 1 : end;
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

/* --- formats --- */

static int read_text(const json_t *root, const char *key,
                     struct dt_record *record, struct dt_error *err)
{
    const json_t *value = json_object_get(root, key);
    record->text = json_string_value(value);
    if (!record->text)
        return dt_error_set(err, EX_DATAERR, "%s: expected a string, got %s",
                            key, dt_line_kind(value));
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
        record->completion_bytes = json_string_length(completion);
        return dt_turns_refuse_system(root, err);
    }
    if (!json_is_array(prompt) || !json_is_array(completion))
        return dt_error_set(err, EX_DATAERR,
                            "%s and %s: expected two strings or two arrays of "
                            "messages, got %s and %s",
                            prompt_key, completion_key, dt_line_kind(prompt),
                            dt_line_kind(completion));
    if (dt_turns_add_system(&record->turns, root, prompt, err) < 0 ||
        dt_turns_add(&record->turns, prompt, prompt_key, err) < 0)
        return -1;
    record->prompt_turns = record->turns.count;
    if (strcmp(dt_turns_role(&record->turns, record->prompt_turns - 1),
               "assistant") == 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: the last message is the assistant's, so "
                            "there is nothing left to answer",
                            prompt_key);
    return dt_turns_add(&record->turns, completion, completion_key, err);
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
            json_is_array(ids) ? "an empty one" : dt_line_kind(ids));
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
    const char *key = dt_key_or(options->messages_key, "messages");
    return json_object_get(root, key) || !json_object_get(root, "conversations")
               ? key
               : "conversations";
}

/* Whether a line has an instruction in place of a prompt, and its answer. */
static bool is_alpaca(const json_t *root,
                      const struct dt_example_options *options)
{
    const json_t *prompt =
        json_object_get(root, dt_key_or(options->prompt_key, "prompt"));
    return dt_alpaca_is(root) && (!prompt || json_is_null(prompt)) &&
           (json_object_get(root, "output") ||
            json_object_get(root,
                            dt_key_or(options->completion_key, "completion")));
}

/* Makes messages of instruction, input and output, or the completion. */
static int read_alpaca(json_t *root, const struct dt_example_options *options,
                       struct dt_record *record, struct dt_error *err)
{
    const char *key = dt_key_or(options->completion_key, "completion");
    const char *name = json_object_get(root, key) ? key : "output";
    const json_t *output = json_object_get(root, name);
    json_t *prompt = dt_alpaca_prompt(root, err), *answer = NULL;
    if (prompt)
        answer = dt_alpaca_answer(output, name, err);
    int rc = answer ? 0 : -1;
    if (rc == 0 && (json_object_set(root, "instruction", prompt) < 0 ||
                    json_object_set(root, name, answer) < 0))
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    json_decref(prompt);
    json_decref(answer);
    return rc < 0 ? -1 : read_pair(root, "instruction", name, record, err);
}

/* Reads the fields of a format. */
static int read_fields(json_t *root, const struct dt_example_options *options,
                       size_t vocab_size, struct dt_record *record,
                       struct dt_error *err)
{
    switch (record->format) {
    case DT_FORMAT_TEXT:
        return read_text(root, dt_key_or(options->text_key, "text"), record,
                         err);
    case DT_FORMAT_PROMPT_COMPLETION:
        if (is_alpaca(root, options))
            return read_alpaca(root, options, record, err);
        return read_pair(root, dt_key_or(options->prompt_key, "prompt"),
                         dt_key_or(options->completion_key, "completion"),
                         record, err);
    case DT_FORMAT_TOKENIZED:
        return read_tokens(root, vocab_size, record, err);
    default: {
        const char *key = find_messages(root, options);
        const json_t *messages = json_object_get(root, key);
        if (dt_turns_add_system(&record->turns, root, messages, err) < 0)
            return -1;
        return dt_turns_add(&record->turns, messages, key, err);
    }
    }
}

/* --- images --- */

/* Sets record->images. Texts have marks for images; ids have none. */
static int read_images(const json_t *root,
                       const struct dt_example_images *images,
                       struct dt_record *record, struct dt_error *err)
{
    /* a column of such a name beside a text or ids may be anything */
    if (record->format != DT_FORMAT_TEXT && !record->ids &&
        dt_row_images_refuse(root, images, err) < 0)
        return -1;
    if (!images)
        return 0;
    json_t *listed = dt_row_images_listed(root, err);
    if (!listed)
        return -1;
    if (record->turns.count > 0) {
        record->images = dt_turns_place_images(&record->turns, listed,
                                               images->text->line, err);
        json_decref(listed);
        return record->images ? 0 : -1;
    }
    record->images = listed;
    return record->ids && json_array_size(listed) > 0
               ? dt_error_set(err, EX_DATAERR,
                              "images beside input_ids: give messages or text")
               : 0;
}

int dt_jsonl_read(const char *line, size_t length, enum dt_format format,
                  const struct dt_example_options *options, size_t vocab_size,
                  struct dt_record *record, struct dt_error *err)
{
    *record = (struct dt_record){.format = format};
    record->turns.allow_images = options->images != NULL;
    json_t *root = dt_line_parse(line, length, err);
    record->json = root;
    if (!root)
        return -1;
    bool has_turns = format == DT_FORMAT_MESSAGES ||
                     (format == DT_FORMAT_PROMPT_COMPLETION &&
                      !json_is_string(json_object_get(
                          root, dt_key_or(options->prompt_key, "prompt"))));
    if ((has_turns ? dt_turns_add_options(&record->turns, root, err)
                   : dt_turns_refuse_options(root, err)) < 0)
        return -1;
    return read_fields(root, options, vocab_size, record, err) < 0
               ? -1
               : read_images(root, options->images, record, err);
}

void dt_record_fini(struct dt_record *record)
{
    json_decref(record->json);
    json_decref(record->images);
    dt_turns_fini(&record->turns);
    free(record->ids);
    free(record->targets);
    *record = (struct dt_record){0};
}

/* --- which format? --- */

static int unknown_format(json_t *root, struct dt_error *err)
{
    char keys[200];
    if (json_object_get(root, "chosen") && json_object_get(root, "rejected"))
        return dt_error_set(err, EX_DATAERR,
                            "chosen and rejected are for preference training; "
                            "fine-tuning and --score need text, prompt with "
                            "completion, or messages");
    if (json_is_boolean(json_object_get(root, "label")))
        return dt_error_set(err, EX_DATAERR,
                            "prompt and completion with a label are unpaired "
                            "preferences, which are not supported; leave out "
                            "label to train on all of them");
    dt_line_keys(root, keys, sizeof(keys));
    return dt_error_set(err, EX_DATAERR,
                        "expected the key text, prompt and completion, "
                        "messages, conversations, instruction and output, or "
                        "input_ids; got %s "
                        "(data.columns renames keys)",
                        keys[0] ? keys : "none");
}

int dt_jsonl_format(const char *line, size_t length,
                    const struct dt_example_options *options,
                    enum dt_format *format, struct dt_error *err)
{
    int rc = 0;
    json_t *root = dt_line_parse(line, length, err);
    if (!root)
        return -1;
    if (json_object_get(root, find_messages(root, options)))
        *format = DT_FORMAT_MESSAGES;
    else if (json_object_get(root, dt_key_or(options->prompt_key, "prompt")) &&
             json_object_get(
                 root, dt_key_or(options->completion_key, "completion")) &&
             !json_is_boolean(json_object_get(root, "label")))
        *format = DT_FORMAT_PROMPT_COMPLETION;
    else if (json_object_get(root, dt_key_or(options->text_key, "text")))
        *format = DT_FORMAT_TEXT;
    else if (is_alpaca(root, options))
        *format = DT_FORMAT_PROMPT_COMPLETION;
    else if (json_object_get(root, "input_ids"))
        *format = DT_FORMAT_TOKENIZED;
    else
        rc = unknown_format(root, err);
    json_decref(root);
    return rc;
}
