/* SPDX-License-Identifier: Apache-2.0 */
/* trace_gather.h - brings the parts of ranks to rank 0 */
#ifndef DT_TRACE_TRACE_GATHER_H
#define DT_TRACE_TRACE_GATHER_H

#include "comm/comm.h"
#include "device/device.h"
#include "trace/trace_join.h"

/* What this rank gives, and on rank 0 what it gets. */
struct dt_trace_gather {
    struct dt_comm *comm;
    const struct dt_device *device; /* where comm has its views */
    struct dt_stream *stream;
    const char *ranks; /* as in struct dt_trace_options */
    const void *data;  /* of this rank, packed; NULL: it has none */
    size_t bytes;
    double seconds; /* it computed for so long */
};

/* All ranks call it. On rank 0 *set gets the parts, and whether ranks were left
 * out; a part that is damaged or has no memory is left out with a warning. 1,
 * or 0 if there is no trace, because rank 0 has no part: a warning. -1: a peer
 * failed. dt_trace_set_fini in any case.
 */
int dt_trace_gather(const struct dt_trace_gather *gather,
                    struct dt_trace_set *set, struct dt_error *err);

#endif /* DT_TRACE_TRACE_GATHER_H */
