/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - what tells families apart (private to model/) */
#ifndef DT_MODEL_FAMILY_H
#define DT_MODEL_FAMILY_H

#include <jansson.h>

#include "model/config_fields.h"

/* Norms of queries and keys before they are rotated. */
enum dt_head_norm {
    DT_HEAD_NORM_NONE,
    DT_HEAD_NORM_EACH, /* of a head */
    DT_HEAD_NORM_ALL,  /* of all heads together */
};

/* Which layers have a window where config.json has no layer_types. */
enum dt_windows {
    DT_WINDOWS_UNKNOWN, /* of a family that does not say it: refused */
    DT_WINDOWS_NONE,    /* no layer, whatever the file says */
    DT_WINDOWS_ALL,
    DT_WINDOWS_LATE,   /* from layer windows_number on */
    DT_WINDOWS_EXCEPT, /* all but each windows_number-th */
    DT_WINDOWS_PARSED, /* all but those that parse_layers adds to full */
};

/* The defaults are those of transformers, for keys that a file lacks. */
struct dt_family {
    const char *type;                   /* model_type in config.json */
    const char *causal, *scores, *base; /* its classes: of language models, of
                                           classifiers (NULL: there is none),
                                           of models without a head */
    const struct dt_field *fields; /* keys of its config.json; one without a key
                                      ends them */
    const char *unused; /* a key that transformers ignores although it seems to
                           change the mathematics, or NULL: null alone */
    bool centered;      /* LayerNorm, learned positions, an MLP without a gate:
                           GPT-2; all others have RMSNorm, RoPE and a gate */
    bool in_out;        /* files have matrices of blocks as (in, out) */
    bool pre_norm;      /* of what attention and the MLP are given, ... */
    bool post_norm;     /* ... and of what comes out of them */
    bool shifted;       /* norms multiply by 1 + w */
    bool fused; /* files have q, k and v, and gate and up, in one tensor */
    bool scaled_embedding; /* by sqrt(C), rounded to the compute type */
    bool multipliers;      /* embedding_multiplier and others count */
    double query_scalar;   /* query_pre_attn_scalar */
    double attention_softcap, logits_softcap; /* of a file without the key */
    bool qkv_biased, mlp_biased; /* have biases, whatever the file says */
    bool out_plain; /* the projection behind attention has no bias, even if q,
                       k and v have one */
    double dropout; /* of embeddings, attention and branches */
    enum dt_head_norm head_norm;
    const char *activation; /* the key of the activation, ... */
    enum dt_gate gate;      /* ... and its default */
    bool tied;              /* tie_word_embeddings */
    double norm_epsilon;    /* rms_norm_eps, layer_norm_epsilon */
    double theta;           /* rope_theta */
    double local_theta;     /* of layers with a window, or 0: the same */
    bool rotates_part;      /* partial_rotary_factor counts */
    bool longrope;          /* is the only scaling, also called su or yarn */
    enum dt_windows windows;
    size_t windows_number;   /* the default of ... */
    const char *windows_key; /* ... this key, or NULL; >= 1 with EXCEPT */
    bool asks_window;  /* they have one only with use_sliding_window: true */
    bool types_ask;    /* and so do layer_types, */
    bool no_types;     /* which do not count */
    bool needs_window; /* sliding_window: null needs layer_types */
    size_t window;     /* sliding_window; 0: none */
    size_t n_kv_head;  /* num_key_value_heads; 0: as many as n_head */
    size_t head_size;  /* head_dim; 0: n_embd / n_head */
    int32_t pad;       /* pad_token_id, -1: none */
    size_t original;   /* original_max_position_embeddings; 0: those of
                          the model */

    /* Reads in what else layers differ, before windows are read; NULL: in
     * nothing. Adds problems.
     */
    void (*parse_layers)(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems);
    /* Writes that; NULL: nothing. -1: out of memory. */
    int (*format_layers)(json_t *root, const struct dt_model_config *config);
};

/* All families, by name; NULL ends them. */
extern const struct dt_family *const dt_families[];

/* What outputs of parts of a model are multiplied by; 1: they are not. */
struct dt_model_scales {
    float embedding;
    float branch; /* of attention and of the MLP, before the stream adds it
                   */
    float logits;
};

/* Those of a model that computes in this type. */
struct dt_model_scales dt_model_scales_of(const struct dt_model_config *config,
                                          enum dt_dtype compute);

/* The factor of the scores of attention. */
float dt_model_attention_scale(const struct dt_model_config *config);

#endif /* DT_MODEL_FAMILY_H */
