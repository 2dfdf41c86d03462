/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_reduce.c - sums in a fixed order, in blocks that stay in the first cache
 */
#include "config.h"

#include <string.h>

#include "comm/comm_gloo.h"
#include "tensor/half.h"

enum {
    BLOCK = 1024, /* elements */
};

void dt_reduce_narrow(uint16_t *out, const float *in, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = dt_f32_to_bf16(in[i]);
}

void dt_reduce_widen(float *out, const uint16_t *in, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = dt_bf16_to_f32(in[i]);
}

static void block_add(float *restrict acc, const float *restrict in,
                      size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        acc[i] += in[i];
}

static void block_max(float *restrict acc, const float *restrict in,
                      size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        acc[i] = acc[i] > in[i] || acc[i] != acc[i] ? acc[i] : in[i];
}

/* The `count` elements of `part` from `first` on, in fp32: in place, or
 * widened to room.
 */
static const float *block_of(const void *part, size_t first, size_t count,
                             enum dt_dtype dtype, float *room)
{
    if (dtype == DT_F32)
        return (const float *)part + first;
    dt_reduce_widen(room, (const uint16_t *)part + first, count);
    return room;
}

void dt_reduce_parts(void *out, const void *const *parts, int part_count,
                     size_t count, enum dt_dtype dtype, enum dt_reduce op)
{
    float acc[BLOCK], room[BLOCK];
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        memcpy(acc, block_of(parts[0], first, n, dtype, room),
               n * sizeof(*acc));
        for (int p = 1; p < part_count; p++) {
            const float *in = block_of(parts[p], first, n, dtype, room);
            if (op == DT_SUM)
                block_add(acc, in, n);
            else
                block_max(acc, in, n);
        }
        if (dtype == DT_F32)
            memcpy((float *)out + first, acc, n * sizeof(*acc));
        else
            dt_reduce_narrow((uint16_t *)out + first, acc, n);
    }
}

void dt_reduce_scalars(double *values, const double *const *parts,
                       int part_count, size_t count, enum dt_reduce op)
{
    for (size_t i = 0; i < count; i++) {
        double acc = parts[0][i];
        for (int p = 1; p < part_count; p++) {
            double x = parts[p][i];
            if (op == DT_SUM)
                acc += x;
            else if (x > acc || x != x)
                acc = x;
        }
        values[i] = acc;
    }
}
