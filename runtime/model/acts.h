/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acts.h - where activations lie in one buffer (private to model/)
 *
 * Letters as in ops.h; Q is (NH + 2 NKV) HS, F is I, or 2I with a gate. Only
 * what is expensive to recompute is saved for backward; norms and the MLP's
 * activation are recomputed unless options.save_activations.
 */
#ifndef DT_MODEL_ACTS_H
#define DT_MODEL_ACTS_H

#include "model/model.h"

/* Output and statistics of a norm. */
struct dt_norm {
    struct dt_view out;        /* (N, C) */
    struct dt_view mean, rstd; /* (N) F32; mean only of LayerNorm */
};

/* The saved tensors of a block. Without a backward pass all blocks share the
 * same memory; with options.recompute they share all of it except x, and with
 * options.offload every other block shares that.
 */
struct dt_block {
    struct dt_view x;         /* (N, C) the residual stream at the input */
    struct dt_view qkv;       /* (N, Q), rotated if heads are not normed */
    struct dt_view attention; /* (N, NH*HS) */
    struct dt_view lse;       /* (B, NH, T) F32 */
    struct dt_view x_mid;     /* (N, C) the stream between the two branches */
    struct dt_view fc;        /* (N, F) */
    /* only with norms behind attention and MLP: what these have computed */
    struct dt_view out, proj;           /* (N, C) */
    struct dt_view out_rstd, proj_rstd; /* (N) F32 */
    /* with save_activations the block's own, otherwise shared by all blocks */
    struct dt_norm norm_1, norm_2; /* of x, of x_mid */
    struct dt_view act;            /* (N, I) activation of fc */
};

struct dt_acts {
    struct dt_view top;    /* (N, C) the residual stream after the last block */
    struct dt_norm norm;   /* the final one, and shared ones of blocks */
    struct dt_view branch; /* (N, C) output of attention or the MLP, which the
                              stream adds; in backward, gradients */
    struct dt_view d_stream; /* (N, C) gradient of the stream */
    struct dt_view d_sums;   /* (C) F32 its sum over rows, or absent */
    /* only with an adapter (struct dt_low_rank): */
    struct dt_view low;     /* (N, r) F32 */
    struct dt_view dropped; /* the widest input of a linear layer; with dropout
                             */

    /* These three groups share memory, as only one is used at a time: the MLP
     * (with an act that is not saved), attention, the loss.
     */
    struct dt_view d_act;       /* (N, I) */
    struct dt_view heads;       /* (N, Q) normed and rotated; only with norms */
    struct dt_view head_rstd;   /* (N, NH + NKV) F32; (N, 2) of norms over all
                                   heads */
    struct dt_view d_attention; /* (N, NH*HS) */
    struct dt_view d_qkv;       /* (N, Q) */
    struct dt_view attention_workspace; /* F32, of attention's backward pass */
    struct dt_view logits;              /* F32, workspace of the loss, >= V */
    /* only with options.values: */
    struct dt_view picked;   /* (N, C) rows of the final norm */
    struct dt_view d_picked; /* (N, C + 1) their gradients, a workspace */
    struct dt_view value, collision, lse, weight; /* (N) F32 */
    struct dt_view entropy, entropy_weight;       /* (N) F32, or absent, ... */
    struct dt_view mean, likeliest, score, score_weight; /* ... like these */
};

/* What sizes depend on. */
struct dt_acts_for {
    const struct dt_model_config *config;
    const struct dt_ops *ops;
    const struct dt_model_options *options;
    size_t B, T; /* of the batch */
};

/* Plans activations in buf. buf and blocks(n_layer) may be NULL, to count only.
 * Returns the bytes that they take, SIZE_MAX if that overflows: for no batch of
 * at most options->B * options->T tokens more than for the largest one.
 */
size_t dt_acts_plan(struct dt_acts *acts, struct dt_block *blocks,
                    struct dt_buffer *buf, const struct dt_acts_for *plan);

#endif /* DT_MODEL_ACTS_H */
