/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_wire.h - gradients that travel as bf16 or int8 and are added in fp32;
 * for comm/ only
 *
 * NCCL's own sums of bf16 are rounded at every hop. Here each rank sends part r
 * of its elements, rounded once, to rank r; that rank adds the contributions in
 * the order of ranks in fp32 and rounds the sum once. So the bits are those of
 * the backend gloo, whatever the topology.
 */
#ifndef DT_COMM_NCCL_WIRE_H
#define DT_COMM_NCCL_WIRE_H

#include "comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The elements of a view that are sent at a time, `parts` parts of them:
 * element i of part p is first + p * stride + i in the view, and p * length + i
 * in bf16 staging memory (16-byte aligned). Elements at `end` or after it do
 * not exist; length is a multiple of 8.
 */
struct dt_wire {
    struct dt_view view; /* F32 or BF16 */
    size_t first, stride, end;
    int parts;
    size_t length;
};

/* All queued to `stream`. narrow: staging = the view, rounded; 0 for elements
 * that do not exist.
 */
void dt_wire_narrow(struct dt_stream *stream, const struct dt_wire *wire,
                    void *staging);

/* own, which is part `rank` of some staging, = op over p of part p of `others`,
 * but for p = rank of own itself; p upwards, in fp32.
 */
void dt_wire_reduce(struct dt_stream *stream, const struct dt_wire *wire,
                    void *own, const void *others, int rank, enum dt_reduce op);

/* The parts [part, part + count) of the view = those of staging. */
void dt_wire_widen(struct dt_stream *stream, const struct dt_wire *wire,
                   const void *staging, int part, int count);

/* The same in 8 bits with a scale for each block, of F32, as int8.c has it:
 * part p is dt_int8_bytes(length) bytes of staging, and length a multiple of
 * 128. pack: all parts but `rank`. reduce: part `rank` of the view = the sum
 * over p of part p of `others`, but for p = rank of itself; p upwards.
 */
void dt_wire_pack_int8(struct dt_stream *stream, const struct dt_wire *wire,
                       void *staging, int rank, const struct dt_noise *noise);
void dt_wire_reduce_int8(struct dt_stream *stream, const struct dt_wire *wire,
                         const void *others, int rank);

#ifdef __cplusplus
}
#endif

#endif /* DT_COMM_NCCL_WIRE_H */
