/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - token and position embeddings */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu.h"

void DT_CPU(embedding_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view ids, struct dt_view wte,
                               struct dt_view wpe, size_t B, size_t T, size_t C)
{
    float *to = dt_cpu_f32(out, B * T * C);
    const float *token = dt_view_f32(wte);
    const float *position = dt_view_f32(wpe);
    const int32_t *id = dt_view_i32(ids);
    (void)stream;
    assert(ids.count == B * T && wpe.count >= T * C);

#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < B * T; n++) {
        const float *a = token + (size_t)id[n] * C;
        const float *b = position + n % T * C;
        float *sum = to + n * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            sum[c] = a[c] + b[c];
    }
}

/* Rows meet in the same rows of dwte, so threads share columns, not rows: every
 * sum is in the order of n, whatever the number of threads.
 */
void DT_CPU(embedding_backward)(struct dt_stream *stream, struct dt_view dwte,
                                struct dt_view dwpe, struct dt_view dout,
                                struct dt_view ids, size_t B, size_t T,
                                size_t C, bool accumulate)
{
    float *token = dt_view_f32(dwte);
    float *position = dt_view_f32(dwpe);
    const float *from = dt_cpu_f32(dout, B * T * C);
    const int32_t *id = dt_view_i32(ids);
    size_t P = dwpe.count / C;
    (void)stream;
    assert(ids.count == B * T && P >= T);

#pragma omp parallel
    {
        size_t first, end;
        dt_cpu_share(C, &first, &end);
        for (size_t t = 0; t < P && !accumulate && first < end; t++)
            memset(position + t * C + first, 0,
                   (end - first) * sizeof(*position));
        for (size_t n = 0; n < B * T; n++) {
            const float *g = from + n * C;
            float *a = token + (size_t)id[n] * C;
            float *b = position + n % T * C;
#pragma omp simd
            for (size_t c = first; c < end; c++) {
                a[c] += g[c];
                b[c] += g[c];
            }
        }
    }
}
