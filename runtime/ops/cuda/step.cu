/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.cu - the scalars of a step, and the sum that decides about it
 *
 * Squares are taken and added in double, as on the cpu: the product of two
 * floats is exact there and can neither overflow nor vanish, so that a norm is
 * infinite only if a gradient is. That costs a conversion and a fused
 * multiply-add for 4 bytes. A multiprocessor of an H200 does 16 of the former
 * and 64 of the latter a clock, 3.7e12 elements a second for the card, three
 * times what its memory delivers. Of a card that does 2 a clock of both, with
 * 128 multiprocessors at 2.5 GHz, GPT-2's 124 million parameters take 0.4 ms,
 * as long as of memory with 1.2 TB/s.
 */
#include "config.h"

#include "tensor/kernel.cuh"

namespace
{

enum {
    SUM_BLOCK = 512,
    AHEAD = 4, /* 16-byte loads that a thread has under way */
    /* Two rounds of four blocks on each of the 132 multiprocessors of an H200;
     * the same on other cards, so that the bits are.
     */
    SUM_BLOCKS = 1056,
};

struct Rules {
    struct dt_step_rule of[DT_STEP_OUTCOMES];
};

double *scalars(struct dt_view step)
{
    assert(step.count == DT_STEP_COUNT);
    return dt_view_f64(step);
}

__global__ void begin_kernel(double *step, Rules rules)
{
    if (threadIdx.x > 0)
        return;
    int outcome = (int)step[DT_STEP_OUTCOME];
    struct dt_step_rule rule = rules.of[DT_STEP_TAKEN];
    /* no index that is only known here: it would put the rules into memory */
    if (outcome == DT_STEP_OVERFLOW)
        rule = rules.of[DT_STEP_OVERFLOW];
    else if (outcome == DT_STEP_EMPTY)
        rule = rules.of[DT_STEP_EMPTY];
    step[DT_STEP_LOSS] = 0.0;
    step[DT_STEP_TARGETS] = 0.0;
    step[DT_STEP_STOP] = 0.0;
    step[DT_STEP_SQUARES] = 0.0;
    step[DT_STEP_LOSS_SCALE] = rule.loss_scale;
    step[DT_STEP_LR] = rule.lr;
    step[DT_STEP_BIAS1] = rule.bias1;
    step[DT_STEP_BIAS2] = rule.bias2;
}

__global__ void add_kernel(double *step, double targets, double stop)
{
    if (threadIdx.x > 0)
        return;
    step[DT_STEP_TARGETS] += targets;
    step[DT_STEP_STOP] += stop;
}

__global__ void decide_kernel(double *step, double max_norm)
{
    if (threadIdx.x > 0)
        return;
    double targets = step[DT_STEP_TARGETS];
    double scale =
        targets > 0.0 ? 1.0 / (targets * step[DT_STEP_LOSS_SCALE]) : 0.0;
    double norm = scale * sqrt(step[DT_STEP_SQUARES]);
    double clip = max_norm / (norm + 1e-6);
    if (!(max_norm > 0.0 && clip < 1.0))
        clip = 1.0;
    step[DT_STEP_NORM] = norm;
    step[DT_STEP_GRAD_SCALE] = clip * scale;
    step[DT_STEP_OUTCOME] = !(targets > 0.0)     ? DT_STEP_EMPTY
                            : !(norm < INFINITY) ? DT_STEP_OVERFLOW
                                                 : DT_STEP_TAKEN;
}

template <int W> __device__ double add_squares(double sum, Vec<float, W> x)
{
    for (int j = 0; j < W; j++)
        sum = fma((double)x.v[j], (double)x.v[j], sum);
    return sum;
}

/* part(gridDim): what each block has of x(count). Blocks take turns, AHEAD
 * vectors a thread; the elements that fill no vector are the first block's.
 */
template <int W>
__global__ void __launch_bounds__(SUM_BLOCK)
    squares_kernel(double *part, const float *x, size_t count)
{
    __shared__ double shared[WARP];
    const Vec<float, W> *from = (const Vec<float, W> *)x;
    const size_t vecs = count / W, stride = (size_t)gridDim.x * SUM_BLOCK;
    size_t i = (size_t)blockIdx.x * SUM_BLOCK + threadIdx.x;
    double sum[AHEAD] = {0.0};

    for (; i + (AHEAD - 1) * stride < vecs; i += AHEAD * stride) {
        Vec<float, W> x4[AHEAD];
        for (int k = 0; k < AHEAD; k++)
            x4[k] = from[i + (size_t)k * stride];
        for (int k = 0; k < AHEAD; k++)
            sum[k] = add_squares(sum[k], x4[k]);
    }
    for (; i < vecs; i += stride)
        sum[0] = add_squares(sum[0], from[i]);
    if (blockIdx.x == 0 && threadIdx.x < count % W) {
        double last = (double)x[vecs * W + threadIdx.x];
        sum[1] = fma(last, last, sum[1]);
    }
    double all = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]), shared);
    if (threadIdx.x == 0)
        part[blockIdx.x] = all;
}

/* step += the sum of part(parts), one block */
__global__ void __launch_bounds__(SUM_BLOCK)
    parts_kernel(double *step, const double *part, unsigned parts)
{
    __shared__ double shared[WARP];
    double sum = 0.0;

    for (unsigned i = threadIdx.x; i < parts; i += SUM_BLOCK)
        sum += part[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        step[DT_STEP_SQUARES] += sum;
}

} // namespace

extern "C" void dt_cuda_step_begin(
    struct dt_stream *stream, struct dt_view step,
    const struct dt_step_rule rules[DT_STEP_OUTCOMES])
{
    Rules copy;

    for (int i = 0; i < DT_STEP_OUTCOMES; i++)
        copy.of[i] = rules[i];
    launch(stream, begin_kernel, 1, WARP, scalars(step), copy);
}

extern "C" void dt_cuda_step_add(struct dt_stream *stream, struct dt_view step,
                                 double targets, double stop)
{
    launch(stream, add_kernel, 1, WARP, scalars(step), targets, stop);
}

extern "C" void dt_cuda_step_decide(struct dt_stream *stream,
                                    struct dt_view step, double max_norm)
{
    launch(stream, decide_kernel, 1, WARP, scalars(step), max_norm);
}

extern "C" void dt_cuda_sum_of_squares(struct dt_stream *stream,
                                       struct dt_view step, struct dt_view x)
{
    const bool vectors = x.count > 0 && aligned(0, 4, 4, dt_view_f32(x));
    unsigned blocks = SUM_BLOCKS;
    double *part = (double *)stream->workspace;

    if (x.count == 0)
        return;
    if (x.count < (size_t)SUM_BLOCKS * SUM_BLOCK * 4)
        blocks = blocks_for(x.count, SUM_BLOCK * 4);
    launch(stream, vectors ? squares_kernel<4> : squares_kernel<1>, blocks,
           SUM_BLOCK, part, (const float *)dt_view_f32(x), x.count);
    launch(stream, parts_kernel, 1, SUM_BLOCK, scalars(step),
           (const double *)part, blocks);
}
