/* SPDX-License-Identifier: Apache-2.0 */
/* stops.h - which tokens end a text, as a model's files say */
#ifndef DT_ROLLOUT_STOPS_H
#define DT_ROLLOUT_STOPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Reads eos_token_id of generation_config.json in `dir`, one id or a list, of
 * ids below vocab_size the first `room`; *count is how many. It is fine if the
 * file does not exist. -1: EX_DATAERR, EX_NOINPUT.
 */
int dt_stops_read(const char *dir, size_t vocab_size, int32_t *ids, size_t room,
                  size_t *count, struct dt_error *err);

#endif /* DT_ROLLOUT_STOPS_H */
