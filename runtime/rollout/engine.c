/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - loads a model for generation */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omp.h>

#include "base/file.h"
#include "base/json.h"
#include "rollout/engine.h"
#include "rollout/sight.h"
#include "weights/weights.h"

enum { PARAMS_PER_THREAD = 1 << 22 };

void dt_engine_close(struct dt_engine *engine)
{
    dt_tokenizer_destroy(engine->tokenizer);
    dt_buffer_destroy(engine->buf);
    dt_layout_destroy(engine->layout);
    dt_model_config_fini(&engine->config);
    free(engine->tokenizer_dir);
    free(engine->image_dir);
}

/* Limits the threads for a small model: its operations are many and short, and
 * threads wait for each other in each of them.
 */
static void choose_threads(const struct dt_layout *layout)
{
    int useful = 1 + (int)(layout->param_total / PARAMS_PER_THREAD);
    if (useful < omp_get_max_threads())
        omp_set_num_threads(useful);
}

static int add_stop_id(struct dt_engine *engine, int32_t id)
{
    if (dt_engine_stops(engine, id))
        return 0;
    if (engine->stop_count == DT_ENGINE_STOPS)
        return -1;
    engine->stop[engine->stop_count++] = id;
    return 0;
}

/* The stop tokens of generation_config.json. */
static int read_stops(struct dt_engine *engine, const char *dir,
                      struct dt_error *err)
{
    int32_t ids[DT_ENGINE_STOPS];
    size_t count;
    if (dt_stops_read(dir, engine->config.vocab_size, ids, DT_ENGINE_STOPS,
                      &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        add_stop_id(engine, ids[i]);
    return 0;
}

static int open_tokenizer(struct dt_engine *engine, const char *dir,
                          struct dt_error *err)
{
    bool bytes = engine->config.vocab_size == DT_BYTE_VOCAB;
    if (!(engine->tokenizer_dir = strdup(dir)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (dt_tokenizer_in(dir))
        engine->tokenizer = dt_tokenizer_load(dir, err);
    else if (bytes)
        engine->tokenizer = dt_tokenizer_load("byte", err);
    else
        return 0;
    if (!engine->tokenizer)
        return -1;
    int32_t eos = dt_tokenizer_special(engine->tokenizer, DT_TOKEN_EOS);
    if (eos >= 0)
        add_stop_id(engine, eos);
    return 0;
}

static int load_model(struct dt_engine *engine, const char *dir,
                      struct dt_error *err)
{
    struct dt_host_copy copy;
    int result = -1;
    if (dt_host_copy_open(&copy, &engine->exec, engine->weights, false, err) ==
            0 &&
        dt_weights_load_merged(dir, &engine->config, engine->layout, copy.here,
                               err) == 0)
        result = dt_host_copy_publish(&copy, err);
    dt_host_copy_close(&copy);
    return result;
}

int dt_engine_open(struct dt_engine *engine, const char *dir,
                   enum dt_dtype dtype, struct dt_error *err)
{
    char found[PATH_MAX], base[PATH_MAX];
    if (dt_weights_find(dir, found, err) < 0)
        return -1;
    dir = found;
    if (dt_weights_base(dir, base, err) < 0 ||
        dt_weights_config(dir, &engine->config, err) < 0)
        return -1;
    engine->layout = dt_model_layout(&engine->config, 1, err);
    if (!engine->layout)
        return -1;
    choose_threads(engine->layout);
    engine->buf = dt_buffer_create(
        engine->exec.device, engine->layout->count * dt_dtype_bytes(dtype),
        "weights", err);
    if (!engine->buf)
        return -1;
    engine->weights = dt_view_of(engine->buf, dtype);
    for (size_t i = 0; i < engine->config.eos_count; i++)
        add_stop_id(engine, engine->config.eos[i]);
    if (read_stops(engine, base, err) < 0 || load_model(engine, dir, err) < 0)
        return -1;
    if (!(engine->image_dir = strdup(dt_sight_dir(dir, base))))
        return dt_error_set(err, EX_OSERR, "out of memory");
    return open_tokenizer(engine, base, err);
}

int dt_engine_add_stop(struct dt_engine *engine, const char *text,
                       struct dt_error *err)
{
    if (!engine->tokenizer)
        return dt_error_set(err, EX_USAGE,
                            "--stop needs a tokenizer, and the model has no "
                            "tokenizer.json");
    if (!*text)
        return dt_error_set(err, EX_USAGE,
                            "--stop: expected a token or a text, got ''");
    int32_t id = dt_tokenizer_id(engine->tokenizer, text);
    bool room = id < 0 ? engine->string_count < DT_ENGINE_STOPS
                       : add_stop_id(engine, id) == 0;
    if (!room)
        return dt_error_set(err, EX_USAGE, "--stop: more than %d of them",
                            DT_ENGINE_STOPS);
    if (id < 0)
        engine->strings[engine->string_count++] = text;
    return 0;
}

bool dt_engine_stops(const struct dt_engine *engine, int32_t id)
{
    for (size_t i = 0; i < engine->stop_count; i++)
        if (engine->stop[i] == id)
            return true;
    return false;
}

int dt_engine_generate(struct dt_engine *engine,
                       struct dt_rollout_options options,
                       const struct dt_rollout_io *io, struct dt_error *err)
{
    const struct dt_exec *exec = &engine->exec;
    options.compute = engine->weights.dtype;
    options.stop = engine->stop;
    options.stop_count = engine->stop_count;
    options.strings = engine->strings;
    options.string_count = engine->string_count;
    options.tokenizer = engine->tokenizer;
    struct dt_buffer *memory = dt_buffer_create(
        exec->device, dt_rollout_bytes(&engine->config, exec->ops, &options),
        "activations, keys and values", err);
    struct dt_rollout *rollout =
        memory ? dt_rollout_create(&engine->config, engine->layout, exec,
                                   dt_places_flat(engine->weights), memory,
                                   &options, err)
               : NULL;
    int result = rollout ? dt_rollout_run(rollout, io, err) : -1;
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    return result;
}

/* --- tokens that end a text, as the model's files say --- */

enum { CONFIG_MAX_BYTES = 1 << 20 };

static void read_ids(const json_t *eos, size_t vocab_size, int32_t *ids,
                     size_t room, size_t *count)
{
    size_t all = json_is_array(eos) ? json_array_size(eos) : 1;
    for (size_t i = 0; i < all && *count < room; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value >= 0 && value < (json_int_t)vocab_size)
            ids[(*count)++] = (int32_t)value;
    }
}

int dt_stops_read(const char *dir, size_t vocab_size, int32_t *ids, size_t room,
                  size_t *count, struct dt_error *err)
{
    char path[PATH_MAX + 32];
    *count = 0;
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
    read_ids(json_object_get(root, "eos_token_id"), vocab_size, ids, room,
             count);
    json_decref(root);
    return 0;
}
