/* SPDX-License-Identifier: Apache-2.0 */
/* sight.h - the image processor of a model with a tower */
#ifndef DT_ROLLOUT_SIGHT_H
#define DT_ROLLOUT_SIGHT_H

#include "base/error.h"
#include "image/processor.h"
#include "model/model.h"

/* Sets the options of an image processor that follow from the tower, ... */
void dt_sight_ask(struct dt_image_options *options,
                  const struct dt_vision_config *vision);

/* ... and checks that the tower reads pictures of this processor, which is that
 * of the model in `dir`. -1: EX_DATAERR.
 */
int dt_sight_check(const struct dt_image_processor *processor,
                   const struct dt_vision_config *vision, const char *dir,
                   struct dt_error *err);

/* The directory whose files say how a model in `dir` sees images: of an adapter
 * its own, where it was saved with them, or that of its model, `base`.
 */
const char *dt_sight_dir(const char *dir, const char *base);

/* Reads the processor of a model from the files in `dir`. -1: as
 * dt_image_processor_load and dt_sight_check.
 */
int dt_sight_load(struct dt_image_processor *processor,
                  const struct dt_vision_config *vision, const char *dir,
                  struct dt_error *err);

#endif /* DT_ROLLOUT_SIGHT_H */
