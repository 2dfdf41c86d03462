/* SPDX-License-Identifier: Apache-2.0 */
/* tensorboard_text.h - the configuration of a run, for TensorBoard */
#ifndef DT_REPORT_TENSORBOARD_TEXT_H
#define DT_REPORT_TENSORBOARD_TEXT_H

#include <jansson.h>

#include "base/error.h"
#include "report/protobuf.h"

/* Appends the configuration in run.json to an event: a text, and the session
 * of its page "HParams", which compares runs by the keys that their files give.
 * -1: EX_OSERR.
 */
int dt_tensorboard_config(struct dt_protobuf *event, const json_t *run,
                          struct dt_error *err);

#endif /* DT_REPORT_TENSORBOARD_TEXT_H */
