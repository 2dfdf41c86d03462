/* SPDX-License-Identifier: Apache-2.0 */
/* processor_scene.h - the processors of processors.json in directories */
#ifndef TESTS_UNIT_IMAGE_PROCESSOR_SCENE_H
#define TESTS_UNIT_IMAGE_PROCESSOR_SCENE_H

#include <jansson.h>

#include "image/processor.h"
#include "tests/unit/image/image_files.h"
#include "tests/unit/scratch.h"

static inline struct dt_image_options scene_options(void)
{
    return (struct dt_image_options){.limits = &dt_image_limits_usual,
                                     .pad = -1};
}

/* Writes the files of a model directory. */
static inline const char *scene_write_dir(const char *name, const json_t *files)
{
    const char *dir = scratch_path(name), *file;
    json_t *value;
    dt_file_remove_tree(dir, NULL);
    if (dt_file_mkdirs(dir, NULL) < 0)
        fail_msg("%s", dir);
    json_object_foreach((json_t *)(uintptr_t)files, file, value)
    {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", dir, file);
        assert_int_equal(json_dump_file(value, path, 0), 0);
    }
    return dir;
}

/* All processors; release with json_decref. */
static inline json_t *scene_processors(void)
{
    json_t *all = json_load_file(image_path("processors.json"), 0, NULL);
    assert_non_null(all);
    return all;
}

static inline struct dt_image_processor scene_load(
    const json_t *all, const char *name, enum dt_image_backend backend)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err;
    const json_t *entry = json_object_get(all, name);
    options.backend = backend;
    options.patch =
        (uint32_t)json_integer_value(json_object_get(entry, "patch"));
    const char *dir = scene_write_dir(name, json_object_get(entry, "files"));
    if (dt_image_processor_load(&processor, dir, &options, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    return processor;
}

#endif /* TESTS_UNIT_IMAGE_PROCESSOR_SCENE_H */
