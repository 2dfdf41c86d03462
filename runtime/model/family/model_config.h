/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.h - a model as its config.json describes it, and its parameters
 *
 * All families are one model with switches (family.h). Weights are stored as
 * Hugging Face stores them, under its names, so a checkpoint is a copy.
 */
#ifndef DT_MODEL_FAMILY_MODEL_CONFIG_H
#define DT_MODEL_FAMILY_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "ops/ops.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"

struct dt_family;        /* traits of its models: a file of text/ */
struct dt_vision_family; /* of models with a tower: a file of vision/ */
struct dt_vision_config;

enum dt_rope_scaling {
    DT_ROPE_DEFAULT,
    DT_ROPE_LINEAR,
    DT_ROPE_LLAMA3,
    DT_ROPE_DYNAMIC,
    DT_ROPE_YARN,
    DT_ROPE_LONGROPE,
    DT_ROPE_SCALINGS
};

enum { DT_MODEL_MAX_EOS = 8, DT_MODEL_MAX_LAYERS = 1024 };

/* A bit for each layer. */
struct dt_layers {
    uint64_t bits[DT_MODEL_MAX_LAYERS / 64];
};

static inline bool dt_layers_have(const struct dt_layers *layers, size_t l)
{
    return layers->bits[l / 64] >> l % 64 & 1;
}

static inline void dt_layers_add(struct dt_layers *layers, size_t l)
{
    layers->bits[l / 64] |= (uint64_t)1 << l % 64;
}

struct dt_model_config {
    const struct dt_family *family;
    size_t vocab_size;   /* V */
    size_t stored_vocab; /* rows of the embedding and of the head that files of
                            this config.json have, if fewer; 0: V */
    size_t n_positions;  /* P */
    size_t n_embd;       /* C, the hidden size */
    size_t n_layer;
    size_t n_head;    /* NH, of queries */
    size_t n_kv_head; /* NKV, of keys and values; divides n_head */
    size_t head_size; /* HS; n_head * head_size may differ from n_embd */
    size_t n_inner;   /* I, width of the MLP */
    double norm_epsilon;
    double initializer_range;
    bool tie_word_embeddings; /* the head is the token embedding */
    bool scores;     /* the head is one number for a sequence: a reward model */
    bool value_head; /* the model also has a head like that of a reward model: a
                        number for each position */
    bool qkv_bias, out_bias, mlp_bias;
    enum dt_activation gate; /* of the MLP */

    /* positions; not of GPT-2, which learns them */
    double rope_theta;
    double rope_local_theta; /* of layers with a window, without scaling; 0: as
                                in the others */
    double rotary_factor; /* the part of a head that is rotated; 0: all of it */
    enum dt_rope_scaling rope_scaling;
    double rope_factor, rope_low, rope_high; /* of the scaling */
    double rope_fast, rope_slow;             /* beta_fast, beta_slow of YaRN */
    double rope_mscale, rope_mscale_all;
    double rope_attention; /* multiplies cosines and sines, of YaRN and longrope
                            */
    bool rope_truncate;
    size_t rope_original;                   /* positions before the scaling */
    float rope_short[DT_MAX_HEAD_SIZE / 2]; /* divisors of longrope, of short */
    float rope_long[DT_MAX_HEAD_SIZE / 2];  /* and of long documents */
    struct dt_layers unrotated;             /* layers without RoPE */
    size_t rope_section[3]; /* pairs of a head that the place of a token in
                               text, down and across a picture turn; all 0: its
                               position turns all */

    /* attention; ignored by families that lack them, as the scales are */
    size_t window;         /* sliding window of attention, 0: none, ... */
    struct dt_layers full; /* ... nor in these layers */
    double query_scalar;   /* scores are divided by its root; 0: by that of HS
                            */
    double attention_softcap, logits_softcap; /* 0: none */

    double embedding_multiplier, residual_multiplier; /* of Granite */
    double attention_multiplier, logits_scaling;
    double embd_dropout, attn_dropout, resid_dropout;
    int32_t bos, pad;    /* -1: none */
    int32_t padding_row; /* of the token embedding: it has no gradient as an
                            input, as the padding_idx of PyTorch; -1: none */
    int32_t eos[DT_MODEL_MAX_EOS];
    size_t eos_count;
    struct dt_vision_config *vision; /* the tower in front; NULL: none; owned */
    char *text; /* the config.json it was read from, or NULL: unknown keys are
                   written back as they were; owned */
};

/* Outputs of blocks that features are made of, side by side. */
enum { DT_VISION_MAX_TAPS = 8 };

/* The parts of a model whose names in files begin alike. */
enum dt_name_part {
    DT_NAMES_VISION,
    DT_NAMES_PROJECTOR,
    DT_NAMES_TRUNK, /* in place of "model." of the language model */
    DT_NAMES_HEAD,  /* before "lm_head." of that */
    DT_NAMES
};

/* The half of a model that reads pictures. */
struct dt_vision_config {
    const struct dt_vision_family *family;
    struct dt_model_config tower; /* n_layer: of the blocks that are computed;
                                     vocab_size 0: there is no head;
                                     n_positions: learned ones of a picture, 0:
                                     none */
    size_t layers; /* blocks that files have: those from tower.n_layer on are
                      carried from file to file */
    size_t patch, frames; /* a row of pixels has 3 frames patch patch values */
    size_t grid;          /* pictures have grid x grid patches; 0: any number */
    bool class_first;     /* a row that is no patch begins each picture, ... */
    bool class_kept;      /* ... and becomes a feature */
    bool patch_dropped; /* the first patch becomes none, as in transformers with
                           the strategy "default" and no such row */
    size_t places;      /* side of a square of learned positions that is
                           stretched over each picture; 0: there is none */
    size_t merge;       /* merge x merge patches become one feature, ... */
    bool pooled;        /* ... as their mean; else side by side */
    size_t window; /* features on the side of a window of blocks that are not
                      in tower.full; 0: there are no windows */
    size_t taps[DT_VISION_MAX_TAPS]; /* these blocks, in the order of features'
                                        columns; 0: the embedding */
    size_t tap_count;
    size_t deep[DT_VISION_MAX_TAPS]; /* outputs of these blocks, which rise,
                                        become features, too, and are added
                                        after the first blocks of the text, one
                                        after another (Meng et al., "DeepStack",
                                        arXiv 2406.04334) */
    size_t deep_count;
    size_t inner; /* width between the matrices of the projector; 0: it is one
                     matrix */
    enum dt_activation activation; /* between them */
    bool projector_bias;
    int32_t token;               /* id of the placeholder of a feature, ... */
    int32_t video;               /* ... and of one of a video; -1: none */
    const char *names[DT_NAMES]; /* what begins names in its files; static */
};

/* Features of a picture of so many patches. */
static inline size_t dt_vision_features(const struct dt_vision_config *vision,
                                        size_t height, size_t width)
{
    return height * width / (vision->merge * vision->merge) +
           vision->class_kept - vision->patch_dropped;
}

/* Values of a row of pixels. */
static inline size_t dt_vision_row(const struct dt_vision_config *vision)
{
    return 3 * vision->frames * vision->patch * vision->patch;
}

/* Bytes of a patch in the pixels of a batch, whose frames are equal. */
static inline size_t dt_vision_row_bytes(const struct dt_vision_config *vision)
{
    return 3 * vision->patch * vision->patch;
}

/* Width of what one feature is made of. */
static inline size_t dt_vision_merged(const struct dt_vision_config *vision)
{
    const size_t patches = vision->pooled ? 1 : vision->merge * vision->merge;
    return vision->tap_count * patches * vision->tower.n_embd;
}

/* Units in front of the text's embedding: the tower's embedding, blocks and
 * last norm, and projectors.
 */
static inline size_t dt_model_first_unit(const struct dt_model_config *config)
{
    const struct dt_vision_config *vision = config->vision;
    return vision ? vision->tower.n_layer + 3 + vision->deep_count : 0;
}

/* The last unit of the text that adds features of pictures. */
static inline size_t dt_model_last_fed(const struct dt_model_config *config)
{
    return dt_model_first_unit(config) +
           (config->vision ? config->vision->deep_count : 0);
}

/* Rows of unit u, which is in front of the text's embedding, for a patch:
 * projectors, the last ones, have features.
 */
static inline double dt_model_rows_of_patch(
    const struct dt_model_config *config, size_t u)
{
    const double merge = (double)config->vision->merge;
    return u > config->vision->tower.n_layer + 1 ? 1 / (merge * merge) : 1;
}

/* Whether the last unit computes with the token embedding. */
static inline bool dt_model_tied(const struct dt_model_config *config)
{
    return config->tie_word_embeddings && !config->scores;
}

/* The window of block u; 0: none. */
static inline size_t dt_model_window(const struct dt_model_config *config,
                                     size_t u)
{
    return dt_layers_have(&config->full, u - 1) ? 0 : config->window;
}

/* Elements of a head that are rotated. */
size_t dt_model_rotary(const struct dt_model_config *config);

/* Whether the angles of a document depend on its length: those of documents
 * longer than rope_original differ.
 */
static inline bool dt_model_two_lengths(const struct dt_model_config *config)
{
    return config->rope_scaling == DT_ROPE_LONGROPE;
}

/* The most positions that a decoder of the model has: angles of keys in the
 * cache must not change when a sequence becomes long.
 */
static inline size_t dt_model_room(const struct dt_model_config *config)
{
    return dt_model_two_lengths(config) &&
                   config->rope_original < config->n_positions
               ? config->rope_original
               : config->n_positions;
}

/* "gpt2", "llava", ...: model_type in config.json */
const char *dt_model_type(const struct dt_model_config *config);

/* The family of that name, or NULL. */
const struct dt_family *dt_model_family_find(const char *name);

/* Whether files have the matrices of blocks as (in, out), as GPT-2's. */
bool dt_model_in_out(const struct dt_model_config *config);

/* Whether positions are an embedding, and not rotations. */
bool dt_model_learns_positions(const struct dt_model_config *config);

/* Whether score.weight has a file of its own: beside a head over the
 * vocabulary, or because transformers has no sequence classifier of the family.
 */
bool dt_model_head_apart(const struct dt_model_config *config);

/* Checks that transformers can read a model of the family with a score in place
 * of its head, or with a tower its base model. -1: EX_CONFIG.
 */
int dt_model_check_scores(const struct dt_model_config *config,
                          struct dt_error *err);

/* Reads config.json text (`name` for messages), in the spelling of transformers
 * 4 or 5. -1: EX_DATAERR, every problem of the file in err, with the key and
 * the value that was expected; unknown architectures and mathematics are
 * refused, with the list of known ones. dt_model_config_fini in any case.
 */
int dt_model_config_parse(struct dt_model_config *config, const char *json,
                          const char *name, struct dt_error *err);
void dt_model_config_fini(struct dt_model_config *config);

/* The same for the file config.json in `dir`, or a file of another name. -1:
 * EX_NOINPUT or EX_DATAERR.
 */
int dt_model_config_load(struct dt_model_config *config, const char *path,
                         struct dt_error *err);

/* Lets the vocabulary grow to `vocab_size`, which is not less: the layout then
 * says how many rows files may have instead.
 */
void dt_model_config_grow(struct dt_model_config *config, size_t vocab_size);

/* Checks a config from elsewhere (inline keys) by the same rules. -1:
 * EX_CONFIG.
 */
int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err);

/* A key by which two models would compute differently with the same weights, or
 * NULL. Dropout and limits of lengths may differ.
 */
const char *dt_model_config_differ(const struct dt_model_config *a,
                                   const struct dt_model_config *b);

/* Such a key, and the values that both have of it. */
struct dt_model_change {
    char key[64], was[32], is[32];
};

/* Finds the first one. false: there is none. */
bool dt_model_config_change(const struct dt_model_config *was,
                            const struct dt_model_config *is,
                            struct dt_model_change *change);

/* The key of config.json for the member at `offset`, as models of this family
 * call it; NULL: they have none.
 */
const char *dt_model_config_key(const struct dt_model_config *config,
                                size_t offset);

/* A hash of all that dt_model_config_differ compares. */
uint64_t dt_model_config_hash(const struct dt_model_config *config);

/* config.json that transformers reads, weights being of `dtype`: the text it
 * came from with torch_dtype or dtype changed, or all keys of the family.
 * malloc'ed, NULL and err if out of memory.
 */
char *dt_model_config_format(const struct dt_model_config *config,
                             enum dt_dtype dtype, struct dt_error *err);

enum { DT_NAME_BYTES = 160 }; /* of the longest name of a parameter */

/* Whether two names are those of the same parameter in two spellings, of
 * releases of transformers and of files of a model without its head; whether a
 * name begins so.
 */
bool dt_model_names_alike(const char *a, const char *b);
bool dt_model_name_begins(const char *name, const char *prefix);

/* Lets the layout of a model with a tower have the spelling of its files, which
 * is found for each part by itself; `has` says whether they have a tensor. A
 * part that they lack keeps its spelling.
 */
void dt_model_config_spell(struct dt_model_config *config,
                           bool (*has)(const void *files, const char *name),
                           const void *files);

/* The name that transformers 5 has in memory, and so PEFT, for a name of the
 * layout.
 */
void dt_model_memory_name(const struct dt_model_config *config,
                          const char *name, char memory[DT_NAME_BYTES]);

/* The layout of all parameters, finished for `world` ranks. Parameters that are
 * multiplied as one are joined: q, k, v; gate and up.
 */
struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err);

/* Random weights of unit u, fp32, in host memory, as Hugging Face initializes
 * them: normal(0, initializer_range), GPT-2's residual projections divided by
 * sqrt(2 n_layer), biases and the padding row 0, norms 1 (0 where they stand
 * for 1 + w). A function of (seed, element) only, never of world size. Padding
 * stays as it is.
 */
void dt_model_init_unit(const struct dt_model_config *config,
                        const struct dt_layout *layout, size_t u,
                        struct dt_view weights, uint64_t seed);

#endif /* DT_MODEL_FAMILY_MODEL_CONFIG_H */
