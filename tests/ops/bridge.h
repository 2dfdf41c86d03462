/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - runs operations of another device on tensors in host memory
 *
 * The table that bridge_open returns takes views of tensors of harness.h. A
 * call copies its arguments with their guards to the device, runs the operation
 * there, and copies everything back. It also checks what holds for every
 * operation:
 *   - recorded in a graph and replayed twice, it gives the same bits as when
 *     called, if the backend was asked to be deterministic,
 *   - the CPU backend gives the same result, except for rounding.
 * If the backend lacks an operation, the case is skipped.
 */
#ifndef TESTS_OPS_BRIDGE_H
#define TESTS_OPS_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/backend.h"
#include "device/device.h"
#include "ops/ops.h"

/* One tensor; views of it have `host` as their buffer. */
struct tensor {
    struct dt_buffer host;
    enum dt_dtype type;
    bool workspace; /* what is in it never matters */
    /* The bridge's: */
    struct dt_buffer *twin; /* NULL: not needed yet */
    char *before, *direct;  /* bytes before and after the call */
    bool lost;              /* its content after this call does not matter */
};

/* Opens the backend; to be called once. NULL and err: there is none here. If it
 * is not deterministic, bits are not compared, and the result of a replay is
 * compared with the CPU.
 */
const struct dt_ops *bridge_open(const char *backend,
                                 const struct dt_backend_options *options,
                                 struct dt_error *err);

/* Whether the backend is real hardware, which is fast enough for any shape. */
bool bridge_is_real(void);

/* Frees the copies that the bridge holds of a tensor. */
void bridge_forget(struct tensor *tensor);

/* --- for the wrappers of bridge_table.c and its neighbors --- */

extern struct dt_ops bridge_table;

/* The backend's table, and the table and the stream of the current pass. */
extern const struct dt_ops *bridge_ops;
extern const struct dt_ops *bridge_now;
extern struct dt_stream *bridge_stream;

/* Begins a call of `op`. The result may differ by `slack`, relative to the
 * largest element of a tensor, because of rounding inside the operation. Then
 * the wrapper calls `op` of bridge_now as long as bridge_pass() is true.
 */
void bridge_begin(const char *op, bool supported, double slack);
bool bridge_pass(void);

/* Calls the operation in every pass; arguments are those of the pass. */
#define CALL(op, slack, ...)                                                   \
    for (bridge_begin(#op, bridge_ops->op != NULL, slack); bridge_pass();)     \
    bridge_now->op(bridge_stream, __VA_ARGS__)

/* The view to use in this pass. */
struct dt_view at(struct dt_view v);
/* Scratch: the CPU gets `count` elements of its own. */
struct dt_view at_workspace(struct dt_view v, size_t count);
/* A tensor that the operation may leave anything in. */
struct dt_view at_lost(struct dt_view v);

/* Wrappers of bridge_fused.c and bridge_low_rank.c. */
extern __typeof__(*((struct dt_ops *)0)
                       ->linear_add_forward) bridge_linear_add_forward;
extern __typeof__(*((struct dt_ops *)0)
                       ->low_rank_forward) bridge_low_rank_forward;
extern __typeof__(*((struct dt_ops *)0)
                       ->low_rank_backward) bridge_low_rank_backward;
extern __typeof__(*((struct dt_ops *)0)->norm_backward) bridge_norm_backward;

#endif /* TESTS_OPS_BRIDGE_H */
