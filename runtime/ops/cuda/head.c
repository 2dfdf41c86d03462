/* SPDX-License-Identifier: Apache-2.0 */
/* head.c - the matrix multiplications of a head, a chunk of rows at a time */
#include "config.h"

#include <assert.h>
#include <stdint.h>

#include "ops/cuda/head.h"

enum {
    UNIT = 8,   /* matrix multiplications want multiples of this many columns */
    PAD = 64,   /* columns; rows then begin at multiples of 128 bytes */
    TILE = 256, /* rows of cuBLASLt's largest tiles */
    MOST_ROWS = 1 << 16,
};

/* A chunk reads and writes dw once, 8 V C bytes, and its matrix multiplications
 * are 6 rows V C operations: at 4.8 TB/s and 700 TFLOP/s the former takes 195 /
 * rows of the time of the latter, 1.2 % with 16384 rows. Their logits are 1.65
 * GB for GPT-2 in bf16, 2 bytes * 50304 * 16384; more would gain little.
 */
static const size_t MOST_BYTES = (size_t)2 << 30;

static size_t round_up(size_t x, size_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Columns of the logits. Matrix multiplications are fastest if extents are
 * multiples of 16 bytes (cuBLAS's documentation, "Tensor Core Usage"), and
 * GPT-2's 50257 is odd.
 */
static size_t columns_of(size_t V)
{
    return V % UNIT == 0 ? V : round_up(V, PAD);
}

/* Bytes of a copy of w(V,C) that is padded with rows of zeros to that many
 * columns; 0: w is used as it is. A call copies 4 V C bytes, half the traffic
 * of one dw.
 */
static size_t copy_bytes(enum dt_dtype type, size_t C, size_t V)
{
    return V % UNIT == 0 ? 0 : columns_of(V) * C * dt_dtype_bytes(type);
}

/* Rows of a chunk: N in parts of which the logits, of `precision`, fit into
 * `bytes`. Parts are equal if that divides N, otherwise they are whole tiles
 * where these fit.
 */
static size_t chunk_rows(enum dt_dtype precision, size_t N, size_t V,
                         size_t bytes)
{
    size_t most = bytes / (columns_of(V) * dt_dtype_bytes(precision));
    most = most < 1 ? 1 : most > MOST_ROWS ? MOST_ROWS : most;
    size_t parts = (N + most - 1) / most, rows = (N + parts - 1) / parts;
    size_t tiles = round_up(rows, TILE);

    return N % parts > 0 && tiles <= most ? tiles : rows;
}

/* One row may have logits of either precision. */
size_t dt_cuda_head_workspace(enum dt_dtype type, size_t N, size_t C, size_t V)
{
    const size_t copy = copy_bytes(type, C, V), columns = columns_of(V);
    const size_t room = copy < MOST_BYTES ? MOST_BYTES - copy : 0;
    const size_t least = columns * sizeof(float);
    const size_t logits =
        chunk_rows(type, N, V, room) * columns * dt_dtype_bytes(type);

    return (copy + (logits > least ? logits : least)) / sizeof(float);
}

/* A view reinterpreted as elements of `type`, of which it holds a whole number.
 */
static struct dt_view view_as(struct dt_view v, enum dt_dtype type)
{
    const size_t from = dt_dtype_bytes(v.dtype), to = dt_dtype_bytes(type);

    return (struct dt_view){v.buf, v.offset * from / to, v.count * from / to,
                            type};
}

/* Copies w to `to` and pads it with zeros. */
static void pad_weights(const struct dt_cuda_head *h, struct dt_view to)
{
    const size_t bytes = h->w.count * dt_dtype_bytes(to.dtype);
    char *data = dt_view_data(to);

    cudaMemcpyAsync(data, dt_view_data(h->w), bytes, cudaMemcpyDeviceToDevice,
                    h->stream->cuda);
    cudaMemsetAsync(data + bytes, 0,
                    to.count * dt_dtype_bytes(to.dtype) - bytes,
                    h->stream->cuda);
}

void dt_cuda_head_begin(struct dt_cuda_head *h, struct dt_view workspace)
{
    const enum dt_dtype type = h->x.dtype;
    const size_t copy = copy_bytes(type, h->C, h->V) / sizeof(float);
    assert(h->N > 0 && h->x.count == h->N * h->C);
    assert(h->w.count == h->V * h->C && h->w.dtype == type);
    assert(h->dx.count == 0 ||
           (h->dx.count == h->x.count && h->dx.dtype == type));
    assert(h->dx.count == 0 ||
           (h->dw.count == h->w.count && h->dw.dtype == DT_F32));
    assert(workspace.dtype == DT_F32);
    assert(workspace.count >= dt_cuda_head_workspace(type, 1, h->C, h->V));
    assert((uintptr_t)dt_view_data(workspace) % 16 == 0);

    h->columns = columns_of(h->V);
    h->rows = chunk_rows(h->precision, h->N, h->V,
                         (workspace.count - copy) * sizeof(float));
    h->logits = view_as(dt_view_slice(workspace, copy, workspace.count - copy),
                        h->precision);
    h->logits = dt_view_slice(h->logits, 0, h->rows * h->columns);
    h->padded = h->w;
    if (copy > 0) {
        h->padded = view_as(dt_view_slice(workspace, 0, copy), type);
        pad_weights(h, h->padded);
    }
}

void dt_cuda_head_forward(const struct dt_cuda_head *h, size_t first,
                          size_t rows)
{
    const struct dt_cuda_matmul mm = {
        .M = rows,
        .N = h->columns,
        .K = h->C,
        .tb = true,
        .a = dt_view_slice(h->x, first * h->C, rows * h->C),
        .b = h->padded,
        .d = dt_view_slice(h->logits, 0, rows * h->columns),
    };
    dt_cuda_matmul(h->stream, &mm);
}

/* dw = or += gradients^T x of a chunk. dw has no rows for the padding: its last
 * V % UNIT rows are weighted sums of the rows of x, since the library's tiles
 * are slow for so few.
 */
static void chunk_dw(const struct dt_cuda_head *h, struct dt_view gradients,
                     size_t stride, struct dt_view x, bool accumulate)
{
    const size_t rows = x.count / h->C, whole = h->V - h->V % UNIT;
    const struct dt_cuda_matmul mm = {
        .M = whole,
        .N = h->C,
        .K = rows,
        .ta = true,
        .a = gradients,
        .lda = stride,
        .b = x,
        .d = dt_view_slice(h->dw, 0, whole * h->C),
        .accumulate = accumulate,
    };

    dt_cuda_matmul(h->stream, &mm);
    for (size_t v = whole; v < h->V; v++)
        dt_cuda_weighted_sums(h->stream, dt_view_slice(h->dw, v * h->C, h->C),
                              x,
                              dt_view_slice(gradients, v, gradients.count - v),
                              stride, rows, h->C, accumulate);
}

void dt_cuda_head_backward(const struct dt_cuda_head *h, size_t first,
                           size_t rows)
{
    const struct dt_view x = dt_view_slice(h->x, first * h->C, rows * h->C);
    const struct dt_view gradients =
        view_as(dt_view_slice(h->logits, 0, rows * h->columns), x.dtype);
    const size_t stride = gradients.count / rows;
    const struct dt_cuda_matmul mm = {
        .M = rows,
        .N = h->C,
        .K = h->columns,
        .a = gradients,
        .lda = stride,
        .b = h->padded,
        .d = dt_view_slice(h->dx, first * h->C, rows * h->C),
    };

    dt_cuda_matmul(h->stream, &mm);
    chunk_dw(h, gradients, stride, x, h->accumulate || first > 0);
}
