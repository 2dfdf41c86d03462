/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_dir.c - a model, the rows of vision_runs.json and the pairs of
 * vision_pairs.json, as files
 *
 * Usage: vision_dir NAME DIR
 *
 * Writes DIR/model (config.json, processor_config.json, model.safetensors),
 * DIR/p<number>.png, DIR/train.jsonl, and of each run of AdamW
 * DIR/<targets>.txt, a line "loss norm lr" for each step. Of pairs, DIR/reward,
 * a reward model, DIR/pairs.jsonl, DIR/<run>.txt, a line "loss norm lr margin"
 * for each step, and DIR/before.txt and DIR/after.txt, a line of scores "chosen
 * rejected" for each pair. Weights and pixels are hashes, as the scripts that
 * made the files have them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jansson.h>

#include "ckpt/ckpt.h"
#include "model/model.h"
#include "tests/parity/stored.h"
#include "tests/parity/variant.h"
#include "tests/unit/data/small_png.h"
#include "weights/weights.h"

static const json_t *stored, *pairs; /* of the model */
static const char *out;
static struct dt_error err;

static void must(bool done)
{
    if (done)
        return;
    fprintf(stderr, "vision_dir: %s\n", err.text);
    exit(1);
}

/* --- the model --- */

static struct dt_view room(size_t count)
{
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * sizeof(float), "weights", &err);
    must(buf != NULL);
    return dt_view_of(buf, DT_F32);
}

/* The tensor of a block above the computed ones, of which the layout has none:
 * like that of block 0 in another's name.
 */
static void carry(const struct dt_model_config *config, struct dt_param param,
                  char *name, struct dt_carried *carried)
{
    struct dt_ckpt_tensor *tensor = &carried->tensors[carried->count++];
    param.name = name;
    *tensor = (struct dt_ckpt_tensor){
        .name = name,
        .ndim = param.ndim,
        .view = room(param.count),
        .stored = DT_F32,
    };
    memcpy(tensor->shape, param.shape, sizeof(param.shape));
    variant_fill(config, &param, dt_view_data(tensor->view));
}

static void carry_blocks(const struct dt_model_config *config,
                         const struct dt_layout *layout,
                         struct dt_carried *carried)
{
    static const char mark[] = ".layers.0.", norm[] = "pre_layrnorm.";
    const struct dt_vision_config *vision = config->vision;
    char *name;
    carried->tensors = calloc(layout->param_count * (vision->layers + 1),
                              sizeof(*carried->tensors));
    must(carried->tensors != NULL);
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        const char *at = strstr(param->name, mark);
        if (param->unit >= dt_model_first_unit(config))
            break;
        for (size_t l = vision->tower.n_layer; at && l < vision->layers; l++) {
            must(asprintf(&name, "%.*s.layers.%zu.%s", (int)(at - param->name),
                          param->name, l, at + strlen(mark)) > 0);
            carry(config, *param, name, carried);
        }
        if ((at = strstr(param->name, norm))) {
            must(asprintf(&name, "%.*spost_layernorm.%s",
                          (int)(at - param->name), param->name,
                          at + strlen(norm)) > 0);
            carry(config, *param, name, carried);
        }
    }
}

/* Writes the weights of score.weight beside the others. */
static void write_head(struct dt_ckpt_writer *writer,
                       const struct dt_layout *layout, struct dt_view weights)
{
    const size_t last = layout->param_count - 1;
    struct dt_ckpt_tensor tensor =
        dt_weights_tensor(layout, last, layout->params[last].name);
    tensor.view = dt_layout_param(layout, weights, last);
    tensor.stored = DT_F32;
    must(dt_ckpt_add_tensors(writer, DT_VALUE_HEAD_FILE, &tensor, 1, NULL,
                             &err) == 0);
}

/* DIR/<name>: the model, or a reward model. */
static void write_model(const char *name, bool scores)
{
    struct dt_model_config config;
    struct dt_carried carried = {0};
    char dir[4096];
    char *text = json_dumps(json_object_get(stored, "config"), JSON_INDENT(1));
    char *processor =
        json_dumps(json_object_get(stored, "processor"), JSON_INDENT(1));
    snprintf(dir, sizeof(dir), "%s/%s", out, name);
    must(dt_model_config_parse(&config, text, "config", &err) == 0);
    config.scores = scores;
    if (scores)
        text = dt_model_config_format(&config, DT_F32, &err);
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    must(layout != NULL);
    const struct dt_view weights = room(layout->count);
    const bool apart = dt_model_head_apart(&config);
    for (size_t i = 0; i < layout->param_count; i++)
        variant_fill(&config, &layout->params[i],
                     dt_view_data(dt_layout_param(layout, weights, i)));
    carry_blocks(&config, layout, &carried);
    const struct dt_weights_files files = {.config = text,
                                           .layout = layout,
                                           .param_count =
                                               layout->param_count - apart,
                                           .carried = &carried,
                                           .weights = weights,
                                           .stored = DT_F32,
                                           .max_shard_bytes = SIZE_MAX};
    struct dt_ckpt_writer *writer = dt_ckpt_begin_dir(dir, false, &err);
    must(writer && dt_weights_save(writer, &files, &err) == 0);
    must(dt_ckpt_add_text(writer, "processor_config.json", processor, &err) ==
         0);
    if (apart)
        write_head(writer, layout, weights);
    must(dt_ckpt_commit(writer, &err) == 0);
}

/* --- rows and pictures --- */

static void write_picture(const json_t *picture)
{
    static uint8_t png[SMALL_PNG_BYTES];
    const size_t number = (size_t)variant_number_at(picture, 0);
    const uint32_t height = (uint32_t)variant_number_at(picture, 1);
    const uint32_t width = (uint32_t)variant_number_at(picture, 2);
    const size_t count = (size_t)height * width * 3;
    uint8_t *pixels = malloc(count);
    float *x = malloc(count * sizeof(*x));
    char name[4096];
    must(pixels && x);
    snprintf(name, sizeof(name), "picture %zu", number);
    variant_hashes(x, count, name, 1);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(((double)x[i] + 1) * 128);
    snprintf(name, sizeof(name), "%s/p%zu.png", out, number);
    FILE *f = fopen(name, "wb");
    const size_t bytes = small_png_of(png, height, width, 3, pixels);
    must(f && fwrite(png, 1, bytes, f) == bytes && fclose(f) == 0);
    free(x);
    free(pixels);
}

static void write_row(FILE *f, const json_t *row)
{
    const json_t *pictures = json_object_get(row, "pictures");
    json_t *names = json_array();
    char name[64];
    for (size_t i = 0; i < json_array_size(pictures); i++) {
        write_picture(json_array_get(pictures, i));
        snprintf(name, sizeof(name), "p%zu.png",
                 (size_t)variant_number_at(json_array_get(pictures, i), 0));
        json_array_append_new(names, json_string(name));
    }
    json_t *line = json_pack("{sO so}", "messages",
                             json_object_get(row, "messages"), "images", names);
    must(line && json_dumpf(line, f, JSON_COMPACT) == 0 &&
         fputc('\n', f) != EOF);
    json_decref(line);
}

static void write_rows(void)
{
    const json_t *rows = json_object_get(stored, "rows");
    char path[4096];
    snprintf(path, sizeof(path), "%s/train.jsonl", out);
    FILE *f = fopen(path, "w");
    must(f != NULL);
    for (size_t i = 0; i < json_array_size(rows); i++)
        write_row(f, json_array_get(rows, i));
    must(fclose(f) == 0);
}

/* --- pairs --- */

static FILE *open_out(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", out, name);
    FILE *f = fopen(path, "w");
    must(f != NULL);
    return f;
}

static void write_pair(FILE *f, json_t *pair)
{
    const json_t *pictures = json_object_get(pair, "pictures");
    json_t *names = json_array();
    char name[64];
    for (size_t i = 0; i < json_array_size(pictures); i++) {
        snprintf(name, sizeof(name), "p%zu.png",
                 (size_t)variant_number_at(pictures, i));
        json_array_append_new(names, json_string(name));
    }
    json_object_set_new(pair, "images", names);
    json_object_del(pair, "pictures");
    must(json_dumpf(pair, f, JSON_COMPACT) == 0 && fputc('\n', f) != EOF);
}

static void write_scores(const char *name, const json_t *scores)
{
    FILE *f = open_out(name);
    for (size_t i = 0; i < json_array_size(scores); i++) {
        const json_t *pair = json_array_get(scores, i);
        fprintf(f, "%.9g %.9g\n", variant_number_at(pair, 0),
                variant_number_at(pair, 1));
    }
    must(fclose(f) == 0);
}

static void write_pairs(void)
{
    const json_t *list = json_object_get(pairs, "pairs");
    FILE *f = open_out("pairs.jsonl");
    for (size_t i = 0; i < json_array_size(list); i++)
        write_pair(f, json_array_get(list, i));
    must(fclose(f) == 0);
    write_scores("before.txt", json_object_get(pairs, "before"));
    write_scores("after.txt", json_object_get(pairs, "after"));
}

/* --- runs --- */

static bool is_word(const json_t *object, const char *key, const char *word)
{
    return !strcmp(json_string_value(json_object_get(object, key)), word);
}

/* A line for each step with the numbers of these keys. */
static void write_run(const json_t *run, const char *name,
                      const char *const keys[])
{
    const size_t steps = json_array_size(json_object_get(run, "loss"));
    char file[200];
    snprintf(file, sizeof(file), "%s.txt", name);
    FILE *f = open_out(file);
    for (size_t k = 0; k < steps; k++)
        for (size_t i = 0; keys[i]; i++)
            fprintf(f, "%.9g%c",
                    variant_number_at(json_object_get(run, keys[i]), k),
                    keys[i + 1] ? ' ' : '\n');
    must(fclose(f) == 0);
}

static void write_runs(const json_t *runs, const json_t *pair_runs,
                       const char *model)
{
    static const char *const keys[] = {"loss", "norm", "lr", NULL};
    static const char *const more[] = {"loss", "norm", "lr", "margin", NULL};
    const json_t *run;
    size_t i;
    json_array_foreach(runs, i, run)
    {
        if (is_word(run, "model", model) && is_word(run, "optimizer", "adamw"))
            write_run(run, json_string_value(json_object_get(run, "targets")),
                      keys);
    }
    json_array_foreach(pair_runs, i, run)
    {
        if (is_word(run, "model", model))
            write_run(run, json_string_value(json_object_get(run, "run")),
                      more);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    const json_t *all = stored_load("vision_runs.json");
    const json_t *preferences = stored_load("vision_pairs.json");
    stored = json_object_get(json_object_get(all, "models"), argv[1]);
    pairs = json_object_get(json_object_get(preferences, "models"), argv[1]);
    out = argv[2];
    dt_error_set(&err, 64, "%s: no such model, or %s cannot be written",
                 argv[1], out);
    must(stored && pairs);
    write_model("model", false);
    write_model("reward", true);
    write_rows();
    write_pairs();
    write_runs(json_object_get(all, "runs"),
               json_object_get(preferences, "runs"), argv[1]);
    return 0;
}
