/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - the struct of a model, and its tensors (private to model/) */
#ifndef DT_MODEL_INSTANCE_H
#define DT_MODEL_INSTANCE_H

#include "model/acts.h"
#include "model/adapter.h"
#include "model/family.h"
#include "model/inputs.h"
#include "model/model.h"
#include "model/params.h"

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
        *rope_buf;         /* tables(positions, R) F32 of angles, or NULL */
    struct dt_buffer *buf; /* of the activations */
    char *inputs_host;     /* staging memory: inputs of blocks, offload.c */
    size_t inputs_host_bytes;
    struct dt_acts acts;
    struct dt_block *blocks;      /* (n_layer) */
    const struct dt_cache *cache; /* NULL: none */

    /* the current batch */
    size_t B, T, N;
    bool train; /* with dropout, and a backward pass */
    struct dt_inputs inputs;
};

/* The weight or gradient of a role in unit u; absent if the unit has none. */
struct dt_view dt_model_weight(const struct dt_model *m, size_t u,
                               enum dt_role role);
struct dt_view dt_model_grad(const struct dt_model *m, size_t u,
                             enum dt_role role);

/* What norms of the model compute with. */
static inline struct dt_norm_rule dt_model_norm_rule(const struct dt_model *m)
{
    return (struct dt_norm_rule){.eps = (float)m->config.norm_epsilon,
                                 .shift = m->family->shifted ? 1.0f : 0.0f};
}

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

#endif /* DT_MODEL_INSTANCE_H */
