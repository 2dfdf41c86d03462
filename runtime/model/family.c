/* SPDX-License-Identifier: Apache-2.0 */
/* family.c - the table of families */
#include "config.h"

#include <math.h>

#include "model/family.h"
#include "tensor/half.h"

#define CLASSES(name)                                                          \
    .causal = name "ForCausalLM", .scores = name "ForSequenceClassification",  \
    .base = name "Model"

#define LLAMA_LIKE                                                             \
    .pre_norm = true, .activation = "hidden_act", .gate = DT_GATE_SILU,        \
    .norm_epsilon = 1e-6, .theta = 1e4, .pad = -1

#define GEMMA_LIKE                                                             \
    .pre_norm = true, .post_norm = true, .shifted = true,                      \
    .scaled_embedding = true, .activation = "hidden_activation",               \
    .gate = DT_GATE_GELU, .tied = true, .norm_epsilon = 1e-6, .n_kv_head = 4,  \
    .head_size = 256, .pad = 0

static const struct dt_family families[DT_FAMILIES] = {
    [DT_GPT2] = {.type = "gpt2",
                 .causal = "GPT2LMHeadModel",
                 .scores = "GPT2ForSequenceClassification",
                 .base = "GPT2Model",
                 .centered = true,
                 .pre_norm = true,
                 .activation = "activation_function",
                 .tied = true,
                 .norm_epsilon = 1e-5,
                 .windows = DT_WINDOWS_NONE,
                 .pad = -1},
    [DT_LLAMA] = {.type = "llama",
                  CLASSES("Llama"),
                  LLAMA_LIKE,
                  .windows = DT_WINDOWS_NONE},
    [DT_MISTRAL] = {.type = "mistral",
                    CLASSES("Mistral"),
                    LLAMA_LIKE,
                    .windows = DT_WINDOWS_ALL,
                    .window = 4096,
                    .n_kv_head = 8},
    [DT_QWEN2] = {.type = "qwen2",
                  CLASSES("Qwen2"),
                  LLAMA_LIKE,
                  .windows = DT_WINDOWS_LATE,
                  .asks_window = true,
                  .window = 4096,
                  .n_kv_head = 32},
    [DT_QWEN3] = {.type = "qwen3",
                  CLASSES("Qwen3"),
                  LLAMA_LIKE,
                  .head_norm = DT_HEAD_NORM_EACH,
                  .windows = DT_WINDOWS_LATE,
                  .asks_window = true,
                  .window = 4096,
                  .n_kv_head = 32,
                  .head_size = 128},
    [DT_GEMMA2] = {.type = "gemma2",
                   CLASSES("Gemma2"),
                   GEMMA_LIKE,
                   .windows = DT_WINDOWS_EVEN,
                   .window = 4096,
                   .theta = 1e4},
    [DT_GEMMA3] = {.type = "gemma3_text",
                   .causal = "Gemma3ForCausalLM",
                   .scores = "Gemma3TextForSequenceClassification",
                   .base = "Gemma3TextModel",
                   GEMMA_LIKE,
                   .head_norm = DT_HEAD_NORM_EACH,
                   .windows = DT_WINDOWS_PATTERN,
                   .window = 4096,
                   .theta = 1e6,
                   .local_theta = 1e4},
    [DT_GRANITE] = {.type = "granite",
                    .causal = "GraniteForCausalLM",
                    .base = "GraniteModel",
                    LLAMA_LIKE,
                    .windows = DT_WINDOWS_NONE},
    [DT_OLMO2] = {.type = "olmo2",
                  CLASSES("Olmo2"),
                  .post_norm = true,
                  .head_norm = DT_HEAD_NORM_ALL,
                  .activation = "hidden_act",
                  .gate = DT_GATE_SILU,
                  .norm_epsilon = 1e-5,
                  .theta = 1e4,
                  .windows = DT_WINDOWS_NONE,
                  .pad = 1},
    [DT_PHI3] = {.type = "phi3",
                 CLASSES("Phi3"),
                 .pre_norm = true,
                 .fused = true,
                 .activation = "hidden_act",
                 .gate = DT_GATE_SILU,
                 .norm_epsilon = 1e-5,
                 .theta = 1e4,
                 .windows = DT_WINDOWS_ALL,
                 .pad = 32000,
                 .original = 4096},
    [DT_SMOLLM3] = {.type = "smollm3",
                    CLASSES("SmolLM3"),
                    .pre_norm = true,
                    .activation = "hidden_act",
                    .gate = DT_GATE_SILU,
                    .tied = true,
                    .norm_epsilon = 1e-6,
                    .theta = 2e6,
                    .windows = DT_WINDOWS_UNROTATED,
                    .asks_window = true,
                    .pad = 128004,
                    .n_kv_head = 4},
};

const struct dt_family *dt_family_of(enum dt_model_family family)
{
    return &families[family];
}

const char *dt_model_family_name(enum dt_model_family family)
{
    return families[family].type;
}

int dt_model_check_scores(const struct dt_model_config *config,
                          struct dt_error *err)
{
    if (families[config->family].scores)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "transformers has no sequence classifiers of the "
                        "family %s, and so there is no way to save a model "
                        "with scores: choose one of another family",
                        families[config->family].type);
}

size_t dt_model_rotary(const struct dt_model_config *config)
{
    size_t HS = config->head_size;
    if (HS == 0 && config->n_head > 0)
        HS = config->n_embd / config->n_head;
    return config->rotary_factor > 0
               ? (size_t)((double)HS * config->rotary_factor)
               : HS;
}

static float round_to(double x, enum dt_dtype type)
{
    return type == DT_BF16  ? dt_bf16_to_f32(dt_f32_to_bf16((float)x))
           : type == DT_F16 ? dt_f16_to_f32(dt_f32_to_f16((float)x))
                            : (float)x;
}

struct dt_model_scales dt_model_scales_of(const struct dt_model_config *config,
                                          enum dt_dtype compute)
{
    struct dt_model_scales scales = {1.0f, 1.0f, 1.0f};
    if (dt_family_of(config->family)->scaled_embedding)
        scales.embedding = round_to(sqrt((double)config->n_embd), compute);
    if (config->family == DT_GRANITE)
        scales = (struct dt_model_scales){
            (float)config->embedding_multiplier,
            (float)config->residual_multiplier,
            (float)(1.0 / config->logits_scaling),
        };
    return scales;
}

float dt_model_attention_scale(const struct dt_model_config *config)
{
    double divisor = (double)config->head_size;
    if (config->family == DT_GRANITE)
        return (float)config->attention_multiplier;
    if (config->query_scalar > 0)
        divisor = config->query_scalar;
    return (float)(1.0 / sqrt(divisor));
}
