/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.h - the head of a model on its own (private to model/) */
#ifndef DT_MODEL_TRANSFORMER_H
#define DT_MODEL_TRANSFORMER_H

#include "model/instance.h"

/* logits(count, V) F32 of rows [first, first + count), after forward of all
 * units except the last. Not with dropout.
 */
void dt_model_head(struct dt_model *m, struct dt_view logits, size_t first,
                   size_t count);

#endif /* DT_MODEL_TRANSFORMER_H */
