/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processor_files.c - reads the files of a processor, and writes into them what
 * a user has changed of it, in the keys that transformers reads
 */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "image/processor.h"

enum { FILE_BYTES = 1 << 20 };

/* The class that pads an image to a square first; it resizes and crops as those
 * of CLIP and SigLIP do, but has other defaults than SigLIP's.
 */
static json_t *padding_keys(const struct dt_image_processor *p)
{
    const bool crops = p->crop_height > 0;
    json_t *size = p->kind == DT_IMAGE_SHORTEST
                       ? json_pack("{s:i}", "shortest_edge", (int)p->height)
                       : json_pack("{s:i, s:i}", "height", (int)p->height,
                                   "width", (int)p->width);
    json_t *crop = crops
                       ? json_pack("{s:i, s:i}", "height", (int)p->crop_height,
                                   "width", (int)p->crop_width)
                       : json_null();
    return json_pack("{s:s, s:b, s:o, s:b, s:o, s:i, s:[f, f, f], s:[f, f, f]}",
                     "image_processor_type", "LlavaImageProcessor", "do_pad",
                     (int)p->pad, "size", size, "do_center_crop", (int)crops,
                     "crop_size", crop, "resample", (int)p->filter,
                     "image_mean", p->mean[0], p->mean[1], p->mean[2],
                     "image_std", p->std[0], p->std[1], p->std[2]);
}

/* Bounds of pixels, in the names of all versions of transformers. */
static json_t *bounds_keys(const struct dt_image_processor *p)
{
    const json_int_t least = (json_int_t)p->min_pixels;
    const json_int_t most = (json_int_t)p->max_pixels;
    return json_pack("{s:{s:I, s:I}, s:I, s:I}", "size", "shortest_edge", least,
                     "longest_edge", most, "min_pixels", least, "max_pixels",
                     most);
}

/* Reads a file of the directory, if it is there. */
static int read_text(char **text, const char *dir, const char *name,
                     struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: the name is too long", dir);
    const int there = dt_file_exists(path, err);
    if (there <= 0)
        return there;
    *text = dt_file_read(path, FILE_BYTES, err);
    return *text ? 0 : -1;
}

int dt_image_files_read(struct dt_image_files *files, const char *dir,
                        struct dt_error *err)
{
    *files = (struct dt_image_files){0};
    if (read_text(&files->whole, dir, DT_IMAGE_FILE_WHOLE, err) == 0 &&
        read_text(&files->image, dir, DT_IMAGE_FILE, err) == 0)
        return 0;
    dt_image_files_fini(files);
    return -1;
}

int dt_image_processor_load(struct dt_image_processor *processor,
                            const char *dir,
                            const struct dt_image_options *options,
                            struct dt_error *err)
{
    struct dt_image_files files;
    if (dt_image_files_read(&files, dir, err) < 0)
        return -1;
    const int rc =
        dt_image_processor_parse(processor, dir, &files, options, err);
    dt_image_files_fini(&files);
    return rc;
}

/* Sets keys of images in a text, if it has any. */
static int change(char **text, const char *name, json_t *keys,
                  struct dt_error *err)
{
    json_t *root = *text ? dt_json_parse(name, *text, err) : NULL;
    json_t *within = json_object_get(root, "image_processor");
    json_t *image = json_is_object(within) ? within : root;
    if (!root)
        return *text ? -1 : 0;
    if (json_object_get(image, "image_processor_type") ||
        json_object_get(image, "feature_extractor_type"))
        json_object_update(image, keys);
    char *changed = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!changed)
        return dt_error_set(err, EX_OSERR, "out of memory");
    free(*text);
    *text = changed;
    return 0;
}

int dt_image_files_change(struct dt_image_files *files, const char *dir,
                          const struct dt_image_processor *processor,
                          struct dt_error *err)
{
    const struct dt_image_options none = {.backend = processor->backend,
                                          .limits = &processor->limits,
                                          .patch = processor->patch,
                                          .merge = processor->merge,
                                          .tokens = processor->tokens,
                                          .pad = -1};
    struct dt_image_processor own;
    if (dt_image_processor_parse(&own, dir, files, &none, err) < 0)
        return -1;
    const bool pads = own.pad != processor->pad && !processor->unsaid;
    const bool bounds = own.min_pixels != processor->min_pixels ||
                        own.max_pixels != processor->max_pixels;
    if (!pads && !bounds)
        return 0;
    json_t *keys = pads ? padding_keys(processor) : bounds_keys(processor);
    if (!keys)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = change(&files->image, DT_IMAGE_FILE, keys, err);
    if (rc == 0)
        rc = change(&files->whole, DT_IMAGE_FILE_WHOLE, keys, err);
    json_decref(keys);
    return rc;
}

void dt_image_files_fini(struct dt_image_files *files)
{
    free(files->image);
    free(files->whole);
    *files = (struct dt_image_files){0};
}
