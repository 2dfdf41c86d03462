/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - the linear layer: which products it is made of */
#include "config.h"

#include "ops/cuda/cuda.h"

/* y(N,OC) = x(N,C) w */
static struct dt_cuda_matmul forward(struct dt_view out, struct dt_view x,
                                     struct dt_view w, struct dt_view b,
                                     enum dt_weight_order order, size_t N,
                                     size_t C, size_t OC)
{
    assert(x.count == N * C && out.count == N * OC && w.count == C * OC);
    assert(w.dtype == x.dtype);
    assert(b.count == 0 || (b.count == OC && b.dtype == x.dtype));
    return (struct dt_cuda_matmul){
        .M = N,
        .N = OC,
        .K = C,
        .tb = order == DT_WEIGHT_OUT_IN,
        .a = x,
        .b = w,
        .d = out,
        .bias = b,
    };
}

void dt_cuda_linear_forward(struct dt_stream *stream, struct dt_view out,
                            struct dt_view x, struct dt_view w,
                            struct dt_view b, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC)
{
    struct dt_cuda_matmul mm = forward(out, x, w, b, order, N, C, OC);

    mm.epilogue = b.count > 0 ? DT_EPILOGUE_BIAS : DT_EPILOGUE_NONE;
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_linear_gelu_forward(struct dt_stream *stream, struct dt_view out,
                                 struct dt_view pre, struct dt_view x,
                                 struct dt_view w, struct dt_view b,
                                 enum dt_weight_order order, size_t N, size_t C,
                                 size_t OC)
{
    struct dt_cuda_matmul mm = forward(out, x, w, b, order, N, C, OC);

    assert(pre.count == N * OC && pre.dtype == out.dtype);
    mm.epilogue = DT_EPILOGUE_GELU_AUX;
    mm.aux = pre;
    dt_cuda_matmul(stream, &mm);
}

/* dw = or += x^T dout in the order of w, and with it db, the sum of dout */
static void weight_backward(struct dt_stream *stream, struct dt_view dw,
                            struct dt_view db, struct dt_view dout,
                            struct dt_view x, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate)
{
    const bool out_in = order == DT_WEIGHT_OUT_IN;
    struct dt_cuda_matmul mm = {
        .M = out_in ? OC : C,
        .N = out_in ? C : OC,
        .K = N,
        .ta = true,
        .a = out_in ? dout : x,
        .b = out_in ? x : dout,
        .d = dw,
        .accumulate = accumulate,
        .bias = db,
    };

    assert(x.count == N * C && dout.count == N * OC && dw.count == C * OC);
    assert(dw.dtype == DT_F32 && dout.dtype == x.dtype);
    assert(db.count == 0 || (db.count == OC && db.dtype == DT_F32));
    if (db.count > 0)
        mm.epilogue = out_in ? DT_EPILOGUE_SUM_A : DT_EPILOGUE_SUM_B;
    dt_cuda_matmul(stream, &mm);
}

/* dx(N,C) = dout(N,OC) w^T */
static struct dt_cuda_matmul backward(struct dt_view dx, struct dt_view dout,
                                      struct dt_view w,
                                      enum dt_weight_order order, size_t N,
                                      size_t C, size_t OC)
{
    assert(dx.count == N * C && w.count == C * OC && dx.dtype == w.dtype);
    return (struct dt_cuda_matmul){
        .M = N,
        .N = C,
        .K = OC,
        .tb = order == DT_WEIGHT_IN_OUT,
        .a = dout,
        .b = w,
        .d = dx,
    };
}

/* dx comes last: it is what the next operation reads, and of a cache that holds
 * less than one of these matrices the end of what was written last is left.
 */
void dt_cuda_linear_backward(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dw, struct dt_view db,
                             struct dt_view dout, struct dt_view x,
                             struct dt_view w, enum dt_weight_order order,
                             size_t N, size_t C, size_t OC, bool accumulate)
{
    struct dt_cuda_matmul mm = backward(dx, dout, w, order, N, C, OC);

    weight_backward(stream, dw, db, dout, x, order, N, C, OC, accumulate);
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_linear_gelu_backward(struct dt_stream *stream, struct dt_view dpre,
                                  struct dt_view dw, struct dt_view db,
                                  struct dt_view dout, struct dt_view x,
                                  struct dt_view pre, struct dt_view w,
                                  enum dt_weight_order order, size_t N,
                                  size_t C, size_t OC, bool accumulate)
{
    struct dt_cuda_matmul mm = backward(dpre, dout, w, order, N, C, OC);

    assert(pre.count == N * C && pre.dtype == dpre.dtype);
    mm.epilogue = DT_EPILOGUE_DGELU;
    mm.aux = pre;
    weight_backward(stream, dw, db, dout, x, order, N, C, OC, accumulate);
    dt_cuda_matmul(stream, &mm);
}

/* --- products and the rest, one after the other --- */

/* d = product * gelu'(aux) where d is aux: some rows of the product at a time,
 * because they need another place until then.
 */
static void dgelu_in_place(struct dt_stream *stream,
                           const struct dt_cuda_matmul *mm)
{
    const size_t half = stream->workspace_bytes / 2;
    struct dt_buffer place = {(char *)stream->workspace + half, half, NULL};
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
        part.d = (struct dt_view){&place, 0, count * mm->N, mm->d.dtype};
        dt_cuda_matmul(stream, &part);
        dt_cuda_gelu_backward(stream, at, part.d, at);
    }
}

void dt_cuda_matmul_apart(struct dt_stream *stream,
                          const struct dt_cuda_matmul *mm)
{
    struct dt_cuda_matmul product = *mm;

    product.epilogue = DT_EPILOGUE_NONE;
    product.bias.count = product.aux.count = 0;
    switch (mm->epilogue) {
    case DT_EPILOGUE_GELU_AUX:
        product.bias = mm->bias;
        if (mm->bias.count > 0)
            product.epilogue = DT_EPILOGUE_BIAS;
        product.d = mm->aux;
        dt_cuda_matmul(stream, &product);
        dt_cuda_gelu_forward(stream, mm->d, mm->aux);
        break;
    case DT_EPILOGUE_DGELU:
        if (dt_view_data(mm->d) == dt_view_data(mm->aux)) {
            dgelu_in_place(stream, &product);
            break;
        }
        dt_cuda_matmul(stream, &product);
        dt_cuda_gelu_backward(stream, mm->d, mm->d, mm->aux);
        break;
    case DT_EPILOGUE_SUM_A:
        assert(mm->ta && (mm->lda == 0 || mm->lda == mm->M));
        dt_cuda_bias_backward(stream, mm->bias, mm->a, mm->K, mm->M,
                              mm->accumulate);
        dt_cuda_matmul(stream, &product);
        break;
    case DT_EPILOGUE_SUM_B:
        assert(!mm->tb && (mm->ldb == 0 || mm->ldb == mm->N));
        dt_cuda_bias_backward(stream, mm->bias, mm->b, mm->K, mm->N,
                              mm->accumulate);
        dt_cuda_matmul(stream, &product);
        break;
    default:
        dt_cuda_matmul(stream, mm);
    }
}
