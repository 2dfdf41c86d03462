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
 * A rank owns one part of every unit (dt_parallel_index). A slot holds a unit
 * only for the time of its pass: weights are gathered before it, gradients
 * summed into the owners' parts after it. Slots have fixed addresses, so graphs
 * stay valid: blocks of all parts of the model take turns with k slots; the
 * edges of the language share one, large as they are, and all other edges
 * share another, so that neighbors have different ones; a unit to which the
 * head is tied has one of its own, as the head needs both (struct dt_slots).
 *
 * Empty units of a layout (layout.h) have no slot, and nothing is done for
 * them. So one engine may have the trained units of a model and another one its
 * frozen ones: every call is made for both, in the same order on all ranks.
 *
 * Where ranks come in groups, those of a node, sums are made in the group
 * first; each rank's share of them is then summed over groups, so few bytes go
 * between nodes. In a hybrid (Zhang et al., "MiCS", arXiv 2205.00119) a group
 * also keeps all weights and gradients, divided over its ranks: passes gather
 * within it, and only once a step, in front of the first pass, do groups
 * exchange weights.
 *
 * All strategies compute the same bits in the same world and groups, as long as
 * a step is one micro-batch, or the strategies treat gradients alike: zero2 and
 * zero3 add micro-batches after the sum over ranks, in a hybrid over the group,
 * ddp and zero1 before it, unless options.when says otherwise. With
 * options.int8 each has bits of its own, the same in every run.
 *
 * Gradients that are kept in bf16 pass slots in fp32 with any strategy: zero1
 * treats them as zero2 does. What a rank keeps of them is rounded at random, so
 * that small terms count (ops/dither.h). In the last micro-batch it is added to
 * the slot, and the sum over ranks is rounded once.
 *
 * Calls of one micro-batch, on all ranks in the same order, each before or
 * after the model's work of that unit is queued:
 *
 *   begin; forward(u) for u = 0 .. n-2; backward(u) and ready(u) for u = n-1 ..
 *   options.lowest, where the last unit's forward pass belongs to backward(n-1)
 *
 * and of a step, after its last micro-batch: finish; then update_begin, and an
 * AdamW of each update that update_next gives, until there is none. Work is
 * queued to exec->stream. Unless stated otherwise -1 means that the device or a
 * peer failed, as dt_comm_wait says, or a drive (dt_swap_wait).
 *
 * Offloaded tensors (struct dt_offload) are in tiles (tiles.h): a rank's parts
 * of all units, one after another, are cut into tiles, whatever the units are.
 * An update is then of one tile and of one unit. The bits are those without.
 */
#ifndef DT_PARALLEL_PARALLEL_H
#define DT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "base/error.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "parallel/tiles.h"
#include "segment/segment.h"
#include "tensor/layout.h"

/* Where AdamW of state that is not on the device is computed. */
enum dt_offload_compute {
    DT_OFFLOAD_IN_PLACE, /* the device is the host */
    DT_OFFLOAD_STREAM,   /* on the device: state passes through it */
    DT_OFFLOAD_HOST, /* on the CPUs: gradients go there, weights come back */
};

/* Tensors that a rank keeps elsewhere than on the device; not with ddp. */
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

/* How weights change. */
enum dt_weights_use {
    DT_TRAINED,  /* gradients update them */
    DT_FROZEN,   /* they are only read: neither gradients nor fp32 weights */
    DT_FOLLOWED, /* they are set to other values now and then: this rank's
                    parts are there in fp32, whatever `state` is */
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
    enum dt_dtype state;     /* of weights that are updated, and of moments:
                                DT_F32, or DT_BF16 if `compute` is, which are
                                then the same weights */
    enum dt_dtype grads;     /* of gradients that a rank keeps: DT_F32 or
                                DT_BF16 */
    enum dt_dtype wire;      /* of gradients on their way: DT_F32 or DT_BF16 */
    size_t bucket_bytes;     /* ddp: neighboring units are summed together up to
                                this size */
    size_t prefetch;         /* zero3: slots for blocks, at least 2 */
    enum dt_when when;
    size_t lowest; /* backward passes end at this unit: the first that is
                      trained, whichever engine has it */
    /* Sums over ranks are made in groups of this many ranks, then over groups.
     * It divides the world; 0 or the world: in one level.
     */
    int group;
    const int *order; /* (world) the ranks, group by group; NULL: 0 and up */
    int node;  /* so many neighbors in that order are on a node; 0: nodes have
                  different numbers of ranks */
    bool int8; /* sums over groups travel in 8 bits, rounded at random */
    uint64_t seed; /* of that, and of gradients in bf16 */
    bool hybrid;   /* weights and gradients are divided over a group, not
                      over all: each group has all of them */
    struct dt_offload offload; /* all zero: none */
    /* Weights, gradients and moments of this rank are in this memory, which
     * outlives the process, under names that begin with `name`, and another
     * process can end an update. The device is the host, and nothing is
     * offloaded. NULL: none are.
     */
    struct dt_segment *segment;
    const char *name;
};

/* Bytes that a rank holds. */
struct dt_parallel_bytes {
    size_t weights; /* in the compute type, slots, or both */
    size_t master;  /* updated weights, or frozen ones of which a rank has a
                       part; 0 if the model computes with it */
    size_t gradients;
    size_t moments;
    /* for offloaded tensors: */
    size_t tiles; /* on the device */
    size_t host;  /* host memory */
    size_t nvme;  /* files */
};

/* Bytes that dt_parallel_create allocates for a world of this size; the layout
 * is finished for it.
 */
struct dt_parallel_bytes dt_parallel_plan(
    const struct dt_layout *layout, int world,
    const struct dt_parallel_options *options);

/* Bytes of a copy of what a rank then owns (host_copy.h). */
size_t dt_host_copy_plan(const struct dt_layout *layout, int world,
                         const struct dt_parallel_options *options);

/* --- for parallel/ only --- */

/* How much of a unit a rank has. */
enum dt_extent {
    DT_WHOLE,
    DT_SHARE, /* of its group: the first of S parts for its first rank .. */
    DT_OWN, /* the part that this rank updates: the first of M parts of a share
               for the first group .. */
};

/* The type of `master` below. */
enum dt_dtype dt_master_dtype(const struct dt_parallel_options *options);

/* How much a rank keeps between passes. */
struct dt_kept {
    enum dt_extent weights; /* DT_OWN: none but the fp32 ones, or in tiles */
    enum dt_extent grads;   /* summed so far */
    enum dt_extent state;   /* fp32 weights and moments */
    bool grads_pass_slots;  /* the model writes gradients to slots */
};

/* Of options in a world of this size. */
struct dt_kept dt_kept_of(const struct dt_parallel_options *options, int world);

/* Slots that units share: those below, then the slots of blocks. */
enum dt_slot {
    DT_SLOT_TIED,     /* of the unit to which the head is tied */
    DT_SLOT_LANGUAGE, /* of other edges of the language */
    DT_SLOT_EDGES,    /* of those of a tower, and of the projector */
    DT_SLOT_BLOCKS,   /* the first of these */
};

struct dt_slots {
    size_t count;
    size_t *of;      /* (unit_count) the slot of a unit; of an empty one unused
                      */
    size_t *first;   /* (count) elements before a slot */
    size_t elements; /* of all slots */
    size_t ahead;    /* the units before this one have different slots: their
                        weights move before the next step */
};

/* `blocks`: how many blocks have a slot at once. -1: EX_OSERR; dt_slots_fini in
 * any case.
 */
int dt_slots_init(struct dt_slots *slots, const struct dt_layout *layout,
                  size_t blocks, struct dt_error *err);
void dt_slots_fini(struct dt_slots *slots);

enum {
    DT_GRADS_BLOCKS = 2, /* blocks with a slot for gradients */
    DT_UNITS_AHEAD = 3,  /* units whose weights move before the next step, at
                            most: an edge, and two blocks that have slots */
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
    size_t tile;    /* of offloaded state; 0: there is none */
    size_t staging; /* gradients, and weights, of a tile in host memory */
    size_t scalars; /* of a step there, fp64 */
    size_t pieces;  /* of an update, with a stamp each (struct dt_undo) */
    struct dt_tiles_options state_tiles;   /* arrays: 0: none */
    struct dt_tiles_options weights_tiles; /* arrays: 0: none */
};

/* The unit before u whose weights the backward pass needs next; DT_NO_UNIT:
 * there is none down to `lowest`, or u is none itself.
 */
size_t dt_layout_before(const struct dt_layout *layout, size_t u,
                        size_t lowest);

/* Of a strategy in a world of this size. */
struct dt_sizes dt_sizes_of(const struct dt_layout *layout, int world,
                            const struct dt_parallel_options *options);

struct dt_parallel;

/* Everything is zero at first. Borrows layout, comm, paths, and device, ops
 * and stream of exec. NULL and err: EX_OSERR, EX_UNAVAILABLE if a peer is lost
 * while groups are made, or of files those of dt_swap_create.
 */
struct dt_parallel *dt_parallel_create(
    const struct dt_layout *layout, struct dt_comm *comm,
    const struct dt_exec *exec, const struct dt_parallel_options *options,
    struct dt_error *err);
void dt_parallel_destroy(struct dt_parallel *parallel); /* NULL is fine */

/* Where the model finds weights and puts gradients; fixed until destroy. */
struct dt_places dt_parallel_weights(const struct dt_parallel *parallel);
struct dt_places dt_parallel_grads(const struct dt_parallel *parallel);

/* Begins micro-batch `a` of `count` in step number `step` > 0, on both of which
 * the random bits of rounded gradients depend: a resumed run has them again.
 * Returns whether the model adds to the gradients that are in their places,
 * instead of overwriting them.
 */
bool dt_parallel_begin(struct dt_parallel *parallel, uint64_t step, size_t a,
                       size_t count);

/* The weights of unit u are there for its forward pass (in an evaluation of the
 * last unit too), or, with a place for its gradients, for its backward pass.
 * An embedding does not need its weights to go back. The next unit is on its
 * way.
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
    const struct dt_undo *undo; /* how another process can end it, valid until
                                   the next one; or NULL */
};

/* Begins the updates of step number `number` > 0, whose scalars `step` are
 * decided on the device. Waits for them if state has to move that need not if
 * the step is skipped. With options.segment, the process after one that was
 * killed within the updates of a step begins them again, with the same number
 * and scalars: they do the rest of it.
 */
int dt_parallel_update_begin(struct dt_parallel *parallel, uint64_t number,
                             struct dt_view step, struct dt_error *err);

/* The AdamW of the update before is queued, or done if it is on the host: its
 * weights go to the ranks that keep them. 1: *update is the next one of this
 * rank (its parts, in ddp all), unit by unit. 0: there is none.
 */
int dt_parallel_update_next(struct dt_parallel *parallel,
                            struct dt_update *update, struct dt_error *err);

/* Tensors that are divided over ranks, in options.state and options.grads. */
enum dt_owned {
    DT_OWNED_MASTER, /* the weights */
    DT_OWNED_M,      /* AdamW's moments */
    DT_OWNED_V,
    DT_OWNED_GRADS,
    DT_OWNED_COUNT
};

/* The part of every unit that this rank owns, for dt_layout_part: its rank, or
 * in groups, for rank l of group n of M groups, l * M + n.
 */
int dt_parallel_index(const struct dt_parallel *parallel);

/* This rank's part of unit u. An offloaded part has no address: its view, and
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

/* dt_parallel_get in another stream, which does not wait for the engine's; of
 * offloaded parts all the same in that.
 */
int dt_parallel_send(struct dt_parallel *parallel, struct dt_stream *stream,
                     struct dt_view part, void *to, struct dt_error *err);

/* Adds the squares of a part to `step` (sum_of_squares). Of an offloaded part,
 * only whether it is finite counts: NaN if an element is not.
 */
int dt_parallel_squares(struct dt_parallel *parallel, struct dt_view part,
                        struct dt_view step, struct dt_error *err);

/* The parts of master, m and v of unit u were loaded: makes all other copies
 * that ranks hold of it equal to them. Called for all units.
 */
int dt_parallel_loaded(struct dt_parallel *parallel, size_t u,
                       struct dt_error *err);

/* The parts that ranks own are as another process has left them in
 * options.segment, with the updates of a step complete: makes all other copies
 * of weights that ranks hold equal to them.
 */
int dt_parallel_renew(struct dt_parallel *parallel, struct dt_error *err);

/* Gradients that are kept become zero: some ranks had begun those of the step
 * that all take next, and before it replicas would differ.
 */
void dt_parallel_drop_grads(struct dt_parallel *parallel);

/* All of unit u on every rank, to be saved: in the compute type, or as updates
 * leave it if `master`; a view without buffer if it is empty. Valid until the
 * next call of any function. The gradients of the last step are lost, as their
 * memory is used.
 */
int dt_parallel_gather(struct dt_parallel *parallel, size_t u, bool master,
                       struct dt_view *unit, struct dt_error *err);

#endif /* DT_PARALLEL_PARALLEL_H */
