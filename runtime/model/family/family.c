/* SPDX-License-Identifier: Apache-2.0 */
/* family.c - all families, and values that follow from their traits */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/family/family.h"
#include "model/family/roles.h"
#include "tensor/half.h"

/* The files of text/ and vision/, dt_families and dt_vision_families */
#include "model/family/text.inc"
#include "model/family/vision.inc"

const char *dt_model_type(const struct dt_model_config *config)
{
    return config->vision ? config->vision->family->type : config->family->type;
}

const struct dt_family *dt_model_family_find(const char *name)
{
    const struct dt_family *const *family = dt_families;
    while (*family && strcmp(name, (*family)->type) != 0)
        family++;
    return *family;
}

const struct dt_vision_family *dt_vision_family_find(const char *name)
{
    const struct dt_vision_family *const *family = dt_vision_families;
    while (*family && (!name || strcmp(name, (*family)->type) != 0))
        family++;
    return *family;
}

bool dt_model_in_out(const struct dt_model_config *config)
{
    return config->family->in_out;
}

bool dt_model_learns_positions(const struct dt_model_config *config)
{
    return config->family->learns_positions;
}

const char *dt_model_config_key(const struct dt_model_config *config,
                                size_t offset)
{
    for (const struct dt_field *field = config->family->fields; field->key;
         field++)
        if (field->offset == offset && dt_field_of(field, config))
            return field->key;
    return NULL;
}

bool dt_model_head_apart(const struct dt_model_config *config)
{
    return config->value_head || (config->scores && config->vision &&
                                  !config->vision->family->scores);
}

int dt_model_check_scores(const struct dt_model_config *config,
                          struct dt_error *err)
{
    if (config->family->scores || config->vision)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "transformers has no sequence classifiers of the "
                        "family %s, and so there is no way to save a model "
                        "with scores: choose one of another family",
                        dt_model_type(config));
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
    const struct dt_family *family = config->family;
    struct dt_model_scales scales = {.embedding = 1.0f,
                                     .features = family->scales_features,
                                     .branch = 1.0f,
                                     .logits = 1.0f};
    if (family->scaled_embedding)
        scales.embedding = round_to(sqrt((double)config->n_embd), compute);
    if (family->multipliers) {
        scales.embedding = (float)config->embedding_multiplier;
        scales.branch = (float)config->residual_multiplier;
        scales.logits = (float)(1.0 / config->logits_scaling);
    }
    return scales;
}

float dt_model_attention_scale(const struct dt_model_config *config)
{
    double divisor = (double)config->head_size;
    if (config->family->multipliers)
        return (float)config->attention_multiplier;
    if (config->query_scalar > 0)
        divisor = config->query_scalar;
    return (float)(1.0 / sqrt(divisor));
}
