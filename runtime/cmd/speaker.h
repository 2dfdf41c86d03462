/* SPDX-License-Identifier: Apache-2.0 */
/* speaker.h - a model with its tokenizer, that continues prompts */
#ifndef DT_CMD_SPEAKER_H
#define DT_CMD_SPEAKER_H

#include "rollout/generate.h"
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include "model/model.h"

enum { DT_SPEAKER_STOPS = 32 };

/* Zeroed but for exec before dt_speaker_open, released with dt_speaker_close. */
struct dt_speaker {
    struct dt_exec exec; /* what computes */
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_buffer *buf; /* the weights */
    struct dt_view weights;
    struct dt_tokenizer *tokenizer; /* NULL: ids only */
    struct dt_encoder *encoder;
    int32_t stop[DT_SPEAKER_STOPS];
    size_t stop_count;
};

/* Loads the model that `dir` means (dt_weights_find) to compute in `dtype`, and
 * its tokenizer, if there is one or the model's tokens are bytes. What the
 * model's files name as the end of a text stops a row. -1: EX_NOINPUT,
 * EX_DATAERR, EX_OSERR.
 */
int dt_speaker_open(struct dt_speaker *speaker, const char *dir,
                    enum dt_dtype dtype, struct dt_error *err);
void dt_speaker_close(struct dt_speaker *speaker);

/* One more token that stops a row. -1: EX_USAGE, there is no such token or no
 * room.
 */
int dt_speaker_add_stop(struct dt_speaker *speaker, const char *token,
                        struct dt_error *err);

/* Tokens of a text that is to be continued; for an empty one that which begins
 * texts. -1: EX_USAGE if there is no tokenizer, EX_OSERR.
 */
int dt_speaker_encode(struct dt_speaker *speaker, const char *text,
                      struct dt_tokens *out, struct dt_error *err);

/* Tokens of a conversation up to where the assistant answers. */
int dt_speaker_encode_chat(struct dt_speaker *speaker,
                           const struct dt_chat *chat,
                           const struct dt_chat_message *messages, size_t count,
                           struct dt_tokens *out, struct dt_error *err);

/* Continues `rows` prompts together; generation->stop is the speaker's. -1:
 * EX_DATAERR if a prompt is empty or too long for the model, EX_OSERR.
 */
int dt_speaker_speak(struct dt_speaker *speaker,
                     const struct dt_tokens *prompts, size_t rows,
                     struct dt_generation generation, struct dt_error *err);

#endif /* DT_CMD_SPEAKER_H */
