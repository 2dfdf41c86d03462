/* SPDX-License-Identifier: Apache-2.0 */
/* asked.c - reads requests and writes answers: the other side of the protocol
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "reward/serve.h"

/* The ids of a sample, malloc'ed into *ids. */
static int read_ids(const json_t *array, const int32_t **ids, size_t *count,
                    struct dt_error *err)
{
    size_t n = json_array_size(array);
    int32_t *list = malloc(n * sizeof(*list) + 1);
    *ids = list;
    *count = n;
    if (!list)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(array, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value > INT32_MAX)
            return dt_error_set(err, EX_PROTOCOL,
                                "\"completion_ids\"[%zu]: expected a token id",
                                i);
        list[i] = (int32_t)value;
    }
    return 0;
}

/* -1 unless the value is missing or of the type. */
static int check_type(const json_t *sample, const char *key, json_type type,
                      bool required, struct dt_error *err)
{
    const json_t *value = json_object_get(sample, key);
    if ((!value && !required) || (value && json_typeof(value) == type) ||
        (json_is_boolean(value) && type == JSON_TRUE))
        return 0;
    return dt_error_set(err, EX_PROTOCOL, "\"%s\": expected %s, got %s", key,
                        dt_json_type_name(type),
                        value ? dt_json_type_name(json_typeof(value)) : "none");
}

static int read_sample(const json_t *from, struct dt_reward_sample *to,
                       struct dt_error *err)
{
    const json_t *prompt = json_object_get(from, "prompt");
    const json_t *completion = json_object_get(from, "completion");
    const json_t *columns = json_object_get(from, "columns");
    if (!json_is_object(from))
        return dt_error_set(err, EX_PROTOCOL, "expected an object, got %s",
                            dt_json_type_name(json_typeof(from)));
    if (!json_is_array(prompt) &&
        check_type(from, "prompt", JSON_STRING, true, err) < 0)
        return -1;
    if (check_type(from, "completion", JSON_STRING, true, err) < 0 ||
        check_type(from, "completion_ids", JSON_ARRAY, false, err) < 0 ||
        check_type(from, "columns", JSON_OBJECT, false, err) < 0 ||
        check_type(from, "index", JSON_INTEGER, false, err) < 0 ||
        check_type(from, "copy", JSON_INTEGER, false, err) < 0 ||
        check_type(from, "truncated", JSON_TRUE, false, err) < 0)
        return -1;
    *to = (struct dt_reward_sample){
        .prompt = (uint64_t)json_integer_value(json_object_get(from, "index")),
        .copy = (uint32_t)json_integer_value(json_object_get(from, "copy")),
        .prompt_text = json_is_string(prompt) ? json_string_value(prompt) : "",
        .prompt_bytes = json_string_length(prompt),
        .messages = json_is_array(prompt) ? prompt : NULL,
        .completion_text = json_string_value(completion),
        .completion_bytes = json_string_length(completion),
        .columns = columns,
        .truncated = json_is_true(json_object_get(from, "truncated")),
    };
    return read_ids(json_object_get(from, "completion_ids"), &to->ids,
                    &to->count, err);
}

int dt_reward_asked_read(struct dt_reward_asked *asked, const char *line,
                         size_t bytes, struct dt_error *err)
{
    json_error_t why;
    *asked = (struct dt_reward_asked){
        .root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                           &why)};
    const json_t *id = json_object_get(asked->root, "id");
    const json_t *samples = json_object_get(asked->root, "samples");
    size_t n = json_array_size(samples);
    if (!json_is_integer(id) || !json_is_array(samples))
        return dt_error_set(err, EX_PROTOCOL,
                            "expected a line {\"id\":n,\"samples\":[..]}");
    asked->id = json_integer_value(id);
    asked->step =
        (long)json_integer_value(json_object_get(asked->root, "step"));
    asked->samples = calloc(n + 1, sizeof(*asked->samples));
    if (!asked->samples)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (; asked->count < n; asked->count++)
        if (read_sample(json_array_get(samples, asked->count),
                        &asked->samples[asked->count], err) < 0) {
            size_t at = asked->count++; /* its ids are freed, too */
            return dt_error_prefix(err, "sample %zu", at);
        }
    return 0;
}

void dt_reward_asked_fini(struct dt_reward_asked *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        free((int32_t *)asked->samples[i].ids);
    free(asked->samples);
    json_decref(asked->root);
    *asked = (struct dt_reward_asked){0};
}

/* Column c of values(count, K) as an array. */
static json_t *column_of(const double *values, size_t count, size_t c, size_t K)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++) {
        double v = values[i * K + c];
        json_array_append_new(array, isnan(v) ? json_null() : json_real(v));
    }
    return array;
}

/* The object as a line with LF; releases it. */
static char *line_of(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL, *line = NULL;
    json_decref(root);
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

char *dt_reward_answer(json_int_t id, const double *rewards, size_t count,
                       const double *channels, const char *const *names,
                       size_t K)
{
    json_t *root = json_pack("{s:I, s:o}", "id", id, "rewards",
                             column_of(rewards, count, 0, 1));
    json_t *map = names ? json_object() : NULL;
    for (size_t c = 0; map && c < K; c++)
        json_object_set_new(map, names[c], column_of(channels, count, c, K));
    if (map && root)
        json_object_set_new(root, "channels", map);
    return line_of(root);
}

char *dt_reward_answer_error(const char *text)
{
    return line_of(json_pack("{s:s}", "error", text));
}
