/* SPDX-License-Identifier: Apache-2.0 */
/* image_files.h - the images of files/, which make_images.py wrote */
#ifndef TESTS_UNIT_IMAGE_IMAGE_FILES_H
#define TESTS_UNIT_IMAGE_IMAGE_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "image/image.h"

/* A file of this folder. */
static inline const char *image_path(const char *name)
{
    static char path[600];
    const char *root = getenv("DT_SRCDIR");
    snprintf(path, sizeof(path), "%s/tests/unit/image/%s", root ? root : ".",
             name);
    return path;
}

/* An image in memory of its own, so that sanitizers see its end; free() it. */
static inline uint8_t *image_read(const char *name, size_t *bytes)
{
    char path[100];
    struct dt_map map;
    struct dt_error err;
    snprintf(path, sizeof(path), "files/%s", name);
    if (dt_map_init(&map, image_path(path), &err) < 0)
        fail_msg("%s", err.text);
    uint8_t *data = malloc(map.bytes);
    assert_non_null(data);
    memcpy(data, map.data, map.bytes);
    *bytes = map.bytes;
    dt_map_fini(&map);
    return data;
}

/* Whether this build decodes it. */
static inline bool image_is_built(const char *name)
{
#ifdef HAVE_WEBP
    (void)name;
    return true;
#else
    return !strstr(name, ".webp");
#endif
}

/* The next line of a list: its words, of which the file's name is the first.
 * False: it has ended.
 */
static inline bool image_list_next(FILE *list, char line[512], char *words[],
                                   int count)
{
    if (!fgets(line, 512, list))
        return false;
    char *rest = line;
    for (int i = 0; i < count; i++) {
        words[i] = strtok_r(rest, " \n", &rest);
        assert_non_null(words[i]);
    }
    return true;
}

#endif /* TESTS_UNIT_IMAGE_IMAGE_FILES_H */
