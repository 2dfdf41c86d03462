/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_reduce.h - sums of contributions, and rounding to bf16; for comm/ only
 */
#ifndef DT_COMM_COMM_REDUCE_H
#define DT_COMM_COMM_REDUCE_H

#include "comm/comm.h"

/* out[i] = op over p of parts[p][i], p upwards, in fp32; out and parts are all
 * of `dtype` (DT_F32, DT_BF16; rounded once, to nearest even). out may be one
 * of parts.
 */
void dt_reduce_parts(void *out, const void *const *parts, int part_count,
                     size_t count, enum dt_dtype dtype, enum dt_reduce op);

/* values[i] = op over p of parts[p][i], p upwards. */
void dt_reduce_scalars(double *values, const double *const *parts,
                       int part_count, size_t count, enum dt_reduce op);

/* Rounds fp32 to bf16, and back. */
void dt_reduce_narrow(uint16_t *out, const float *in, size_t count);
void dt_reduce_widen(float *out, const uint16_t *in, size_t count);

#endif /* DT_COMM_COMM_REDUCE_H */
