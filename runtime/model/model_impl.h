/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_impl.h - a model's tensors, and the passes of its parts (private to
 * model/)
 *
 * Letters as in ops.h; Q is (NH + 2 NKV) HS, F is I, or 2I with a gate.
 */
#ifndef DT_MODEL_MODEL_IMPL_H
#define DT_MODEL_MODEL_IMPL_H

#include "model/family/roles.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

/* --- inputs.c: a batch's arrays on the device ---
 *
 * A batch is uploaded in one copy, from staging memory that is filled while the
 * copy of the previous batch may still run.
 */

/* Arrays on the device, and staging memory for the next ones. */
struct dt_staged {
    struct dt_exec exec;
    size_t bytes;
    struct dt_buffer *buf; /* on the device */
    struct {
        void *data;
        struct dt_event *copied; /* then data may be overwritten */
    } slots[DT_MODEL_BATCHES];
    unsigned uploads;
};

/* Bytes of an array of so many bytes in one of these. */
size_t dt_staged_bytes(size_t bytes);

/* Allocates `bytes`. -1: EX_OSERR; dt_staged_fini in any case. */
int dt_staged_init(struct dt_staged *staged, const struct dt_exec *exec,
                   size_t bytes, const char *what, struct dt_error *err);
void dt_staged_fini(struct dt_staged *staged);

/* Arrays being assembled in staging memory; offsets on the device are equal. */
struct dt_upload {
    struct dt_buffer *buf;
    char *host;
    size_t used; /* bytes */
};

/* Waits for staging memory. -1, here and below: the device failed. */
int dt_staged_begin(struct dt_staged *staged, struct dt_upload *upload,
                    struct dt_error *err);

/* The memory of the next array, which the caller fills, and its view on the
 * device. NULL, and an absent view, if count is 0.
 */
void *dt_upload_reserve(struct dt_upload *upload, size_t count,
                        enum dt_dtype dtype, struct dt_view *view);

/* The same, filled with data, unless that is NULL: then it is absent. */
struct dt_view dt_upload_copy(struct dt_upload *upload, const void *data,
                              size_t count, enum dt_dtype dtype);

/* Queues the copy of all arrays. */
int dt_staged_finish(struct dt_staged *staged, const struct dt_upload *upload,
                     struct dt_error *err);

/* A decoder's cache of keys and values, and where in it those of a batch are.
 */
struct dt_cache {
    struct dt_view pool;      /* (blocks, n_layer, 2, DT_KV_BLOCK, NKV*HS) X */
    size_t blocks;            /* of a sequence, at most */
    const int32_t *places;    /* (B*T) where they are stored, as in ops.h */
    const int32_t *indices;   /* (B*T) in their sequences, of tokens that attend
                                 to the cache; NULL: the batch attends to
                                 itself */
    const int32_t *positions; /* (B*T) of RoPE or learned, on all axes; with
                                 indices, as is */
    const int32_t *table;     /* (B*T, blocks) */
    const double *draws;      /* (B*T) of their next tokens, with indices */
    const int32_t *seen;      /* (B*T, words) as in ops.h, or NULL */
    size_t words;
};

/* Limits of batches. */
struct dt_inputs_limits {
    size_t B, N;        /* rows, unless they have no numbers; tokens */
    size_t document;    /* tokens of the longest document */
    bool picks;         /* they have picked tokens */
    size_t table;       /* elements of a cache's table, of its draws, ... */
    size_t draws, seen; /* ... and of what was seen */
    size_t longest; /* longer documents have the second table of RoPE's angles,
                       if this is not 0 */
    size_t angles;  /* rows of the first */
    size_t axes;    /* rows of positions */
    size_t merge;   /* patches on the side of a feature, with several axes */
    bool ahead;     /* tokens of a picture attend to later ones of it */
};

struct dt_inputs {
    struct dt_inputs_limits limits;
    struct dt_staged staged;

    /* the current batch, on the device */
    struct dt_view ids, targets; /* (N) I32 */
    struct dt_view first, last;  /* (N) I32, bounds of attention, or absent: of
                                    text the start of the document alone */
    struct dt_documents documents;        /* of text, what `first` says */
    struct dt_view near_first, near_last; /* (N) I32, those of blocks with
                                             windows, if they are others */
    struct dt_view positions; /* (axes, N) I32, within a document, and rows of
                                 the tables of angles */
    struct dt_view places;    /* (N) I32, in the cache, or absent */
    struct dt_view indices;   /* (N) I32, or absent: struct dt_cache */
    struct dt_view table;     /* (N, blocks) I32, or absent */
    struct dt_view draws;     /* (N) F64, or absent */
    struct dt_view seen;      /* (N, words) I32, or absent */
    struct dt_view rows;      /* (B) I64, or absent */
    struct dt_view picked, picked_targets; /* (picked_count) I32, or absent */
};

/* Positions on each axis that a picture takes, of M-RoPE: its longer side, in
 * features.
 */
static inline size_t dt_picture_positions(
    const struct dt_batch_picture *picture, size_t merge)
{
    const size_t height = picture->height, width = picture->width;
    return (height > width ? height : width) / merge;
}

/* Device bytes for such batches. */
size_t dt_inputs_bytes(const struct dt_inputs_limits *limits);

/* Allocates memory for them. -1: EX_OSERR; dt_inputs_fini in any case. */
int dt_inputs_init(struct dt_inputs *inputs, const struct dt_exec *exec,
                   const struct dt_inputs_limits *limits, struct dt_error *err);
void dt_inputs_fini(struct dt_inputs *inputs);

/* Queues the copy of a batch, whose arrays may change afterwards, and of its
 * places in the cache, unless that is NULL. If batch->rows is NULL, B limits
 * nothing. -1: the device failed, or EX_SOFTWARE, a batch beyond the limits.
 */
int dt_inputs_upload(struct dt_inputs *inputs, const struct dt_batch *batch,
                     const struct dt_cache *cache, struct dt_error *err);

/* --- sparse_map.c: sparse matrices of a batch on the device --- */

struct dt_sparse_size {
    size_t rows, columns, entries; /* at most so many of these */
};

/* A matrix that is filled in staging memory, row after row, and on the device
 * the matrix and its transposed.
 */
struct dt_sparse_map {
    struct dt_sparse_size size;
    int32_t *starts, *columns; /* as in struct dt_sparse */
    float *values;
    int32_t *back_starts, *back_columns; /* of the transposed */
    float *back_values;
    size_t row, entry; /* so far */
    struct dt_sparse plain, transposed;
};

/* Bytes of both. */
size_t dt_sparse_map_bytes(const struct dt_sparse_size *size);

/* Begins an empty one of this size. */
void dt_sparse_map_begin(struct dt_sparse_map *map, struct dt_upload *upload,
                         const struct dt_sparse_size *size);

/* Adds an entry to the current row; ends that; ends all rows. */
void dt_sparse_map_add(struct dt_sparse_map *map, size_t column, float value);
void dt_sparse_map_end_row(struct dt_sparse_map *map);
void dt_sparse_map_finish(struct dt_sparse_map *map);

/* --- tower_rows.c: the pictures of a batch on the device ---
 *
 * Letters: P patches; N rows of the tower, which are these and those of
 * classes; M features; g patches of a feature.
 */

struct dt_tower_size {
    size_t patches, pictures; /* without copies */
    size_t rows, features;
    size_t copied; /* features that copies repeat, counted for each copy */
    size_t tile;   /* a picture has the bits that it has alone if attention cuts
                      sums here, ... */
    size_t least; /* ... and if there are so many patches, rows and features, of
                     which others are fillers; both 0: it need not */
};

/* Pictures one after another, and copies of them in the same order. */
struct dt_tower_run {
    size_t feature, count; /* of the pictures */
    size_t at;             /* of the copies, in `copies` */
};

struct dt_tower_rows {
    const struct dt_vision_config *vision;
    struct dt_tower_size most;
    struct dt_staged staged;
    size_t run_room;

    /* the current batch */
    size_t patches; /* without fillers */
    struct dt_tower_size size;
    struct dt_view pixels;    /* (P, row) U8 */
    struct dt_view cells;     /* (N) I32, the patch of a row; P: the class */
    struct dt_view cell_rows; /* (P) I32, the row of a patch */
    struct dt_view classes; /* (N) I32, 0 in rows of the class, else -1; absent
                               without any */
    struct dt_view sources; /* (M g) I32, the rows of features; absent if they
                               are all rows in order */
    struct dt_view slots;   /* (taps, M g) I32, where those of a tap go; absent
                               if there is one */
    struct dt_view tokens;  /* (M) I32, positions of features in (B, T); of
                               fillers -1 */
    struct dt_view copies; /* (copied) I32, positions of the features of copies;
                              absent without any */
    struct dt_tower_run *runs; /* (run_count) of these */
    size_t run_count;
    struct dt_sparse_map pool;   /* (M, N) if features are means of rows */
    struct dt_sparse_map places; /* (N, vision->places^2) if positions are
                                    interpolated */
};

/* Whether features are made of other rows than all in their order. */
static inline bool dt_tower_rows_gather(const struct dt_vision_config *vision,
                                        const struct dt_tower_size *size)
{
    return vision->class_first || vision->patch_dropped ||
           vision->tap_count > 1 || vision->pooled || vision->deep_count > 0 ||
           size->tile > 0;
}

/* The most rows of such pictures; `least` as in struct dt_tower_size. */
struct dt_tower_size dt_tower_rows_most(const struct dt_vision_config *vision,
                                        const struct dt_model_options *options,
                                        size_t tile, size_t least);

/* Device bytes for such pictures. */
size_t dt_tower_rows_bytes(const struct dt_vision_config *vision,
                           const struct dt_tower_size *size);

/* Allocates memory for them. -1: EX_OSERR; dt_tower_rows_fini in any case. */
int dt_tower_rows_init(struct dt_tower_rows *pictures,
                       const struct dt_vision_config *vision,
                       const struct dt_exec *exec,
                       const struct dt_tower_size *most, struct dt_error *err);
void dt_tower_rows_fini(struct dt_tower_rows *pictures);

/* Queues the copy of the pictures of a batch, and sets positions and bounds of
 * `inputs`, the tower's. -1: the device failed, or EX_SOFTWARE, pictures beyond
 * the limits or that the tower cannot read.
 */
int dt_tower_rows_upload(struct dt_tower_rows *pictures,
                         struct dt_inputs *inputs, const struct dt_batch *batch,
                         struct dt_error *err);

/* --- acts.c: where activations lie in one buffer ---
 *
 * Only what is expensive to recompute is saved for backward; norms and the
 * MLP's activation are recomputed unless options.save_activations.
 */

/* A buffer that is divided into tensors. */
struct dt_arena {
    struct dt_buffer *buf; /* NULL: only count */
    enum dt_dtype compute;
    size_t used, peak; /* bytes; SIZE_MAX once they overflow */
};

/* The next rows x cols elements. */
struct dt_view dt_arena_take(struct dt_arena *arena, enum dt_dtype dtype,
                             size_t rows, size_t cols);

/* Output and statistics of a norm. */
struct dt_norm {
    struct dt_view out;        /* (N, C) */
    struct dt_view mean, rstd; /* (N) F32; mean only of LayerNorm */
};

/* The saved tensors of a block. Without a backward pass all blocks share the
 * same memory; with options.recompute they share all of it except x, and with
 * options.offload every other block shares that. Those below options.lowest
 * have no backward pass.
 */
struct dt_block {
    struct dt_view x;         /* (N, C) the residual stream at the input */
    struct dt_view qkv;       /* (N, Q), rotated if heads are not normed */
    struct dt_view attention; /* (N, NH*HS) */
    struct dt_view lse;       /* (B, NH, T) F32 */
    struct dt_view x_mid;     /* (N, C) the stream between the two branches */
    struct dt_view fc;        /* (N, F) */
    /* only with norms of the outputs of attention and MLP: these outputs */
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
    struct dt_view d_act;       /* (N, I); only with an adapter, whose pairs
                                   read act once more: else it is in act */
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

/* The sizes of a plan depend on these. */
struct dt_acts_for {
    const struct dt_model_config *config;
    const struct dt_ops *ops;
    const struct dt_model_options *options;
    size_t B, T; /* of the batch */
};

/* Index of the first block that goes back, of a text behind the units of a
 * tower; those before it share all memory, as without a backward pass.
 */
static inline size_t dt_acts_first_kept(const struct dt_model_config *config,
                                        const struct dt_model_options *options)
{
    const size_t embedding = dt_model_first_unit(config);
    return options->lowest > embedding ? options->lowest - embedding - 1 : 0;
}

/* Plans activations in buf. buf and blocks(n_layer) may be NULL, to count only.
 * Returns the bytes that they take, SIZE_MAX if that overflows: for no batch of
 * at most options->B * options->T tokens more than for the largest one.
 */
size_t dt_acts_plan(struct dt_acts *acts, struct dt_block *blocks,
                    struct dt_buffer *buf, const struct dt_acts_for *plan);

/* --- instance.c: a part of a model --- */

/* Tokens of the longest document that a batch can have. */
static inline size_t dt_model_longest_document(
    const struct dt_model_options *options)
{
    const size_t most = options->B * options->T;
    return options->document > 0 && options->document < most ? options->document
                                                             : most;
}

/* Rows of a table of angles. */
static inline size_t dt_rope_rows(const struct dt_model_options *options)
{
    return options->decode > 0 ? options->decode : options->T;
}

struct dt_model {
    struct dt_model_config config; /* without its text */
    const struct dt_family *family;
    struct dt_model_scales scales;
    struct dt_model_options options;
    const struct dt_layout *layout;
    struct dt_exec exec;
    const struct dt_ops *ops; /* exec's */
    struct dt_stream *stream; /* exec's */
    struct dt_places weights, grads;
    struct dt_places trained; /* weights of the adapter */
    bool adapter_on;
    struct dt_adapter_place *adapted; /* (layout->param_count); NULL: none */
    struct dt_role_range roles[DT_ROLES];
    struct dt_buffer
        *rope_buf; /* tables(positions, R) F32 of angles, or NULL */
    struct dt_buffer *axes_buf; /* (R/2) I32, of positions with several axes */
    struct dt_buffer *buf;      /* of the activations */
    char *inputs_host;          /* staging memory: inputs of blocks */
    size_t inputs_host_bytes;
    struct dt_acts acts;
    struct dt_block *blocks;      /* (n_layer) */
    const struct dt_cache *cache; /* NULL: none */

    bool projects_in_out;   /* of a tower: files have projectors' so */
    size_t first_unit;      /* of the layout: those of a tower come before */
    struct dt_tower *tower; /* NULL: there is none */
    size_t kept;            /* units of it whose output is there */

    /* the current batch */
    size_t B, T, N;
    bool train; /* with dropout, and a backward pass */
    struct dt_inputs inputs;
};

/* A model of units u = 0 .. n_layer + 1 without a tower in front; `vision`: it
 * is the tower of that, without inputs. As dt_model_create.
 */
struct dt_model *dt_model_create_part(
    const struct dt_model_config *config, const struct dt_vision_config *vision,
    const struct dt_layout *layout, const struct dt_exec *exec,
    struct dt_places weights, struct dt_places grads,
    const struct dt_model_options *options, struct dt_error *err);

void dt_model_destroy_part(struct dt_model *m); /* NULL is fine */

/* Device bytes that it allocates, SIZE_MAX if that overflows. */
size_t dt_model_part_bytes(const struct dt_model_config *config,
                           const struct dt_ops *ops,
                           const struct dt_model_options *options);

/* Plans activations of a batch of this size. -1: EX_SOFTWARE, it is larger than
 * the largest one.
 */
int dt_model_bind_rows(struct dt_model *m, size_t B, size_t T, bool train,
                       struct dt_error *err);

/* The weight or gradient of a role in unit u; absent if the unit has none. */
struct dt_view dt_model_weight(const struct dt_model *m, size_t u,
                               enum dt_role role);
struct dt_view dt_model_grad(const struct dt_model *m, size_t u,
                             enum dt_role role);

/* All gradients of unit u; count 0: it is frozen. */
struct dt_view dt_model_unit_grads(const struct dt_model *m, size_t u);

/* The constants of the norms of a model. */
struct dt_norm_rule dt_model_norm_rule(const struct dt_model *m);

/* The dropouts of a model: the embedding, then three in each block u. */
enum dt_place {
    DT_PLACE_EMBEDDING = 0,
    DT_PLACE_ATTENTION = 1, /* of the probabilities */
    DT_PLACE_ATTENTION_BRANCH = 2,
    DT_PLACE_MLP_BRANCH = 3,
};

/* Dropout with this rate at `place` of unit u; rate 0 outside of training. */
struct dt_dropout dt_model_dropout(const struct dt_model *m, double rate,
                                   size_t u, enum dt_place place);

/* --- attend.c --- */

/* Queues the operations between the matrices of attention in block u: from qkv,
 * whose heads are normed and rotated, to attention and lse.
 */
void dt_attend_forward(struct dt_model *m, size_t u);

/* Queues the way back, from d_attention to d_qkv and the gradients of norms of
 * heads.
 */
void dt_attend_backward(struct dt_model *m, size_t u, bool accumulate);

/* --- block.c --- */

/* Queues forward of block u, from the pair (x_mid, branch) of the unit below,
 * or the x that this has computed, to its own. With `recompute`, queues only
 * the part that its backward pass needs, from the x that was saved up to act.
 */
void dt_block_forward(struct dt_model *m, size_t u, bool recompute);

/* Queues backward of block u, and recomputes tensors that were not saved.
 * d_stream is the gradient of the block's output before, and of its x
 * afterwards.
 */
void dt_block_backward(struct dt_model *m, size_t u, bool accumulate);

/* The residual stream after block u, computed if the block has left a pair. */
struct dt_view dt_block_output(struct dt_model *m, size_t u);

/* What is added to if something is added after block u: that stream, or the
 * second of the pair.
 */
struct dt_view dt_block_last(const struct dt_model *m, size_t u);

/* out(N, OC) = x(N, C) w + b, with the pairs of an adapter */
void dt_linear_forward(const struct dt_model *m, size_t u, enum dt_role role,
                       struct dt_view out, struct dt_view x, size_t N, size_t C,
                       size_t OC);

/* dx(N, C), unless it is absent, and the gradients of w and b and of pairs,
 * from dout(N, OC)
 */
void dt_linear_backward(const struct dt_model *m, size_t u, enum dt_role role,
                        struct dt_view dx, struct dt_view dout,
                        struct dt_view x, size_t N, size_t C, size_t OC,
                        bool accumulate);

/* norm->out and its statistics from x(N, C) */
void dt_norm_forward(const struct dt_model *m, size_t u, enum dt_role role,
                     const struct dt_norm *norm, struct dt_view x);

/* For `count` rows from `first`: sum = x + dropout of branch, unless the layer
 * that computed branch has added x; then the norm of sum, with the weight
 * `role` of unit u, into `norm`.
 */
void dt_residual_norm_forward(struct dt_model *m, size_t u, enum dt_role role,
                              const struct dt_norm *norm, struct dt_view sum,
                              struct dt_view x, size_t first, size_t count,
                              const struct dt_dropout *dropout);

/* Adds to d_stream the gradient of x through its norm, and puts its sum over
 * rows into d_sums, if that is there; the gradient of the norm's output is in
 * branch.
 */
void dt_norm_backward(struct dt_model *m, size_t u, enum dt_role role,
                      const struct dt_norm *norm, struct dt_view x,
                      bool accumulate);

/* --- tower.c: the units in front of a language model --- */

/* Activations of a projector; letters as in struct dt_tower_rows, K is the
 * width of what a feature is made of.
 */
struct dt_projector_acts {
    struct dt_view merged;      /* (M, K) what features are made of */
    struct dt_norm norm;        /* of that, if it is normed */
    struct dt_view hidden, act; /* (M, inner) */
    struct dt_view features;    /* (M, width) */
    struct dt_view d_features;  /* (M, width) */
    struct dt_view d_merged;    /* (M, K) */
};

/* Activations of these units besides those of blocks. */
struct dt_tower_acts {
    struct dt_view
        embedded;          /* (N, C) if the embedding is normed, before that */
    struct dt_norm norm_0; /* of it, without an output */
    struct dt_view
        tap; /* (M g, C) a workspace for rows of one of several taps */
    struct dt_projector_acts projectors[1 + DT_VISION_MAX_TAPS];

    /* These two groups, of which gradients of projectors are the second, too,
     * share memory: the embedding comes first and goes back last.
     */
    struct dt_view patches; /* (P, row) */
    struct dt_view cells;   /* (P + 1, C) their products, and the class; in
                               backward, their gradients */
    struct dt_view d_act;   /* (M, inner), of one projector at a time */
    struct dt_view d_input; /* (M, K) behind the norm, if there is one, likewise
                             */
};

/* What a tower depends on. */
struct dt_tower_for {
    const struct dt_vision_config *vision;
    const struct dt_model_options *options; /* of the whole model */
    size_t width;                           /* C of the text */
};

struct dt_tower {
    struct dt_vision_config config;
    struct dt_model_options options;
    const struct dt_vision_config *vision; /* these, ... */
    struct dt_tower_for plan;              /* ... and these */
    struct dt_model *model; /* the embedding, blocks and what follows */
    struct dt_tower_rows pictures;
    struct dt_buffer *colors; /* (3, 256) F32 */
    struct dt_buffer *buf;    /* of the activations */
    struct dt_tower_acts acts;
};

/* Device bytes of one, SIZE_MAX if that overflows. */
size_t dt_tower_bytes(const struct dt_tower_for *tower,
                      const struct dt_ops *ops);

/* As dt_model_create. */
struct dt_tower *dt_tower_create(const struct dt_tower_for *tower,
                                 const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 struct dt_places weights,
                                 struct dt_places grads, struct dt_error *err);
void dt_tower_destroy(struct dt_tower *t); /* NULL is fine */

/* Makes the pictures of a batch the current ones; as dt_model_bind. */
int dt_tower_bind(struct dt_tower *t, const struct dt_batch *batch, bool train,
                  struct dt_error *err);

/* Queue the passes of unit u of the tower: nothing but gradients of 0 where the
 * batch has no picture.
 */
void dt_tower_forward(struct dt_tower *t, size_t u);
void dt_tower_backward(struct dt_tower *t, size_t u, bool accumulate);

/* --- projector.c: from blocks of a tower to the stream of the text --- */

/* The unit of projector k. */
static inline size_t dt_projector_unit(const struct dt_tower *t, size_t k)
{
    return t->vision->tower.n_layer + 2 + k;
}

/* Whether something is made of the output of block u. */
bool dt_tower_taps(const struct dt_vision_config *vision, size_t u);

/* Takes the rows of features from x(N, C), the output of block u or of the norm
 * after the last one, if it is tapped.
 */
void dt_tap_forward(struct dt_tower *t, size_t u, struct dt_view x);

/* d(N, C) += the gradients of these rows */
void dt_tap_backward(const struct dt_tower *t, size_t u, struct dt_view d);

/* Queue the passes of projector k: from its merged rows to features; from their
 * gradients to those of merged rows, unless nothing below is trained.
 */
void dt_projector_forward(const struct dt_tower *t, size_t k);
void dt_projector_backward(const struct dt_tower *t, size_t k, bool accumulate);

/* x(N, C) of the text += at their tokens the features that are added after
 * block `u` of it, 0: its embedding; nothing without any.
 */
void dt_tower_add_features(const struct dt_tower *t, size_t u, struct dt_view x,
                           size_t N);

/* Takes the gradients of these features from d(N, C), that of x. */
void dt_tower_take_gradients(const struct dt_tower *t, size_t u,
                             struct dt_view d);

/* --- transformer.c --- */

/* logits(count, V) F32 of rows [first, first + count), after forward of all
 * units except the last. Not with dropout.
 */
void dt_model_head(struct dt_model *m, struct dt_view logits, size_t first,
                   size_t count);

#endif /* DT_MODEL_MODEL_IMPL_H */
