/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - elements of a compute type X as fp32 and back, in vector loops */
#ifndef DT_OPS_CPU_ROWS_H
#define DT_OPS_CPU_ROWS_H

#include <string.h>

#include "tensor/half.h"
#include "tensor/view.h"

/* Address of element i of `type` behind data. */
static inline const void *dt_cpu_at(const void *data, enum dt_dtype type,
                                    size_t i)
{
    return (const char *)data + i * dt_dtype_bytes(type);
}

/* to(count) = from(count) of `type` */
static inline void dt_cpu_widen(float *to, const void *from, enum dt_dtype type,
                                size_t count)
{
    const uint16_t *half = from;

    if (type == DT_F32)
        memcpy(to, from, count * sizeof(*to));
    for (size_t i = 0; i < count && type == DT_BF16; i++)
        to[i] = dt_bf16_to_f32(half[i]);
    for (size_t i = 0; i < count && type == DT_F16; i++)
        to[i] = dt_f16_to_f32(half[i]);
}

/* to(count) of `type` = from(count), rounded to nearest even */
static inline void dt_cpu_narrow(void *to, const float *from,
                                 enum dt_dtype type, size_t count)
{
    uint16_t *half = to;

    if (type == DT_F32)
        memcpy(to, from, count * sizeof(*from));
    for (size_t i = 0; i < count && type == DT_BF16; i++)
        half[i] = dt_f32_to_bf16(from[i]);
    for (size_t i = 0; i < count && type == DT_F16; i++)
        half[i] = dt_f32_to_f16(from[i]);
}

#endif /* DT_OPS_CPU_ROWS_H */
