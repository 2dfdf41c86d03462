/* SPDX-License-Identifier: Apache-2.0 */
/* frozen.h - weights that are only read */
#ifndef DT_RUN_FROZEN_H
#define DT_RUN_FROZEN_H

#include "model/model.h"
#include "parallel/parallel.h"
#include "weights/weights.h"

/* Where the weights of a layout come from. */
struct dt_frozen {
    const struct dt_model_config *config;
    const struct dt_layout *layout;
    const struct dt_weights *weights; /* NULL: they are random */
    bool new_head;                    /* weights lack score.weight, which ends
                                         the last unit and is random */
    uint64_t seed;
};

/* Reads this rank's parts of all units of `from`, through host memory, and
 * brings them to where passes read them; all `world` ranks call it. -1: as
 * dt_weights_read, or the device or a peer failed.
 */
int dt_frozen_load(struct dt_parallel *parallel, const struct dt_frozen *from,
                   int world, struct dt_error *err);

#endif /* DT_RUN_FROZEN_H */
