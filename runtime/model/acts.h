/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acts.h - where activations lie in one buffer (private to model/)
 *
 * Letters as in ops.h; Q is (NH + 2 NKV) HS, F is I, or 2I with a gate. Kept
 * for the backward pass is only what is dear to compute; norms and the MLP's
 * activation are computed again, unless options.keep says that there is room.
 */
#ifndef DT_MODEL_ACTS_H
#define DT_MODEL_ACTS_H

#include "model/model.h"

/* Output and statistics of a norm. */
struct dt_norm {
    struct dt_view out;        /* (N, C) */
    struct dt_view mean, rstd; /* (N) F32; mean only of LayerNorm */
};

/* What a block keeps. Without a backward pass all blocks share one place; with
 * checkpointing they share all but x.
 */
struct dt_block {
    struct dt_view x;         /* (N, C) the residual stream, coming in */
    struct dt_view qkv;       /* (N, Q), rotated if heads are not normed */
    struct dt_view attention; /* (N, NH*HS) */
    struct dt_view lse;       /* (B, NH, T) F32 */
    struct dt_view x_mid;     /* (N, C) the stream between the two branches */
    struct dt_view fc;        /* (N, F) */
    struct dt_norm norm_1, norm_2; /* of x and x_mid, and act of fc: the */
    struct dt_view act;            /* block's own if they are kept, else those
                                      of struct dt_acts, which come and go */
};

struct dt_acts {
    struct dt_view rope;     /* (T, HS) F32, angles */
    struct dt_view top;      /* (N, C) the residual stream at the top */
    struct dt_norm norm;     /* the one at hand */
    struct dt_view branch;   /* (N, C) what a branch adds to the stream; later
                                the gradient inside a branch */
    struct dt_view d_stream; /* (N, C) gradient of the stream */

    /* These share their place: the MLP (with an act that is not kept),
     * attention and the loss never meet.
     */
    struct dt_view d_act;       /* (N, I) */
    struct dt_view heads;       /* (N, Q) normed and rotated, if they are */
    struct dt_view head_rstd;   /* (N, NH + NKV) F32 */
    struct dt_view d_attention; /* (N, NH*HS) */
    struct dt_view d_qkv;       /* (N, Q) */
    struct dt_view scratch;     /* F32, of attention's backward pass */
    struct dt_view logits;      /* F32, scratch of the loss, >= V */
};

/* What the sizes depend on. */
struct dt_acts_for {
    const struct dt_model_config *config;
    const struct dt_ops *ops;
    const struct dt_model_options *options;
    size_t B, T; /* of the batch */
};

/* Lays activations out in buf, which may be NULL to count only; so may
 * blocks(n_layer). Returns the bytes that they take, SIZE_MAX if they do not
 * fit into a size_t.
 */
size_t dt_acts_plan(struct dt_acts *acts, struct dt_block *blocks,
                    struct dt_buffer *buf, const struct dt_acts_for *plan);

#endif /* DT_MODEL_ACTS_H */
