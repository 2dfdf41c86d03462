/* SPDX-License-Identifier: Apache-2.0 */
/* logits.cuh - struct dt_logit_rule as kernels take it */
#ifndef DT_OPS_CUDA_LOGITS_CUH
#define DT_OPS_CUDA_LOGITS_CUH

#include "ops/ops.h"
#include "tensor/kernel.cuh"

/* z = scale l, or cap tanh(in l), both divided by the temperature already. */
struct LogitRule {
    float scale, in, cap;
    float inverse_cap; /* 1 / cap, or 0: none; dz / dl = scale (1 - (z *
                          inverse_cap)^2) */
};

static inline LogitRule rule_of(const struct dt_logit_rule *rule)
{
    LogitRule r = {};

    r.scale = rule->scale / rule->temperature;
    if (rule->softcap > 0.0f) {
        r.in = rule->scale / rule->softcap;
        r.cap = rule->softcap / rule->temperature;
        r.inverse_cap = rule->temperature / rule->softcap;
    }
    return r;
}

static inline bool is_plain(const LogitRule &r)
{
    return r.scale == 1.0f && r.cap == 0.0f;
}

__device__ static inline float logit_of(float l, const LogitRule &r)
{
    return r.cap > 0.0f ? r.cap * tanhf(r.in * l) : r.scale * l;
}

#endif /* DT_OPS_CUDA_LOGITS_CUH */
