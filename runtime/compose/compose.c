/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c - the directory of a model that is made of two others */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "compose/compose_impl.h"
#include "weights/weights.h"

static const char record_name[] = "composition.json";

enum { COPY_MAX_BYTES = 64 << 20 }; /* of a file that is copied */

/* --- the record --- */

static const char *const rows_names[] = {
    [DT_COMPOSE_AUTO] = "auto",
    [DT_COMPOSE_DEFAULT] = "default",
    [DT_COMPOSE_FULL] = "full",
};

/* Keys as a configuration has them. NULL: out of memory. */
static json_t *make_record(const struct dt_compose *compose)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:I}", "model.vision",
                     compose->vision, "model.language", compose->language,
                     "model.vision_feature_layer", (json_int_t)compose->layer,
                     "model.vision_feature_select_strategy",
                     rows_names[compose->rows], "model.init",
                     compose->random ? "random" : "pretrained", "run.seed",
                     (json_int_t)compose->seed);
}

/* The text of a value, without quotes; "nothing" without one. */
static void show(const json_t *value, char *text, size_t room)
{
    if (json_is_integer(value))
        snprintf(text, room, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else
        snprintf(text, room, "%s",
                 json_is_string(value) ? json_string_value(value) : "nothing");
}

static int compare(const json_t *was, json_t *is, const char *dir,
                   struct dt_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(is, key, value)
    {
        char before[256], now[256];
        const json_t *old = json_object_get(was, key);
        if (json_equal(old, value))
            continue;
        show(old, before, sizeof(before));
        show(value, now, sizeof(now));
        return dt_error_set(err, EX_CONFIG,
                            "%s was made with %s %s, not %s: set it back, or "
                            "name another run.output_dir; run.overwrite: true "
                            "makes it again",
                            dir, key, before, now);
    }
    return 1;
}

int dt_compose_find(const char *dir, const struct dt_compose *compose,
                    struct dt_error *err)
{
    if (access(dir, F_OK) < 0)
        return 0;
    json_t *was = dt_compose_json(dir, record_name, err);
    if (!was)
        return err->text[0]
                   ? -1
                   : dt_error_set(err, EX_DATAERR,
                                  "%s has no %s: it was not made of a tower "
                                  "and a language model; remove it, or name "
                                  "another run.output_dir",
                                  dir, record_name);
    json_t *is = make_record(compose);
    int result = is ? compare(was, is, dir, err)
                    : dt_error_set(err, EX_OSERR, "out of memory");
    json_decref(is);
    json_decref(was);
    return result;
}

/* --- texts --- */

int dt_compose_read(struct dt_composed *composed,
                    const struct dt_compose *compose, struct dt_error *err)
{
    struct dt_halves halves;
    *composed = (struct dt_composed){0};
    int rc = dt_halves_init(&halves, compose, err);
    if (rc == 0)
        rc = dt_compose_config_texts(composed, &halves, err);
    if (rc == 0)
        rc = dt_compose_token_texts(composed, &halves, err);
    if (rc == 0 &&
        !(composed->record = dt_compose_dump(make_record(compose), err)))
        rc = -1;
    dt_halves_fini(&halves);
    return rc;
}

void dt_composed_fini(struct dt_composed *composed)
{
    free(composed->config);
    free(composed->processor);
    free(composed->image);
    free(composed->tokenizer);
    free(composed->tokenizer_config);
    free(composed->special_tokens);
    free(composed->generation);
    free(composed->template);
    free(composed->record);
    *composed = (struct dt_composed){0};
}

/* --- the directory --- */

static int add_texts(struct dt_ckpt_writer *writer,
                     const struct dt_composed *composed, struct dt_error *err)
{
    const struct {
        const char *name, *text;
    } files[] = {
        {"processor_config.json", composed->processor},
        {"preprocessor_config.json", composed->image},
        {"tokenizer.json", composed->tokenizer},
        {"tokenizer_config.json", composed->tokenizer_config},
        {"special_tokens_map.json", composed->special_tokens},
        {"generation_config.json", composed->generation},
        {"chat_template.jinja", composed->template},
        {record_name, composed->record},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].text &&
            dt_ckpt_add_text(writer, files[i].name, files[i].text, err) < 0)
            return -1;
    return 0;
}

/* Files of the language model that stay as they are. */
static int add_copies(struct dt_ckpt_writer *writer,
                      const struct dt_composed *composed, const char *language,
                      struct dt_error *err)
{
    const struct {
        const char *name;
        bool copied;
    } files[] = {
        {"tokenizer.model", true},
        {"spiece.model", true},
        {"chat_template.jinja", !composed->template},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].copied && dt_ckpt_add_copy(writer, files[i].name, language,
                                                COPY_MAX_BYTES, err) < 0)
            return -1;
    return 0;
}

/* config.json names the type of weights, which is known now. */
static int add_config(struct dt_ckpt_writer *writer,
                      const struct dt_composed *composed, enum dt_dtype dtype,
                      struct dt_error *err)
{
    struct dt_model_config config;
    int rc =
        dt_model_config_parse(&config, composed->config, "config.json", err);
    char *text = rc == 0 ? dt_model_config_format(&config, dtype, err) : NULL;
    rc = text ? dt_ckpt_add_text(writer, "config.json", text, err) : -1;
    free(text);
    dt_model_config_fini(&config);
    return rc;
}

int dt_compose_check(const struct dt_compose *compose,
                     const struct dt_composed *composed, struct dt_error *err)
{
    struct dt_compose_weights *weights =
        dt_compose_weights_open(compose, composed, err);
    dt_compose_weights_close(weights);
    return weights ? 0 : -1;
}

int dt_compose_write(const struct dt_compose *compose,
                     const struct dt_composed *composed, const char *to,
                     bool replace, struct dt_error *err)
{
    struct dt_compose_weights *weights =
        dt_compose_weights_open(compose, composed, err);
    struct dt_ckpt_writer *writer =
        weights ? dt_ckpt_begin_dir(to, replace, err) : NULL;
    int rc = -1;
    if (writer) {
        rc = add_config(writer, composed, dt_compose_weights_dtype(weights),
                        err);
        if (rc == 0)
            rc = add_texts(writer, composed, err);
        if (rc == 0)
            rc = add_copies(writer, composed, compose->language, err);
        if (rc == 0)
            rc = dt_compose_weights_add(weights, writer, err);
        if (rc == 0)
            rc = dt_ckpt_commit(writer, err);
        else
            dt_ckpt_abandon(writer);
    }
    dt_compose_weights_close(weights);
    return rc;
}
