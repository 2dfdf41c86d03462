/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - token and position embeddings */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dropout.h"

void DT_CPU(embedding_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view ids, struct dt_view positions,
                               struct dt_view wte, struct dt_view wpe, size_t N,
                               size_t C, const struct dt_dropout *dropout)
{
    const int32_t *id = dt_view_i32(ids);
    const int32_t *position = wpe.count ? dt_view_i32(positions) : NULL;
    const size_t T = dropout->rate > 0.0 ? N / dropout->rows.count : N;
    (void)stream;
    assert(ids.count == N && (!position || positions.count == N));

#pragma omp parallel for schedule(static) if (N * C > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK) {
            float token[DT_CPU_BLOCK], place[DT_CPU_BLOCK], sum[DT_CPU_BLOCK];
            size_t count = dt_cpu_block(c, C), at = n * C + c;
            float *to = dt_cpu_place(sum, out, at);
            if (id[n] < 0)
                memset(to, 0, count * sizeof(*to));
            else
                memcpy(to,
                       dt_cpu_read(token, wte, (size_t)id[n] * C + c, count),
                       count * sizeof(*to));
            if (position) {
                const float *b =
                    dt_cpu_read(place, wpe, (size_t)position[n] * C + c, count);
#pragma omp simd
                for (size_t i = 0; i < count; i++)
                    to[i] += b[i];
            }
            if (dropout->rate > 0.0)
                DT_CPU(dropout_apply)(to, dropout, n / T, n % T * C + c, count);
            dt_cpu_write(out, at, to, count);
        }
    }
}

/* a += g */
static void add_to(float *restrict a, const float *restrict g, size_t count)
{
#pragma omp simd
    for (size_t c = 0; c < count; c++)
        a[c] += g[c];
}

/* The sums that rows of dout are added to; position is NULL without positions.
 */
struct sums {
    float *token, *position;
    const int32_t *id, *place;
    int32_t skip;
};

/* Whether row n adds to an embedding. */
static bool has_token(const struct sums *s, size_t n)
{
    return s->id[n] >= 0 && s->id[n] != s->skip;
}

/* Adds the columns [first, first + count) of all rows of dout. */
static void add_columns(const struct sums *s, struct dt_view dout, size_t N,
                        size_t C, size_t first, size_t count)
{
    float grad[DT_CPU_BLOCK];

    for (size_t n = 0; n < N; n++) {
        if (!s->position && !has_token(s, n))
            continue;
        const float *g = dt_cpu_read(grad, dout, n * C + first, count);
        if (has_token(s, n))
            add_to(s->token + (size_t)s->id[n] * C + first, g, count);
        if (s->position)
            add_to(s->position + (size_t)s->place[n] * C + first, g, count);
    }
}

/* Several rows add to one row of dwte, so threads divide the columns, not the
 * rows: every sum is in the order of n, whatever the number of threads.
 */
void DT_CPU(embedding_backward)(struct dt_stream *stream, struct dt_view dwte,
                                struct dt_view dwpe, struct dt_view dout,
                                struct dt_view ids, struct dt_view positions,
                                int32_t skip, size_t N, size_t C,
                                bool accumulate)
{
    const struct sums s = {
        .token = dt_view_f32(dwte),
        .position = dwpe.count ? dt_view_f32(dwpe) : NULL,
        .id = dt_view_i32(ids),
        .place = dwpe.count ? dt_view_i32(positions) : NULL,
        .skip = skip,
    };
    (void)stream;
    assert(ids.count == N && dout.count == N * C);

    if (s.position && !accumulate)
        DT_CPU(zero)(stream, dwpe);
#pragma omp parallel if (N * C > DT_CPU_SMALL)
    {
        size_t first, end;
        dt_cpu_share(C, &first, &end);
        for (; first < end; first += DT_CPU_BLOCK)
            add_columns(&s, dout, N, C, first, dt_cpu_block(first, end));
    }
}

void DT_CPU(scatter_rows)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view x, struct dt_view rows, size_t N,
                          size_t C, size_t M)
{
    const size_t bytes = C * dt_dtype_bytes(x.dtype);
    const char *from = dt_view_data(x);
    char *to = dt_view_data(out);
    assert(out.count == N * C && x.count == M * C && rows.count == M);
    assert(out.dtype == x.dtype);

    DT_CPU(zero)(stream, out);
    for (size_t m = 0; m < M; m++) {
        const int32_t row = dt_view_i32(rows)[m];
        if (row >= 0)
            memcpy(to + (size_t)row * bytes, from + m * bytes, bytes);
    }
}

void DT_CPU(add_rows)(struct dt_stream *stream, struct dt_view out,
                      struct dt_view x, struct dt_view rows, size_t N, size_t C,
                      size_t M)
{
    (void)stream;
    assert(out.count == N * C && x.count == M * C && rows.count == M);
    assert(out.dtype == x.dtype);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t m = 0; m < M; m++) {
        const int32_t row = dt_view_i32(rows)[m];
        for (size_t c = 0; c < C && row >= 0; c += DT_CPU_BLOCK) {
            float sum[DT_CPU_BLOCK], added[DT_CPU_BLOCK];
            const size_t count = dt_cpu_block(c, C), at = (size_t)row * C + c;
            float *to = dt_cpu_place(sum, out, at);
            dt_cpu_read(sum, out, at, count);
            add_to(to, dt_cpu_read(added, x, m * C + c, count), count);
            dt_cpu_write(out, at, to, count);
        }
    }
}
