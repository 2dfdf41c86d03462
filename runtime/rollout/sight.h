/* SPDX-License-Identifier: Apache-2.0 */
/* sight.h - how a model with a tower reads images: the processor beside it */
#ifndef DT_ROLLOUT_SIGHT_H
#define DT_ROLLOUT_SIGHT_H

#include "base/error.h"
#include "image/processor.h"
#include "model/model.h"

/* Says in options what the tower asks of an image processor, ... */
void dt_sight_ask(struct dt_image_options *options,
                  const struct dt_vision_config *vision);

/* ... and checks that it can see what the processor of the model in `dir`
 * makes. -1: EX_DATAERR.
 */
int dt_sight_check(const struct dt_image_processor *processor,
                   const struct dt_vision_config *vision, const char *dir,
                   struct dt_error *err);

/* Reads the processor of a model in `dir`, as its files say. -1: as
 * dt_image_processor_load and dt_sight_check.
 */
int dt_sight_load(struct dt_image_processor *processor,
                  const struct dt_vision_config *vision, const char *dir,
                  struct dt_error *err);

#endif /* DT_ROLLOUT_SIGHT_H */
