/* SPDX-License-Identifier: Apache-2.0 */
/* compose_impl.h - the two halves of a model (private to compose/) */
#ifndef DT_COMPOSE_COMPOSE_IMPL_H
#define DT_COMPOSE_COMPOSE_IMPL_H

#include <jansson.h>

#include "compose/compose.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#define DT_COMPOSE_TOKEN "<image>"
#define DT_COMPOSE_PAD "<pad>"

enum { DT_COMPOSE_FILE_BYTES = 256 << 20 };

/* What the texts are made of. */
struct dt_halves {
    const struct dt_compose *compose;
    json_t *tower; /* vision_config; owned */
    bool clip;     /* the tower has a class token */
    bool full;     /* all its rows become features */
    struct dt_model_config language;
    struct dt_tokenizer *tokenizer; /* owned */
    int32_t image;                  /* the id of DT_COMPOSE_TOKEN */
    int32_t pad; /* of DT_COMPOSE_PAD, if the tokenizer names no token for
                    padding; -1: it does */
    bool image_is_new, pad_is_new; /* the tokenizer does not have it yet */
    size_t vocab_size;
};

/* Whether <dir>/model.safetensors or its shards are there. */
bool dt_compose_has_weights(const char *dir);

/* The object in <dir>/<name>, with *text, if that is not NULL, set to the text.
 * NULL and an empty err: there is no such file.
 */
json_t *dt_compose_json(const char *dir, const char *name,
                        struct dt_error *err);

/* The text of an object, whose reference it takes; NULL and err: EX_OSERR. */
char *dt_compose_dump(json_t *root, struct dt_error *err);

/* Reads the configs of both, and chooses ids. -1: as dt_compose_read.
 * dt_halves_fini in any case.
 */
int dt_halves_init(struct dt_halves *halves, const struct dt_compose *compose,
                   struct dt_error *err);
void dt_halves_fini(struct dt_halves *halves);

/* Make the texts of config.json and of the processors, and those of the
 * tokenizer. -1: EX_DATAERR, EX_OSERR.
 */
int dt_compose_config_texts(struct dt_composed *composed,
                            const struct dt_halves *halves,
                            struct dt_error *err);
int dt_compose_token_texts(struct dt_composed *composed,
                           const struct dt_halves *halves,
                           struct dt_error *err);

/* --- weights --- */

struct dt_compose_weights; /* the open files of both, and a list of tensors */

/* NULL and err: as dt_compose_check. */
struct dt_compose_weights *dt_compose_weights_open(
    const struct dt_compose *compose, const struct dt_composed *composed,
    struct dt_error *err);
void dt_compose_weights_close(struct dt_compose_weights *w); /* NULL is fine */

/* The type that they are written in. */
enum dt_dtype dt_compose_weights_dtype(const struct dt_compose_weights *w);

struct dt_ckpt_writer;

/* Adds the files of weights. -1: as dt_ckpt_add_model, dt_weights_read. */
int dt_compose_weights_add(struct dt_compose_weights *w,
                           struct dt_ckpt_writer *writer, struct dt_error *err);

#endif /* DT_COMPOSE_COMPOSE_IMPL_H */
