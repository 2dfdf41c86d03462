/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_image.c - any bytes as an image file: errors, or pixels of the size that
 * the header says, which can be resized and cut into patches
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/processor.h"

/* Small, so that an input takes milliseconds. */
#define LIMITS                                                                 \
    {                                                                          \
        .bytes = 1 << 20, .side = 1024, .pixels = 1 << 18, .aspect = 200,      \
        .scans = 20, .warnings = 20                                            \
    }

static const struct dt_image_limits limits = LIMITS;

static const struct dt_image_processor processor = {
    .kind = DT_IMAGE_PIXELS,
    .filter = DT_IMAGE_BICUBIC,
    .limits = LIMITS,
    .min_pixels = 784,
    .max_pixels = 784 * 8,
    .mean = {0.5, 0.5, 0.5},
    .std = {0.5, 0.5, 0.5},
    .factor = 1 / 255.0,
    .patch = 14,
    .merge = 2,
    .temporal = 2,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct dt_error *err)
{
    if (!err->text[0] || strpbrk(err->text, "\n\033"))
        abort();
}

static void cut(const struct dt_image *image)
{
    struct dt_image_plan plan;
    struct dt_error err = {0};
    if (dt_image_plan(&plan, &processor, image->height, image->width, &err) <
        0) {
        check_text(&err);
        return;
    }
    const size_t count = plan.patches * dt_image_row_values(&processor);
    uint8_t *rows = malloc(plan.patches * dt_image_row_bytes(&processor));
    float *values = malloc(count * sizeof(*values));
    if (!rows || !values ||
        dt_image_rows(rows, &plan, &processor, image, &err) < 0)
        abort();
    dt_image_values(values, rows, plan.patches, &processor);
    for (size_t i = 0; i < count; i++)
        if (!(values[i] >= -1 && values[i] <= 1))
            abort();
    free(rows);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_image image;
    struct dt_image_info info;
    struct dt_error err = {0};
    int header = dt_image_info(&info, data, size, &limits, &err);
    if (header < 0)
        check_text(&err);
    if (dt_image_decode(&image, data, size, &limits, &err) < 0) {
        check_text(&err);
        return 0;
    }
    if (header < 0 || image.height != info.height || image.width != info.width)
        abort();
    cut(&image);
    dt_image_fini(&image);
    return 0;
}
