/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - the operations of another device, for cases that know host memory
 *
 * The table that bridge_open returns takes views of tensors as harness.h makes
 * them. A call copies what it is given to the device, guards too, runs the
 * operation there, and copies all of it back. On the way it checks what holds
 * for every operation:
 *   - recorded, and replayed twice, it gives the same bits as when called, if
 *     the backend was asked to be deterministic,
 *   - the CPU backend gives the same from the same, but for rounding.
 * An operation that the backend lacks skips the case.
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
    bool scratch; /* what is in it never matters */
    /* The bridge's: */
    struct dt_buffer *twin; /* NULL: not needed yet */
    char *before, *direct;  /* bytes before and after the call */
    bool lost;              /* this call leaves anything in it */
};

/* Opens the backend; NULL and err if there is none here. Once. Unless it is
 * deterministic, bits are not compared, and what is compared with the CPU are
 * results of a replay.
 */
const struct dt_ops *bridge_open(const char *backend,
                                 const struct dt_backend_options *options,
                                 struct dt_error *err);

/* Whether that is hardware, for which no shape is too large. */
bool bridge_is_real(void);

/* Frees what the bridge has for a tensor. */
void bridge_forget(struct tensor *tensor);

/* --- for the wrappers of bridge_table.c --- */

extern struct dt_ops bridge_table;

/* The table that calls go to, and table and stream of this pass. */
extern const struct dt_ops *bridge_ops;
extern const struct dt_ops *bridge_now;
extern struct dt_stream *bridge_stream;

/* Begins the call of `op`. `slack`: what the result may differ by, relative to
 * the largest of a tensor, because of roundings inside the operation. Then
 * passes: while bridge_pass() the wrapper calls `op` of bridge_now.
 */
void bridge_begin(const char *op, bool supported, double slack);
bool bridge_pass(void);

/* The view as this pass needs it. */
struct dt_view at(struct dt_view v);
/* Scratch: the CPU gets `count` elements of its own. */
struct dt_view at_scratch(struct dt_view v, size_t count);
/* A tensor that the operation may leave anything in. */
struct dt_view at_lost(struct dt_view v);

#endif /* TESTS_OPS_BRIDGE_H */
