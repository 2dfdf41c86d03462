/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_memory.h - what a rank allocates for a strategy */
#ifndef DT_PARALLEL_PARALLEL_MEMORY_H
#define DT_PARALLEL_PARALLEL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "base/error.h"
#include "parallel/tiles.h"
#include "tensor/layout.h"

/* Where AdamW of state that is not on the device is computed. */
enum dt_offload_compute {
    DT_OFFLOAD_IN_PLACE, /* the device is the host */
    DT_OFFLOAD_STREAM,   /* on the device: state passes through it */
    DT_OFFLOAD_HOST, /* on the CPUs: gradients go there, weights come back */
};

/* What a rank does not keep on the device; not with ddp. */
struct dt_offload {
    enum dt_tier state; /* AdamW's moments, and fp32 weights if the model does
                           not compute with them */
    enum dt_offload_compute compute;
    double ratio;         /* the first int((1 - ratio) n) of n tiles stay on the
                             device */
    size_t tile;          /* elements, at least 128 */
    enum dt_tier weights; /* zero3: this rank's parts in the compute type */
    const char *path, *weights_path; /* directories, if in a file */
    size_t buffers;                  /* tiles of a file in host memory */
    size_t block_bytes;              /* as struct dt_swap_options */
    unsigned queue_depth;
};

/* What happens to weights. */
enum dt_weights_use {
    DT_TRAINED,  /* gradients update them */
    DT_FROZEN,   /* they are only read: neither gradients nor fp32 weights */
    DT_FOLLOWED, /* they are set to other values now and then: this rank's
                    parts are there in fp32 */
};

/* When gradients of several micro-batches are summed over ranks. */
enum dt_when {
    DT_WHEN_AUTO, /* each in zero2 and zero3, which save memory only then */
    DT_WHEN_EACH, /* after each micro-batch: gradients pass through slots */
    DT_WHEN_LAST, /* once a step: gradients stay whole until then */
};

struct dt_parallel_options {
    enum dt_strategy strategy;
    enum dt_weights_use use; /* if not trained, all but strategy, compute,
                                prefetch and groups is left out */
    enum dt_dtype compute;   /* of the weights that the model reads */
    enum dt_dtype wire;      /* of gradients on their way: DT_F32 or DT_BF16 */
    size_t bucket_bytes;     /* ddp: neighboring units are summed together up to
                                this size */
    size_t prefetch;         /* zero3: slots for blocks, at least 2 */
    enum dt_when when;
    /* Sums over ranks are made in groups of this many ranks, then over groups.
     * It divides the world; 0 or the world: in one level.
     */
    int group;
    const int *order; /* (world) the ranks, group by group; NULL: 0 and up */
    bool int8;        /* sums over groups travel in 8 bits, rounded at random */
    uint64_t seed;    /* of that */
    bool hybrid;      /* weights and gradients are divided over a group, not
                         over all: each group has all of them */
    struct dt_offload offload; /* all zero: none */
};

/* What a rank holds, in bytes. */
struct dt_parallel_bytes {
    size_t weights; /* in the compute type, slots, or both */
    size_t master;  /* fp32, of frozen weights in the compute type; 0 if the
                       model computes with it */
    size_t gradients;
    size_t moments;
    size_t tiles; /* on the device, of what is offloaded */
    size_t host;  /* host memory for what is offloaded */
    size_t nvme;  /* files for it */
};

/* What dt_parallel_create allocates for a world of this size; the layout is
 * finished for it.
 */
struct dt_parallel_bytes dt_parallel_plan(
    const struct dt_layout *layout, int world,
    const struct dt_parallel_options *options);

/* --- for parallel/ only --- */

/* How much of a unit a rank has. */
enum dt_extent {
    DT_WHOLE,
    DT_SHARE, /* of its group: the first of S parts for its first rank .. */
    DT_OWN, /* the part that this rank updates: the first of M parts of a share
               for the first group .. */
};

/* The type of what is `master` below. */
enum dt_dtype dt_master_dtype(const struct dt_parallel_options *options);

/* What a rank keeps between passes. */
struct dt_kept {
    enum dt_extent weights; /* DT_OWN: none but the fp32 ones, or in tiles */
    enum dt_extent grads;   /* summed so far */
    enum dt_extent state;   /* fp32 weights and moments */
    bool grads_pass_slots;  /* the model writes gradients to slots */
};

/* Of options in a world of this size. */
struct dt_kept dt_kept_of(const struct dt_parallel_options *options, int world);

/* Slots that units share: one for the first and the last unit (two if they are
 * tied, as both are then in use at once), the others for blocks in turn.
 */
struct dt_slots {
    size_t count;
    size_t *of;      /* (unit_count) the slot of a unit */
    size_t *first;   /* (count) elements before a slot */
    size_t elements; /* of all slots */
};

/* `blocks`: how many blocks have a slot at once. -1: EX_OSERR; dt_slots_fini in
 * any case.
 */
int dt_slots_init(struct dt_slots *slots, const struct dt_layout *layout,
                  size_t blocks, struct dt_error *err);
void dt_slots_fini(struct dt_slots *slots);

enum {
    DT_GRADS_BLOCKS = 2, /* blocks with a slot for gradients */
    DT_UNITS_AHEAD = 3,  /* units whose weights move before the next step: the
                            first one, and blocks, of which two have slots */
};

/* The elements of each buffer of a rank; 0: none. */
struct dt_sizes {
    size_t weights; /* flat or slots, in the compute type */
    size_t shares;  /* of a group's weights, in the compute type */
    size_t master;  /* flat or parts; with offload, those that stay */
    size_t grads;   /* flat, shares or parts */
    size_t grads_slots;
    size_t moments; /* flat or parts, of m and of v; with offload, those that
                       stay */
    size_t tile;    /* of what is offloaded; 0: nothing is */
    size_t staging; /* gradients, and weights, of a tile in host memory */
    size_t scalars; /* of a step there, fp64 */
    struct dt_tiles_options state_tiles;   /* arrays: 0: none */
    struct dt_tiles_options weights_tiles; /* arrays: 0: none */
};

/* Of a strategy in a world of this size. */
struct dt_sizes dt_sizes_of(const struct dt_layout *layout, int world,
                            const struct dt_parallel_options *options);

#endif /* DT_PARALLEL_PARALLEL_MEMORY_H */
