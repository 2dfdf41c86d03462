/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adamw.cu - one AdamW step on a range, in one launch and one pass
 *
 * Memory sets the time: 28 bytes an element (p, m and v both ways, g), 30 with
 * a rounded copy. Exact roots and divisions are hidden behind it.
 */
#include "config.h"

#include "ops/adamw.h"
#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

namespace
{

enum {
    BLOCK = 256,
    PER_THREAD = 8, /* vectors; enough work to hide the start of a block, and
                       little enough for blocks to end evenly */
};

/* Where the elements are and which of them decay. */
template <typename X> struct Range {
    float *p, *m, *v;
    const float *g;
    X *w; /* NULL: no copy */
    const int64_t *bounds;
    unsigned runs;
    size_t origin; /* of element 0, in bounds */
    size_t count;
};

/* The run (struct dt_adamw) of element i. */
__device__ unsigned find_run(const int64_t *bounds, unsigned runs, size_t i)
{
    unsigned low = 0, high = runs;

    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if ((size_t)bounds[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Elements [i, i + W) of one run, which decays or does not. */
template <typename X, int W>
__device__ void update(const Range<X> &r, size_t i, bool decays,
                       const struct dt_adamw_factors &factors,
                       const struct dt_adamw_constants &c)
{
    typedef Vec<float, W> Floats;
    const struct dt_adamw_factors f = dt_adamw_factors_in(factors, decays);
    /* m and v: first and second moment */
    Floats p = *(const Floats *)(r.p + i), m = *(const Floats *)(r.m + i);
    Floats v = *(const Floats *)(r.v + i), g = *(const Floats *)(r.g + i);
    Vec<X, W> w;

#pragma unroll
    for (int j = 0; j < W; j++) {
        dt_adamw_update(&f, &c, g.v[j], &p.v[j], &m.v[j], &v.v[j]);
        w.v[j] = from_float<X>(p.v[j]);
    }
    *(Floats *)(r.p + i) = p;
    *(Floats *)(r.m + i) = m;
    *(Floats *)(r.v + i) = v;
    if (r.w)
        *(Vec<X, W> *)(r.w + i) = w;
}

/* A block has W * BLOCK * PER_THREAD neighboring elements. A warp reads and
 * writes 16 bytes a lane side by side, and 8 of w. Vectors in which a run ends,
 * and elements after the last vector, are done one by one.
 */
template <typename X, int W>
__global__ void __launch_bounds__(BLOCK)
    adamw_kernel(const double *step, Range<X> r, struct dt_adamw_constants c)
{
    __shared__ struct dt_adamw_factors shared;
    const size_t first = (size_t)blockIdx.x * (W * BLOCK * PER_THREAD);
    unsigned run = find_run(r.bounds, r.runs, r.origin + first);
    size_t end = (size_t)r.bounds[run + 1] - r.origin;
    size_t i = first + W * threadIdx.x;

    if (step[DT_STEP_OUTCOME] != DT_STEP_TAKEN)
        return;
    if (threadIdx.x == 0)
        shared = dt_adamw_factors_of(step, &c);
    __syncthreads();
    const struct dt_adamw_factors factors = shared;
    for (int turn = 0; turn < PER_THREAD; turn++, i += W * BLOCK) {
        size_t stop = i + W < r.count ? i + W : r.count;
        for (size_t k = i; k < stop; k++) {
            while (k >= end)
                end = (size_t)r.bounds[++run + 1] - r.origin;
            if (k == i && i + W <= end) {
                update<X, W>(r, i, run % 2, factors, c);
                break;
            }
            update<X, 1>(r, k, run % 2, factors, c);
        }
    }
}

template <typename X>
void launch_adamw(struct dt_stream *stream, const double *step,
                  const Range<X> &r, const struct dt_adamw_constants &c)
{
    if (aligned(0, 4, sizeof(float), r.p, r.g, r.m, r.v) &&
        aligned(0, 4, sizeof(X), r.w))
        launch(stream, adamw_kernel<X, 4>,
               blocks_for(r.count, 4 * BLOCK * PER_THREAD), BLOCK, step, r, c);
    else
        launch(stream, adamw_kernel<X, 1>,
               blocks_for(r.count, BLOCK * PER_THREAD), BLOCK, step, r, c);
}

} // namespace

extern "C" void dt_cuda_adamw(struct dt_stream *stream, struct dt_view step,
                              struct dt_view p, struct dt_view w,
                              struct dt_view g, struct dt_view m,
                              struct dt_view v, const struct dt_adamw *args)
{
    const struct dt_adamw_constants c = dt_adamw_constants_of(args);
    assert(step.count == DT_STEP_COUNT && args->bounds.count > 0);
    assert(g.count == p.count && m.count == p.count && v.count == p.count);
    assert(w.count == 0 || w.count == p.count);

    if (p.count == 0)
        return;
    with_type(w.count > 0 ? w.dtype : DT_F32, [&](auto x) {
        typedef decltype(x) X;
        Range<X> r;
        r.p = dt_view_f32(p);
        r.m = dt_view_f32(m);
        r.v = dt_view_f32(v);
        r.g = dt_view_f32(g);
        r.w = data_of<X>(w);
        r.bounds = dt_view_i64(args->bounds);
        r.runs = (unsigned)(args->bounds.count - 1);
        r.origin = args->first;
        r.count = p.count;
        launch_adamw(stream, dt_view_f64(step), r, c);
    });
}
