/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - decodes and resizes an image file, and says how fast
 *
 * usage: image FILE HEIGHT WIDTH FILTER torchvision|pillow COUNT
 * FILTER is 1 (Lanczos), 2 (bilinear) or 3 (bicubic). Prints for each of COUNT
 * times the milliseconds of the CPU to decode and to resize.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "image/image.h"

static void die(const char *what)
{
    fprintf(stderr, "image: %s\n", what);
    exit(1);
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    struct dt_error err;
    struct dt_map map;
    if (argc != 7)
        die("usage: image FILE HEIGHT WIDTH FILTER torchvision|pillow COUNT");
    struct dt_image_resize how = {
        .height = (uint32_t)atoi(argv[2]),
        .width = (uint32_t)atoi(argv[3]),
        .filter = (enum dt_image_filter)atoi(argv[4]),
        .backend = strcmp(argv[5], "pillow") == 0 ? DT_IMAGE_PILLOW
                                                  : DT_IMAGE_TORCHVISION,
    };
    how.keep = (struct dt_image_box){0, 0, how.height, how.width};
    if (dt_map_init(&map, argv[1], &err) < 0)
        die(err.text);
    for (int i = 0; i < atoi(argv[6]); i++) {
        struct dt_image image, small;
        const double start = milliseconds();
        if (dt_image_decode(&image, map.data, map.bytes, &dt_image_limits_usual,
                            &err) < 0)
            die(err.text);
        const double decoded = milliseconds();
        if (dt_image_resize(&small, &image, &how, &err) < 0)
            die(err.text);
        printf("%.3f %.3f\n", decoded - start, milliseconds() - decoded);
        dt_image_fini(&image);
        dt_image_fini(&small);
    }
    dt_map_fini(&map);
    return 0;
}
