/* SPDX-License-Identifier: Apache-2.0 */
/* case_sparse.c - products with sparse matrices */
#include "config.h"

#include "harness.h"

struct sizes {
    size_t N, M, C;
    size_t most; /* entries of a row, which has from none to these */
};

/* Row n has n % (most + 1) entries, of which columns may be the same. */
static struct dt_sparse make_sparse(struct sizes z)
{
    struct dt_sparse a = {.starts = tensor_ids(z.N + 1, 1)};
    int32_t *starts = dt_view_i32(a.starts);
    starts[0] = 0;
    for (size_t n = 0; n < z.N; n++)
        starts[n + 1] = starts[n] + (int32_t)(n % (z.most + 1));
    a.columns = tensor_ids((size_t)starts[z.N], z.M);
    a.values = tensor((size_t)starts[z.N]);
    return a;
}

static void sparse_case(enum dt_dtype type, enum dt_dtype result,
                        struct sizes z, bool accumulate)
{
    const struct dt_sparse a = make_sparse(z);
    struct dt_view x = tensor_of(type, z.M * z.C);
    struct dt_view out = tensor_of(result, z.N * z.C);
    double *want = accumulate ? doubles(out) : zeros(z.N * z.C);

    for (size_t n = 0; n < z.N; n++) {
        const int32_t *starts = dt_view_i32(a.starts);
        for (int32_t e = starts[n]; e < starts[n + 1]; e++) {
            const size_t row = (size_t)dt_view_i32(a.columns)[e];
            const double value = (double)dt_view_f32(a.values)[e];
            for (size_t c = 0; c < z.C; c++)
                want[n * z.C + c] += value * element(x, row * z.C + c);
        }
    }
    ops->sparse_matmul(NULL, out, x, &a, z.N, z.C, accumulate);
    check_close("out", out, want, 1e-6);
}

void test_sparse_matmul(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1},   {2, 3, 7, 1},      {5, 9, 8, 4},    {40, 33, 264, 4},
        {3, 50, 36, 2}, {6, 64, 2051, 17}, {70, 5, 24, 16},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++) {
            sparse_case(TYPES[i], TYPES[i], SIZES[j], j % 2);
            sparse_case(TYPES[i], DT_F32, SIZES[j], j % 2 == 0);
        }
    }
}
