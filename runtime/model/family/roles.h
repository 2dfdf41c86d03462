/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roles.h - what the parameters of a unit are for, and numbers that follow from
 * a config
 *
 * Letters as in ops.h; Q is (NH + 2 NKV) HS, F is I, or 2I with a gate.
 */
#ifndef DT_MODEL_FAMILY_ROLES_H
#define DT_MODEL_FAMILY_ROLES_H

#include "model/family/model_config.h"

/* --- params.c: the roles of a unit's parameters --- */

/* The roles of weights. Several parameters may share a role and are then
 * joined: q, k and v are one matrix, QKV_W. GPT-2's matrices are (in, out),
 * those of the others (out, in).
 */
enum dt_role {
    /* the embedding */
    DT_WTE,      /* (V, C) */
    DT_WPE,      /* (P, C), learned positions */
    DT_PATCH_W,  /* pixels of a patch to C */
    DT_PATCH_B,  /* (C) */
    DT_CLASS,    /* (C), the row that is no patch */
    DT_NORM_0_W, /* (C), of the norm of the embedding */
    DT_NORM_0_B, /* (C) */

    /* a block */
    DT_NORM_1_W, /* (C) */
    DT_NORM_1_B, /* (C) */
    DT_QKV_W,    /* C to Q */
    DT_QKV_B,    /* (Q) */
    DT_Q_NORM,   /* (HS), or over all heads (NH HS) */
    DT_K_NORM,   /* (HS), or over all heads (NKV HS) */
    DT_OUT_W,    /* NH*HS to C */
    DT_OUT_B,    /* (C) */
    DT_POST_1_W, /* (C), of the norm of the output of attention */
    DT_NORM_2_W, /* (C) */
    DT_NORM_2_B, /* (C) */
    DT_FC_W,     /* C to F */
    DT_FC_B,     /* (F) */
    DT_PROJ_W,   /* I to C */
    DT_PROJ_B,   /* (C) */
    DT_POST_2_W, /* (C), of the norm of the output of the MLP */

    /* what follows the blocks */
    DT_NORM_F_W, /* (C) */
    DT_NORM_F_B, /* (C) */
    DT_HEAD,     /* (V, C), if not tied to DT_WTE */
    DT_SCORE,    /* (1, C), in place of DT_HEAD or with it */

    /* the projector; M is the width of what a feature is made of */
    DT_MERGE_NORM_W, /* (C), before patches become one feature */
    DT_MERGE_NORM_B, /* (C) */
    DT_MERGE_1_W,    /* M to the inner width, or to the text's C */
    DT_MERGE_1_B,
    DT_MERGE_2_W, /* the inner width to the text's C */
    DT_MERGE_2_B,

    DT_ROLES
};

/* The parameters of a role in its unit; count 0: the family has none. */
struct dt_role_range {
    size_t first, count;
};

/* Finds the range of every role; `vision`: config is that of its tower. */
void dt_params_find(const struct dt_model_config *config,
                    const struct dt_vision_config *vision,
                    struct dt_role_range ranges[DT_ROLES]);

/* The place of a role of unit u; count 0 if there is none. */
struct dt_view dt_params_view(const struct dt_layout *layout,
                              const struct dt_places *places, size_t u,
                              struct dt_role_range range);

/* --- model_rope.c: the angles of rotary position embeddings --- */

/* Tables of angles. Some models have a second one: of layers with a window
 * (rope_local_theta), or of long documents (dt_model_two_lengths). 0: the model
 * learns positions.
 */
size_t dt_rope_tables(const struct dt_model_config *config);

/* Radians per position of pair j < R/2 of a head in one of these, R being
 * dt_model_rotary, scaled as the config asks for.
 */
double dt_rope_frequency(const struct dt_model_config *config, size_t table,
                         size_t j);

/* Rows of positions: each turns some pairs of a head. */
size_t dt_rope_axes(const struct dt_model_config *config);

/* The row that turns pair j. */
size_t dt_rope_axis(const struct dt_model_config *config, size_t j);

/* angles(positions, R): R/2 cosines and R/2 sines of each position. */
void dt_rope_table(const struct dt_model_config *config, size_t table,
                   float *angles, size_t positions);

/* --- family.c: factors --- */

/* Factors of the outputs of parts of a model; 1: none. */
struct dt_model_scales {
    float embedding;
    bool features; /* that factor is of features, too */
    float branch;  /* of attention and of the MLP, before the stream adds it */
    float logits;
};

/* The scales of a model that computes in this type, and the factor of
 * the scores of attention.
 */
struct dt_model_scales dt_model_scales_of(const struct dt_model_config *config,
                                          enum dt_dtype compute);
float dt_model_attention_scale(const struct dt_model_config *config);

#endif /* DT_MODEL_FAMILY_ROLES_H */
