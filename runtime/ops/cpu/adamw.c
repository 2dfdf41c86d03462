/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - one AdamW step, in one pass over the memory */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/rows.h"

enum {
    LINE = 16,    /* elements of a cache line */
    AHEAD = 1024, /* elements to prefetch */
};

/* The tensors of a step, and its factors for a run. */
struct update {
    float *restrict weight, *restrict moment_1, *restrict moment_2;
    const float *restrict grad;
    char *rounded; /* NULL: no copy */
    enum dt_dtype type;
    float grad_scale;
    float l2, decay;      /* of the weight: Adam's, AdamW's */
    float step_size;      /* of the first moment: lr / bias1 */
    float inv_sqrt_bias2; /* of the root of the second moment */
    float eps;
    float b1, c1, b2, c2; /* c1 is 1 - beta1, c2 is 1 - beta2 */
};

static void set_decay(struct update *u, double weight_decay, double lr,
                      bool coupled)
{
    u->l2 = (float)(coupled ? weight_decay : 0.0);
    u->decay = (float)(coupled ? 1.0 : 1.0 - lr * weight_decay);
}

/* Elements [begin, end) of a run, by the lines of the whole tensor: a compiler
 * may round differently at the end of a vector loop than inside it, and where
 * loops end must not depend on the number of threads.
 */
static void update_run(const struct update *update, size_t begin, size_t end)
{
    const struct update u = *update;

    for (size_t first = begin, last; first < end; first = last) {
        size_t next_line = (first / LINE + 1) * LINE;
        last = next_line < end ? next_line : end;
        __builtin_prefetch(u.weight + first + AHEAD, 1);
        __builtin_prefetch(u.grad + first + AHEAD);
        __builtin_prefetch(u.moment_1 + first + AHEAD, 1);
        __builtin_prefetch(u.moment_2 + first + AHEAD, 1);
#pragma omp simd
        for (size_t i = first; i < last; i++) {
            float d = u.grad_scale * u.grad[i] + u.l2 * u.weight[i];
            float m = u.b1 * u.moment_1[i] + u.c1 * d;
            float v = u.b2 * u.moment_2[i] + u.c2 * d * d;
            u.moment_1[i] = m;
            u.moment_2[i] = v;
            u.weight[i] =
                u.decay * u.weight[i] -
                u.step_size * m / (sqrtf(v) * u.inv_sqrt_bias2 + u.eps);
        }
        if (u.rounded)
            dt_cpu_narrow(u.rounded + first * dt_dtype_bytes(u.type),
                          u.weight + first, u.type, last - first);
    }
}

/* A thread's part of each run. */
static void update_share(struct update u, size_t first, size_t end, double lr,
                         const struct dt_adamw *args)
{
    const int64_t *bounds = dt_view_i64(args->bounds);

    for (size_t i = 0; i + 1 < args->bounds.count; i++) {
        size_t from = (size_t)bounds[i], to = (size_t)bounds[i + 1];
        if (to <= args->first + first || from >= args->first + end)
            continue;
        from = from > args->first ? from - args->first : 0;
        to -= args->first;
        set_decay(&u, i % 2 ? args->weight_decay : 0.0, lr, args->coupled);
        update_run(&u, from > first ? from : first, to < end ? to : end);
    }
}

void DT_CPU(adamw)(struct dt_stream *stream, struct dt_view step,
                   struct dt_view p, struct dt_view w, struct dt_view g,
                   struct dt_view m, struct dt_view v,
                   const struct dt_adamw *args)
{
    const double *s = dt_view_f64(step), lr = s[DT_STEP_LR];
    const struct update u = {
        .weight = dt_view_f32(p),
        .grad = dt_cpu_f32(g, p.count),
        .moment_1 = dt_cpu_f32(m, p.count),
        .moment_2 = dt_cpu_f32(v, p.count),
        .rounded = w.count > 0 ? dt_view_data(w) : NULL,
        .type = w.dtype,
        .grad_scale = (float)s[DT_STEP_GRAD_SCALE],
        .step_size = (float)(lr / s[DT_STEP_BIAS1]),
        .inv_sqrt_bias2 = (float)(1.0 / sqrt(s[DT_STEP_BIAS2])),
        .eps = (float)args->eps,
        .b1 = (float)args->beta1,
        .c1 = (float)(1.0 - args->beta1),
        .b2 = (float)args->beta2,
        .c2 = (float)(1.0 - args->beta2),
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT && args->bounds.count > 0);
    assert(w.count == 0 || w.count == p.count);
    assert(dt_view_i64(args->bounds)[0] == 0 && args->first % LINE == 0);
    assert(dt_view_i64(args->bounds)[args->bounds.count - 1] >=
           (int64_t)(args->first + p.count));

    if (s[DT_STEP_OUTCOME] != DT_STEP_TAKEN)
        return;
#pragma omp parallel
    {
        size_t first, end;
        dt_cpu_share(p.count, &first, &end);
        update_share(u, first, end, lr, args);
    }
}
