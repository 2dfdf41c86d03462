/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - measures rates on the nodes of a step */
#ifndef DT_FORECAST_MEASURE_H
#define DT_FORECAST_MEASURE_H

#include "comm/comm.h"
#include "forecast/rates.h"
#include "model/model.h"

struct dt_measure {
    const struct dt_exec *exec;
    struct dt_comm *comm;
    int local_rank, local_size;          /* of the node; nodes are alike */
    const struct dt_model_config *model; /* whose shapes are measured */
    size_t B, T;                         /* of a micro-batch */
    enum dt_dtype compute;
    const char *drive; /* a directory; NULL: no drive is measured */
};

/* Measures the rates that this step allows, together on all ranks, and sets
 * them in *rates: passes, AdamW and host memory; with GPUs, copies to and from
 * them; with several ranks, collectives within the node if there is one node,
 * else between nodes. A rate is that of the slowest rank. Takes a few seconds
 * and, at most, the memory of a few blocks and a head. -1: EX_OSERR, the device
 * or a peer failed, or as dt_swap_create.
 */
int dt_measure_rates(const struct dt_measure *measure, struct dt_rates *rates,
                     struct dt_error *err);

#endif /* DT_FORECAST_MEASURE_H */
