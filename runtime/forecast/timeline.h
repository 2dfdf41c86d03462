/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - a step of the parallel engine on a virtual clock
 *
 * Makes the calls of parallel.h for a step, in the same order, with a duration
 * in place of work. An operation starts when earlier operations on the same
 * resources have ended and, as collectives follow the stream, when everything
 * queued to the stream before it is done. Several steps are made, and the last
 * one counts, as the gathers of a step overlap with the passes of the next one.
 *
 * All ranks are alike, nodes have equally many, and groups consist of
 * neighbors. Offloaded state moves on the stream, as in parallel/update.c: only
 * a drive's read-ahead and write-behind hide it.
 */
#ifndef DT_FORECAST_TIMELINE_H
#define DT_FORECAST_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "forecast/rates.h"
#include "parallel/parallel.h"
#include "tensor/layout.h"

/* Resources, each used by one operation at a time. */
enum dt_resource {
    DT_ON_DEVICE,  /* the stream of passes */
    DT_ON_NODE,    /* the communicator of the ranks that share weights */
    DT_ON_NETWORK, /* traffic that leaves the node */
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
    const struct dt_unit_seconds *units; /* (unit_count); those of empty units
                                            do not count here */
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
