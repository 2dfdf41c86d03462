/* SPDX-License-Identifier: Apache-2.0 */
/* rope_table.h - the angles of rotary position embeddings (private to model/)
 */
#ifndef DT_MODEL_ROPE_TABLE_H
#define DT_MODEL_ROPE_TABLE_H

#include "model/model.h"

/* Radians per position of pair j < HS/2 of a head, scaled as the config asks
 * for.
 */
double dt_rope_frequency(const struct dt_model_config *config, size_t j);

/* table(positions, HS): HS/2 cosines and HS/2 sines of each position. */
void dt_rope_table(const struct dt_model_config *config, float *table,
                   size_t positions);

#endif /* DT_MODEL_ROPE_TABLE_H */
