/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.c - writes the lines that a program reads, and checks its answers */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "image/processor.h"
#include "image/store.h"
#include "reward/reward_impl.h"

/* --- requests --- */

/* The object as a line with LF; releases it. NULL: out of memory. */
static char *line_of(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t n = text ? strlen(text) : 0;
    char *line = text ? realloc(text, n + 2) : NULL;
    json_decref(root);
    if (!line) {
        free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}

char *dt_reward_hello(const struct dt_conf_reward *conf, const char *run)
{
    json_t *channels = json_array(), *config = NULL;
    bool good = channels != NULL;
    for (size_t i = 0; i < conf->channels.count; i++)
        if (json_array_append_new(channels,
                                  json_string(conf->channels.text[i])) < 0)
            good = false;
    config = conf->config ? json_loads(conf->config, 0, NULL) : json_object();
    json_t *root = json_pack("{s:i, s:s, s:s, s:o, s:o}", "disttrain_reward",
                             DT_REWARD_ABI, "run", run, "name", conf->name,
                             "channels", channels, "config", config);
    if (!root || !good) {
        json_decref(root);
        return NULL;
    }
    return line_of(root);
}

static json_t *ids_of(const struct dt_reward_sample *sample)
{
    json_t *ids = json_array();
    for (size_t i = 0; ids && i < sample->count; i++) {
        if (json_array_append_new(ids, json_integer(sample->ids[i])) < 0) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

/* A sample as JSON. It refers to the messages and columns of the sample, which
 * other threads read, too: jansson counts references atomically.
 */
static json_t *sample_of(const struct dt_reward_sample *sample)
{
    json_t *prompt = sample->messages ? json_incref((json_t *)sample->messages)
                                      : json_stringn(sample->prompt_text,
                                                     sample->prompt_bytes);
    json_t *columns = sample->columns ? json_incref((json_t *)sample->columns)
                                      : json_object();
    json_t *completion =
        json_stringn(sample->completion_text, sample->completion_bytes);
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:O*}", "index",
                     (json_int_t)sample->prompt, "copy",
                     (json_int_t)sample->copy, "prompt", prompt, "completion",
                     completion, "completion_ids", ids_of(sample), "truncated",
                     sample->truncated, "columns", columns, "images",
                     (json_t *)sample->images);
}

/* The file of this name in base64, as JSON. NULL and err. */
static json_t *file_of(const char *name, const struct dt_example_images *images,
                       struct dt_error *err)
{
    struct dt_image_file file;
    if (dt_image_store_get(&file, images->store, name,
                           &images->processor->limits, err) < 0)
        return NULL;
    char *text = malloc((file.bytes + 2) / 3 * 4 + 1);
    if (text)
        dt_base64_encode(file.data, file.bytes, text);
    json_t *json = text ? json_string(text) : NULL;
    free(file.data);
    free(text);
    if (!json)
        dt_error_set(err, EX_OSERR, "out of memory");
    return json;
}

/* Adds the files of the images of a sample that `files` does not have yet. */
static int add_files(json_t *files, const struct dt_reward_sample *sample,
                     const struct dt_example_images *images,
                     struct dt_error *err)
{
    const json_t *image;
    size_t i;
    json_array_foreach(sample->images, i, image)
    {
        const json_t *name = json_object_get(image, "sha256");
        const char *hex = json_string_value(name);
        if (json_object_get(files, hex))
            continue;
        json_t *file = file_of(hex, images, err);
        if (!file)
            return -1;
        if (json_object_set_new(files, hex, file) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

/* The files of the images of all samples, or nothing. -1 and err. */
static int files_of(const struct dt_reward_part *part,
                    const struct dt_example_images *images, json_t **files,
                    struct dt_error *err)
{
    *files = images ? json_object() : NULL;
    if (images && !*files)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < part->count && images; i++)
        if (add_files(*files, dt_reward_at(part, i), images, err) < 0)
            return -1;
    return 0;
}

char *dt_reward_request(const struct dt_reward_part *part, json_int_t id,
                        const struct dt_example_images *images,
                        struct dt_error *err)
{
    json_t *samples = json_array(), *files, *root = NULL;
    bool good = samples != NULL;
    int rc = files_of(part, images, &files, err);
    for (size_t i = 0; i < part->count && good && rc == 0; i++)
        good = json_array_append_new(samples,
                                     sample_of(dt_reward_at(part, i))) == 0;
    if (good && rc == 0)
        root = json_pack("{s:I, s:I, s:O, s:O*}", "id", id, "step",
                         (json_int_t)part->batch->step, "samples", samples,
                         "images", files);
    json_decref(samples);
    json_decref(files);
    char *line = line_of(root);
    if (!line && rc == 0)
        dt_error_set(err, EX_OSERR, "out of memory");
    return line;
}

/* The text of a prompt: messages as JSON. NULL: out of memory. */
static char *prompt_of(const struct dt_reward_sample *sample)
{
    return sample->messages ? json_dumps(sample->messages, 0)
                            : strdup(sample->prompt_text);
}

/* Appends a sample to the three lists. */
static int add_query(json_t *root, const struct dt_reward_sample *sample,
                     const char *column)
{
    json_t *label =
        sample->columns ? json_object_get(sample->columns, column) : NULL;
    char *prompt = prompt_of(sample), *query = NULL;
    if (!prompt ||
        asprintf(&query, "%s%s", prompt, sample->completion_text) < 0) {
        free(prompt);
        return -1;
    }
    int rc = json_array_append_new(json_object_get(root, "query"),
                                   json_string(query)) |
             json_array_append_new(json_object_get(root, "prompts"),
                                   json_string(prompt)) |
             json_array_append_new(json_object_get(root, "labels"),
                                   label ? json_deep_copy(label) : json_null());
    free(prompt);
    free(query);
    return rc;
}

char *dt_reward_queries(const struct dt_reward_part *part, const char *column)
{
    json_t *root =
        json_pack("{s:[], s:[], s:[]}", "query", "prompts", "labels");
    int rc = root ? 0 : -1;
    for (size_t i = 0; i < part->count && rc == 0; i++)
        rc = add_query(root, dt_reward_at(part, i), column);
    if (rc < 0) {
        json_decref(root);
        return NULL;
    }
    return line_of(root);
}

/* --- replies --- */

enum { SHOWN_BYTES = 160 };

/* The beginning of a line, for a message; nothing in it reaches the terminal
 * that is not a printable character of ASCII.
 */
static const char *shown(const char *line, size_t bytes,
                         char text[SHOWN_BYTES + 4])
{
    size_t n = bytes < SHOWN_BYTES ? bytes : SHOWN_BYTES;
    for (size_t i = 0; i < n; i++)
        text[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    strcpy(text + n, n < bytes ? "..." : "");
    return text;
}

/* Parses a line that must be an object. NULL and err: EX_PROTOCOL. */
static json_t *parse(const char *line, size_t bytes, struct dt_error *err)
{
    char text[SHOWN_BYTES + 4];
    json_error_t why;
    json_t *root =
        json_loadb(line, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (json_is_object(root))
        return root;
    if (root)
        dt_error_set(err, EX_PROTOCOL,
                     "expected an object of JSON in a line, got %s: %s",
                     dt_json_type_name(json_typeof(root)),
                     shown(line, bytes, text));
    else if (memmem(line, bytes, "NaN", 3) ||
             memmem(line, bytes, "Infinity", 8))
        dt_error_set(err, EX_PROTOCOL,
                     "NaN and Infinity are not JSON: write null where there "
                     "is no reward: %s",
                     shown(line, bytes, text));
    else
        dt_error_set(err, EX_PROTOCOL,
                     "expected a line of JSON (other output belongs on "
                     "stderr), got: %s",
                     shown(line, bytes, text));
    json_decref(root);
    return NULL;
}

/* -1 if the answer is an error of the program. */
static int check_error(const json_t *root, struct dt_error *err)
{
    char text[SHOWN_BYTES + 4];
    const json_t *error = json_object_get(root, "error");
    if (!json_is_string(error))
        return 0;
    return dt_error_set(
        err, EX_UNAVAILABLE, "it says: %s",
        shown(json_string_value(error), json_string_length(error), text));
}

int dt_reward_ready(const char *line, size_t bytes, struct dt_error *err)
{
    char text[SHOWN_BYTES + 4];
    json_t *root = parse(line, bytes, err);
    if (!root || check_error(root, err) < 0) {
        json_decref(root);
        return -1;
    }
    bool ready = json_is_true(json_object_get(root, "ready"));
    const json_t *abi = json_object_get(root, "abi");
    bool same =
        json_is_integer(abi) && json_integer_value(abi) == DT_REWARD_ABI;
    json_decref(root);
    if (ready && same)
        return 0;
    return dt_error_set(err, EX_PROTOCOL,
                        "expected {\"ready\":true,\"abi\":%d}, got: %s",
                        DT_REWARD_ABI, shown(line, bytes, text));
}

/* Reads `count` numbers into column `channel` of values(count, channels). -1:
 * EX_PROTOCOL, without the line.
 */
static int read_column(const json_t *array, const char *name, size_t count,
                       double *values, size_t channel, size_t channels,
                       struct dt_error *err)
{
    if (!json_is_array(array))
        return dt_error_set(
            err, EX_PROTOCOL, "expected an array \"%s\", got %s", name,
            array ? dt_json_type_name(json_typeof(array)) : "none");
    if (json_array_size(array) != count)
        return dt_error_set(err, EX_PROTOCOL,
                            "\"%s\" has %zu values for %zu completions", name,
                            json_array_size(array), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_number(v) && !json_is_null(v))
            return dt_error_set(
                err, EX_PROTOCOL,
                "\"%s\"[%zu]: expected a number or null, got %s", name, i,
                dt_json_type_name(json_typeof(v)));
        values[i * channels + channel] =
            json_is_null(v) ? (double)NAN : json_number_value(v);
    }
    return 0;
}

static int read_channels(const json_t *root, const struct dt_reward_form *form,
                         double *values, struct dt_error *err)
{
    const struct dt_conf_list *names = form->channels;
    const json_t *map = json_object_get(root, "channels");
    if (!json_is_object(map))
        return dt_error_set(err, EX_PROTOCOL,
                            "expected an object \"channels\" with the %zu "
                            "names that the file has",
                            names->count);
    for (size_t c = 0; c < names->count; c++)
        if (read_column(json_object_get(map, names->text[c]), names->text[c],
                        form->count, values, c, names->count, err) < 0)
            return -1;
    if (json_object_size(map) != names->count)
        return dt_error_set(err, EX_PROTOCOL,
                            "\"channels\" has %zu names, and the file %zu",
                            json_object_size(map), names->count);
    return 0;
}

static int read_reply(const json_t *root, const struct dt_reward_form *form,
                      double *values, struct dt_error *err)
{
    const json_t *id = json_object_get(root, "id");
    if (!json_is_integer(id) || json_integer_value(id) != form->id)
        return dt_error_set(err, EX_PROTOCOL,
                            "expected \"id\":%" JSON_INTEGER_FORMAT
                            ", that of the request",
                            form->id);
    if (form->channels->count > 0)
        return read_channels(root, form, values, err);
    if (json_object_get(root, "channels"))
        return dt_error_set(err, EX_PROTOCOL,
                            "\"channels\": the file has none: name them in the "
                            "key channels of the function, each with a weight");
    return read_column(json_object_get(root, "rewards"), "rewards", form->count,
                       values, 0, 1, err);
}

int dt_reward_reply(const char *line, size_t bytes,
                    const struct dt_reward_form *form, double *values,
                    struct dt_error *err)
{
    char text[SHOWN_BYTES + 4];
    struct dt_error why;
    json_t *root = parse(line, bytes, err);
    int rc = root ? check_error(root, err) : -1;
    if (rc == 0 && read_reply(root, form, values, &why) < 0)
        rc = dt_error_set(err, why.status, "%s: %s", why.text,
                          shown(line, bytes, text));
    json_decref(root);
    return rc;
}

int dt_reward_openrlhf(const char *text, size_t bytes, size_t count,
                       double *values, struct dt_error *err)
{
    char begin[SHOWN_BYTES + 4];
    struct dt_error why;
    json_t *root = parse(text, bytes, err);
    int rc = root ? 0 : -1;
    if (root && read_column(json_object_get(root, "rewards"), "rewards", count,
                            values, 0, 1, &why) < 0)
        rc = dt_error_set(err, why.status, "%s: %s", why.text,
                          shown(text, bytes, begin));
    json_decref(root);
    return rc;
}
