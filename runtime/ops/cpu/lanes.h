/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - a vector of a compute type, as fp32 */
#ifndef DT_OPS_CPU_LANES_H
#define DT_OPS_CPU_LANES_H

#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/vec.h"

/* LANES elements of `type`, from any address */
static inline dt_vec dt_load_lanes(const void *from, enum dt_dtype type)
{
    float lane[LANES];

    if (type == DT_F32)
        return *(const dt_vec *)from;
    if (type == DT_BF16)
        return dt_widen_bf16(from);
    for (int i = 0; i < LANES; i++)
        lane[i] = dt_f16_to_f32(((const uint16_t *)from)[i]);
    return *(const dt_vec *)lane;
}

/* The first `count` lanes, then 0 */
static inline dt_vec dt_load_some(const void *from, enum dt_dtype type,
                                  size_t count)
{
    float lane[LANES] = {0.0f};

    dt_cpu_widen(lane, from, type, count);
    return *(const dt_vec *)lane;
}

#endif /* DT_OPS_CPU_LANES_H */
