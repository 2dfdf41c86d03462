/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_table.c - the operations of an NVIDIA GPU, and notices of theirs */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "ops/cuda/cuda.h"
#include "ops/cuda/cuda_cache.h"

enum { MOST_NOTICES = 32 };

static struct {
    char texts[MOST_NOTICES][DT_ERROR_TEXT_BYTES];
    size_t first, count;
} waiting;

bool dt_cuda_cache_gpu(char *text, size_t bytes)
{
    struct cudaDeviceProp gpu;
    int index;

    if (cudaGetDevice(&index) != cudaSuccess ||
        cudaGetDeviceProperties(&gpu, index) != cudaSuccess)
        return false;
    snprintf(text, bytes, "%s, sm_%d%d, %d multiprocessors", gpu.name,
             gpu.major, gpu.minor, gpu.multiProcessorCount);
    return true;
}

void dt_cuda_tell(const char *fmt, ...)
{
    va_list args;

    if (waiting.count == MOST_NOTICES)
        return;
    va_start(args, fmt);
    vsnprintf(waiting.texts[(waiting.first + waiting.count++) % MOST_NOTICES],
              DT_ERROR_TEXT_BYTES, fmt, args);
    va_end(args);
}

const char *dt_cuda_notice(void)
{
    const char *text = waiting.texts[waiting.first];

    if (waiting.count == 0)
        return NULL;
    waiting.first = (waiting.first + 1) % MOST_NOTICES;
    waiting.count--;
    return text;
}

struct dt_cuda_facts dt_cuda_facts;

int dt_cuda_ops_open(const struct dt_cuda_facts *facts, struct dt_error *err)
{
    dt_cuda_facts = *facts;
    if (dt_cuda_matmul_open(err) < 0 || dt_cuda_attention_open(err) < 0)
        return -1;
    return dt_cuda_loss_open(err);
}

const char *dt_cuda_emulation(enum dt_dtype type)
{
    if (type == DT_BF16 && dt_cuda_facts.capability < 80)
        return "bf16 is stored, but computed without tensor cores, which "
               "need sm_80 for it: fp16 is faster on this GPU";
    return NULL;
}

/* clang-format off */
#define SLOT(op) .op = dt_cuda_##op

const struct dt_ops dt_cuda_ops = {
    .name = "cuda",
    SLOT(library),
    SLOT(emulation),
    SLOT(attention_library),
    SLOT(notice),
    SLOT(search_apart),
    SLOT(embedding_forward),
    SLOT(embedding_backward),
    SLOT(scatter_rows),
    SLOT(add_rows),
    SLOT(patch_rows),
    SLOT(sparse_matmul),
    SLOT(linear_forward),
    SLOT(linear_add_forward),
    SLOT(linear_backward),
    SLOT(norm_forward),
    SLOT(residual_norm_forward),
    SLOT(norm_backward),
    .norm_sums = true,
    SLOT(dropout_backward),
    SLOT(linear_activation_forward),
    SLOT(linear_activation_backward),
    SLOT(activation_forward),
    SLOT(activation_backward),
    SLOT(low_rank_forward),
    SLOT(low_rank_backward),
    SLOT(glu_forward),
    SLOT(glu_backward),
    SLOT(heads_norm_forward),
    SLOT(heads_norm_backward),
    SLOT(rope_forward),
    SLOT(rope_backward),
    SLOT(attention_forward),
    SLOT(attention_backward),
    SLOT(attention_workspace),
    SLOT(kv_store),
    SLOT(kv_attention),
    SLOT(sample),
    SLOT(linear_cross_entropy),
    SLOT(linear_logprob_forward),
    SLOT(linear_logprob_backward),
    SLOT(apply_logit_rule),
    SLOT(loss_workspace),
    SLOT(zero),
    SLOT(convert),
    SLOT(add),
    SLOT(add_dithered),
    SLOT(combine),
    SLOT(hash),
    SLOT(step_begin),
    SLOT(step_add),
    SLOT(sum_of_squares),
    SLOT(clip_and_check),
    SLOT(adamw),
};
/* clang-format on */
