/* SPDX-License-Identifier: Apache-2.0 */
/* logits.h - logits of one position, as the host sees them */
#ifndef TESTS_PARITY_LOGITS_H
#define TESTS_PARITY_LOGITS_H

#include "model/model_impl.h"

/* After forward of all units except the last: copies logits(V) of position t of
 * row b to `logits` in host memory. -1: the device failed.
 */
static inline int position_logits(struct dt_model *m, size_t b, size_t t,
                                  float *logits, struct dt_error *err)
{
    const struct dt_device *device = m->exec.device;
    const size_t V = m->config.vocab_size;
    const struct dt_view row = dt_view_slice(m->acts.logits, 0, V);
    dt_model_head(m, row, b * m->T + t, 1);
    if (device->copy(m->stream, logits, dt_view_data(row), V * sizeof(*logits),
                     err) < 0)
        return -1;
    return device->stream_wait(m->stream, err);
}

#endif /* TESTS_PARITY_LOGITS_H */
