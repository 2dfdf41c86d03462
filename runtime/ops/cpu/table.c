/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the operations of one variant */
#include "config.h"

#include "ops/cpu/cpu.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

extern const struct dt_ops DT_CPU(ops);

const struct dt_ops DT_CPU(ops) = {
    .name = "cpu/" TEXT(DT_CPU_VARIANT),
    .library = DT_CPU(library),
    .embedding_forward = DT_CPU(embedding_forward),
    .embedding_backward = DT_CPU(embedding_backward),
    .linear_forward = DT_CPU(linear_forward),
    .linear_backward = DT_CPU(linear_backward),
    .layernorm_forward = DT_CPU(layernorm_forward),
    .residual_layernorm_forward = DT_CPU(residual_layernorm_forward),
    .layernorm_backward = DT_CPU(layernorm_backward),
    .residual_forward = DT_CPU(residual_forward),
    .gelu_forward = DT_CPU(gelu_forward),
    .gelu_backward = DT_CPU(gelu_backward),
    .attention_forward = DT_CPU(attention_forward),
    .attention_backward = DT_CPU(attention_backward),
    .linear_cross_entropy = DT_CPU(linear_cross_entropy),
    .zero = DT_CPU(zero),
    .sum_of_squares = DT_CPU(sum_of_squares),
    .adamw = DT_CPU(adamw),
};
