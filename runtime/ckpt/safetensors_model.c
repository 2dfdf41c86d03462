/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_model.c - opens the one file of a model, or all of its shards */
#include "config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/json.h"
#include "ckpt/safetensors_impl.h"

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

enum {
    MAX_INDEX_BYTES = 100 * 1000 * 1000,
};

/* Its name in the directory of the model. */
static const char *file_of(const struct st_part *part, const char *dir)
{
    return part->path + strlen(dir) + 1;
}

/* Opens <dir>/<file> unless it is open already. */
static int add_file(struct dt_safetensors *st, const char *dir,
                    const char *file, struct dt_error *err)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < st->part_count; i++)
        if (strcmp(file_of(&st->parts[i], dir), file) == 0)
            return 0;
    if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    return dt_safetensors_add(st, path, err);
}

/* Whether `file` is in the same directory or below it, by a name that can be
 * printed.
 */
static bool is_below(const char *file)
{
    for (const char *p = file; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    return *file && *file != '/' && !strstr(file, "..");
}

/* Opens every file that `map` names. */
static int add_files(struct dt_safetensors *st, const char *dir,
                     const char *index, json_t *map, struct dt_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (!file)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\": expected the name of a "
                                      "file",
                                      name);
        if (!is_below(file))
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\": \"%s\" is not the name "
                                      "of a file beside or below the index",
                                      name, file);
        if (add_file(st, dir, file, err) < 0)
            return dt_error_prefix(err, "%s", index);
    }
    return 0;
}

/* Checks that the index and the files list the same tensors. */
static int check_map(const struct dt_safetensors *st, const char *dir,
                     const char *index, json_t *map, struct dt_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const struct st_entry *entry = dt_safetensors_find(st, name);
        const char *file = json_string_value(value);
        if (!entry)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\" is not in %s, nor in any "
                                      "other file",
                                      name, file);
        if (strcmp(file_of(entry->part, dir), file) != 0)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\" is in %s, not in %s", name,
                                      file_of(entry->part, dir), file);
    }
    for (size_t i = 0; i < st->count; i++)
        if (!json_object_get(map, st->entries[i].name))
            return dt_safetensors_bad(
                index, err, "tensor \"%s\" of %s is not listed",
                st->entries[i].name, file_of(st->entries[i].part, dir));
    return 0;
}

static struct dt_safetensors *open_map(const char *dir, const char *index,
                                       json_t *map, struct dt_error *err)
{
    if (json_object_size(map) == 0) {
        dt_safetensors_bad(index, err, "no weight_map");
        return NULL;
    }
    struct dt_safetensors *st =
        dt_safetensors_create(json_object_size(map), err);
    if (st && add_files(st, dir, index, map, err) == 0 &&
        dt_safetensors_sort(st, err) == 0 &&
        check_map(st, dir, index, map, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}

static struct dt_safetensors *open_index(const char *dir, const char *index,
                                         struct dt_error *err)
{
    char *text = dt_file_read(index, MAX_INDEX_BYTES, err);
    if (!text)
        return NULL;
    json_t *root = dt_json_parse(index, text, err);
    free(text);
    if (!root)
        return NULL;
    struct dt_safetensors *st =
        open_map(dir, index, json_object_get(root, "weight_map"), err);
    json_decref(root);
    return st;
}

static struct dt_safetensors *open_single(const char *path,
                                          struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_create(1, err);
    if (st && dt_safetensors_add(st, path, err) == 0 &&
        dt_safetensors_sort(st, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}

struct dt_safetensors *dt_safetensors_open_model(const char *dir,
                                                 struct dt_error *err)
{
    char single[PATH_MAX], index[PATH_MAX];
    snprintf(single, sizeof(single), "%s/" SINGLE, dir);
    if (snprintf(index, sizeof(index), "%s/" INDEX, dir) >=
        (int)sizeof(index)) {
        dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
        return NULL;
    }
    int whole = dt_file_exists(single, err);
    int sharded = whole < 0 ? -1 : dt_file_exists(index, err);
    if (sharded < 0)
        return NULL;
    if (whole)
        return open_single(single, err);
    if (sharded)
        return open_index(dir, index, err);
    if (dt_foreign_weights(dir, err) < 0)
        return NULL;
    dt_error_set(err, EX_NOINPUT,
                 "%s: no weights here: expected " SINGLE ", or " INDEX
                 " and its shards",
                 dir);
    return NULL;
}

struct dt_safetensors *dt_safetensors_open_set(const char *dir,
                                               char *const *names, size_t count,
                                               struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_create(count, err);
    int rc = st ? 0 : -1;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_file(st, dir, names[i], err);
    if (rc == 0 && dt_safetensors_sort(st, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}
