/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - one AdamW step on a range, in one pass over the memory */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/rows.h"

enum {
    LINE = 16,    /* elements of a cache line */
    AHEAD = 1024, /* elements that the memory is asked for in advance */
};

void DT_CPU(adamw)(struct dt_stream *stream, struct dt_view p, struct dt_view w,
                   struct dt_view g, struct dt_view m, struct dt_view v,
                   const struct dt_adamw *args)
{
    float *restrict weight = dt_view_f32(p);
    const float *restrict grad = dt_cpu_f32(g, p.count);
    float *restrict mean = dt_cpu_f32(m, p.count);
    float *restrict square = dt_cpu_f32(v, p.count);
    const float scale = (float)args->grad_scale, eps = (float)args->eps;
    const float b1 = (float)args->beta1, c1 = (float)(1.0 - args->beta1);
    const float b2 = (float)args->beta2, c2 = (float)(1.0 - args->beta2);
    const double decay = args->weight_decay;
    const float couple = (float)(args->coupled ? decay : 0.0);
    const float keep = (float)(args->coupled ? 1.0 : 1.0 - args->lr * decay);
    const float rate = (float)(args->lr / args->bias1);
    const float root = (float)(1.0 / sqrt(args->bias2));
    char *out = w.count > 0 ? dt_view_data(w) : NULL;
    (void)stream;
    assert(w.count == 0 || w.count == p.count);

#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < p.count; first += LINE) {
        size_t end = p.count - first < LINE ? p.count : first + LINE;
        __builtin_prefetch(weight + first + AHEAD, 1);
        __builtin_prefetch(grad + first + AHEAD);
        __builtin_prefetch(mean + first + AHEAD, 1);
        __builtin_prefetch(square + first + AHEAD, 1);
#pragma omp simd
        for (size_t i = first; i < end; i++) {
            float d = scale * grad[i] + couple * weight[i];
            float m1 = b1 * mean[i] + c1 * d;
            float v1 = b2 * square[i] + c2 * d * d;
            mean[i] = m1;
            square[i] = v1;
            weight[i] = keep * weight[i] - rate * m1 / (sqrtf(v1) * root + eps);
        }
        if (out)
            dt_cpu_narrow(out + first * dt_dtype_bytes(w.dtype), weight + first,
                          w.dtype, end - first);
    }
}
