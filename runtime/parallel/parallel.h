/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel.h - who holds which part of weights, gradients and optimizer state
 *
 * A strategy is three choices (Rajbhandari et al., "ZeRO", arXiv 1910.02054):
 *
 *   strategy  weights    gradients   optimizer state
 *   ddp       all        all         all
 *   zero1     all        all         part
 *   zero2     all        in slots    part
 *   zero3     in slots   in slots    part
 *
 * A rank owns one part of every unit (dt_parallel_index). What is in slots is
 * there only for the time of a unit's pass: weights are gathered before it,
 * gradients summed into the owners' parts after it. Slots have fixed addresses:
 * block u always uses slot u mod k, so graphs stay valid.
 *
 * Where ranks come in groups, those of a node, sums are made in the group
 * first, and then over groups, of what each rank has by then: few bytes between
 * nodes. In a hybrid (Zhang et al., "MiCS", arXiv 2205.00119) a group also
 * keeps all weights and gradients, divided over its ranks: passes gather within
 * it, and only once a step, in front of the first pass, do groups exchange
 * weights.
 *
 * All strategies compute the same bits in the same world and groups, as long as
 * a step is one micro-batch, or the strategies treat gradients alike: zero2 and
 * zero3 add micro-batches after the sum over ranks, in a hybrid over the group,
 * ddp and zero1 before it, unless options.when says otherwise. With
 * options.int8 each has bits of its own, the same in every run.
 *
 * Calls of one micro-batch, on all ranks in the same order, each before or
 * after the model's work of that unit is queued:
 *
 *   begin; forward(u) for u = 0 .. n-2; backward(u) and ready(u) for u = n-1 ..
 *   0, where the last unit's forward pass belongs to backward(n-1)
 *
 * and of a step, after its last micro-batch: finish; then update_begin, and an
 * AdamW of each update that update_next gives, until there is none. Work is
 * queued to exec->stream. Unless stated otherwise -1 means that the device or a
 * peer failed, as dt_comm_wait says, or a drive (dt_swap_wait).
 *
 * What is offloaded (struct dt_offload) is in tiles (tiles.h): a rank's parts
 * of all units, one after another, are cut into tiles, whatever the units are.
 * An update is then of one tile and of one unit. The bits are those without.
 */
#ifndef DT_PARALLEL_PARALLEL_H
#define DT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/comm.h"
#include "ops/ops.h"
#include "parallel/parallel_memory.h"

struct dt_parallel;

/* Everything is zero at first. Borrows layout, comm, paths and what exec points
 * to. NULL and err: EX_OSERR, EX_UNAVAILABLE if a peer is lost while groups are
 * made, or of files those of dt_swap_create.
 */
struct dt_parallel *dt_parallel_create(
    const struct dt_layout *layout, struct dt_comm *comm,
    const struct dt_exec *exec, const struct dt_parallel_options *options,
    struct dt_error *err);
void dt_parallel_destroy(struct dt_parallel *parallel); /* NULL is fine */

/* Where the model finds weights and puts gradients; fixed until destroy. */
struct dt_places dt_parallel_weights(const struct dt_parallel *parallel);
struct dt_places dt_parallel_grads(const struct dt_parallel *parallel);

/* The run has had so many micro-batches before: they are counted for the noise
 * of options.int8, which a resumed run repeats.
 */
void dt_parallel_resume(struct dt_parallel *parallel, uint64_t micro_batches);

/* Begins micro-batch `a` of `count` in a step. Returns whether the model adds
 * to the gradients that are in their places, instead of overwriting them.
 */
bool dt_parallel_begin(struct dt_parallel *parallel, size_t a, size_t count);

/* The weights of unit u are there for its forward pass (in an evaluation of the
 * last unit too), or, with a place for its gradients, for its backward pass.
 * Unit 0 is an embedding, which does not need its weights to go back. The next
 * unit is on its way.
 */
int dt_parallel_forward(struct dt_parallel *parallel, size_t u,
                        struct dt_error *err);
int dt_parallel_backward(struct dt_parallel *parallel, size_t u,
                         struct dt_error *err);

/* The gradients of unit u are final for this micro-batch. Starts reductions,
 * never waits.
 */
int dt_parallel_ready(struct dt_parallel *parallel, size_t u,
                      struct dt_error *err);

/* Completes the sums over ranks: the gradients of this rank's parts are there,
 * in ddp all.
 */
int dt_parallel_finish(struct dt_parallel *parallel, struct dt_error *err);

/* The views of an update. */
struct dt_update {
    bool on_host;        /* AdamW is the CPU's; all views are in host memory */
    struct dt_view step; /* the scalars */
    size_t first;        /* element of the flat buffer at which they begin */
    struct dt_view master, grads, m, v;
    struct dt_view weights; /* the rounded master; count 0: nothing to round */
};

/* Begins the updates of a step, whose scalars `step` are decided on the device.
 * Waits for them if state has to move that need not if the step is skipped.
 */
int dt_parallel_update_begin(struct dt_parallel *parallel, struct dt_view step,
                             struct dt_error *err);

/* The AdamW of the update before is queued, or done if it is on the host: its
 * weights go to the ranks that keep them. 1: *update is the next of what this
 * rank owns (its parts, in ddp all), unit by unit. 0: there is none.
 */
int dt_parallel_update_next(struct dt_parallel *parallel,
                            struct dt_update *update, struct dt_error *err);

/* Tensors of which each rank owns a part, fp32. */
enum dt_owned {
    DT_OWNED_MASTER, /* the weights */
    DT_OWNED_M,      /* AdamW's moments */
    DT_OWNED_V,
    DT_OWNED_GRADS,
    DT_OWNED_COUNT
};

/* Which part of every unit this rank owns, for dt_layout_part: its rank, or in
 * groups that of rank l of group n, of M groups: l * M + n.
 */
int dt_parallel_index(const struct dt_parallel *parallel);

/* This rank's part of unit u. What is offloaded has no address: its view, and
 * slices of it, are without buffer, for the functions below.
 */
struct dt_view dt_parallel_part(const struct dt_parallel *parallel,
                                enum dt_owned kind, size_t u);

/* Queues a copy of (a slice of) a part to or from host memory, which may be
 * used again on return unless it is staging memory. No updates are open.
 */
int dt_parallel_get(struct dt_parallel *parallel, struct dt_view part, void *to,
                    struct dt_error *err);
int dt_parallel_put(struct dt_parallel *parallel, struct dt_view part,
                    const void *from, struct dt_error *err);

/* Adds the squares of a part to `step` (sum_of_squares). What is offloaded is
 * only looked at: NaN if an element of it is not finite.
 */
int dt_parallel_squares(struct dt_parallel *parallel, struct dt_view part,
                        struct dt_view step, struct dt_error *err);

/* The parts of master, m and v were loaded: makes all else that ranks hold of
 * unit u equal to them. Called for all units.
 */
int dt_parallel_loaded(struct dt_parallel *parallel, size_t u,
                       struct dt_error *err);

/* All of unit u on every rank, to be saved: in the compute type, or in fp32 if
 * `master`. Valid until the next call of any function. The gradients of the
 * last step are lost, as their memory is used.
 */
int dt_parallel_gather(struct dt_parallel *parallel, size_t u, bool master,
                       struct dt_view *unit, struct dt_error *err);

#endif /* DT_PARALLEL_PARALLEL_H */
