/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - the roles of a unit's parameters (private to model/) */
#ifndef DT_MODEL_PARAMS_H
#define DT_MODEL_PARAMS_H

#include "model/model.h"

/* The roles of weights. Several parameters may share a role and are then
 * joined: q, k and v are one matrix, QKV_W. Q is (NH + 2 NKV) HS; F is I, or 2I
 * with a gate. GPT-2's matrices are (in, out), those of the others (out, in).
 */
enum dt_role {
    /* unit 0 */
    DT_WTE, /* (V, C) */
    DT_WPE, /* (P, C), learned positions */

    /* units 1 .. n_layer */
    DT_NORM_1_W, /* (C) */
    DT_NORM_1_B, /* (C) */
    DT_QKV_W,    /* C to Q */
    DT_QKV_B,    /* (Q) */
    DT_Q_NORM,   /* (HS), or over all heads (NH HS) */
    DT_K_NORM,   /* (HS), or over all heads (NKV HS) */
    DT_OUT_W,    /* NH*HS to C */
    DT_OUT_B,    /* (C) */
    DT_POST_1_W, /* (C), of the norm of what attention has computed */
    DT_NORM_2_W, /* (C) */
    DT_NORM_2_B, /* (C) */
    DT_FC_W,     /* C to F */
    DT_FC_B,     /* (F) */
    DT_PROJ_W,   /* I to C */
    DT_PROJ_B,   /* (C) */
    DT_POST_2_W, /* (C), of the norm of what the MLP has computed */

    /* unit n_layer + 1 */
    DT_NORM_F_W, /* (C) */
    DT_NORM_F_B, /* (C) */
    DT_HEAD,     /* (V, C), if not tied to DT_WTE */
    DT_SCORE,    /* (1, C), in place of DT_HEAD or beside it */

    DT_ROLES
};

/* The parameters of a role in its unit; count 0: the family has none. */
struct dt_role_range {
    size_t first, count;
};

/* Finds the range of every role. */
void dt_params_find(const struct dt_model_config *config,
                    struct dt_role_range ranges[DT_ROLES]);

/* The place of a role of unit u; count 0 if there is none. */
struct dt_view dt_params_view(const struct dt_layout *layout,
                              const struct dt_places *places, size_t u,
                              struct dt_role_range range);

#endif /* DT_MODEL_PARAMS_H */
