/* SPDX-License-Identifier: Apache-2.0 */
/* gpt2.h - the parameters of a GPT-2 unit, in the order of the layout */
#ifndef DT_MODEL_GPT2_H
#define DT_MODEL_GPT2_H

enum {
    /* unit 0 */
    WTE = 0, /* (V, C) */
    WPE,     /* (P, C) */

    /* units 1 .. n_layer; Conv1D weights are (in, out), I = n_inner */
    LN_1_W = 0,  /* (C) */
    LN_1_B,      /* (C) */
    C_ATTN_W,    /* (C, 3C): q, k, v */
    C_ATTN_B,    /* (3C) */
    ATTN_PROJ_W, /* (C, C) */
    ATTN_PROJ_B, /* (C) */
    LN_2_W,      /* (C) */
    LN_2_B,      /* (C) */
    C_FC_W,      /* (C, I) */
    C_FC_B,      /* (I) */
    MLP_PROJ_W,  /* (I, C) */
    MLP_PROJ_B,  /* (C) */

    /* unit n_layer + 1 */
    LN_F_W = 0, /* (C) */
    LN_F_B,     /* (C) */
    LM_HEAD,    /* (V, C), only if not tied to WTE */
};

#endif /* DT_MODEL_GPT2_H */
