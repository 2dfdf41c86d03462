/* SPDX-License-Identifier: Apache-2.0 */
/* random_weights.h - random weights for a whole model */
#ifndef DT_TESTS_RANDOM_WEIGHTS_H
#define DT_TESTS_RANDOM_WEIGHTS_H

#include "model/model.h"

/* dt_model_init_unit of all units in the flat buffer. */
static inline void random_weights(const struct dt_model_config *config,
                                  const struct dt_layout *layout,
                                  struct dt_view flat, uint64_t seed)
{
    const struct dt_places places = dt_places_flat(flat);
    for (size_t u = 0; u < layout->unit_count; u++)
        dt_model_init_unit(config, layout, u,
                           dt_layout_unit(layout, &places, u), seed);
}

#endif /* DT_TESTS_RANDOM_WEIGHTS_H */
