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

struct dt_parallel {
    const struct dt_layout *layout;
    struct dt_comm *comm;
    struct dt_exec exec;
    struct dt_parallel_options options;
    struct dt_whole whole;
    size_t rank, world, last; /* the last unit */

    struct dt_buffer *weights_buf, *master_buf, *grads_buf, *slots_buf;
    struct dt_buffer *m_buf, *v_buf, *unit_buf;
    struct dt_view weights; /* flat or slots */
    struct dt_view kinds[DT_OWNED_COUNT];
    struct dt_slots weights_slots, grads_slots; /* if not whole */
    struct dt_view *weights_at, *grads_at;      /* (unit_count), if in slots */
    struct dt_place *places; /* (unit_count) or one for each slot */
    struct dt_sum *sums;     /* one for each slot */
    uint64_t version;        /* of the weights: counts updates, from 1 */

    bool first, final;   /* micro-batch of the step */
    size_t begin, count; /* ddp: the open bucket, ready and not started */
    dt_ticket_t reduced; /* the newest reduction of whole gradients */
    bool reducing;
};

/* Whether this rank holds all of a kind, not only its parts. */
bool dt_owned_is_whole(const struct dt_parallel *p, enum dt_owned kind);

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

#endif /* DT_PARALLEL_IMPL_H */
