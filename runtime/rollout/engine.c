/* SPDX-License-Identifier: Apache-2.0 */
/* speaker.c - loading a model to generate, and prompts as its tokens */
#include "config.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/mirror.h"
#include "weights/weights.h"
#include "base/file.h"
#include "base/json.h"
#include "cmd/speaker.h"
#include "data/dataset.h"

enum { PARAMS_PER_THREAD = 1 << 22, CONFIG_MAX_BYTES = 1 << 20 };

void dt_speaker_close(struct dt_speaker *speaker)
{
    dt_encoder_destroy(speaker->encoder);
    dt_tokenizer_destroy(speaker->tokenizer);
    dt_buffer_destroy(speaker->buf);
    dt_layout_destroy(speaker->layout);
    dt_model_config_fini(&speaker->config);
}

/* Threads wait for each other in every operation, of which a small model has
 * many and short ones.
 */
static void choose_threads(const struct dt_layout *layout)
{
    int useful = 1 + (int)(layout->param_total / PARAMS_PER_THREAD);
    if (useful < omp_get_max_threads())
        omp_set_num_threads(useful);
}

static int add_stop_id(struct dt_speaker *speaker, int32_t id)
{
    for (size_t i = 0; i < speaker->stop_count; i++)
        if (speaker->stop[i] == id)
            return 0;
    if (speaker->stop_count == DT_SPEAKER_STOPS)
        return -1;
    speaker->stop[speaker->stop_count++] = id;
    return 0;
}

/* The ends of a text that generation_config.json names: one id or a list. -1:
 * EX_DATAERR, EX_NOINPUT; no such file is fine.
 */
static int read_stops(struct dt_speaker *speaker, const char *dir,
                      struct dt_error *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/generation_config.json", dir);
    if (access(path, F_OK) < 0)
        return 0;
    char *text = dt_file_read(path, CONFIG_MAX_BYTES, err);
    if (!text)
        return -1;
    json_t *root = dt_json_parse(path, text, err);
    free(text);
    if (!root)
        return -1;
    const json_t *eos = json_object_get(root, "eos_token_id");
    size_t count = json_is_array(eos) ? json_array_size(eos) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value >= 0 && value < (json_int_t)speaker->config.vocab_size)
            add_stop_id(speaker, (int32_t)value);
    }
    json_decref(root);
    return 0;
}

static int open_tokenizer(struct dt_speaker *speaker, const char *dir,
                          struct dt_error *err)
{
    char path[PATH_MAX + 32];
    bool bytes = speaker->config.vocab_size == DT_BYTE_VOCAB;
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (access(path, F_OK) == 0)
        speaker->tokenizer = dt_tokenizer_load(dir, err);
    else if (bytes)
        speaker->tokenizer = dt_tokenizer_load("byte", err);
    else
        return 0;
    if (!speaker->tokenizer)
        return -1;
    int32_t eos = dt_tokenizer_special(speaker->tokenizer, DT_TOKEN_EOS);
    if (eos >= 0)
        add_stop_id(speaker, eos);
    speaker->encoder = dt_encoder_create(speaker->tokenizer, err);
    return speaker->encoder ? 0 : -1;
}

static int load(struct dt_speaker *speaker, const char *dir,
                struct dt_error *err)
{
    struct dt_mirror mirror;
    int result = -1;
    if (dt_mirror_open(&mirror, &speaker->exec, speaker->weights, false, err) ==
            0 &&
        dt_weights_load(dir, speaker->layout, mirror.here, err) == 0)
        result = dt_mirror_publish(&mirror, err);
    dt_mirror_close(&mirror);
    return result;
}

int dt_speaker_open(struct dt_speaker *speaker, const char *dir,
                    enum dt_dtype dtype, struct dt_error *err)
{
    char found[PATH_MAX];
    if (dt_weights_find(dir, found, err) < 0)
        return -1;
    dir = found;
    if (dt_model_config_load(&speaker->config, dir, err) < 0)
        return -1;
    speaker->layout = dt_model_layout(&speaker->config, 1, err);
    if (!speaker->layout)
        return -1;
    choose_threads(speaker->layout);
    speaker->buf = dt_buffer_create(
        speaker->exec.device, speaker->layout->count * dt_dtype_bytes(dtype),
        "weights", err);
    if (!speaker->buf)
        return -1;
    speaker->weights = dt_view_of(speaker->buf, dtype);
    for (size_t i = 0; i < speaker->config.eos_count; i++)
        add_stop_id(speaker, speaker->config.eos[i]);
    if (read_stops(speaker, dir, err) < 0 || load(speaker, dir, err) < 0)
        return -1;
    return open_tokenizer(speaker, dir, err);
}

int dt_speaker_add_stop(struct dt_speaker *speaker, const char *token,
                        struct dt_error *err)
{
    int32_t id =
        speaker->tokenizer ? dt_tokenizer_id(speaker->tokenizer, token) : -1;
    if (id < 0)
        return dt_error_set(err, EX_USAGE,
                            "--stop: the tokenizer has no token '%s'", token);
    if (add_stop_id(speaker, id) < 0)
        return dt_error_set(err, EX_USAGE, "--stop: more than %d tokens",
                            DT_SPEAKER_STOPS);
    return 0;
}

static int need_tokenizer(const struct dt_speaker *speaker,
                          struct dt_error *err)
{
    if (speaker->tokenizer)
        return 0;
    return dt_error_set(err, EX_USAGE,
                        "the model has %zu tokens and no tokenizer.json: let "
                        "transformers write one, AutoTokenizer.from_pretrained("
                        "DIR).save_pretrained(DIR), or give the prompt as ids "
                        "with --tokens",
                        speaker->config.vocab_size);
}

/* The rows of the embedding may be fewer than the tokenizer's tokens. */
static int check_ids(const struct dt_speaker *speaker,
                     const struct dt_tokens *tokens, struct dt_error *err)
{
    for (size_t i = 0; i < tokens->count; i++)
        if ((size_t)tokens->ids[i] >= speaker->config.vocab_size)
            return dt_error_set(err, EX_DATAERR,
                                "token id %d, but the model's vocab_size is "
                                "%zu: is this the tokenizer of the model?",
                                tokens->ids[i], speaker->config.vocab_size);
    return 0;
}

/* The one token of a text that has not begun. */
static int begin_text(const struct dt_speaker *speaker, struct dt_tokens *out,
                      struct dt_error *err)
{
    int32_t id = dt_tokenizer_special(speaker->tokenizer, DT_TOKEN_BOS);
    if (id < 0)
        id = dt_tokenizer_special(speaker->tokenizer, DT_TOKEN_EOS);
    if (id < 0)
        return dt_error_set(err, EX_USAGE,
                            "the prompt is empty, and the tokenizer has no "
                            "token that begins a text");
    if (out->capacity == 0) {
        if (!(out->ids = malloc(sizeof(*out->ids))))
            return dt_error_set(err, EX_OSERR, "out of memory");
        out->capacity = 1;
    }
    out->ids[0] = id;
    out->count = 1;
    return 0;
}

int dt_speaker_encode(struct dt_speaker *speaker, const char *text,
                      struct dt_tokens *out, struct dt_error *err)
{
    if (need_tokenizer(speaker, err) < 0 ||
        dt_encode(speaker->encoder, text, strlen(text),
                  DT_ENCODE_POST | DT_ENCODE_SPECIAL, out, err) < 0 ||
        (out->count == 0 && begin_text(speaker, out, err) < 0))
        return -1;
    return check_ids(speaker, out, err);
}

int dt_speaker_encode_chat(struct dt_speaker *speaker,
                           const struct dt_chat *chat,
                           const struct dt_chat_message *messages, size_t count,
                           struct dt_tokens *out, struct dt_error *err)
{
    struct dt_chat_text text = {0};
    int result = -1;
    if (need_tokenizer(speaker, err) == 0 &&
        dt_chat_render(chat, messages, count, DT_CHAT_PROMPT, &text, err) ==
            0 &&
        dt_encode(speaker->encoder, text.text, text.bytes, DT_ENCODE_SPECIAL,
                  out, err) == 0)
        result = check_ids(speaker, out, err);
    dt_chat_text_fini(&text);
    return result;
}

/* The prompts as rows of one matrix, and how long they may become. */
struct rows {
    int32_t *ids;
    size_t *counts;
    size_t T, length;
};

static int make_rows(const struct dt_speaker *speaker,
                     const struct dt_tokens *prompts, size_t count,
                     size_t max_tokens, struct rows *rows, struct dt_error *err)
{
    size_t most = speaker->config.n_positions;
    for (size_t b = 0; b < count; b++)
        rows->T = prompts[b].count > rows->T ? prompts[b].count : rows->T;
    if (rows->T >= most)
        return dt_error_set(err, EX_DATAERR,
                            "a prompt of %zu tokens leaves no room: the model "
                            "has %zu positions",
                            rows->T, most);
    rows->length = max_tokens < most - rows->T ? rows->T + max_tokens : most;
    rows->ids = calloc(count * rows->T, sizeof(*rows->ids));
    rows->counts = calloc(count, sizeof(*rows->counts));
    if (!rows->ids || !rows->counts)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t b = 0; b < count; b++) {
        rows->counts[b] = prompts[b].count;
        memcpy(rows->ids + b * rows->T, prompts[b].ids,
               prompts[b].count * sizeof(*rows->ids));
    }
    return 0;
}

int dt_speaker_speak(struct dt_speaker *speaker,
                     const struct dt_tokens *prompts, size_t rows,
                     struct dt_generation generation, struct dt_error *err)
{
    struct rows batch = {0};
    struct dt_decoder *decoder = NULL;
    int result =
        make_rows(speaker, prompts, rows, generation.max_tokens, &batch, err);
    if (result == 0) {
        decoder =
            dt_decoder_create(&speaker->config, speaker->layout, &speaker->exec,
                              speaker->weights, rows, batch.length, err);
        generation.stop = speaker->stop;
        generation.stop_count = speaker->stop_count;
        result = decoder
                     ? dt_generate(decoder, batch.ids, batch.counts, rows,
                                   batch.T, batch.length,
                                   speaker->config.vocab_size, &generation, err)
                     : -1;
    }
    dt_decoder_destroy(decoder);
    free(batch.ids);
    free(batch.counts);
    return result;
}
