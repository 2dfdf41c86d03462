/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.h - a model at work (private to model/) */
#ifndef DT_MODEL_TRANSFORMER_H
#define DT_MODEL_TRANSFORMER_H

#include "model/acts.h"
#include "model/feed.h"
#include "model/model.h"
#include "model/params.h"

/* Keys and values of the rows of a batch, if it belongs to a decoder. */
struct dt_cache {
    struct dt_view k, v;   /* (n_layer, rows, S, NKV*HS) */
    size_t rows, S;        /* sequences, length of the longest */
    size_t first;          /* the sequence that is row 0 of the batch */
    const int32_t *places; /* (B*T), where keys and values go; negative:
                              nowhere */
    bool next;             /* T is 1 and attention sees what is stored */
};

struct dt_model {
    struct dt_model_config config; /* without its text */
    struct dt_model_options options;
    const struct dt_layout *layout;
    struct dt_exec exec;
    const struct dt_ops *ops; /* exec's */
    struct dt_stream *stream; /* exec's */
    struct dt_view weights, grads;
    struct dt_role_range roles[DT_ROLES];
    struct dt_buffer *buf; /* of the activations */
    struct dt_acts acts;
    struct dt_block *blocks;      /* (n_layer) */
    const struct dt_cache *cache; /* NULL: none */

    /* the batch at hand */
    size_t B, T, N;
    bool train; /* with dropout, and a backward pass */
    struct dt_feed feed;
};

/* The weight or gradient of a role in unit u; absent if there is none. */
struct dt_view dt_model_weight(const struct dt_model *m, size_t u,
                               enum dt_role role);
struct dt_view dt_model_grad(const struct dt_model *m, size_t u,
                             enum dt_role role);

/* The dropouts of a model: the embedding, then three in each block u. */
enum dt_place {
    DT_PLACE_EMBEDDING = 0,
    DT_PLACE_ATTENTION = 1, /* of the probabilities */
    DT_PLACE_ATTENTION_BRANCH = 2,
    DT_PLACE_MLP_BRANCH = 3,
};

/* Dropout with this rate at `place` of unit u, or none at all. */
struct dt_dropout dt_model_dropout(const struct dt_model *m, double rate,
                                   size_t u, enum dt_place place);

/* --- block.c --- */

/* Forward of block u, from the stream that the unit below left, up to x_mid and
 * the branch of the MLP.
 */
void dt_block_forward(struct dt_model *m, size_t u);

/* d_stream comes in as the gradient of what the block gives to the unit above
 * and leaves as the gradient of its x.
 */
void dt_block_backward(struct dt_model *m, size_t u, bool accumulate);

/* For `count` rows from `first` on: sum = x + dropout of branch, and its norm
 * with the weight `role` of unit u,
 * into `norm`.
 */
void dt_norm_add_forward(struct dt_model *m, size_t u, enum dt_role role,
                         const struct dt_norm *norm, struct dt_view sum,
                         struct dt_view x, size_t first, size_t count,
                         const struct dt_dropout *dropout);

/* Adds to d_stream what comes back through the norm of x; the gradient of its
 * output is in branch.
 */
void dt_norm_backward(struct dt_model *m, size_t u, enum dt_role role,
                      const struct dt_norm *norm, struct dt_view x,
                      bool accumulate);

/* --- transformer.c --- */

/* logits(count, V) F32 of rows [first, first + count), after forward of all
 * units but the last. There is no dropout.
 */
void dt_model_head(struct dt_model *m, struct dt_view logits, size_t first,
                   size_t count);

#endif /* DT_MODEL_TRANSFORMER_H */
