/* SPDX-License-Identifier: Apache-2.0 */
/* json_keys.c - reads keys of JSON objects; each error starts with the key */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer_impl.h"

json_t *dt_tok_json_parse(const char *path, const char *text,
                          struct dt_error *err)
{
    json_t *root = dt_json_parse(path, text, err);
    if (!root || json_is_object(root))
        return root;
    dt_error_set(err, EX_DATAERR, "%s: expected an object", path);
    json_decref(root);
    return NULL;
}

const json_t *dt_tok_json_get(const json_t *object, const char *key,
                              json_type type, struct dt_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (value && json_typeof(value) == type)
        return value;
    dt_error_set(err, EX_DATAERR, "%s: %s, expected %s", key,
                 value ? "of another type" : "missing",
                 dt_json_type_name(type));
    return NULL;
}

int dt_tok_json_flag(const json_t *object, const char *key, bool fallback,
                     bool *value, struct dt_error *err)
{
    const json_t *got = json_object_get(object, key);
    *value = got && !json_is_null(got) ? json_is_true(got) : fallback;
    if (!got || json_is_null(got) || json_is_boolean(got))
        return 0;
    return dt_error_set(err, EX_DATAERR, "%s: expected true or false", key);
}

const char *dt_tok_json_type(const json_t *object, struct dt_error *err)
{
    const json_t *type = dt_tok_json_get(object, "type", JSON_STRING, err);
    return type ? json_string_value(type) : NULL;
}

int dt_tok_json_unsupported(const char *type, const char *supported,
                            struct dt_error *err)
{
    char shown[DT_TOK_SHOWN_BYTES];
    return dt_error_set(err, EX_DATAERR,
                        "type: \"%s\" is not supported; %s are",
                        dt_tok_shown(type, 40, shown), supported);
}

int dt_tok_json_parts(const json_t *part, const char *key,
                      int (*read)(void *ctx, const json_t *one,
                                  struct dt_error *err),
                      void *ctx, struct dt_error *err)
{
    json_t *item;
    size_t i;
    if (!part || json_is_null(part))
        return 0;
    const char *type = dt_tok_json_type(part, err);
    if (!type)
        return -1;
    if (strcmp(type, "Sequence") != 0)
        return read(ctx, part, err);
    const json_t *list = dt_tok_json_get(part, key, JSON_ARRAY, err);
    if (!list)
        return -1;
    json_array_foreach(list, i, item)
    {
        if (read(ctx, item, err) < 0)
            return dt_error_prefix(err, "%s[%zu]", key, i);
    }
    return 0;
}

const json_t *dt_tok_json_string_pattern(const json_t *object,
                                         struct dt_error *err)
{
    const json_t *text =
        json_object_get(json_object_get(object, "pattern"), "String");
    if (json_is_string(text) && json_string_length(text) > 0)
        return text;
    dt_error_set(err, EX_DATAERR,
                 "pattern: expected {\"String\": TEXT}, not empty");
    return NULL;
}

int dt_tok_json_copy(const json_t *text, size_t most, char **to, size_t *bytes,
                     struct dt_error *err)
{
    *bytes = json_string_length(text);
    if (*bytes > most)
        return dt_error_set(err, EX_DATAERR, "%zu bytes, at most %zu", *bytes,
                            most);
    *to = malloc(*bytes + 1);
    if (!*to)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(*to, json_string_value(text), *bytes + 1);
    return 0;
}

const char *dt_tok_shown(const char *text, size_t bytes,
                         char out[DT_TOK_SHOWN_BYTES])
{
    size_t n = strnlen(text, bytes);
    if (n == bytes)
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    for (size_t i = 0; i < n; i++)
        out[i] =
            (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    out[n] = '\0';
    return out;
}

int dt_tok_file_find(const char *directory, const char *name,
                     char path[PATH_MAX], struct dt_error *err)
{
    if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
        return dt_error_set(err, EX_NOINPUT, "%s: the path is too long",
                            directory);
    return access(path, F_OK) == 0;
}

json_t *dt_tok_file_load(const char *directory, const char *name, int *rc,
                         struct dt_error *err)
{
    char path[PATH_MAX], *text;
    *rc = dt_tok_file_find(directory, name, path, err);
    if (*rc <= 0)
        return NULL;
    text = dt_file_read(path, DT_TOK_FILE_MAX_BYTES, err);
    json_t *root = text ? dt_tok_json_parse(path, text, err) : NULL;
    *rc = root ? 0 : -1;
    free(text);
    return root;
}
