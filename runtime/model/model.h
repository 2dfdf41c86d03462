/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a transformer: units and passes
 *
 * All families are blocks of attention and MLP. Units: 0 the embedding,
 * 1..n_layer the blocks, n_layer + 1 the final norm and head.
 *
 * A model of images and text is two of these. The units of a tower come before
 * those of the text: its embedding of patches, its blocks, a unit for what
 * follows them, and the projector, which makes features as wide as the text's
 * embeddings. They are added to the stream at the tokens of the pictures.
 */
#ifndef DT_MODEL_MODEL_H
#define DT_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/family/model_config.h"
#include "model/graphs.h"
#include "ops/ops.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"

/* --- training --- */

/* An adapter that is trained while the weights are frozen (model_adapter.h); r
 * 0: there is none, and the weights are trained.
 */
struct dt_model_adapter {
    size_t r;
    float scale;
    double dropout;
    const struct dt_layout *layout; /* not owned; for dt_model_create */
    struct dt_places weights;       /* of type compute; also */
    struct dt_places grads;         /* fp32, absent without `train`; also */
};

struct dt_model_options {
    size_t B, T;              /* largest batch, ... */
    size_t patches, pictures; /* ... and the most that its pictures have, ... */
    size_t places;            /* ... each in so many places, copies included; 0:
                                 in one */
    const float *colors;      /* (3, 256) what the bytes of a color become, of a
                                 model with a tower: dt_image_table; NULL: there
                                 are no patches */
    enum dt_dtype compute;    /* of weights and activations */
    bool train;               /* with backward passes, ... */
    size_t lowest;            /* ... which end at this unit, the first that is
                                 trained: nothing of those before it is kept */
    bool documents;        /* plan for batches with doc_start; not a promise */
    size_t document;       /* the most positions of one; 0: of all B T */
    bool ahead;            /* plan for positions that see later ones, as those
                              of pictures do */
    bool recompute;        /* save only the input of each block and recompute
                              the block in its backward pass: the same bits */
    bool offload;          /* with recompute: these inputs wait in host memory,
                              and two of them are on the device */
    bool save_activations; /* save norms and activations of the MLP as well,
                              instead of recomputing them; on the CPU the same
                              bits */
    bool exact_rows;       /* a row has the same bits wherever it is, among any
                              others, at some cost; without save_activations */
    bool whole_head;       /* compute the logits of all rows at once, where that
                              is faster and takes more memory */
    bool dropout;          /* apply the config's, in training */
    uint64_t seed;         /* of dropout */
    float label_smoothing;
    bool values;     /* the head computes values of picked tokens, not a loss */
    bool collisions; /* and of log-probabilities the collision, too */
    bool entropies;  /* and the entropy, which has a gradient */
    bool logits;     /* and the values of logging.logits: the entropy, the mean
                        of the logits, and whether the target has the largest */
    float temperature; /* divides the logits of log-probabilities; 0: none */
    size_t decode; /* > 0: a decoder's, of sequences of so many positions, and
                      without a loss */
    size_t table;  /* elements of its table of blocks, ... */
    size_t draws, seen; /* ... of the draws of a step, and of what was seen */
    struct dt_model_adapter adapter;
    struct dt_buffer *memory; /* for activations, dt_model_memory_bytes or more;
                                 not owned; NULL: the model allocates it */
};

struct dt_model;

/* A model bound to the places (not owned) of its weights, of type compute, and
 * of its gradients, fp32, absent of frozen units and without `train`, on
 * exec->device. The weights of a unit need to be there while its work runs, and
 * the gradients from then on until they are used. NULL and err.
 */
struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 struct dt_places weights,
                                 struct dt_places grads,
                                 const struct dt_model_options *options,
                                 struct dt_error *err);
void dt_model_destroy(struct dt_model *model); /* NULL is fine */

/* Device bytes that dt_model_create will allocate. SIZE_MAX if that overflows.
 */
size_t dt_model_activation_bytes(const struct dt_model_config *config,
                                 const struct dt_ops *ops,
                                 const struct dt_model_options *options);

/* Those of them that hold activations, for nothing longer than from one bind to
 * the next, and the memory itself, which others may use meanwhile.
 */
size_t dt_model_memory_bytes(const struct dt_model_config *config,
                             const struct dt_ops *ops,
                             const struct dt_model_options *options);
struct dt_buffer *dt_model_memory(const struct dt_model *model);

/* Host bytes that it will allocate for `offload`. SIZE_MAX if that overflows.
 */
size_t dt_model_host_bytes(const struct dt_model_config *config,
                           const struct dt_model_options *options);

/* Batches that may be in flight to the device. */
enum { DT_MODEL_BATCHES = 2 };

/* What the work of a batch depends on. */
struct dt_graph_shape dt_model_shape(const struct dt_model *model,
                                     const struct dt_batch *batch,
                                     bool accumulate);

/* Makes `batch` the current one and queues its upload; it may be at most as
 * large as options say, and its arrays may change on return. Waits until the
 * device has copied the batch DT_MODEL_BATCHES before this one. `train`: with
 * dropout, and a backward pass will follow. Token ids must be < V. -1: the
 * device failed, or EX_SOFTWARE, the batch is larger.
 */
int dt_model_bind(struct dt_model *model, const struct dt_batch *batch,
                  bool train, struct dt_error *err);

/* Queues the forward pass of unit u < unit_count - 1; units in order 0, 1, ...
 */
void dt_model_forward(struct dt_model *model, size_t u);

/* Lets further forward passes through the bound batch leave out the units of a
 * tower below `first`: their output is there, and of the same weights.
 */
void dt_model_keep(struct dt_model *model, size_t first);

/* Queues forward and, in training, backward of the last unit (final norm, head,
 * loss): adds the sum of the token losses of the batch to `step` (ops.h), and
 * computes gradients of its loss scale times that sum. Label smoothing is in
 * the loss without training, too.
 */
void dt_model_loss_and_backward(struct dt_model *model, struct dt_view step,
                                bool accumulate);

/* Queues the backward pass of unit u < unit_count - 1; units in order ...,
 * options.lowest. Afterwards the gradients of unit u are final for this
 * micro-batch (with a tied head those of unit 0 are final after u = 0,
 * including the head's share).
 */
void dt_model_backward(struct dt_model *model, size_t u, bool accumulate);

/* With options.values, on the device, (picked_count) F32 each: of a picked
 * token the log-probability of its target, 0 without one, or with config.scores
 * its score.
 */
struct dt_values {
    struct dt_view value;
    struct dt_view score; /* of the value head; only with config.value_head */
    struct dt_view collision; /* ops.h; only with options.collisions */
    struct dt_view entropy;   /* ops.h; with options.entropies or .logits */
    struct dt_view mean, top; /* ops.h; only with options.logits */
    struct dt_view weight;    /* the derivative of the loss by value, from the
                                 caller before the backward pass; with scores
                                 multiplied by the loss scale */
    struct dt_view entropy_weight; /* the same by entropy; with entropies */
    struct dt_view score_weight;   /* the same by score, multiplied by the loss
                                      scale; with a value head */
};

/* Where they are for the current batch. */
struct dt_values dt_model_values(const struct dt_model *model);

/* Queues the forward pass of the last unit, which computes them, ... */
void dt_model_values_forward(struct dt_model *model);

/* ... and its backward pass, with the loss scale of `step`. */
void dt_model_values_backward(struct dt_model *model, struct dt_view step,
                              bool accumulate);

/* Computes with these weights, of the same layout, until called again. */
void dt_model_use(struct dt_model *model, struct dt_places weights);

/* The same for the weights of the adapter; NULL: without it. */
void dt_model_use_adapter(struct dt_model *model,
                          const struct dt_places *weights);

/* With `offload`, queue the input of block u to host memory after its forward
 * pass, and back before its backward pass; without, and of other units, do
 * nothing. -1: the device failed.
 */
int dt_model_send_input(struct dt_model *model, size_t u, struct dt_error *err);
int dt_model_bring_input(struct dt_model *model, size_t u,
                         struct dt_error *err);

/* --- the head of a reward model ---
 *
 * The score of a sequence is h . w, where h(C) is the last hidden state of one
 * of its tokens and w(C) the only row of a linear layer without bias, which
 * Hugging Face calls score.weight. The functions queue operations of
 * ops/ops.h, whose conventions they share.
 */

/* Hidden states of N tokens, and the M tokens of them that are scored. */
struct dt_score {
    size_t N, C, M;
    struct dt_view x;    /* (N, C) X */
    struct dt_view rows; /* (M) I32, all different */
    struct dt_view w;    /* (C) X */
    struct dt_view h;    /* (M, C) X, x at rows: of the forward pass */
};

/* The token of ids(count) at which the sequence is scored: the last one that is
 * not `pad`, as in transformers, or else the first.
 */
size_t dt_score_token(const int32_t *ids, size_t count, int32_t pad);

/* scores(M), F32; of fp32 the same bits whatever else is scored, if M is
 * ops->few_rows or more
 */
void dt_score_forward(const struct dt_exec *exec, const struct dt_score *s,
                      struct dt_view scores);

/* dx(N,C) and dw(C) (= or +=), from dscores(M) F32, which includes the loss
 * scale. workspace: M * (C + 1) elements X.
 */
void dt_score_backward(const struct dt_exec *exec, const struct dt_score *s,
                       struct dt_view dx, struct dt_view dw,
                       struct dt_view dscores, struct dt_view workspace,
                       bool accumulate);

#endif /* DT_MODEL_MODEL_H */
