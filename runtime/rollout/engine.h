/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - a model with its tokenizer that continues prompts */
#ifndef DT_ROLLOUT_ENGINE_H
#define DT_ROLLOUT_ENGINE_H

#include "model/model.h"
#include "rollout/rollout.h"
#include "tokenizer/tokenizer.h"

enum { DT_ENGINE_STOPS = 32 };

/* Zeroed, except exec, before dt_engine_open; released with dt_engine_close. */
struct dt_engine {
    struct dt_exec exec; /* device and stream to compute on */
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_buffer *buf; /* the weights */
    struct dt_view weights;
    struct dt_tokenizer *tokenizer; /* NULL: ids only */
    char *tokenizer_dir;            /* for messages */
    char *image_dir;                /* dt_sight_dir */
    int32_t stop[DT_ENGINE_STOPS];
    size_t stop_count;
    const char *strings[DT_ENGINE_STOPS]; /* not owned */
    size_t string_count;
};

/* Loads the model that `dir` names (dt_weights_find) to compute in `dtype`, and
 * its tokenizer if it has one or its tokens are bytes. The end-of-text tokens
 * that the model's files name become stop tokens. -1: EX_NOINPUT, EX_DATAERR,
 * EX_OSERR.
 */
int dt_engine_open(struct dt_engine *engine, const char *dir,
                   enum dt_dtype dtype, struct dt_error *err);
void dt_engine_close(struct dt_engine *engine);

/* Ends texts at this token of the vocabulary, or where this text has come,
 * which is not copied. -1: EX_USAGE, it is empty, there is no tokenizer, or no
 * room.
 */
int dt_engine_add_stop(struct dt_engine *engine, const char *text,
                       struct dt_error *err);

/* Completes prompts: a rollout of its own memory, once. The engine sets the
 * type and the stops of the options. -1: as dt_rollout_create and
 * dt_rollout_run.
 */
int dt_engine_generate(struct dt_engine *engine,
                       struct dt_rollout_options options,
                       const struct dt_rollout_io *io, struct dt_error *err);

/* Whether it is one of the stop ids. */
bool dt_engine_stops(const struct dt_engine *engine, int32_t id);

/* Reads eos_token_id of generation_config.json in `dir`, one id or a list, of
 * ids below vocab_size the first `room`; *count is how many. It is fine if the
 * file does not exist. -1: EX_DATAERR, EX_NOINPUT.
 */
int dt_stops_read(const char *dir, size_t vocab_size, int32_t *ids, size_t room,
                  size_t *count, struct dt_error *err);

#endif /* DT_ROLLOUT_ENGINE_H */
