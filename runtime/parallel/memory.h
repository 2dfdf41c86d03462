/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what a rank allocates for a strategy */
#ifndef DT_PARALLEL_MEMORY_H
#define DT_PARALLEL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"
#include "tensor/layout.h"

struct dt_parallel_options {
    enum dt_strategy strategy;
    enum dt_dtype compute; /* of the weights that the model reads */
    enum dt_dtype wire;    /* of gradients on their way: DT_F32 or DT_BF16 */
    size_t bucket_bytes;   /* ddp: neighboring units are summed together up to
                              this size */
    size_t prefetch;       /* zero3: slots for blocks, at least 2 */
};

/* What a rank holds, in bytes. */
struct dt_parallel_bytes {
    size_t weights; /* in the compute type, or slots for them */
    size_t master;  /* fp32; 0 if the model computes with it */
    size_t gradients;
    size_t moments;
};

/* What dt_parallel_create allocates for a world of this size; the layout is
 * finished for it.
 */
struct dt_parallel_bytes
dt_parallel_plan(const struct dt_layout *layout, int world,
                 const struct dt_parallel_options *options);

/* --- for parallel/ only --- */

/* What a strategy keeps whole on every rank; of the rest, this rank's parts. */
struct dt_whole {
    bool weights, gradients, optimizer;
};

/* Of a strategy. */
struct dt_whole dt_whole_of(enum dt_strategy strategy);

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

enum { DT_GRADS_BLOCKS = 2 }; /* blocks with a slot for gradients */

/* The elements of each buffer of a rank; 0: none. */
struct dt_sizes {
    size_t weights; /* flat or slots, in the compute type */
    size_t master;  /* flat or parts */
    size_t grads;   /* flat or parts */
    size_t grads_slots;
    size_t moments; /* flat or parts, of m and of v */
};

/* Of a strategy in a world of this size. */
struct dt_sizes dt_sizes_of(const struct dt_layout *layout, int world,
                            const struct dt_parallel_options *options);

#endif /* DT_PARALLEL_MEMORY_H */
