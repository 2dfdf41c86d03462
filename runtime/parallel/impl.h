/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - the engine's state (private to parallel/) */
#ifndef DT_PARALLEL_IMPL_H
#define DT_PARALLEL_IMPL_H

#include "parallel/parallel.h"

/* A place of weights. In slots, the unit and the version that it holds. */
struct dt_place {
    size_t unit;
    uint64_t version; /* 0: nothing yet */
    dt_ticket_t ticket;
    bool on_the_way; /* the gather of ticket was not waited for */
};

/* A slot of gradients that are being summed over ranks. */
struct dt_sum {
    size_t unit;
    dt_ticket_t ticket;
    bool open;
    bool first; /* of the step: replaces the gradients of the step before */
};

/* The updates of a step. A piece is what one is of: elements of the parts, or
 * in ddp of the flat buffer.
 */
struct dt_walk {
    struct dt_view step; /* the scalars */
    bool skips;          /* nothing is updated */
    size_t u;            /* unit */
    size_t at, end;      /* the piece that was given out; equal: none */
    bool state_open, weights_open;                  /* a tile */
    struct dt_view state[DT_TILES_ARRAYS], weights; /* of it */
};

struct dt_parallel {
    const struct dt_layout *layout;
    struct dt_comm *comm;
    struct dt_exec exec;
    struct dt_parallel_options options;
    struct dt_whole whole;
    size_t rank, world, last; /* the last unit */

    struct dt_buffer *weights_buf, *master_buf, *grads_buf, *slots_buf;
    struct dt_buffer *m_buf, *v_buf;
    struct dt_view weights; /* flat or slots */
    struct dt_view kinds[DT_OWNED_COUNT];
    struct dt_slots weights_slots, grads_slots; /* if not whole */
    struct dt_view *weights_at, *grads_at;      /* (unit_count), if in slots */
    struct dt_place *places; /* (unit_count) or one for each slot */
    struct dt_sum *sums;     /* one for each slot */
    uint64_t version;        /* of the weights: counts updates, from 1 */

    /* offload: of this rank's parts, one after another */
    size_t tile;               /* elements; 0: nothing is offloaded */
    size_t kept;               /* elements whose state is on the device */
    enum dt_owned first_tiled; /* kinds from this one on are in tiles */
    struct dt_tiles *state_tiles, *weights_tiles; /* or NULL */
    struct dt_buffer *shard_buf;
    struct dt_view shard; /* zero3, weights: count 0: rounded from master */
    struct dt_buffer staged_grads, staged_weights; /* AdamW on the host */
    struct dt_buffer scalars; /* of a step, where the host reads them */
    struct dt_event *decided;
    struct dt_walk walk;

    bool first, final;   /* micro-batch of the step */
    size_t begin, count; /* ddp: the open bucket, ready and not started */
    dt_ticket_t reduced; /* the newest reduction of whole gradients */
    bool reducing;
};

/* Whether this rank holds all of a kind, not only its parts, and whether some
 * of it is in tiles.
 */
bool dt_owned_is_whole(const struct dt_parallel *p, enum dt_owned kind);
bool dt_owned_is_tiled(const struct dt_parallel *p, enum dt_owned kind);

/* Where this rank's part of unit u begins among its parts. */
size_t dt_part_first(const struct dt_parallel *p, size_t u);

/* offload.c: allocates what `sizes` says of it; fini frees it. -1: as
 * dt_parallel_create.
 */
int dt_offload_init(struct dt_parallel *p, const struct dt_sizes *sizes,
                    struct dt_error *err);
void dt_offload_fini(struct dt_parallel *p);

/* offload.c: queues the rounding of a loaded master of unit u to the weights
 * that this rank keeps, if master is in tiles. -1: as dt_parallel_loaded.
 */
int dt_offload_round(struct dt_parallel *p, size_t u, struct dt_error *err);

/* offload.c: queues this rank's part of the weights of unit u to `to`, from
 * where zero3 keeps it.
 */
int dt_offload_weights(struct dt_parallel *p, size_t u, struct dt_view to,
                       struct dt_error *err);

/* Where all of unit u is for the time of its pass, and this rank's part of a
 * unit.
 */
struct dt_view dt_unit_weights(const struct dt_parallel *p, size_t u);
struct dt_view dt_unit_grads(const struct dt_parallel *p, size_t u);
struct dt_view dt_unit_part(const struct dt_parallel *p, struct dt_view unit);

/* Starts to fill the slot of unit u unless it is filled, and that of unit 0 if
 * u computes with it; the same for the unit after u, unless both have the same
 * slot; waits until unit u is there. -1: as dt_parallel_forward.
 */
int dt_weights_need(struct dt_parallel *p, size_t u, struct dt_error *err);
int dt_weights_prefetch(struct dt_parallel *p, size_t u, size_t next,
                        struct dt_error *err);
int dt_weights_take(struct dt_parallel *p, size_t u, struct dt_error *err);

/* This rank's part of unit u will be needed after the next unit's: starts to
 * read it, if it is in a file.
 */
int dt_weights_expect(struct dt_parallel *p, size_t u, struct dt_error *err);

/* The update of unit u is queued: its weights go to the ranks that keep them.
 * -1: as dt_parallel_update_next.
 */
int dt_weights_publish(struct dt_parallel *p, size_t u, struct dt_error *err);

#endif /* DT_PARALLEL_IMPL_H */
