/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_image_info.c - any bytes as the header of an image file: an error, or a
 * size within the limits
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_image_info info;
    struct dt_error err = {0};
    if (dt_image_info(&info, data, size, &dt_image_limits_usual, &err) < 0) {
        if (!err.text[0] || strpbrk(err.text, "\n\033"))
            abort();
        return 0;
    }
    if (info.height == 0 || info.width == 0 || info.height > 16384 ||
        info.width > 16384 || info.orientation < 1 || info.orientation > 8)
        abort();
    return 0;
}
