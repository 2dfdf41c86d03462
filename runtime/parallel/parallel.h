/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel.h - reduces gradients over ranks
 *
 * ddp: every rank holds everything; the gradients of a unit are summed over
 * ranks while the backward pass of the units below runs.
 */
#ifndef DT_PARALLEL_PARALLEL_H
#define DT_PARALLEL_PARALLEL_H

#include <stddef.h>

#include "base/error.h"
#include "comm/comm.h"
#include "tensor/layout.h"

struct dt_parallel_options {
    size_t bucket_bytes;  /* neighbouring units are reduced together up to it */
    enum dt_dtype wire;   /* DT_F32 or DT_BF16 */
};

struct dt_parallel;

/* Borrows everything except options. NULL and err: EX_OSERR. */
struct dt_parallel *
dt_parallel_create(const struct dt_layout *layout, struct dt_comm *comm,
                   struct dt_view grads,
                   const struct dt_parallel_options *options,
                   struct dt_error *err);
void dt_parallel_destroy(struct dt_parallel *parallel); /* NULL is fine */

/* The gradients of unit u are final on this rank; called in backward order,
 * on the last micro-batch of a step only. Starts reductions, never waits.
 */
int dt_parallel_ready(struct dt_parallel *parallel, size_t u,
                      struct dt_error *err);

/* Waits until grads hold the sum over ranks. */
int dt_parallel_finish(struct dt_parallel *parallel, struct dt_error *err);

#endif /* DT_PARALLEL_PARALLEL_H */
