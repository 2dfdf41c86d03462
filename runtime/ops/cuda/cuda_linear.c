/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_linear.c - the linear layer as matrix multiplications */
#include "config.h"

#include "ops/cuda/cuda.h"

/* y(N,OC) = x(N,C) w */
static struct dt_cuda_matmul forward_matmul(struct dt_view out,
                                            struct dt_view x, struct dt_view w,
                                            struct dt_view b,
                                            enum dt_weight_order order,
                                            size_t N, size_t C, size_t OC)
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
    struct dt_cuda_matmul mm = forward_matmul(out, x, w, b, order, N, C, OC);

    mm.epilogue = b.count > 0 ? DT_EPILOGUE_BIAS : DT_EPILOGUE_NONE;
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_linear_add_forward(struct dt_stream *stream, struct dt_view sum,
                                struct dt_view base, struct dt_view x,
                                struct dt_view w, struct dt_view b,
                                enum dt_weight_order order, size_t N, size_t C,
                                size_t OC)
{
    struct dt_cuda_matmul mm = forward_matmul(sum, x, w, b, order, N, C, OC);

    assert(base.count == N * OC && base.dtype == sum.dtype);
    mm.epilogue = b.count > 0 ? DT_EPILOGUE_BIAS : DT_EPILOGUE_NONE;
    mm.c = base;
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_linear_activation_forward(struct dt_stream *stream,
                                       struct dt_view out, struct dt_view pre,
                                       struct dt_view x, struct dt_view w,
                                       struct dt_view b,
                                       enum dt_weight_order order,
                                       enum dt_activation activation, size_t N,
                                       size_t C, size_t OC)
{
    struct dt_cuda_matmul mm = forward_matmul(out, x, w, b, order, N, C, OC);

    assert(pre.count == N * OC && pre.dtype == out.dtype);
    mm.epilogue = DT_EPILOGUE_ACTIVATION;
    mm.activation = activation;
    mm.aux = pre;
    dt_cuda_matmul(stream, &mm);
}

/* dw = or += x^T dout in the order of w, and with it db, the sum of dout;
 * either may be absent
 */
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

    assert(x.count == N * C && dout.count == N * OC);
    assert(dout.dtype == x.dtype);
    assert(db.count == 0 || (db.count == OC && db.dtype == DT_F32));
    if (dw.count == 0) {
        if (db.count > 0)
            dt_cuda_bias_backward(stream, db, dout, N, OC, accumulate);
        return;
    }
    assert(dw.count == C * OC && dw.dtype == DT_F32);
    if (db.count > 0)
        mm.epilogue = out_in ? DT_EPILOGUE_SUM_A : DT_EPILOGUE_SUM_B;
    dt_cuda_matmul(stream, &mm);
}

/* dx(N,C) = dout(N,OC) w^T */
static struct dt_cuda_matmul backward_matmul(struct dt_view dx,
                                             struct dt_view dout,
                                             struct dt_view w,
                                             enum dt_weight_order order,
                                             size_t N, size_t C, size_t OC)
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

/* dx comes last: the next operation reads it, and the L2 cache still has the
 * latest writes.
 */
void dt_cuda_linear_backward(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dw, struct dt_view db,
                             struct dt_view dout, struct dt_view x,
                             struct dt_view w, enum dt_weight_order order,
                             size_t N, size_t C, size_t OC, bool accumulate)
{
    struct dt_cuda_matmul mm;

    weight_backward(stream, dw, db, dout, x, order, N, C, OC, accumulate);
    if (dx.count == 0)
        return;
    mm = backward_matmul(dx, dout, w, order, N, C, OC);
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_linear_activation_backward(struct dt_stream *stream,
                                        struct dt_view dpre, struct dt_view dw,
                                        struct dt_view db, struct dt_view dout,
                                        struct dt_view x, struct dt_view pre,
                                        struct dt_view w,
                                        enum dt_weight_order order,
                                        enum dt_activation activation, size_t N,
                                        size_t C, size_t OC, bool accumulate)
{
    struct dt_cuda_matmul mm = backward_matmul(dpre, dout, w, order, N, C, OC);

    assert(pre.count == N * C && pre.dtype == dpre.dtype);
    mm.epilogue = DT_EPILOGUE_SLOPE;
    mm.activation = activation;
    mm.aux = pre;
    weight_backward(stream, dw, db, dout, x, order, N, C, OC, accumulate);
    dt_cuda_matmul(stream, &mm);
}
