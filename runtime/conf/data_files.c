/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_files.c - the files that an item of data.train or data.eval names: one,
 * those that match a pattern, or those that datasets.save_to_disk lists
 */
#include "config.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "conf/conf_impl.h"

enum { STATE_BYTES = 1 << 24 }; /* of state.json, at most */

/* An item that is read, and where its files go. */
struct item {
    struct dt_conf_reader *reader;
    const struct dt_conf_key *key;
    const struct dt_tree *scalar; /* with the path */
    double weight;
    struct dt_conf_list *list;
};

static int note(const struct item *item, const char *path, const char *text)
{
    dt_conf_note(&item->reader->draft.problems, item->scalar->place,
                 item->key->path, "%s: %s", path, text);
    return -1;
}

/* Appends a regular file to the list. -1: noted. */
static int add_file(const struct item *item, const char *path)
{
    if (dt_conf_check_exists(item->reader, item->key, item->scalar, path,
                             S_IFREG) < 0)
        return -1;
    return dt_conf_list_add(item->reader, item->list, path, item->weight);
}

/* --- patterns --- */

/* A pattern of `path` in which the directory of the configuration stands for
 * itself, whatever characters it has.
 */
static void make_pattern(const struct item *item, const char *path,
                         char out[2 * PATH_MAX])
{
    const char *directory = item->reader->draft.directory;
    size_t literal = strlen(directory), n = 0;
    if (strncmp(path, directory, literal) != 0)
        literal = 0;
    for (size_t i = 0; path[i] && n + 2 < 2 * PATH_MAX; i++) {
        if (i < literal && strchr("*?[\\", path[i]))
            out[n++] = '\\';
        out[n++] = path[i];
    }
    out[n] = '\0';
}

static int add_matches(const struct item *item, const char *path)
{
    char pattern[2 * PATH_MAX];
    glob_t found;
    make_pattern(item, path, pattern);
    int rc = glob(pattern, GLOB_ERR, NULL, &found);
    if (rc == GLOB_NOMATCH)
        return note(item, path, "no file has such a name");
    if (rc == GLOB_ABORTED)
        return note(item, path, "a directory of the pattern cannot be read");
    if (rc != 0) {
        item->reader->draft.problems.out_of_memory = true;
        return -1;
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        rc = add_file(item, found.gl_pathv[i]);
    globfree(&found);
    return rc;
}

/* --- directories --- */

static json_t *read_json(const char *path, struct dt_error *err)
{
    char *text = dt_file_read(path, STATE_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    return root;
}

/* The names in state.json are in the directory itself. */
static int add_listed(const struct item *item, const char *directory,
                      const char *state, const json_t *files)
{
    char path[PATH_MAX];
    if (json_array_size(files) == 0)
        return note(item, state, "_data_files: expected an array of files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *name = json_string_value(
            json_object_get(json_array_get(files, i), "filename"));
        if (!name || !*name || strchr(name, '/') ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >=
                sizeof(path))
            return note(item, state,
                        "_data_files: expected names of files in the same "
                        "directory");
        if (add_file(item, path) < 0)
            return -1;
    }
    return 0;
}

/* A directory as datasets.Dataset.save_to_disk makes it. */
static int add_saved(const struct item *item, const char *directory)
{
    char path[PATH_MAX + 32];
    struct stat st;
    struct dt_error err;
    snprintf(path, sizeof(path), "%s/dataset_dict.json", directory);
    if (stat(path, &st) == 0)
        return note(item, directory,
                    "a dataset of several splits: name the directory of one, "
                    "such as train in it");
    snprintf(path, sizeof(path), "%s/state.json", directory);
    if (stat(path, &st) < 0)
        return note(item, directory,
                    "a directory without the state.json of "
                    "datasets.save_to_disk: name its files, a pattern such as "
                    "*.parquet is fine");
    json_t *state = read_json(path, &err);
    if (!state) {
        dt_conf_note(&item->reader->draft.problems, item->scalar->place,
                     item->key->path, "%s", err.text);
        return -1;
    }
    int rc = add_listed(item, directory, path,
                        json_object_get(state, "_data_files"));
    json_decref(state);
    return rc;
}

int dt_conf_add_files(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key,
                      const struct dt_tree *scalar, double weight,
                      struct dt_conf_list *list)
{
    const struct item item = {reader, key, scalar, weight, list};
    struct stat st;
    char *path = dt_conf_parse_path(reader, key, scalar);
    int rc;
    if (!path)
        return -1;
    if (dt_conf_is_later(path))
        rc = dt_conf_list_add(reader, list, path, weight);
    else if (stat(path, &st) < 0 && strpbrk(path, "*?["))
        rc = add_matches(&item, path);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        rc = add_saved(&item, path);
    else
        rc = add_file(&item, path);
    free(path);
    return rc;
}
