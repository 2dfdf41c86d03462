/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - chooses the variant for this processor; the scalars of a step
 *
 * The scalars are computed here, without the instruction set and the fused sums
 * of a variant, so that every processor decides the same.
 */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"

extern const struct dt_ops dt_cpu_ops_generic;

#ifdef __x86_64__

extern const struct dt_ops dt_cpu_ops_avx2, dt_cpu_ops_avx512;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

const struct dt_ops *dt_cpu_variant(size_t i)
{
    const struct dt_ops *found[4] = {NULL};
    size_t count = 0;

    if (has_avx512())
        found[count++] = &dt_cpu_ops_avx512;
    if (has_avx2())
        found[count++] = &dt_cpu_ops_avx2;
    found[count++] = &dt_cpu_ops_generic;
    return i < count ? found[i] : NULL;
}

#else

const struct dt_ops *dt_cpu_variant(size_t i)
{
    return i == 0 ? &dt_cpu_ops_generic : NULL;
}

#endif

const struct dt_ops *dt_ops_cpu(void)
{
    return dt_cpu_variant(0);
}

struct dt_exec dt_exec_cpu(void)
{
    return (struct dt_exec){.device = &dt_cpu, .ops = dt_ops_cpu()};
}

/* --- The scalars of an optimizer step --- */

static double *step_scalars(struct dt_view step)
{
    assert(step.count == DT_STEP_COUNT);
    return dt_view_f64(step);
}

void dt_cpu_step_begin(struct dt_stream *stream, struct dt_view step,
                       const struct dt_step_params params[DT_STEP_OUTCOMES])
{
    double *s = step_scalars(step);
    const struct dt_step_params *chosen = &params[(int)s[DT_STEP_OUTCOME]];
    (void)stream;

    s[DT_STEP_LOSS] = 0.0;
    s[DT_STEP_TARGETS] = 0.0;
    s[DT_STEP_STOP] = 0.0;
    s[DT_STEP_SQUARES] = 0.0;
    s[DT_STEP_LOSS_SCALE] = chosen->loss_scale;
    s[DT_STEP_LR] = chosen->lr;
    s[DT_STEP_BIAS1] = chosen->bias1;
    s[DT_STEP_BIAS2] = chosen->bias2;
}

void dt_cpu_step_add(struct dt_stream *stream, struct dt_view step,
                     double targets, double stop)
{
    double *s = step_scalars(step);
    (void)stream;

    s[DT_STEP_TARGETS] += targets;
    s[DT_STEP_STOP] += stop;
}

static double clip_factor(double norm, double max_norm)
{
    double factor = max_norm / (norm + 1e-6);

    return max_norm > 0.0 && factor < 1.0 ? factor : 1.0;
}

void dt_cpu_clip_and_check(struct dt_stream *stream, struct dt_view step,
                           double max_norm)
{
    double *s = step_scalars(step);
    const double targets = s[DT_STEP_TARGETS];
    const double scale =
        targets > 0.0 ? 1.0 / (targets * s[DT_STEP_LOSS_SCALE]) : 0.0;
    const double norm = scale * sqrt(s[DT_STEP_SQUARES]);
    (void)stream;

    s[DT_STEP_NORM] = norm;
    s[DT_STEP_GRAD_SCALE] = clip_factor(norm, max_norm) * scale;
    s[DT_STEP_OUTCOME] = !(targets > 0.0)  ? DT_STEP_EMPTY
                         : !isfinite(norm) ? DT_STEP_OVERFLOW
                                           : DT_STEP_TAKEN;
}
