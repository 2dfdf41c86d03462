/* SPDX-License-Identifier: Apache-2.0 */
/* row_images.c - finds the images of a line, and keeps their files */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/row_images.h"
#include "image/store.h"

#define STORED "sha256:" /* before the name of a file in the store */

/* --- columns --- */

json_t *dt_row_images_listed(const json_t *line, struct dt_error *err)
{
    json_t *list = dt_line_value(line, "images");
    json_t *one = dt_line_value(line, "image");
    if (list && one) {
        dt_error_set(err, EX_DATAERR,
                     "images and image: expected one of the two");
        return NULL;
    }
    list = list ? list : one;
    json_t *values = json_is_array(list) ? json_copy(list)
                     : list              ? json_pack("[O]", list)
                                         : json_array();
    if (!values)
        dt_error_set(err, EX_OSERR, "out of memory");
    return values;
}

/* Whether a key holds something; an empty list does not. */
static bool holds(const json_t *line, const char *key)
{
    const json_t *value = dt_line_value(line, key);
    return value && !(json_is_array(value) && json_array_size(value) == 0);
}

int dt_row_images_refuse(const json_t *line, bool sees, struct dt_error *err)
{
    static const char *const shown[] = {"images", "image"};
    static const char *const others[] = {"videos", "video", "audios", "audio"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        if (!sees && holds(line, shown[i]))
            return dt_error_set(err, EX_DATAERR,
                                "%s: the model sees only text: leave it out, "
                                "or train a model with a vision tower",
                                shown[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (holds(line, others[i]))
            return dt_error_set(err, EX_DATAERR,
                                "%s: only text and images are trained on: "
                                "leave it out",
                                others[i]);
    return 0;
}

/* --- files --- */

/* The value that names or holds the file: of {"bytes", "path"} the bytes. */
static const json_t *find_source(const json_t *value)
{
    const json_t *bytes = dt_line_value(value, "bytes");
    const json_t *path = dt_line_value(value, "path");
    return bytes ? bytes : path ? path : value;
}

/* Reads the file of a value. -1: as dt_image_fetch and dt_image_store_get. */
static int read_file(struct dt_image_file *file, const json_t *value,
                     const struct dt_example_images *options,
                     struct dt_error *err)
{
    const struct dt_image_limits *limits = &options->processor->limits;
    const json_t *source = find_source(value);
    const char *stored = json_string_value(json_object_get(source, "image"));
    if (stored && strncmp(stored, STORED, strlen(STORED)) == 0)
        return dt_image_store_get(file, options->store, stored + strlen(STORED),
                                  limits, err);
    if (json_is_string(source) && source != dt_line_value(value, "bytes"))
        return dt_image_fetch(file, json_string_value(source), options->root,
                              limits, err);
    return dt_error_set(err, EX_DATAERR,
                        "expected a path, a data: URI, or an object with bytes "
                        "or a path, got %s",
                        dt_line_kind(source));
}

static void read_hex(const char *hex, uint8_t hash[DT_SHA256_BYTES])
{
    for (size_t i = 0; i < DT_SHA256_BYTES; i++)
        sscanf(hex + 2 * i, "%2hhx", &hash[i]);
}

/* Puts a file into the store, and plans its image. */
static int keep_file(const struct dt_image_file *file,
                     const struct dt_example_images *options,
                     struct dt_example_image *image, struct dt_image_plan *plan,
                     struct dt_error *err)
{
    char name[DT_SHA256_HEX];
    struct dt_image_info info;
    if (dt_image_info(&info, file->data, file->bytes,
                      &options->processor->limits, err) < 0 ||
        dt_image_plan(plan, options->processor, info.height, info.width, err) <
            0 ||
        dt_image_store_put(options->store, file->data, file->bytes, name, err) <
            0)
        return -1;
    read_hex(name, image->sha256);
    image->height = info.height;
    image->width = info.width;
    image->pictures = plan->tiles;
    return 0;
}

/* --- images of a line --- */

void dt_row_images_fini(struct dt_row_images *row)
{
    free(row->images);
    free(row->plans);
    *row = (struct dt_row_images){0};
}

static int make_room(struct dt_row_images *row, size_t count,
                     struct dt_error *err)
{
    if (count <= row->capacity)
        return 0;
    void *images = reallocarray(row->images, count, sizeof(*row->images));
    row->images = images ? images : row->images;
    void *plans = reallocarray(row->plans, count, sizeof(*row->plans));
    row->plans = plans ? plans : row->plans;
    if (!images || !plans)
        return dt_error_set(err, EX_OSERR, "out of memory");
    row->capacity = count;
    return 0;
}

/* The path that a value names; NULL: none. */
static const char *path_of(const json_t *value)
{
    const json_t *path = dt_line_value(value, "path");
    const char *name = json_string_value(path ? path : value);
    return name && strncasecmp(name, "data:", 5) != 0 ? name : NULL;
}

/* Names the file of a value, if it has a name. */
static int name_file(const json_t *value, struct dt_error *err)
{
    char shown[200];
    const char *name = path_of(value);
    if (!name)
        return -1;
    dt_line_printable(name, shown, sizeof(shown));
    return dt_error_prefix(err, "%s", shown);
}

/* Damaged data of a file are as bad as a file that is not there, and are told
 * from damaged data of the line.
 */
static int bad_image(size_t i, struct dt_error *err)
{
    if (err && err->status == EX_DATAERR)
        err->status = EX_NOINPUT;
    return dt_error_prefix(err, "image %zu", i + 1);
}

int dt_row_images_read(struct dt_row_images *row, const json_t *values,
                       const struct dt_example_images *options,
                       struct dt_error *err)
{
    const size_t count = json_array_size(values);
    row->count = 0;
    if (make_room(row, count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(values, i);
        struct dt_image_file file;
        if (read_file(&file, value, options, err) < 0)
            return bad_image(i, err);
        int rc =
            keep_file(&file, options, &row->images[i], &row->plans[i], err);
        free(file.data);
        if (rc < 0) {
            name_file(value, err);
            return bad_image(i, err);
        }
    }
    row->count = count;
    return 0;
}

/* --- names --- */

json_t *dt_row_images_names(const json_t *values,
                            const struct dt_example_image *images)
{
    json_t *names = json_array();
    char hex[DT_SHA256_HEX];
    for (size_t i = 0; names && i < json_array_size(values); i++) {
        dt_sha256_text(images[i].sha256, hex);
        json_t *name = json_pack("{ss, ss*}", "sha256", hex, "path",
                                 path_of(json_array_get(values, i)));
        if (json_array_append_new(names, name) == 0)
            continue;
        json_decref(names);
        names = NULL;
    }
    return names;
}

/* --- bytes of columns --- */

static int keep_bytes(void *ctx, const void *data, size_t bytes,
                      char name[DT_LINES_NAME], struct dt_error *err)
{
    const struct dt_example_images *options = ctx;
    char hex[DT_SHA256_HEX];
    struct dt_image_info info;
    if (dt_image_info(&info, data, bytes, &options->processor->limits, err) < 0)
        return 1;
    if (dt_image_store_put(options->store, data, bytes, hex, err) < 0)
        return -1;
    snprintf(name, DT_LINES_NAME, STORED "%s", hex);
    return 0;
}

struct dt_lines_keep dt_row_images_keep(const struct dt_example_images *options)
{
    return (struct dt_lines_keep){keep_bytes, (void *)(uintptr_t)options};
}
