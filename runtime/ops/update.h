/* SPDX-License-Identifier: Apache-2.0 */
/* update.h - the scalars of an optimizer step, and arguments of an update */
#ifndef DT_OPS_UPDATE_H
#define DT_OPS_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The scalars of an optimizer step: indices into a view of DT_STEP_COUNT F64,
 * called `step` in ops.h. They stay on the device, so that no step waits for
 * the host, which reads them after the step.
 */
enum dt_step_scalar {
    /* first of this rank, then summed over ranks in one reduction: */
    DT_STEP_LOSS,                      /* sum of the token losses */
    DT_STEP_TARGETS,                   /* tokens with a loss */
    DT_STEP_STOP,                      /* ranks that were told to stop, and as
                                          a fraction a request of rank 0 */
    DT_STEP_SQUARES,                   /* sum of squares of the gradients */
    DT_STEP_SUMS,                      /* the number of these */
    DT_STEP_LOSS_SCALE = DT_STEP_SUMS, /* these four are the step's params */
    DT_STEP_LR,
    DT_STEP_BIAS1,
    DT_STEP_BIAS2,
    DT_STEP_NORM,       /* L2 norm of the gradients of the mean loss */
    DT_STEP_GRAD_SCALE, /* the factor of gradients: 1 / (targets loss_scale),
                           times the clip factor */
    DT_STEP_OUTCOME,    /* enum dt_step_outcome */
    DT_STEP_COUNT
};

enum dt_step_outcome {
    DT_STEP_TAKEN,
    DT_STEP_OVERFLOW, /* no update: the norm is not finite */
    DT_STEP_EMPTY,    /* no update: there were no targets */
    DT_STEP_OUTCOMES
};

/* Parameters of a step; biasi = 1 - betai^n for optimizer step n >= 1. */
struct dt_step_params {
    double loss_scale, lr, bias1, bias2;
};

/* An update that another process can end if this one is killed within it, in
 * memory that outlives both. A range is cut into pieces from its beginning. One
 * with the stamp of the step is done; another one that a slot keeps is first
 * taken back. So who repeats the whole update does the rest of it.
 */
struct dt_undo {
    uint64_t step;              /* of the update, from 1 */
    uint64_t *stamps;           /* of all pieces: the step that was last done */
    size_t first;               /* the number of the range's first piece */
    struct dt_undo_slot *slots; /* (DT_UNDO_SLOTS), one for each thread */
};

enum {
    DT_UNDO_PIECE = 1024, /* elements: they and what they were fit into the
                             first cache */
    DT_UNDO_SLOTS = 256,  /* no more threads than these work */
};

/* A piece as it was before the update that a thread is at. */
struct dt_undo_slot {
    uint64_t step;  /* of the update; 0: nothing is kept */
    uint64_t piece; /* its number */
    uint64_t unused[6];
    float old[3][DT_UNDO_PIECE]; /* of p, m, v; bytes if they are in bf16 */
};

enum { DT_UNDO_BYTES = DT_UNDO_SLOTS * sizeof(struct dt_undo_slot) };

/* The pieces of a range. */
static inline size_t dt_undo_pieces(size_t count)
{
    return (count + DT_UNDO_PIECE - 1) / DT_UNDO_PIECE;
}

/* Numbers in bf16 that are rounded at random: dither.h. */
struct dt_dither {
    uint64_t seed, step; /* step < 2^32 */
    uint64_t first;      /* number of the first element; a multiple of 8 */
};

/* AdamW of torch.optim.AdamW (Loshchilov, Hutter, "Decoupled weight decay
 * regularization", alg. 2), with biasi and grad_scale of `step`, and lr = rate
 * times that of `step`, so that parts of a model may learn at other rates:
 *   g' = grad_scale * g;  p -= lr*weight_decay * p
 *   m = beta1*m + (1-beta1)*g';  v = beta2*v + (1-beta2)*g'*g'
 *   p -= lr/bias1 * m / (sqrt(v)/sqrt(bias2) + eps)
 * `coupled` is torch.optim.Adam: g' = grad_scale * g + weight_decay * p, and p
 * has no decay of its own. Runs of elements with and without decay alternate:
 * run i is [bounds[i], bounds[i + 1]), and decays if i is odd. They count from
 * the start of a flat buffer; p begins at its element `first`.
 */
struct dt_adamw {
    /* double: 1 - beta2 of a float would be off by 5e-5 of itself */
    double beta1, beta2, eps, weight_decay;
    bool coupled;
    double rate;           /* multiplies DT_STEP_LR; 1: as it is */
    struct dt_view bounds; /* (runs + 1) I64, from 0 to the end of the buffer */
    size_t first;          /* a multiple of 16 */
    struct dt_dither dither;    /* of p, m and v in bf16 */
    const struct dt_undo *undo; /* on the host; NULL: it cannot be ended */
};

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_UPDATE_H */
