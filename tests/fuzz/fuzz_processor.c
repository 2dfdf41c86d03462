/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_processor.c - any text as preprocessor_config.json: errors, or plans of
 * images of all sizes within bounds
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "image/processor.h"

static char dir[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_dir(void)
{
    dt_file_remove_tree(dir, NULL);
}

static void write_config(const uint8_t *data, size_t size)
{
    char path[100];
    if (!dir[0]) {
        strcpy(dir, "/dev/shm/disttrain-fuzz-XXXXXX");
        if (!mkdtemp(dir))
            abort();
        atexit(remove_dir);
    }
    snprintf(path, sizeof(path), "%s/preprocessor_config.json", dir);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

/* The part that is kept lies within the resized image, and has patches. */
static void check_plan(const struct dt_image_processor *processor,
                       uint32_t height, uint32_t width)
{
    struct dt_image_plan plan;
    struct dt_error err;
    if (dt_image_plan(&plan, processor, height, width, &err) < 0)
        return;
    if (plan.keep.height == 0 || plan.keep.width == 0 ||
        plan.keep.top + plan.keep.height > plan.height ||
        plan.keep.left + plan.keep.width > plan.width || plan.patches == 0 ||
        plan.tiles != (plan.rows > 0 ? plan.rows * plan.columns + 1 : 1))
        abort();
    if (plan.grid_height % processor->merge != 0 ||
        plan.grid_width % processor->merge != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t sizes[][2] = {
        {1, 1}, {1, 200}, {333, 500}, {16384, 82}, {5000, 10000}, {9000, 9000},
    };
    struct dt_image_processor processor;
    struct dt_error err = {0};
    const struct dt_image_options options = {
        .limits = &dt_image_limits_usual, .patch = 14, .pad = -1, .tokens = 64};
    write_config(data, size);
    if (dt_image_processor_load(&processor, dir, &options, &err) < 0) {
        if (!err.text[0] || strpbrk(err.text, "\n\033"))
            abort();
        return 0;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_plan(&processor, sizes[i][0], sizes[i][1]);
    return 0;
}
