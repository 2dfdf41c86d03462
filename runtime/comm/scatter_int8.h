/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_int8.h - a reduce-scatter that sends 8 bits; for comm/ only */
#ifndef DT_COMM_SCATTER_INT8_H
#define DT_COMM_SCATTER_INT8_H

#include "comm/messages.h"

/* reduce_scatter_int8 on all ranks of op->on. -1: EX_UNAVAILABLE or EX_OSERR;
 * then messages may still come and go in the workspace until the transport is
 * closed.
 */
int dt_scatter_int8(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

#endif /* DT_COMM_SCATTER_INT8_H */
