/* SPDX-License-Identifier: Apache-2.0 */
/* sight.c - reads the image processor of a model, and compares it with its
 * tower
 */
#include "config.h"

#include "rollout/sight.h"
#include "weights/weights.h"

void dt_sight_ask(struct dt_image_options *options,
                  const struct dt_vision_config *vision)
{
    const size_t grid = vision->grid;
    options->patch = (uint32_t)vision->patch;
    options->merge = (uint32_t)vision->merge;
    options->tokens =
        (uint32_t)(grid > 0 ? dt_vision_features(vision, grid, grid) : 0);
}

int dt_sight_check(const struct dt_image_processor *processor,
                   const struct dt_vision_config *vision, const char *dir,
                   struct dt_error *err)
{
    const size_t grid = vision->grid;
    struct dt_image_plan plan;
    if (dt_image_plan(&plan, processor, 512, 512, err) < 0)
        return -1;
    if (grid == 0 || (plan.grid_height == grid && plan.grid_width == grid))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: its image processor makes pictures of %u x %u "
                        "patches, but the tower of config.json has %zu x %zu",
                        dir, plan.grid_height, plan.grid_width, grid, grid);
}

const char *dt_sight_dir(const char *dir, const char *base)
{
    return dt_weights_has_file(dir, DT_IMAGE_FILE) ||
                   dt_weights_has_file(dir, DT_IMAGE_FILE_WHOLE)
               ? dir
               : base;
}

int dt_sight_load(struct dt_image_processor *processor,
                  const struct dt_vision_config *vision, const char *dir,
                  struct dt_error *err)
{
    struct dt_image_options options = {.limits = &dt_image_limits_usual,
                                       .pad = -1};
    dt_sight_ask(&options, vision);
    return dt_image_processor_load(processor, dir, &options, err) < 0
               ? -1
               : dt_sight_check(processor, vision, dir, err);
}
