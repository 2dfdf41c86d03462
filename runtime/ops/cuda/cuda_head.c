/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_head.c - the matrix multiplications of a head, a chunk of rows at a time
 */
#include "config.h"

#include <assert.h>
#include <stdint.h>

#include "ops/cuda/cuda_head.h"
#include "ops/workspace.h"

/* A view reinterpreted as a whole number of elements of `type`. */
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

    dt_cuda_check(cudaMemcpyAsync(data, dt_view_data(h->w), bytes,
                                  cudaMemcpyDeviceToDevice, h->stream->cuda),
                  "cudaMemcpyAsync of the head");
    dt_cuda_check(cudaMemsetAsync(data + bytes, 0, dt_view_bytes(to) - bytes,
                                  h->stream->cuda),
                  "cudaMemsetAsync of the head");
}

bool dt_cuda_head_begin(struct dt_cuda_head *h, struct dt_view workspace)
{
    const enum dt_dtype type = h->x.dtype;
    const size_t copy =
        dt_workspace_head_copy(type, h->C, h->V) / sizeof(float);
    assert(h->x.count == h->N * h->C);
    assert(h->w.count == h->V * h->C && h->w.dtype == type);
    assert(h->dx.count == 0 ||
           (h->dx.count == h->x.count && h->dx.dtype == type));
    assert(h->dw.count == 0 ||
           (h->dw.count == h->w.count && h->dw.dtype == DT_F32));
    assert(workspace.dtype == DT_F32);
    assert(workspace.count >= dt_workspace_head(type, 1, h->C, h->V, false));
    assert((uintptr_t)dt_view_data(workspace) % 16 == 0);

    if (h->N == 0) {
        if (!h->accumulate)
            dt_cuda_zero(h->stream, h->dw);
        return false;
    }
    h->columns = dt_workspace_head_columns(h->V);
    h->rows = dt_workspace_head_rows(type, h->precision, h->N, h->C, h->V,
                                     workspace.count);
    h->logits = view_as(dt_view_slice(workspace, copy, workspace.count - copy),
                        h->precision);
    h->logits = dt_view_slice(h->logits, 0, h->rows * h->columns);
    h->padded = h->w;
    if (copy > 0) {
        h->padded = view_as(dt_view_slice(workspace, 0, copy), type);
        pad_weights(h, h->padded);
    }
    return true;
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
 * V % DT_HEAD_UNIT rows are weighted sums of the rows of x, since the library's
 * tiles are slow for so few.
 */
static void chunk_dw(const struct dt_cuda_head *h, struct dt_view gradients,
                     size_t stride, struct dt_view x, bool accumulate)
{
    const size_t rows = x.count / h->C, whole = h->V - h->V % DT_HEAD_UNIT;
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
    if (h->dw.count > 0)
        chunk_dw(h, gradients, stride, x, h->accumulate || first > 0);
}
