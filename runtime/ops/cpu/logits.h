/* SPDX-License-Identifier: Apache-2.0 */
/* logits.h - logits by a rule other than l / temperature */
#ifndef DT_OPS_CPU_LOGITS_H
#define DT_OPS_CPU_LOGITS_H

#include "ops/cpu/vec.h"
#include "ops/ops.h"

/* l(V) becomes z, in place. */
static inline void dt_apply_rule(float *l, const struct dt_logit_rule *rule,
                                 size_t V)
{
    const float cap = rule->softcap, inverse = 1.0f / rule->temperature;
    const float in = cap > 0.0f ? rule->scale / cap : rule->scale * inverse;

    if (cap > 0.0f) {
#pragma omp simd
        for (size_t v = 0; v < V; v++)
            l[v] = cap * inverse * dt_tanhf(in * l[v]);
    } else {
#pragma omp simd
        for (size_t v = 0; v < V; v++)
            l[v] *= in;
    }
}

/* dz / dl, without the part of scale and temperature, is 1 - (z * this)^2. */
static inline float dt_rule_slope(const struct dt_logit_rule *rule)
{
    return rule->softcap > 0.0f ? rule->temperature / rule->softcap : 0.0f;
}

#endif /* DT_OPS_CPU_LOGITS_H */
