/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_table.c - the operations of one variant */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

extern const struct dt_ops DT_CPU(ops);

const struct dt_ops DT_CPU(ops) = {
    .name = "cpu/" TEXT(DT_CPU_VARIANT),
    .library = DT_CPU(library),
    .emulation = DT_CPU(emulation),
    .embedding_forward = DT_CPU(embedding_forward),
    .embedding_backward = DT_CPU(embedding_backward),
    .scatter_rows = DT_CPU(scatter_rows),
    .add_rows = DT_CPU(add_rows),
    .patch_rows = DT_CPU(patch_rows),
    .sparse_matmul = DT_CPU(sparse_matmul),
    .few_rows = DT_CPU_FEW_ROWS,
    .some_rows = DT_CPU_SOME_ROWS,
    .linear_forward = DT_CPU(linear_forward),
    .linear_backward = DT_CPU(linear_backward),
    .norm_forward = DT_CPU(norm_forward),
    .residual_norm_forward = DT_CPU(residual_norm_forward),
    .norm_backward = DT_CPU(norm_backward),
    .dropout_backward = DT_CPU(dropout_backward),
    .linear_activation_forward = DT_CPU(linear_activation_forward),
    .linear_activation_backward = DT_CPU(linear_activation_backward),
    .activation_forward = DT_CPU(activation_forward),
    .activation_backward = DT_CPU(activation_backward),
    .low_rank_forward = DT_CPU(low_rank_forward),
    .low_rank_backward = DT_CPU(low_rank_backward),
    .glu_forward = DT_CPU(glu_forward),
    .glu_backward = DT_CPU(glu_backward),
    .heads_norm_forward = DT_CPU(heads_norm_forward),
    .heads_norm_backward = DT_CPU(heads_norm_backward),
    .rope_forward = DT_CPU(rope_forward),
    .rope_backward = DT_CPU(rope_backward),
    .key_tile = DT_CPU_KEY_TILE,
    .attention_forward = DT_CPU(attention_forward),
    .attention_backward = DT_CPU(attention_backward),
    .attention_workspace = DT_CPU(attention_workspace),
    .kv_store = DT_CPU(kv_store),
    .kv_attention = DT_CPU(kv_attention),
    .sample = DT_CPU(sample),
    .linear_cross_entropy = DT_CPU(linear_cross_entropy),
    .linear_logprob_forward = DT_CPU(linear_logprob_forward),
    .linear_logprob_backward = DT_CPU(linear_logprob_backward),
    .apply_logit_rule = DT_CPU(apply_logit_rule),
    .loss_workspace = DT_CPU(loss_workspace),
    .zero = DT_CPU(zero),
    .convert = DT_CPU(convert),
    .add = DT_CPU(add),
    .add_dithered = DT_CPU(add_dithered),
    .combine = DT_CPU(combine),
    .hash = DT_CPU(hash),
    .step_begin = dt_cpu_step_begin,
    .step_add = dt_cpu_step_add,
    .sum_of_squares = DT_CPU(sum_of_squares),
    .clip_and_check = dt_cpu_clip_and_check,
    .adamw = DT_CPU(adamw),
};
