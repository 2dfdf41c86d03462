/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_plan.c - sizes, crops, tiles and tokens of an image, from its size
 *
 * The arithmetic is that of transformers 5.24, in double precision and in its
 * order, since a size that is rounded otherwise is another number of tokens.
 */
#include "config.h"

#include <math.h>

#include "image/processor.h"

enum {
    MOST_SIDE = 4096,  /* of Idefics3, before tiles */
    MOST_ASPECT = 200, /* of Qwen2-VL, whatever the limits are */
};

struct size {
    uint32_t height, width;
};

/* The shorter side gets `side` pixels, the longer one in proportion. */
static struct size fit_shortest(uint32_t side, uint32_t height, uint32_t width)
{
    const uint32_t shorter = height < width ? height : width;
    const uint32_t longer = height < width ? width : height;
    const uint32_t other =
        (uint32_t)((double)((uint64_t)side * longer) / shorter);
    return height <= width ? (struct size){side, other}
                           : (struct size){other, side};
}

/* Multiples of `factor` near the size, halves to even ones, with the number of
 * pixels within bounds (smart_resize).
 */
static struct size fit_pixels(const struct dt_image_processor *processor,
                              uint32_t height, uint32_t width)
{
    const double factor = (double)processor->patch * processor->merge;
    const double most = (double)processor->max_pixels;
    const double least = (double)processor->min_pixels;
    const double pixels = (double)((uint64_t)height * width);
    double h = rint(height / factor) * factor,
           w = rint(width / factor) * factor;
    if (h * w > most) {
        const double beta = sqrt(pixels / most);
        h = fmax(factor, floor(height / beta / factor) * factor);
        w = fmax(factor, floor(width / beta / factor) * factor);
    } else if (h * w < least) {
        const double beta = sqrt(least / pixels);
        h = ceil(height * beta / factor) * factor;
        w = ceil(width * beta / factor) * factor;
    }
    return (struct size){(uint32_t)h, (uint32_t)w};
}

/* The longer side gets `side` pixels, the other one an even number in
 * proportion; none has more than MOST_SIDE.
 */
static struct size fit_longest(uint32_t side, uint32_t height, uint32_t width)
{
    const double aspect = (double)width / height;
    const bool wide = width >= height;
    double other = wide ? floor(side / aspect) : floor(side * aspect);
    other = fmax(1, other + fmod(other, 2));
    struct size size = wide ? (struct size){(uint32_t)other, side}
                            : (struct size){side, (uint32_t)other};
    const double aspect_now = (double)size.width / size.height;
    if (size.width >= size.height && size.width > MOST_SIDE)
        size = (struct size){(uint32_t)(MOST_SIDE / aspect_now), MOST_SIDE};
    else if (size.height > size.width && size.height > MOST_SIDE)
        size = (struct size){MOST_SIDE, (uint32_t)(MOST_SIDE * aspect_now)};
    size.height = size.height > 0 ? size.height : 1;
    size.width = size.width > 0 ? size.width : 1;
    return size;
}

/* Whole tiles of side `tile`: the longer side first, the other one from it. */
static struct size fit_tiles(uint32_t tile, struct size size)
{
    const double aspect = (double)size.width / size.height;
    if (size.width >= size.height) {
        const double width = ceil((double)size.width / tile) * tile;
        const double height = ceil(floor(width / aspect) / tile) * tile;
        return (struct size){(uint32_t)height, (uint32_t)width};
    }
    const double height = ceil((double)size.height / tile) * tile;
    const double width = ceil(floor(height * aspect) / tile) * tile;
    return (struct size){(uint32_t)height, (uint32_t)width};
}

static void plan_tiles(struct dt_image_plan *plan,
                       const struct dt_image_processor *processor,
                       uint32_t height, uint32_t width)
{
    const uint32_t tile = processor->tile;
    struct size first = fit_longest(processor->longest, height, width);
    struct size whole = {tile, tile};
    if (processor->split)
        whole = fit_tiles(tile, first);
    plan->first_height = first.height;
    plan->first_width = first.width;
    plan->height = whole.height;
    plan->width = whole.width;
    if (whole.height > tile || whole.width > tile) {
        plan->rows = whole.height / tile;
        plan->columns = whole.width / tile;
        plan->tiles = plan->rows * plan->columns + 1;
    }
}

/* The center, with a pixel less before it than after it if need be. */
static struct dt_image_box center(struct size size, uint32_t height,
                                  uint32_t width)
{
    return (struct dt_image_box){(size.height - height) / 2,
                                 (size.width - width) / 2, height, width};
}

/* A square has more pixels than the image in it. */
static int plan_square(struct dt_image_plan *plan,
                       const struct dt_image_processor *processor,
                       uint32_t height, uint32_t width, struct dt_error *err)
{
    const uint32_t longer = height > width ? height : width;
    const uint64_t most = processor->limits.pixels;
    if (!processor->pad || height == width)
        return 0;
    if ((uint64_t)longer * longer > most)
        return dt_error_set(err, EX_DATAERR,
                            "an image of %lu x %lu pixels: a square around it "
                            "has more than %llu pixels",
                            (unsigned long)width, (unsigned long)height,
                            (unsigned long long)most);
    plan->square = longer;
    return 0;
}

static int check_aspect(uint32_t height, uint32_t width, struct dt_error *err)
{
    struct dt_image_limits limits = {UINT32_MAX,  UINT32_MAX, UINT64_MAX,
                                     MOST_ASPECT, 0,          0};
    return dt_image_check_size(height, width, &limits, err);
}

static void count(struct dt_image_plan *plan,
                  const struct dt_image_processor *processor)
{
    const bool tiled = processor->kind == DT_IMAGE_TILES;
    const uint32_t height = tiled ? processor->tile : plan->keep.height;
    const uint32_t width = tiled ? processor->tile : plan->keep.width;
    plan->grid_height = height / processor->patch;
    plan->grid_width = width / processor->patch;
    plan->patches = plan->tiles * plan->grid_height * plan->grid_width;
    plan->tokens = processor->tokens > 0
                       ? plan->tiles * processor->tokens
                       : plan->patches / (processor->merge * processor->merge);
}

/* An image of which a side is the longer one of another has no fewer tiles. */
static uint32_t most_tiles(const struct dt_image_processor *processor)
{
    struct dt_image_plan plan = {.tiles = 1};
    if (processor->kind == DT_IMAGE_TILES)
        plan_tiles(&plan, processor, MOST_SIDE, MOST_SIDE);
    return plan.tiles;
}

/* Features of so many pixels. A long image has one of them across, and then
 * more pixels than that.
 */
static double features_of(const struct dt_image_processor *processor,
                          uint64_t pixels)
{
    const double factor = (double)processor->patch * processor->merge;
    return (double)pixels / (factor * factor);
}

struct dt_image_bounds dt_image_bounds(
    const struct dt_image_processor *processor)
{
    const uint32_t merged = processor->merge * processor->merge;
    struct dt_image_plan plan = {
        .tiles = 1,
        .keep = {.height = processor->height, .width = processor->width}};
    struct dt_image_bounds bounds;
    if (processor->crop_height > 0) {
        plan.keep.height = processor->crop_height;
        plan.keep.width = processor->crop_width;
    }
    count(&plan, processor);
    bounds.least_tokens = plan.tokens;
    plan.tiles = most_tiles(processor);
    count(&plan, processor);
    bounds.tokens = plan.tokens;
    bounds.patches = plan.patches;
    bounds.tiles = plan.tiles;
    if (processor->kind != DT_IMAGE_PIXELS)
        return bounds;
    const double least = features_of(processor, processor->min_pixels);
    const double most = features_of(processor, processor->max_pixels);
    bounds.least_tokens = (uint32_t)fmax(1, floor(least));
    bounds.tokens = (uint32_t)fmax(1, fmax(most, sqrt(MOST_ASPECT * most)));
    bounds.patches = bounds.tokens * merged;
    return bounds;
}

int dt_image_plan(struct dt_image_plan *plan,
                  const struct dt_image_processor *processor, uint32_t height,
                  uint32_t width, struct dt_error *err)
{
    struct size size;
    *plan = (struct dt_image_plan){.tiles = 1};
    if (dt_image_check_size(height, width, &processor->limits, err) < 0 ||
        plan_square(plan, processor, height, width, err) < 0)
        return -1;
    if (plan->square > 0)
        height = width = plan->square;
    switch (processor->kind) {
    case DT_IMAGE_FIXED:
        size = (struct size){processor->height, processor->width};
        break;
    case DT_IMAGE_SHORTEST:
        size = fit_shortest(processor->height, height, width);
        break;
    case DT_IMAGE_PIXELS:
        if (check_aspect(height, width, err) < 0)
            return -1;
        size = fit_pixels(processor, height, width);
        break;
    default:
        plan_tiles(plan, processor, height, width);
        size = (struct size){plan->height, plan->width};
        break;
    }
    plan->height = size.height;
    plan->width = size.width;
    plan->keep =
        processor->crop_height > 0
            ? center(size, processor->crop_height, processor->crop_width)
            : center(size, size.height, size.width);
    count(plan, processor);
    return 0;
}
