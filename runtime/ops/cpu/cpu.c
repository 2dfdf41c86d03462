/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - chooses the variant for this processor */
#include "config.h"

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
