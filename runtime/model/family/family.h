/* SPDX-License-Identifier: Apache-2.0 */
/* family.h - the traits of a family, and the keys of its config.json (private
 * to model/)
 */
#ifndef DT_MODEL_FAMILY_H
#define DT_MODEL_FAMILY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "model/family/roles.h"

enum dt_field_type {
    DT_FIELD_COUNT, /* size_t */
    DT_FIELD_REAL,  /* double */
    DT_FIELD_FLAG,  /* bool */
};

struct dt_field {
    const char *key;
    enum dt_field_type type;
    bool required;
    size_t offset; /* in struct dt_model_config */
    double min, max;
    unsigned scalings; /* of RoPE that have it, a bit for each; 0: it is a key
                          of the file itself */
};

/* "default", "linear", ...: rope_type in config.json; NULL from
 * DT_ROPE_SCALINGS on.
 */
const char *dt_rope_scaling_name(enum dt_rope_scaling scaling);

/* Does a model with this scaling of RoPE have the field? */
bool dt_field_of(const struct dt_field *field,
                 const struct dt_model_config *config);

/* The value of a field as a number; flags are 0 or 1. */
double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field);
bool dt_field_in_range(const struct dt_field *field, double value);

/* Adds "<prefix><key>: expected ..., got <got>" to problems. */
void dt_field_unexpected(const struct dt_field *field, const char *prefix,
                         const char *got, struct dt_error *problems);

/* Lengths of parameters, see ops.h. */
enum dt_length {
    DT_NONE,
    DT_DECAYED, /* none, but weight decay applies, as in transformers */
    DT_ONE,
    DT_V,
    DT_P,
    DT_C,
    DT_I,
    DT_2I,
    DT_HS,
    DT_QUERIES, /* NH HS */
    DT_KEYS,    /* NKV HS */
    DT_Q,       /* of all heads of q, k and v */
    /* of towers: */
    DT_PATCH,  /* a row of pixels, in the shape of a convolution */
    DT_MERGED, /* what a feature is made of */
    DT_INNER,  /* of the projector */
    DT_TEXT    /* C of the text */
};

/* When a parameter exists. */
enum dt_when {
    DT_ALWAYS,
    DT_QKV_BIASED,
    DT_OUT_BIASED,
    DT_MLP_BIASED,
    DT_NORM_EACH, /* over a head */
    DT_NORM_ALL,  /* over all heads */
    DT_APART,     /* tensors that other families have fused */
    DT_FUSED,
    DT_PRE_NORM,
    DT_POST_NORM,
    DT_PLAIN_NORM, /* the one before the MLP, of blocks without others ... */
    DT_INNER_NORM, /* ... and of blocks that norm outputs as well */
    DT_UNTIED,
    DT_SCORED,
    DT_CLASSED, /* there is a row that is no patch */
    DT_MERGE_BIASED
};

/* A parameter of each unit of a kind. */
struct dt_param_row {
    enum dt_role role;
    const char *name;          /* in files; of a block after family->block */
    enum dt_length rows, cols; /* cols DT_NONE or DT_DECAYED: a vector */
    enum dt_when when;
};

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

/* Sizes of a class of transformers. */
struct dt_sizes {
    size_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
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
    const struct dt_param_row *params; /* of its units in the order of the
                                          layout: a row without a name ends
                                          embedding, block and head, of a
                                          tower what follows blocks */
    const char *block;     /* names of block l begin with it and "l." */
    bool centered;         /* norms are LayerNorm with a bias, not RMSNorm */
    bool gated;            /* the MLP has a gate */
    bool learns_positions; /* as an embedding, in place of RoPE */
    bool axial; /* half of the pairs turn by the place down, half by that across
                   a picture, with the same frequencies */
    bool in_out;    /* files have matrices of blocks as (in, out) */
    bool pre_norm;  /* of the inputs of attention and the MLP, ... */
    bool post_norm; /* ... and of their outputs */
    bool shifted;   /* norms multiply by 1 + w */
    bool fused;     /* files have q, k and v, and gate and up, in one tensor */
    bool scaled_embedding; /* by sqrt(C), rounded to the compute type */
    bool multipliers;      /* embedding_multiplier and others count */
    double query_scalar;   /* query_pre_attn_scalar */
    double attention_softcap, logits_softcap; /* of a file without the key */
    bool qkv_biased, mlp_biased; /* have biases, whatever the file says */
    bool out_plain; /* the projection after attention has no bias, even if q, k
                       and v have one */
    double dropout; /* of embeddings, attention and branches */
    enum dt_head_norm head_norm;
    const char *activation;  /* the key of the activation, ... */
    enum dt_activation gate; /* ... and its default */
    bool tied;               /* tie_word_embeddings */
    double norm_epsilon;     /* rms_norm_eps, layer_norm_epsilon */
    double theta;            /* rope_theta */
    double local_theta;      /* of layers with a window, or 0: the same */
    bool rotates_part;       /* partial_rotary_factor counts */
    bool longrope;           /* is the only scaling, also called su or yarn */
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
    bool pads_nothing; /* the token embedding has no row of padding */
    size_t original;   /* original_max_position_embeddings; 0: those of
                          the model */
    struct dt_sizes sizes; /* for keys that a part of a file lacks: of a model
                              by itself they are required */
    size_t sections[3];    /* mrope_section, how many pairs turn by which place;
                              all 0: all pairs turn by the same */
    bool interleaved;      /* these take turns, and the first has the rest */
    bool scales_features;  /* the multiplier of embeddings applies to features
                              of pictures, too */
    const char *const *carried; /* of a tower, what begins the names of tensors
                                   that nothing is computed with; NULL ends
                                   them */

    /* Reads the other differences between layers, before windows are read;
     * NULL: there are none. Adds problems.
     */
    void (*parse_layers)(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems);
    /* Writes that; NULL: nothing. -1: out of memory. */
    int (*format_layers)(json_t *root, const struct dt_model_config *config);
};

/* What reads pictures: blocks as of a family, after an embedding of patches. */
struct dt_tower_traits {
    struct dt_family family; /* its type is model_type in vision_config */
    const char *channels;    /* the key of the number of colors, which is 3 */
    bool class_first;        /* a row that is no patch begins each picture */
    size_t image;            /* image_size; 0: pictures have any size */
    size_t patch;            /* patch_size */
    size_t frames;           /* temporal_patch_size, if it has that key */
};

enum { DT_SPELLINGS = 4 };

/* A family of models with a tower. */
struct dt_vision_family {
    const char *type;          /* model_type in config.json */
    const char *causal, *base; /* its classes: with a head, and without, ... */
    const char *scores;        /* ... and of sequence classifiers; NULL: there
                                  are none, and the base class has that head
                                  in a file of its own */
    const struct dt_family *text; /* of its language model; NULL: any that has
                                     RoPE, llama without a model_type */
    const struct dt_tower_traits *const
        *towers; /* by model_type in vision_config,
             which counts if there are several;
             first the default; NULL ends them
             */
    /* What begins names, of each part (enum dt_name_part): first what new files
     * get, last what transformers 5 has in memory. Releases differ; NULL ends
     * them.
     */
    const char *const names[DT_NAMES][DT_SPELLINGS];
    const struct dt_param_row *projector; /* its parameters; a row without a
                                             name ends them */
    const struct dt_param_row *deep; /* those of the others, in the same order;
                                        NULL: there are none */
    const char *deep_names; /* names of the k-th begin as the tower's, then with
                               this and "k." */
    bool shifted;           /* their norms multiply by 1 + w */
    bool in_out;            /* files have their matrix as (in, out) */
    bool bidirectional;    /* in the text the tokens of a picture attend to each
                              other, also to later ones */
    const char *merge_key; /* the key of how many patches become one feature */
    bool ties_root; /* tie_word_embeddings of text_config does not count */
    bool tied;      /* that of a file without the key */
    size_t token;   /* image_token_id, or ... */
    const char *token_index; /* ... an older key for it, or NULL */
    size_t video;            /* video_token_id; 0: none */
    /* The learned position of the i-th of `grid` patches of an axis, as code of
     * transformers rounds it; NULL: i.
     */
    size_t (*place)(size_t grid, size_t i);
    /* Reads what is neither of the language model nor of the blocks of the
     * tower, which are known, from the object `root` of config.json and from
     * its vision_config. Adds problems.
     */
    void (*parse)(struct dt_vision_config *vision,
                  const struct dt_model_config *text, const json_t *root,
                  const json_t *tower, struct dt_error *problems);
};

/* All of them, by name; NULL ends them. */
extern const struct dt_vision_family *const dt_vision_families[];

/* All families, by name; NULL ends them. */
extern const struct dt_family *const dt_families[];

/* The JSON text of a value, shortened, for "got ...". Returns text. */
const char *dt_config_text(const json_t *value, char text[64]);

/* Adds a word to a text "one of a, b, c", which is empty at first. */
void dt_config_add_word(char *known, size_t room, const char *word);

/* Adds "<prefix><key>: expected <what>, got <got>" to problems. */
void dt_config_unexpected(struct dt_error *problems, const char *prefix,
                          const char *key, const char *what, const json_t *got);

/* Checks that a classifier has one label; without any, transformers has two. */
void dt_config_parse_labels(const json_t *root, struct dt_error *problems);

/* The value of a key; NULL if it is missing or null. */
const json_t *dt_config_value(const json_t *object, const char *key);

/* Reads a field from its key in `object`; if that is missing or null, and need
 * not be there, the field stays as it is.
 */
void dt_config_parse_field(struct dt_model_config *config,
                           const struct dt_field *field, const char *prefix,
                           const json_t *object, struct dt_error *problems);

/* Reads each field of that key. */
void dt_config_parse_key(struct dt_model_config *config, const char *key,
                         const char *prefix, const json_t *object,
                         struct dt_error *problems);

/* Reads an integer from 1 to `max` from <prefix><key>. If it is missing or
 * null, *out is unchanged.
 */
void dt_config_parse_size(const json_t *object, const char *prefix,
                          const char *key, size_t max, size_t *out,
                          struct dt_error *problems);

/* "silu", "gelu_pytorch_tanh", ...: in config.json. */
const char *dt_activation_name(enum dt_activation activation);

/* Reads an activation by its name in transformers. If it is missing, *out is
 * unchanged; null is refused.
 */
void dt_config_parse_activation(const json_t *object, const char *key,
                                enum dt_activation *out,
                                struct dt_error *problems);

/* Reads true or false. If it is missing or null, *out is unchanged. */
void dt_config_parse_flag(const json_t *object, const char *key, bool *out,
                          struct dt_error *problems);

/* Refuses values of keys of any object that no switch has. */
void dt_config_check_only(const json_t *object, struct dt_error *problems);

/* Adds the ids of tokens to config, which has a family and vocab_size. */
void dt_config_parse_ids(struct dt_model_config *config, const json_t *object,
                         struct dt_error *problems);

/* Fills config, which is zero but for its family, from the object of its keys;
 * `part`: it is a part of a file, and sizes may be missing. Adds problems.
 */
void dt_config_parse_model(struct dt_model_config *config, const json_t *object,
                           bool part, struct dt_error *problems);

/* Adds problems between several fields. Fields with a problem of their own are
 * 0.
 */
void dt_config_check_relations(const struct dt_model_config *config,
                               struct dt_error *problems);

/* The family of models with a tower of that name, or NULL. */
const struct dt_vision_family *dt_vision_family_find(const char *name);

/* Fills config, which is zero, and its vision, from a config.json of
 * `family`. Adds problems; EX_OSERR: out of memory.
 */
void dt_config_parse_vision(struct dt_model_config *config,
                            const struct dt_vision_family *family,
                            const json_t *root, struct dt_error *problems);

/* Reads an integer >= min. If it is missing or null, *out is unchanged. */
void dt_config_parse_count(const json_t *root, const char *key, json_int_t min,
                           size_t *out, struct dt_error *problems);

/* Reads how positions are rotated, in the spelling of transformers 4 or 5.
 * Needs the fields of the file.
 */
void dt_config_parse_rope(struct dt_model_config *config, const json_t *root,
                          struct dt_error *problems);

/* Reads which layers have a window, and the other differences between layers.
 * Needs the fields of the file. A family that does not say which layers have
 * windows is a problem, too.
 */
void dt_config_parse_layers(struct dt_model_config *config, const json_t *root,
                            struct dt_error *problems);

#endif /* DT_MODEL_FAMILY_H */
