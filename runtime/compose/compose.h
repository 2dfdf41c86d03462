/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose.h - a LLaVA model, made of a tower and a language model
 *
 * The tower is that of a directory of CLIPVisionModel or SiglipVisionModel, or
 * of a whole CLIPModel or SiglipModel; the language model is of any family with
 * RoPE. The directory that is made is one of transformers: tensors and
 * config.json of both, a projector of random weights, the image processor of
 * the tower, and the tokenizer of the language model with a token for images.
 */
#ifndef DT_COMPOSE_COMPOSE_H
#define DT_COMPOSE_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Rows of the tower that become features. */
enum dt_compose_rows {
    DT_COMPOSE_AUTO,    /* DEFAULT of CLIP, FULL of SigLIP */
    DT_COMPOSE_DEFAULT, /* all but the first, the class token of CLIP */
    DT_COMPOSE_FULL,
};

struct dt_compose {
    const char *vision, *language; /* directories */
    long layer;                    /* whose output is read: -1 is the last */
    enum dt_compose_rows rows;
    bool random;   /* a directory without weights gets random ones, ... */
    uint64_t seed; /* ... of this seed, as the projector does */
    size_t max_shard_bytes;
};

/* The texts of the directory's files. Those that it does not get are NULL. */
struct dt_composed {
    char *config;    /* config.json, without the type of weights */
    char *processor; /* processor_config.json */
    char *image;     /* preprocessor_config.json */
    char *tokenizer; /* tokenizer.json; NULL: it is tokenizer.model, a copy */
    char *tokenizer_config;
    char *special_tokens; /* special_tokens_map.json */
    char *generation;     /* generation_config.json */
    char *template;       /* chat_template.jinja; NULL: that of the language
                             model shows images, and is copied */
    char *record;         /* composition.json: what it was made of */
    size_t vocab_size, new_rows; /* tokens, and how many are beyond those of the
                                    language model */
};

/* Makes the texts, without reading weights. -1: EX_NOINPUT, EX_DATAERR naming
 * the directory and the key that does not fit; EX_OSERR. dt_composed_fini in
 * any case.
 */
int dt_compose_read(struct dt_composed *composed,
                    const struct dt_compose *compose, struct dt_error *err);
void dt_composed_fini(struct dt_composed *composed);

/* Checks that the weights of both directories are there and fit. -1: as
 * dt_weights_open, and EX_NOINPUT.
 */
int dt_compose_check(const struct dt_compose *compose,
                     const struct dt_composed *composed, struct dt_error *err);

/* Writes the directory `to`, whole or not at all; `replace`: in place of one
 * that is there. Weights are read and written one tensor after another, in the
 * type of the language model. -1: as dt_compose_check, dt_ckpt_begin_dir.
 */
int dt_compose_write(const struct dt_compose *compose,
                     const struct dt_composed *composed, const char *to,
                     bool replace, struct dt_error *err);

/* Whether `dir` has been made: 1, of the same directories with the same
 * settings; 0, it is not there. -1: EX_CONFIG, of others, and which;
 * EX_DATAERR, it was not made here.
 */
int dt_compose_find(const char *dir, const struct dt_compose *compose,
                    struct dt_error *err);

#endif /* DT_COMPOSE_COMPOSE_H */
