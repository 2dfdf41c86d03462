/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a transformer from config.json: parameters, units, passes
 *
 * Units: 0 the embedding, 1..n_layer the blocks, n_layer + 1 the final norm and
 * head. Weights are stored as Hugging Face stores them, under its names, so a
 * checkpoint is a copy. Now: GPT-2 (Radford et al. 2019; pre-norm blocks,
 * learned positions, tanh GELU, tied head).
 */
#ifndef DT_MODEL_MODEL_H
#define DT_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "ops/ops.h"
#include "tensor/batch.h"
#include "tensor/layout.h"

struct dt_model_config {
    char model_type[16];  /* "gpt2" */
    size_t vocab_size;    /* V */
    size_t n_positions;   /* P */
    size_t n_embd;        /* C, a multiple of n_head */
    size_t n_layer;
    size_t n_head;        /* NH */
    size_t n_inner;       /* width of the MLP, 4*C by default */
    double layer_norm_epsilon;
    double initializer_range;
    bool tie_word_embeddings; /* the head is wte; otherwise lm_head.weight */
    bool has_dropout;     /* the file asks for dropout, which is not applied */
};

/* Reads config.json text (`name` for messages). -1: EX_DATAERR, every problem
 * of the file in err, with key and what was expected; architectures we do not
 * know are refused with the list of those we do.
 */
int dt_model_config_parse(struct dt_model_config *config, const char *json,
                          const char *name, struct dt_error *err);

/* The same for the file config.json in `dir`. -1: EX_NOINPUT or EX_DATAERR. */
int dt_model_config_load(struct dt_model_config *config, const char *dir,
                         struct dt_error *err);

/* Checks a config from elsewhere (inline keys) by the same rules. -1:
 * EX_CONFIG.
 */
int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err);

/* config.json that transformers reads; malloc'ed, NULL and err if out of
 * memory. bos/eos ids are written if >= 0.
 */
char *dt_model_config_format(const struct dt_model_config *config, int eos_id,
                             struct dt_error *err);

/* The layout of all parameters, finished for `world` ranks. */
struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err);

/* Random weights as Hugging Face initialises them: normal(0,
 * initializer_range), residual projections divided by sqrt(2 n_layer), biases
 * 0, norms 1. A function of (seed, element) only, never of world size.
 */
void dt_model_init_weights(const struct dt_model_config *config,
                           const struct dt_layout *layout,
                           struct dt_view weights, uint64_t seed);

struct dt_model;

/* A model bound to its flat buffers (not owned; grads.count == 0: forward
 * only), with activations for batches of up to B x T. NULL and err.
 */
struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_ops *ops,
                                 struct dt_view weights, struct dt_view grads,
                                 size_t B, size_t T, struct dt_error *err);
void dt_model_destroy(struct dt_model *model); /* NULL is fine */

/* Activation bytes of dt_model_create, known before; `train` if the model will
 * have gradients. SIZE_MAX if they do not fit into a size_t.
 */
size_t dt_model_activation_bytes(const struct dt_model_config *config,
                                 size_t B, size_t T, bool train);

/* Forward of unit u < unit_count - 1; units in order 0, 1, ... The batch must
 * stay until the backward pass of unit 0. Token ids must be < V.
 */
void dt_model_forward(struct dt_model *model, size_t u,
                      const struct dt_batch *batch);

/* Forward and, with `train`, backward of the last unit: returns the sum of the
 * token losses of the batch; gradients are those of scale * sum.
 */
double dt_model_loss(struct dt_model *model, const struct dt_batch *batch,
                     bool train, float scale, bool accumulate);

/* Backward of unit u < unit_count - 1; units in order ..., 1, 0. Afterwards the
 * gradients of unit u are final for this micro-batch (with a tied head those
 * of unit 0 are final after u = 0, including the head's share).
 */
void dt_model_backward(struct dt_model *model, size_t u,
                       const struct dt_batch *batch, bool accumulate);

/* After forward of all units but the last: logits(V) of position t of row b,
 * written to `logits` (host memory).
 */
void dt_model_logits(struct dt_model *model, size_t b, size_t t,
                     float *logits);

#endif /* DT_MODEL_MODEL_H */
