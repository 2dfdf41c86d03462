/* SPDX-License-Identifier: Apache-2.0 */
/* generate_scene.h - `disttrain generate` with a model that is known */
#ifndef TESTS_UNIT_GENERATE_SCENE_H
#define TESTS_UNIT_GENERATE_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "cmd/cmd.h"
#include "model/model.h"
#include "tests/unit/random_weights.h"
#include "tests/unit/scratch.h"
#include "tests/families.h"

/* What the last run printed, both channels. */
static char output[8192];

static inline int run(const char *const *args)
{
    char *argv[24] = {"generate"};
    int argc = 1, saved[] = {dup(1), dup(2)};
    while (args[argc - 1]) {
        argv[argc] = (char *)args[argc - 1];
        argc++;
    }
    FILE *f = fopen(scratch_path("output"), "w+");
    fflush(NULL);
    dup2(fileno(f), 1);
    dup2(fileno(f), 2);
    int status = dt_cmd_generate(argc, argv);
    fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    rewind(f);
    output[fread(output, 1, sizeof(output) - 1, f)] = '\0';
    fclose(f);
    return status;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static inline struct dt_view param(const struct dt_layout *layout,
                                   struct dt_view weights, const char *name)
{
    return dt_layout_param(layout, weights,
                           (size_t)dt_layout_find(layout, name));
}

/* Writes a model whose likeliest token, whatever came before, is `favourite`:
 * the norm at the top gives its bias e0, and e0 asks for a row of wte.
 */
static inline void write_model(size_t vocab_size, size_t favourite)
{
    const struct dt_model_config config = {.family = &dt_family_gpt2,
                                           .vocab_size = vocab_size,
                                           .n_positions = 40,
                                           .n_embd = 4,
                                           .n_layer = 1,
                                           .n_head = 2,
                                           .n_kv_head = 2,
                                           .head_size = 2,
                                           .n_inner = 16,
                                           .norm_epsilon = 1e-5,
                                           .initializer_range = 0.5,
                                           .tie_word_embeddings = true,
                                           .qkv_bias = true,
                                           .out_bias = true,
                                           .mlp_bias = true};
    struct dt_ckpt_tensor tensors[32] = {0};
    struct dt_error err;
    uint64_t hash;
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, layout->count * 4, "w", &err);
    struct dt_view weights = dt_view_of(buf, DT_F32);
    random_weights(&config, layout, weights, 1);
    struct dt_view scale = param(layout, weights, "transformer.ln_f.weight");
    memset(dt_view_f32(scale), 0, scale.count * sizeof(float));
    dt_view_f32(param(layout, weights, "transformer.ln_f.bias"))[0] = 1;
    dt_view_f32(
        param(layout, weights, "transformer.wte.weight"))[favourite * 4] = 5;
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *p = &layout->params[i];
        tensors[i].name = p->name;
        tensors[i].ndim = p->ndim;
        memcpy(tensors[i].shape, p->shape, sizeof(p->shape));
        tensors[i].view = dt_layout_param(layout, weights, i);
    }
    assert_int_equal(dt_safetensors_write(scratch_path("model.safetensors"),
                                          tensors, layout->param_count, NULL,
                                          &hash, &err),
                     0);
    char *json = dt_model_config_format(&config, DT_F32, &err);
    scratch_write("config.json", json, strlen(json));
    free(json);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
}

#endif /* TESTS_UNIT_GENERATE_SCENE_H */
