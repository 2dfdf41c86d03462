/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - a model that continues sequences, with a cache of blocks
 *
 * Keys and values are in blocks of DT_KV_BLOCK positions (ops.h); who has which
 * block, and when, is up to the caller. The values that a decoder computes for
 * a token depend on the tokens before it alone, not on the rest of the batch.
 */
#ifndef DT_MODEL_DECODE_H
#define DT_MODEL_DECODE_H

#include "model/model.h"

struct dt_decoder;

struct dt_decoder_options {
    enum dt_dtype compute;    /* of weights, keys and values */
    size_t rows;              /* most tokens of a step */
    size_t tokens;            /* most tokens of prompts at a time; >= rows */
    size_t length;            /* most positions of a sequence */
    size_t blocks;            /* of the cache */
    size_t patches, pictures; /* most of prompts at a time */
    const float *colors;      /* as in struct dt_model_options */
    bool penalty;             /* steps have `seen` */
    struct dt_model_adapter adapter; /* model.h */
};

/* Device bytes that a decoder needs of the memory of its caller, bytes that it
 * allocates in addition, and those of a block in that memory. SIZE_MAX if that
 * overflows.
 */
size_t dt_decoder_bytes(const struct dt_model_config *config,
                        const struct dt_ops *ops,
                        const struct dt_decoder_options *options);
size_t dt_decoder_own_bytes(const struct dt_model_config *config,
                            const struct dt_ops *ops,
                            const struct dt_decoder_options *options);
size_t dt_decoder_block_bytes(const struct dt_model_config *config,
                              enum dt_dtype compute);

/* Blocks of the longest sequence. */
size_t dt_decoder_most_blocks(const struct dt_decoder_options *options);

/* A decoder in `memory`, not owned, where it needs dt_decoder_bytes. From one
 * sequence to the next it keeps nothing there but the cache. NULL and err:
 * EX_OSERR, or EX_SOFTWARE if the memory is smaller.
 */
struct dt_decoder *dt_decoder_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights,
                                     struct dt_buffer *memory,
                                     const struct dt_decoder_options *options,
                                     struct dt_error *err);
void dt_decoder_destroy(struct dt_decoder *decoder); /* NULL is fine */

/* Computes with these weights, of the same layout, until called again. */
void dt_decoder_use(struct dt_decoder *decoder, struct dt_places weights);

/* Where a prompt of `count` tokens begins in a batch of prompts that has `used`
 * tokens, if sequences have `length` positions: there it has the tiles of
 * attention that it has alone.
 */
size_t dt_decoder_place(const struct dt_model_config *config,
                        const struct dt_ops *ops, size_t length, size_t used,
                        size_t count);

/* Prompts, one after another. */
struct dt_prompt_rows {
    size_t count;             /* tokens, with those between two prompts */
    const int32_t *ids;       /* (count) -1 at the tokens of pictures */
    const int32_t *doc_start; /* (count) as in tensor/tensor.h, ... */
    const int32_t *places;    /* (count) ... as in ops.h; -1 between prompts */
    const struct dt_batch_picture *pictures; /* as in tensor/tensor.h */
    size_t picture_count;
    const uint8_t *pixels;
};

/* Queues keys and values of prompts, and before them the features of their
 * pictures. -1, here and below: the device failed, or EX_SOFTWARE, more tokens,
 * rows or patches than the options say.
 */
int dt_decoder_prefill(struct dt_decoder *decoder,
                       const struct dt_prompt_rows *rows, struct dt_error *err);

/* What added to the index of a token behind these pictures of its sequence is
 * its position: M-RoPE counts fewer positions of a picture than it has tokens.
 */
int32_t dt_decoder_shift(const struct dt_model_config *config,
                         const struct dt_batch_picture *pictures, size_t count);

/* Queues a copy of a block. */
int dt_decoder_copy(struct dt_decoder *decoder, int32_t to, int32_t from,
                    struct dt_error *err);

/* The next token of each of `count` sequences. */
struct dt_step_rows {
    size_t count;
    const int32_t *ids;       /* (count) the last token of each, ... */
    const int32_t *indices;   /* ... its index in its sequence, ... */
    const int32_t *positions; /* ... its position (dt_decoder_shift), ... */
    const int32_t *places;    /* ... and where its keys and values are stored */
    const int32_t *table;     /* (count, dt_decoder_most_blocks) */
    const double *draws;      /* (count) as in ops.h */
    const int32_t *seen;      /* as in ops.h, with options.penalty */
};

/* Draws the next tokens, never a placeholder of pictures, and waits for them.
 */
int dt_decoder_step(struct dt_decoder *decoder, const struct dt_step_rows *rows,
                    const struct dt_sampling *sampling, int32_t *ids,
                    float *logps, struct dt_error *err);

#endif /* DT_MODEL_DECODE_H */
