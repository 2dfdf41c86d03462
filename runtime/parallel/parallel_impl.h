/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_impl.h - the engine's state (private to parallel/) */
#ifndef DT_PARALLEL_PARALLEL_IMPL_H
#define DT_PARALLEL_PARALLEL_IMPL_H

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
    uint64_t step;
    size_t micro_batch; /* of the step: the first one replaces the gradients of
                           the step before */
    bool open;
    bool final; /* the last micro-batch: then summed over groups */
};

/* The ranks among which sums are made first, and those over which then. */
struct dt_levels {
    struct dt_comm *group;  /* NULL: groups of one rank */
    struct dt_comm *across; /* the same place in all groups; NULL: one group */
    size_t size, groups;    /* ranks of a group; groups */
    size_t place, turn;     /* of this rank in its group; of its group */
};

/* The updates of a step. Each is of a piece: elements of the parts, or in ddp
 * of the flat buffer.
 */
struct dt_walk {
    struct dt_view step; /* the scalars */
    bool skips;          /* nothing is updated */
    size_t u;            /* unit */
    size_t at, end;      /* the piece that was given out; equal: none */
    struct dt_undo undo; /* of the piece */
    bool state_open, weights_open;                  /* a tile */
    struct dt_view state[DT_TILES_ARRAYS], weights; /* of it */
};

struct dt_parallel {
    const struct dt_layout *layout;
    struct dt_comm *comm;
    struct dt_exec exec;
    struct dt_parallel_options options;
    struct dt_kept kept;
    struct dt_levels levels;
    size_t world, last; /* the last unit */
    size_t first_unit;  /* the first one that is not empty */

    struct dt_buffer *weights_buf, *shares_buf, *master_buf, *grads_buf;
    struct dt_buffer *slots_buf, *m_buf, *v_buf;
    struct dt_buffer *stamps_buf, *undo_buf; /* with options.segment */
    struct dt_view weights;                  /* flat or slots */
    struct dt_view shares; /* weights of this rank's shares, or nothing */
    struct dt_view kinds[DT_OWNED_COUNT];
    struct dt_slots weights_slots, grads_slots; /* if not whole */
    struct dt_view *weights_at, *grads_at;      /* (unit_count), if in slots */
    struct dt_place *places;       /* (unit_count) or one for each slot */
    struct dt_place *share_places; /* (unit_count) if there are shares */
    struct dt_sum *sums;           /* one for each slot */
    uint64_t version;              /* of the weights: counts updates, from 1 */

    /* offload: of this rank's parts, one after another */
    size_t tile;               /* elements; 0: nothing is offloaded */
    size_t resident;           /* elements whose state is on the device */
    enum dt_owned first_tiled; /* kinds from this one on are in tiles */
    struct dt_tiles *state_tiles, *weights_tiles;  /* or NULL */
    struct dt_buffer staged_grads, staged_weights; /* AdamW on the host */
    struct dt_buffer scalars; /* of a step, where the host reads them */
    struct dt_event *decided;
    struct dt_walk walk;

    uint64_t step;
    size_t micro_batch;  /* of the step */
    bool final;          /* it is the last one */
    size_t begin, count; /* ddp: the open bucket, ready and not started */
    dt_ticket_t reduced; /* the newest reduction of whole gradients */
    bool reducing;
};

/* How much this rank holds of a kind; where it holds unit u of it; and whether
 * some of it is in tiles.
 */
enum dt_extent dt_owned_extent(const struct dt_parallel *p, enum dt_owned kind);
struct dt_view dt_owned_unit(const struct dt_parallel *p, enum dt_owned kind,
                             size_t u);
bool dt_owned_is_tiled(const struct dt_parallel *p, enum dt_owned kind);

/* Where this rank's part of unit u begins among its parts. */
size_t dt_part_first(const struct dt_parallel *p, size_t u);

/* parallel_offload.c: allocates the tiles and staging memory of `sizes`; fini
 * frees them. -1: as dt_parallel_create.
 */
int dt_offload_init(struct dt_parallel *p, const struct dt_sizes *sizes,
                    struct dt_error *err);
void dt_offload_fini(struct dt_parallel *p);

/* parallel_offload.c: dt_parallel_put, or dt_parallel_get, of a part; of what
 * is on the device, in `stream`.
 */
int dt_part_move(struct dt_parallel *p, struct dt_stream *stream,
                 struct dt_view part, char *host, bool put,
                 struct dt_error *err);

/* parallel_offload.c: queues the rounding of a loaded master of unit u to the
 * weights that this rank keeps, if master is in tiles. -1: as
 * dt_parallel_loaded.
 */
int dt_offload_round(struct dt_parallel *p, size_t u, struct dt_error *err);

/* Whether an update rounds the master to weights that this rank keeps on the
 * device, and where those of unit u are: its part, or in ddp all.
 */
bool dt_rounds_weights(const struct dt_parallel *p);
struct dt_view dt_rounded_weights(const struct dt_parallel *p, size_t u);

/* This rank's share of the weights of unit u; needs p->shares. */
struct dt_view dt_unit_share(const struct dt_parallel *p, size_t u);

/* Where all of unit u is for the time of its pass. */
struct dt_view dt_unit_weights(const struct dt_parallel *p, size_t u);
struct dt_view dt_unit_grads(const struct dt_parallel *p, size_t u);

/* --- levels.c: of a unit, or of several as one --- */

/* Makes the groups that the options want. -1: as dt_comm_group. */
int dt_levels_init(struct dt_levels *levels, struct dt_comm *comm,
                   const struct dt_parallel_options *options,
                   struct dt_error *err);

/* The smaller extent `to` within a view of extent `from`. */
struct dt_view dt_levels_cut(const struct dt_parallel *p, struct dt_view view,
                             enum dt_extent from, enum dt_extent to);

/* Start sums of a whole view, which begins at element `first` of the flat
 * buffer: this rank's share is then that of its group, or its own part that of
 * the world.
 */
int dt_levels_sum_share(struct dt_parallel *p, struct dt_view whole,
                        dt_ticket_t *ticket, struct dt_error *err);
int dt_levels_sum_own(struct dt_parallel *p, struct dt_view whole, size_t first,
                      dt_ticket_t *ticket, struct dt_error *err);

/* Starts the sum over groups of this rank's share of the elements from `first`
 * on, in its own part of the share. Needs several groups.
 */
int dt_levels_sum_across(struct dt_parallel *p, struct dt_view share,
                         size_t first, dt_ticket_t *ticket,
                         struct dt_error *err);

/* Start gathers: of a share from own parts, if there are several groups; of a
 * whole view from shares; and of one from own parts.
 */
int dt_levels_gather_share(struct dt_parallel *p, struct dt_view share,
                           dt_ticket_t *ticket, struct dt_error *err);
int dt_levels_gather_group(struct dt_parallel *p, struct dt_view whole,
                           dt_ticket_t *ticket, struct dt_error *err);
int dt_levels_gather(struct dt_parallel *p, struct dt_view whole,
                     dt_ticket_t *ticket, struct dt_error *err);

/* Starts to make the sum over all ranks of a whole view from `first` on. */
int dt_levels_sum(struct dt_parallel *p, struct dt_view whole, size_t first,
                  dt_ticket_t *ticket, struct dt_error *err);

/* --- parallel_gather.c --- */

/* Starts to fill the slot of unit u unless it is filled; the same for the unit
 * after u, unless both have the same slot or there is none; waits until unit u
 * is there. Nothing of an empty unit. A tied head finds the other unit where
 * the forward pass left it, as no other one has its slot. -1: as
 * dt_parallel_forward.
 */
int dt_weights_need(struct dt_parallel *p, size_t u, struct dt_error *err);
int dt_weights_prefetch(struct dt_parallel *p, size_t u, size_t next,
                        struct dt_error *err);
int dt_weights_take(struct dt_parallel *p, size_t u, struct dt_error *err);

/* The weights of unit u that this rank keeps are there, in the newest version.
 * All ranks call it, in the order of units. -1: as dt_parallel_forward.
 */
int dt_weights_bring(struct dt_parallel *p, size_t u, struct dt_error *err);

/* This rank's part of unit u will be needed after the next unit's: starts to
 * read it, if it is in a file.
 */
int dt_weights_expect(struct dt_parallel *p, size_t u, struct dt_error *err);

/* The update of unit u is queued: its weights go to the ranks that keep them.
 * -1: as dt_parallel_update_next.
 */
int dt_weights_publish(struct dt_parallel *p, size_t u, struct dt_error *err);

/* Waits for weights that are on their way, before their memory goes: the thread
 * that sends would end the process. Gives up when a peer has failed.
 */
void dt_weights_settle(struct dt_parallel *p);

#endif /* DT_PARALLEL_PARALLEL_IMPL_H */
