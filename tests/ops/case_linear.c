/* SPDX-License-Identifier: Apache-2.0 */
/* case_linear.c - linear layers */
#include "config.h"

#include <pthread.h>

#include "harness.h"
#include "ops/cpu/matmul.h"

struct linear {
    size_t N, C, OC;
    enum dt_weight_order order;
    double *x, *w, *b, *dout; /* b: NULL for none */
    double *out;
};

static void reference_linear(const struct linear *l)
{
    for (size_t n = 0; n < l->N; n++) {
        for (size_t o = 0; o < l->OC; o++) {
            double sum = l->b ? l->b[o] : 0.0;
            for (size_t c = 0; c < l->C; c++)
                sum += l->x[n * l->C + c] *
                       l->w[l->order == DT_WEIGHT_IN_OUT ? c * l->OC + o
                                                         : o * l->C + c];
            l->out[n * l->OC + o] = sum;
        }
    }
}

static double linear_loss(void *context)
{
    struct linear *l = context;

    reference_linear(l);
    return dot(l->out, l->dout, l->N * l->OC);
}

/* With a residual, which stays, or is overwritten by the sum. */
static void add_case(const struct linear *l, struct dt_view x, struct dt_view w,
                     struct dt_view b)
{
    const size_t count = l->N * l->OC;
    struct dt_view base = tensor_of(x.dtype, count);
    struct dt_view sum = tensor_of(x.dtype, count);
    double *want = doubles(base);

    for (size_t i = 0; i < count; i++)
        want[i] += l->out[i];
    ops->linear_add_forward(NULL, sum, base, x, w, b, l->order, l->N, l->C,
                            l->OC);
    ops->linear_add_forward(NULL, base, base, x, w, b, l->order, l->N, l->C,
                            l->OC);
    check_close("sum", sum, want, 1e-6);
    check_close("sum in place", base, want, 1e-6);
}

static void linear_case(enum dt_dtype type, size_t N, size_t C, size_t OC,
                        enum dt_weight_order order, bool bias, bool accumulate)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, bias ? OC : 0);
    struct dt_view out = tensor_of(type, N * OC), exact = tensor(N * OC);
    struct dt_view dx = tensor_of(type, N * C), dw = tensor(C * OC);
    struct dt_view db = tensor(b.count), dout = tensor_of(type, N * OC);
    double *dw_before = doubles(dw), *db_before = doubles(db);
    struct linear l = {N,
                       C,
                       OC,
                       order,
                       doubles(x),
                       doubles(w),
                       bias ? doubles(b) : NULL,
                       doubles(dout),
                       zeros(N * OC)};

    ops->linear_forward(NULL, out, x, w, b, order, N, C, OC);
    ops->linear_forward(NULL, exact, x, w, b, order, N, C, OC);
    reference_linear(&l);
    check_close("out", out, l.out, 1e-6);
    check_close("out as fp32", exact, l.out, 1e-6);
    if (ops->linear_add_forward) /* the CPU has none */
        add_case(&l, x, w, b);
    ops->linear_backward(NULL, dx, dw, db, dout, x, w, order, N, C, OC,
                         accumulate);
    check_gradient("dx", dx, l.x, linear_loss, &l, NULL);
    check_gradient("dw", dw, l.w, linear_loss, &l,
                   accumulate ? dw_before : NULL);
    check_gradient("db", db, l.b, linear_loss, &l,
                   accumulate ? db_before : NULL);
}

void test_linear(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++) {
        enum dt_dtype type = TYPES[i];
        linear_case(type, 1, 1, 1, DT_WEIGHT_IN_OUT, true, false);
        linear_case(type, 1, 7, 3, DT_WEIGHT_OUT_IN, true, true);
        linear_case(type, 5, 3, 3, DT_WEIGHT_IN_OUT, false, false);
        linear_case(type, 17, 67, 131, DT_WEIGHT_IN_OUT, true, true);
        linear_case(type, 17, 131, 67, DT_WEIGHT_OUT_IN, true, false);
        linear_case(type, 101, 33, 3, DT_WEIGHT_OUT_IN, false, true);
        linear_case(type, 2, 257, 48, DT_WEIGHT_IN_OUT, true, false);
    }
}

/* c(M,N) += a(M,K) b(K,N); element (i, k) of a is a[i*a_i + k*a_k] */
static void multiply(double *c, const double *a, size_t a_i, size_t a_k,
                     const double *b, size_t b_k, size_t b_j, size_t M,
                     size_t N, size_t K)
{
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < N; j++) {
            for (size_t k = 0; k < K; k++)
                c[i * N + j] += a[i * a_i + k * a_k] * b[k * b_k + j * b_j];
        }
    }
}

/* A layer's three products, which the packed matmul cuts into blocks; dx is in
 * the place of x
 */
static void blocks_case(enum dt_dtype type, enum dt_weight_order order,
                        size_t N, size_t C, size_t OC)
{
    const bool turned = order == DT_WEIGHT_OUT_IN;
    const size_t from = turned ? 1 : OC, to = turned ? C : 1;
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, OC * C);
    struct dt_view dout = tensor_of(type, N * OC), none = tensor(0);
    struct dt_view out = tensor_of(type, N * OC);
    struct dt_view dw = tensor(OC * C);
    double *in = doubles(x), *weight = doubles(w), *grad = doubles(dout);
    double *want = zeros(N * OC), *want_dx = zeros(N * C);
    double *want_dw = doubles(dw);

    ops->linear_forward(NULL, out, x, w, none, order, N, C, OC);
    ops->linear_backward(NULL, x, dw, none, dout, x, w, order, N, C, OC, true);
    multiply(want, in, C, 1, weight, from, to, N, OC, C);
    multiply(want_dx, grad, OC, 1, weight, to, from, N, C, OC);
    if (turned)
        multiply(want_dw, grad, 1, OC, in, C, 1, OC, C, N);
    else
        multiply(want_dw, in, 1, C, grad, OC, 1, C, OC, N);
    check_close("out", out, want, 1e-6);
    check_close("dx", x, want_dx, 1e-6);
    check_close("dw", dw, want_dw, 1e-6);
}

/* Larger than a block in each direction, and at the borders of blocks: 256 rows
 * and depths, 24 or 48 columns. fp16 is ours on every CPU; bf16 is not where
 * oneDNN is faster, nor is fp32 with AVX-512.
 */
void test_linear_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++) {
        const enum dt_dtype type = TYPES[i];
        blocks_case(type, DT_WEIGHT_OUT_IN, 275, 261, 397);
        blocks_case(type, DT_WEIGHT_IN_OUT, 275, 261, 397);
        blocks_case(type, DT_WEIGHT_OUT_IN, 256, 257, 47);
        blocks_case(type, DT_WEIGHT_IN_OUT, 257, 256, 48);
        blocks_case(type, DT_WEIGHT_OUT_IN, 255, 512, 49);
        blocks_case(type, DT_WEIGHT_IN_OUT, 65, 255, 513);
    }
}

/* Rows of a product of N rows, which all have the bits that they have alone. */
static void few_rows_case(enum dt_dtype type, enum dt_dtype out_type, size_t N,
                          size_t C, size_t OC, enum dt_weight_order order)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, OC), out = tensor_of(out_type, N * OC);
    struct dt_view alone = tensor_of(out_type, OC);
    const size_t bytes = OC * dt_dtype_bytes(out_type);
    struct linear l = {.N = N,
                       .C = C,
                       .OC = OC,
                       .order = order,
                       .x = doubles(x),
                       .w = doubles(w),
                       .b = doubles(b),
                       .out = zeros(N * OC)};

    reference_linear(&l);
    ops->linear_forward(NULL, out, x, w, b, order, N, C, OC);
    check_close("out", out, l.out, 1e-6);
    for (size_t n = 0; n < N && N < ops->few_rows; n++) {
        ops->linear_forward(NULL, alone, dt_view_slice(x, n * C, C), w, b,
                            order, 1, C, OC);
        assert_memory_equal(dt_view_data(alone),
                            (char *)dt_view_data(out) + n * bytes, bytes);
    }
}

/* Products of up to some_rows rows, whose first ones have the bits that they
 * have in a product of as few as few_rows.
 */
static void some_rows_case(enum dt_dtype type, size_t N, size_t C, size_t OC,
                           enum dt_weight_order order)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, OC), out = tensor(N * OC);
    struct dt_view fewer = tensor(ops->few_rows * OC);
    struct linear l = {.N = N,
                       .C = C,
                       .OC = OC,
                       .order = order,
                       .x = doubles(x),
                       .w = doubles(w),
                       .b = doubles(b),
                       .out = zeros(N * OC)};

    reference_linear(&l);
    ops->linear_forward(NULL, out, x, w, b, l.order, N, C, OC);
    check_close("out", out, l.out, 2e-6);
    ops->linear_forward(NULL, fewer, dt_view_slice(x, 0, ops->few_rows * C), w,
                        b, l.order, ops->few_rows, C, OC);
    if (type == DT_F32)
        assert_memory_equal(dt_view_data(fewer), dt_view_data(out),
                            fewer.count * sizeof(float));
}

/* Whole strips, panels and blocks, and what is left of them. */
void test_linear_some_rows(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT && ops->some_rows > 0; i++) {
        for (int order = 0; order < 2; order++) {
            enum dt_weight_order o =
                order ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            some_rows_case(TYPES[i], ops->few_rows, 48, 16, o);
            some_rows_case(TYPES[i], ops->few_rows + 1, 53, 37, o);
            some_rows_case(TYPES[i], ops->some_rows - 15, 62, 502, o);
            some_rows_case(TYPES[i], ops->some_rows, 801, 23, o);
            some_rows_case(TYPES[i], ops->some_rows, 1600, 140, o);
        }
    }
}

/* Lengths about whole vectors, and columns of more than one block. */
void test_linear_few_rows(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++) {
        for (int order = 0; order < 2; order++) {
            enum dt_weight_order o =
                order ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            for (size_t N = 1; N < 16; N++)
                few_rows_case(TYPES[i], DT_F32, N, 53, 37, o);
            few_rows_case(TYPES[i], TYPES[i], 7, 96, 2113, o);
            few_rows_case(TYPES[i], TYPES[i], 15, 1031, 64, o);
        }
    }
}

#ifdef HAVE_ONEDNN

/* oneDNN's bf16, which is chosen only where it is fast. More shapes than it
 * keeps primitives for, so that some are made twice.
 */
void test_onednn(void **state)
{
    enum { M = 5, N = 9, SHAPES = 70 };
    (void)state;

    for (size_t i = 0; i < 2 * SHAPES; i++) {
        const size_t K = i % SHAPES + 1;
        const bool turned = i % 2;
        struct dt_view a = tensor_of(DT_BF16, M * K), c = tensor(M * N);
        struct dt_view b = tensor_of(DT_BF16, K * N);
        struct dt_view bias = tensor_of(DT_BF16, N);
        struct dt_view rounded = tensor_of(DT_BF16, M * N);
        struct dt_cpu_matmul p = {
            .M = M,
            .N = N,
            .K = K,
            .a = {dt_view_data(a), turned ? M : K, turned},
            .b = {dt_view_data(b), turned ? N : K, !turned},
            .type = DT_BF16,
            .c_type = DT_F32,
            .c = dt_view_data(c),
            .accumulate = true,
        };
        double *sum = doubles(c), *in = doubles(b), *from = doubles(a);
        double *start = zeros(M * N);
        if (!dt_onednn_matmul(&p))
            nothing_here();
        multiply(sum, from, turned ? 1 : K, turned ? M : 1, in, turned ? N : 1,
                 turned ? 1 : K, M, N, K);
        check_close("c", c, sum, 1e-6);
        p.bias = dt_view_data(bias);
        p.c = dt_view_data(rounded);
        p.c_type = DT_BF16;
        p.accumulate = false;
        assert_true(dt_onednn_matmul(&p));
        for (size_t j = 0; j < (size_t)M * N; j++)
            start[j] = element(bias, j % N);
        multiply(start, from, turned ? 1 : K, turned ? M : 1, in,
                 turned ? N : 1, turned ? 1 : K, M, N, K);
        check_close("rounded", rounded, start, 1e-6);
    }
}

/* A product of one thread, which is wrong as soon as it is that of another. */
static void *multiply_often(void *arg)
{
    enum { K = 8, TIMES = 4000 };
    const uint16_t number = *(uint16_t *)arg; /* 1 or 2 in bf16 */
    const float want = number == 0x3f80 ? K : 4 * K;
    uint16_t a[K], b[K];
    float c = 0;
    struct dt_cpu_matmul p = {.M = 1,
                              .N = 1,
                              .K = K,
                              .a = {a, K, false},
                              .b = {b, K, true},
                              .type = DT_BF16,
                              .c_type = DT_F32,
                              .c = &c};
    for (int k = 0; k < K; k++)
        a[k] = b[k] = number;
    for (int i = 0; i < TIMES; i++, c = 0)
        if (dt_onednn_matmul(&p) && c != want)
            return arg;
    return NULL;
}

/* Ranks of a test are threads. */
void test_onednn_threads(void **state)
{
    uint16_t numbers[] = {0x3f80, 0x4000};
    pthread_t threads[2];
    void *wrong[2];
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, multiply_often, &numbers[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], &wrong[i]), 0);
    assert_true(!wrong[0] && !wrong[1]);
}

#else

void test_onednn(void **state)
{
    (void)state;
    nothing_here();
}

void test_onednn_threads(void **state)
{
    (void)state;
    nothing_here();
}

#endif
