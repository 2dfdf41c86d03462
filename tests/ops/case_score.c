/* SPDX-License-Identifier: Apache-2.0 */
/* case_score.c - rows of a tensor, and the head of a reward model */
#include "config.h"

#include <string.h>

#include "harness.h"
#include "model/model.h"

/* Every gap-th row of x is dropped; 0: none. */
static void scatter_case(enum dt_dtype type, size_t N, size_t C, size_t M,
                         size_t gap)
{
    struct dt_view out = tensor_of(type, N * C), x = tensor_of(type, M * C);
    struct dt_view rows = tensor_ids(M, 1);
    double *want = zeros(N * C);

    for (size_t m = 0; m < M; m++) { /* from the last row on, every second */
        size_t n = N - 1 - 2 * m;
        const bool dropped = gap > 0 && m % gap == 0;
        dt_view_i32(rows)[m] = dropped ? -1 : (int32_t)n;
        for (size_t c = 0; c < C && !dropped; c++)
            want[n * C + c] = element(x, m * C + c);
    }
    ops->scatter_rows(NULL, out, x, rows, N, C, M);
    check_close("out", out, want, 0.0);
}

void test_scatter_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        scatter_case(TYPES[i], 1, 1, 1, 0);
        scatter_case(TYPES[i], 7, 3, 4, 0);
        scatter_case(TYPES[i], 40, 264, 20, 0);
        scatter_case(TYPES[i], 5, 2051, 2, 0);
        scatter_case(TYPES[i], 3, 8, 0, 0);
        scatter_case(TYPES[i], 40, 264, 20, 3);
        scatter_case(TYPES[i], 5, 7, 2, 1);
    }
}

/* Features at the tokens of pictures, and their gradient back; every gap-th
 * row of x is dropped, 0: none.
 */
static void add_case(enum dt_dtype type, size_t N, size_t C, size_t M,
                     size_t gap)
{
    const struct dt_view none = {0};
    const struct dt_dropout keep = {0};
    struct dt_view out = tensor_of(type, N * C), x = tensor_of(type, M * C);
    struct dt_view rows = tensor_ids(M, 1), dx = tensor_of(type, M * C);
    struct dt_view dout = tensor_of(type, N * C);
    double *want = doubles(out), *want_dx = zeros(M * C);

    for (size_t m = 0; m < M; m++) { /* from the last row on, every second */
        const size_t n = N - 1 - 2 * m;
        const bool dropped = gap > 0 && m % gap == 0;
        dt_view_i32(rows)[m] = dropped ? -1 : (int32_t)n;
        for (size_t c = 0; c < C && !dropped; c++) {
            want[n * C + c] += element(x, m * C + c);
            want_dx[m * C + c] = element(dout, n * C + c);
        }
    }
    ops->add_rows(NULL, out, x, rows, N, C, M);
    check_close("out", out, want, 1e-7);
    ops->embedding_forward(NULL, dx, rows, none, dout, none, M, C, &keep);
    check_close("dx", dx, want_dx, 0.0);
}

void test_add_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        add_case(TYPES[i], 1, 1, 1, 0);
        add_case(TYPES[i], 7, 3, 4, 0);
        add_case(TYPES[i], 40, 264, 20, 3);
        add_case(TYPES[i], 5, 2051, 2, 0);
        add_case(TYPES[i], 300, 64, 130, 2);
        add_case(TYPES[i], 5, 8, 2, 1);
    }
}

struct scored {
    size_t C, M;
    double *x, *w, *dscores;
    const int32_t *rows;
};

static double score_sum(void *context)
{
    const struct scored *s = context;
    double total = 0.0;

    for (size_t m = 0; m < s->M; m++)
        total +=
            s->dscores[m] * dot(s->x + (size_t)s->rows[m] * s->C, s->w, s->C);
    return total;
}

static void score_case(enum dt_dtype type, size_t N, size_t C, size_t M,
                       bool accumulate)
{
    const struct dt_exec exec = {.ops = ops};
    const struct dt_score s = {.N = N,
                               .C = C,
                               .M = M,
                               .x = tensor_of(type, N * C),
                               .rows = tensor_ids(M, 1),
                               .w = tensor_of(type, C),
                               .h = tensor_of(type, M * C)};
    struct dt_view scores = tensor(M), dscores = tensor(M);
    struct dt_view dx = tensor_of(type, N * C), dw = tensor(C);
    struct dt_view space = tensor_of(type, M * (C + 1));
    double *want = zeros(M), *before = doubles(dw);
    struct scored obvious = {.C = C,
                             .M = M,
                             .x = doubles(s.x),
                             .w = doubles(s.w),
                             .rows = dt_view_i32(s.rows)};

    for (size_t m = 0; m < M; m++) { /* what every type has exactly */
        dt_view_i32(s.rows)[m] = (int32_t)(N - 1 - m * (N / M));
        set_element(dscores, m, (double)m * 0.25 - 0.5);
    }
    obvious.dscores = doubles(dscores);
    dt_score_forward(&exec, &s, scores);
    for (size_t m = 0; m < M; m++)
        want[m] = dot(obvious.x + (size_t)obvious.rows[m] * C, obvious.w, C);
    check_close("scores", scores, want, 1e-6);
    dt_score_backward(&exec, &s, dx, dw, dscores, space, accumulate);
    check_gradient("dx", dx, obvious.x, score_sum, &obvious, NULL);
    check_gradient("dw", dw, obvious.w, score_sum, &obvious,
                   accumulate ? before : NULL);
}

void test_score(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        score_case(TYPES[i], 1, 1, 1, false);
        score_case(TYPES[i], 20, 33, 6, true);
        score_case(TYPES[i], 64, 128, 8, false);
    }
}
