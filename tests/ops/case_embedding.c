/* SPDX-License-Identifier: Apache-2.0 */
/* case_embedding.c - embeddings, and the decisions of dropout */
#include "config.h"

#include <math.h>

#include "harness.h"

struct dt_dropout dropout_of(double rate, size_t B)
{
    return (struct dt_dropout){.rate = rate,
                               .seed = 0x123456789abcdefu,
                               .place = 513,
                               .rows = tensor_rows(B)};
}

/* The word of an element as struct dt_dropout has it: Philox4x32-10. */
static uint32_t dropout_word(const struct dt_dropout *d, uint64_t row,
                             uint64_t element)
{
    const uint64_t block = element / 4;
    uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32) | d->place << 16,
                     (uint32_t)row, (uint32_t)(row >> 32) | 1u << 31};

    for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t p0 = 0xD2511F53u * (uint64_t)c[0];
        const uint64_t p1 = 0xCD9E8D57u * (uint64_t)c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)p0;
    }
    return c[element % 4];
}

double *dropout_factors(const struct dt_dropout *d, size_t B, size_t count)
{
    const int64_t *rows = dt_view_data(d->rows);
    double *factors = zeros(B * count);

    for (size_t i = 0; i < B * count; i++) {
        bool dropped =
            d->rate > 0.0 && (double)dropout_word(d, (uint64_t)rows[i / count],
                                                  i % count) < d->rate * 0x1p32;
        factors[i] = dropped ? 0.0 : 1.0 / (1.0 - d->rate);
    }
    return factors;
}

struct sizes {
    size_t B, T, C, V, P; /* P = 0: no positions */
    double rate;
    int32_t skip;
    size_t gap; /* every gap-th id is -1; 0: none, 1: all */
};

static void embedding_case(enum dt_dtype type, struct sizes z, bool accumulate)
{
    const size_t N = z.B * z.T, C = z.C;
    struct dt_dropout dropout = dropout_of(z.rate, z.B);
    struct dt_view out = tensor_of(type, N * C), ids = tensor_ids(N, z.V);
    struct dt_view positions = tensor_ids(N, z.P);
    struct dt_view wte = tensor_of(type, z.V * C);
    struct dt_view wpe = tensor_of(type, z.P * C);
    struct dt_view dwte = tensor(z.V * C), dwpe = tensor(z.P * C);
    struct dt_view dout = tensor_of(type, N * C);
    double *want = zeros(N * C), *token = doubles(dwte);
    double *factors = dropout_factors(&dropout, z.B, z.T * C);
    double *position = accumulate ? doubles(dwpe) : zeros(z.P * C);

    for (size_t n = 0; z.gap > 0 && n < N; n += z.gap)
        dt_view_i32(ids)[n] = -1;
    ops->embedding_forward(NULL, out, ids, positions, wte, wpe, N, C, &dropout);
    ops->embedding_backward(NULL, dwte, dwpe, dout, ids, positions, z.skip, N,
                            C, accumulate);
    for (size_t i = 0; i < N * C; i++) {
        const int32_t id = dt_view_i32(ids)[i / C];
        size_t n = i / C;
        if (id >= 0) {
            size_t v = (size_t)id * C + i % C;
            want[i] = element(wte, v);
            token[v] += id == z.skip ? 0.0 : element(dout, i);
        }
        if (z.P != 0) {
            size_t p = (size_t)dt_view_i32(positions)[n] * C + i % C;
            want[i] += element(wpe, p);
            position[p] += element(dout, i);
        }
        want[i] *= factors[i];
    }
    check_close("out", out, want, 2e-7);
    check_close("dwte", dwte, token, 1e-6);
    check_close("dwpe", dwpe, position, 1e-6);
}

void test_embedding(void **state)
{
    const struct {
        struct sizes sizes;
        bool accumulate;
    } CASES[] = {
        {{1, 1, 1, 1, 1, 0.0, -1, 0}, false},
        {{3, 5, 7, 4, 5, 0.5, 2, 0}, false},
        {{2, 9, 33, 257, 16, 0.0, -1, 0}, true},
        {{2, 9, 130, 5, 0, 0.1, 4, 0}, false},
        {{1, 3, 2050, 5, 4, 0.1, -1, 0}, true},
        /* runs that begin, go on and end in other pieces */
        {{3, 70, 136, 4, 70, 0.1, 0, 0}, true},
        {{1, 400, 33, 2, 90, 0.0, 1, 0}, false},
        {{2, 49, 1032, 40, 1, 0.0, 39, 0}, true},
        /* rows without an embedding: all, some, most of many */
        {{1, 1, 1, 1, 1, 0.0, -1, 1}, false},
        {{2, 9, 33, 3, 7, 0.1, -1, 1}, true},
        {{1, 400, 33, 4, 90, 0.0, 3, 2}, true},
        {{3, 70, 136, 8, 0, 0.1, -1, 3}, false},
        {{1, 97, 136, 7, 0, 0.0, -1, 3}, false},
        /* one vector, as that of a class */
        {{1, 197, 64, 1, 0, 0.0, -1, 2}, false},
        {{2, 65, 24, 1, 3, 0.0, -1, 0}, true},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(CASES) / sizeof(CASES[0]); j++)
            embedding_case(TYPES[i], CASES[j].sizes, CASES[j].accumulate);
    }
}

static void dropout_case(enum dt_dtype type, size_t B, size_t T, size_t C,
                         double rate)
{
    const size_t N = B * T;
    struct dt_dropout dropout = dropout_of(rate, B);
    struct dt_view dout = tensor_of(type, N * C), dx = tensor_of(type, N * C);
    double *want = doubles(dout);
    double *factors = dropout_factors(&dropout, B, T * C);

    for (size_t i = 0; i < N * C; i++)
        want[i] *= factors[i];
    ops->dropout_backward(NULL, dx, dout, N, C, &dropout);
    check_close("dx", dx, want, 1e-7);
    ops->dropout_backward(NULL, dout, dout, N, C, &dropout);
    check_close("dx in place", dout, want, 1e-7);
}

void test_dropout(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        dropout_case(TYPES[i], 1, 1, 1, 0.5);
        dropout_case(TYPES[i], 2, 3, 5, 0.1);
        dropout_case(TYPES[i], 3, 7, 67, 0.9);
        dropout_case(TYPES[i], 1, 2, 2500, 0.3);
        dropout_case(TYPES[i], 2, 2, 9, 0.0);
    }
}
