/* SPDX-License-Identifier: Apache-2.0 */
/* rope_table.h - the angles of rotary position embeddings (private to model/)
 */
#ifndef DT_MODEL_ROPE_TABLE_H
#define DT_MODEL_ROPE_TABLE_H

#include "model/model.h"

/* Tables of angles. Some models have a second one: of layers with a window
 * (rope_local_theta), or of long documents (dt_model_two_lengths). 0: the model
 * learns positions.
 */
size_t dt_rope_tables(const struct dt_model_config *config);

/* Radians per position of pair j < R/2 of a head in one of these, R being
 * dt_model_rotary, scaled as the config asks for.
 */
double dt_rope_frequency(const struct dt_model_config *config, size_t table,
                         size_t j);

/* angles(positions, R): R/2 cosines and R/2 sines of each position. */
void dt_rope_table(const struct dt_model_config *config, size_t table,
                   float *angles, size_t positions);

#endif /* DT_MODEL_ROPE_TABLE_H */
