/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_unfused.c - a matrix multiplication and its epilogue one by one */
#include "config.h"

#include "ops/cuda/cuda.h"

/* d = a b * gelu'(aux) where d is aux: a b goes to the second half of the
 * workspace first, some rows at a time.
 */
static void dgelu_in_place(struct dt_stream *stream,
                           const struct dt_cuda_matmul *mm)
{
    const size_t half = stream->workspace_bytes / 2;
    struct dt_buffer rows_buf = {(char *)stream->workspace + half, half, NULL};
    size_t rows = half / (mm->N * dt_dtype_bytes(mm->d.dtype));
    size_t stride = mm->lda > 0 ? mm->lda : mm->K;
    struct dt_cuda_matmul part = *mm;

    assert(!mm->ta && rows > 0);
    if (rows > 128)
        rows = rows / 128 * 128; /* whole tiles */
    part.epilogue = DT_EPILOGUE_NONE;
    for (size_t first = 0; first < mm->M; first += rows) {
        size_t count = mm->M - first < rows ? mm->M - first : rows;
        struct dt_view at = dt_view_slice(mm->d, first * mm->N, count * mm->N);

        part.M = count;
        part.a =
            dt_view_slice(mm->a, first * stride, (count - 1) * stride + mm->K);
        part.d = (struct dt_view){&rows_buf, 0, count * mm->N, mm->d.dtype};
        dt_cuda_matmul(stream, &part);
        dt_cuda_gelu_backward(stream, at, part.d, at);
    }
}

void dt_cuda_matmul_unfused(struct dt_stream *stream,
                            const struct dt_cuda_matmul *mm)
{
    struct dt_cuda_matmul plain = *mm;

    plain.epilogue = DT_EPILOGUE_NONE;
    plain.bias.count = plain.aux.count = 0;
    switch (mm->epilogue) {
    case DT_EPILOGUE_GELU_AUX:
        plain.bias = mm->bias;
        if (mm->bias.count > 0)
            plain.epilogue = DT_EPILOGUE_BIAS;
        plain.d = mm->aux;
        dt_cuda_matmul(stream, &plain);
        dt_cuda_gelu_forward(stream, mm->d, mm->aux);
        break;
    case DT_EPILOGUE_DGELU:
        if (dt_view_data(mm->d) == dt_view_data(mm->aux)) {
            dgelu_in_place(stream, &plain);
            break;
        }
        dt_cuda_matmul(stream, &plain);
        dt_cuda_gelu_backward(stream, mm->d, mm->d, mm->aux);
        break;
    case DT_EPILOGUE_SUM_A:
        assert(mm->ta && (mm->lda == 0 || mm->lda == mm->M));
        dt_cuda_bias_backward(stream, mm->bias, mm->a, mm->K, mm->M,
                              mm->accumulate);
        dt_cuda_matmul(stream, &plain);
        break;
    case DT_EPILOGUE_SUM_B:
        assert(!mm->tb && (mm->ldb == 0 || mm->ldb == mm->N));
        dt_cuda_bias_backward(stream, mm->bias, mm->b, mm->K, mm->N,
                              mm->accumulate);
        dt_cuda_matmul(stream, &plain);
        break;
    default:
        dt_cuda_matmul(stream, mm);
    }
}
