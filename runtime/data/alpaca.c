/* SPDX-License-Identifier: Apache-2.0 */
/* alpaca.c - makes messages of the columns of Alpaca */
#include "config.h"

#include "data/alpaca.h"
#include "data/forms/line.h"

/* The value of a key; NULL if it is null, too, which tables write for none. */
static const json_t *value_of(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    return json_is_null(value) ? NULL : value;
}

bool dt_alpaca_is(const json_t *root)
{
    return value_of(root, "instruction") != NULL;
}

/* [{"role": role, "content": content}] */
static json_t *make_message(const char *role, const json_t *content,
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
    const json_t *history = value_of(root, "history");
    return history &&
           !(json_is_array(history) && json_array_size(history) == 0);
}

json_t *dt_alpaca_prompt(const json_t *root, struct dt_error *err)
{
    const json_t *instruction = value_of(root, "instruction");
    const json_t *input = value_of(root, "input");
    if (has_history(root)) {
        dt_error_set(err, EX_DATAERR,
                     "history: earlier turns are read from messages only: give "
                     "such conversations as messages");
        return NULL;
    }
    if (!input || !json_is_string(instruction) ||
        (json_is_string(input) && !json_string_length(input)))
        return make_message("user", instruction, "instruction", err);
    if (!json_is_string(input))
        return make_message("user", input, "input", err);
    json_t *joined = json_sprintf("%s\n%s", json_string_value(instruction),
                                  json_string_value(input));
    json_t *prompt = make_message("user", joined, "input", err);
    json_decref(joined);
    return prompt;
}

json_t *dt_alpaca_answer(const json_t *content, const char *key,
                         struct dt_error *err)
{
    return make_message("assistant", content, key, err);
}
