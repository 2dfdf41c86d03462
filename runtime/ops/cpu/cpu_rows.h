/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_rows.h - elements of a compute type X as fp32 and back, in vector loops
 *
 * One implementation for all types: a block of elements is converted to fp32 in
 * a buffer on the stack, and rounded when it is written. F32 is read and
 * written in place.
 */
#ifndef DT_OPS_CPU_CPU_ROWS_H
#define DT_OPS_CPU_CPU_ROWS_H

#include <assert.h>
#include <string.h>

#include "ops/cpu/vec.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

/* Address of element i of data, which has this type. */
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
    if (type == DT_BF16) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = dt_bf16_to_f32(half[i]);
    }
    if (type == DT_F16) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = dt_f16_to_f32(half[i]);
    }
}

/* to(count) of `type` = from(count), rounded to nearest even */
static inline void dt_cpu_narrow(void *to, const float *from,
                                 enum dt_dtype type, size_t count)
{
    uint16_t *half = to;

    if (type == DT_F32)
        memcpy(to, from, count * sizeof(*from));
    if (type == DT_BF16) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            half[i] = dt_f32_to_bf16(from[i]);
    }
    if (type == DT_F16) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            half[i] = dt_f32_to_f16(from[i]);
    }
}

enum { DT_CPU_BLOCK = 1024 }; /* elements of a block: 4 KiB, four fit into L1 */

/* Elements [first, first + count) of v as fp32: in buffer, or in place. */
static inline const float *dt_cpu_read(float *buffer, struct dt_view v,
                                       size_t first, size_t count)
{
    const void *from = dt_cpu_at(dt_view_data(v), v.dtype, first);

    assert(count <= DT_CPU_BLOCK && first + count <= v.count);
    if (v.dtype == DT_F32)
        return from;
    dt_cpu_widen(buffer, from, v.dtype, count);
    return buffer;
}

/* The place for elements first... of v, until dt_cpu_write writes them. */
static inline float *dt_cpu_place(float *buffer, struct dt_view v, size_t first)
{
    return v.dtype == DT_F32 ? dt_view_f32(v) + first : buffer;
}

/* Ends the writing of `count` elements that began with dt_cpu_place. */
static inline void dt_cpu_write(struct dt_view v, size_t first,
                                const float *place, size_t count)
{
    assert(count <= DT_CPU_BLOCK && first + count <= v.count);
    if (v.dtype != DT_F32)
        dt_cpu_narrow((uint16_t *)dt_view_data(v) + first, place, v.dtype,
                      count);
}

/* Elements of the block of 0..count that begins at first. */
static inline size_t dt_cpu_block(size_t first, size_t count)
{
    return count - first < DT_CPU_BLOCK ? count - first : DT_CPU_BLOCK;
}

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

#endif /* DT_OPS_CPU_CPU_ROWS_H */
