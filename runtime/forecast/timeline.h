/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - a step of the parallel engine on a virtual clock
 *
 * Does what parallel.h's calls do for a step, in the same order, with a
 * duration in place of work: an operation starts when what uses the same
 * resources before it has ended and, as collectives follow the stream, when all
 * that was queued to the stream before it is done. Several steps are taken, and
 * the last one counts, as the gathers of a step hide behind the passes of the
 * next one.
 *
 * Ranks are alike, nodes have the same number of them, and groups are of
 * neighbors. What
 * is offloaded moves on the stream, as in parallel/update.c: nothing hides it
 * but a drive's reading ahead and writing behind.
 */
#ifndef DT_FORECAST_TIMELINE_H
#define DT_FORECAST_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "forecast/rates.h"
#include "parallel/parallel_memory.h"
#include "tensor/layout.h"

/* What one operation at a time uses. */
enum dt_resource {
    DT_ON_DEVICE,  /* the stream of passes */
    DT_ON_NODE,    /* the communicator of the ranks that share weights */
    DT_ON_NETWORK, /* what leaves the node */
    DT_ON_PCIE_UP,
    DT_ON_PCIE_DOWN,
    DT_ON_HOST, /* AdamW on the host */
    DT_ON_DRIVE_READ,
    DT_ON_DRIVE_WRITE,
    DT_RESOURCES
};

/* "device", "node", "network" ... */
const char *dt_resource_name(enum dt_resource resource);

/* Of one micro-batch; the backward pass of the last unit has its forward pass
 * too.
 */
struct dt_unit_seconds {
    double forward, backward;
};

/* A collective as it is started; for tests of the order. */
struct dt_timeline_move {
    enum { DT_MOVE_GATHER, DT_MOVE_SCATTER, DT_MOVE_ALL, DT_MOVE_SCALARS } kind;
    size_t count; /* elements of the view */
    bool between; /* of ranks with the same place in their groups */
    double start, end;
};

struct dt_timeline_options {
    const struct dt_layout *layout; /* finished for `world` */
    const struct dt_parallel_options *parallel;
    const struct dt_rates *rates;
    const struct dt_unit_seconds *units; /* (unit_count) */
    size_t micro_batches;
    int world, node_size; /* node_size divides world */
    bool rings; /* NCCL: gathers and sums of fp32 go around a ring; else
                   every rank talks to every other */

    void (*seen)(void *ctx, const struct dt_timeline_move *move); /* or NULL */
    void *ctx;
};

/* A step. */
struct dt_timeline {
    double seconds;
    double busy[DT_RESOURCES]; /* seconds */
    double in_node;            /* bytes a rank sends to ranks of its node */
    double out_of_node;        /* bytes that leave a node */
    double drive_read, drive_written; /* bytes of a node */
};

/* Takes a few steps. -1: EX_OSERR. */
int dt_timeline_make(const struct dt_timeline_options *options,
                     struct dt_timeline *timeline, struct dt_error *err);

#endif /* DT_FORECAST_TIMELINE_H */
