/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c - tensors with guards, and comparison with double precision */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "harness.h"
#include "tensor/half.h"

enum {
    MAX_TENSORS = 4096,
#ifdef SANITIZER
    MAX_DIFFERENCES = 20, /* the others run the same code */
#else
    MAX_DIFFERENCES = 100,
#endif
    FEW_DIFFERENCES = 20, /* where the bridge compares all elements */
};

/* A NaN of every type, so that reading a guard is noticed too. */
static const unsigned char GUARD_BYTE = 0xff;

const struct dt_ops *ops;
const enum dt_dtype TYPES[TYPE_COUNT] = {DT_F32, DT_BF16, DT_F16};

static struct {
    struct tensor tensors[MAX_TENSORS];
    size_t count;
    void *others[MAX_TENSORS];
    size_t other_count;
    uint64_t seed;
} pool;

/* Knuth's MMIX generator: 53 good bits are not needed here */
static double uniform(void)
{
    pool.seed = pool.seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(pool.seed >> 40) / (double)(1 << 24);
}

static struct dt_view guarded(size_t count, enum dt_dtype dtype)
{
    size_t bytes = (count + 2 * GUARD) * dt_dtype_bytes(dtype);
    struct tensor *t = &pool.tensors[pool.count];

    assert_true(pool.count < MAX_TENSORS);
    *t = (struct tensor){.type = dtype};
    t->host.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(t->host.data);
    t->host.bytes = bytes;
    memset(t->host.data, GUARD_BYTE, bytes);
    pool.count++;
    return (struct dt_view){&t->host, GUARD, count, dtype};
}

bool is_other_half(size_t i, size_t j)
{
#ifdef SANITIZER
    const bool is_slow = true;
#else
    const bool is_slow = ops == &bridge_table && !bridge_is_real();
#endif
    return is_slow && TYPES[i] != DT_F32 && (TYPES[i] == DT_F16) != j % 2;
}

double element(struct dt_view v, size_t i)
{
    const void *data = dt_view_data(v);

    if (v.dtype == DT_BF16)
        return (double)dt_bf16_to_f32(((const uint16_t *)data)[i]);
    if (v.dtype == DT_F16)
        return (double)dt_f16_to_f32(((const uint16_t *)data)[i]);
    if (v.dtype == DT_U8)
        return (double)((const uint8_t *)data)[i];
    if (v.dtype == DT_I32)
        return (double)dt_view_i32(v)[i];
    if (v.dtype == DT_I64)
        return (double)dt_view_i64(v)[i];
    return v.dtype == DT_F64 ? dt_view_f64(v)[i] : (double)dt_view_f32(v)[i];
}

void set_element(struct dt_view v, size_t i, double value)
{
    void *data = dt_view_data(v);

    if (v.dtype == DT_BF16)
        ((uint16_t *)data)[i] = dt_f32_to_bf16((float)value);
    else if (v.dtype == DT_F16)
        ((uint16_t *)data)[i] = dt_f32_to_f16((float)value);
    else
        dt_view_f32(v)[i] = (float)value;
}

double rounding(enum dt_dtype type)
{
    return type == DT_BF16 ? 0x1p-8 : type == DT_F16 ? 0x1p-11 : 0.0;
}

double inner(enum dt_dtype type)
{
    return ops == &bridge_table ? rounding(type) : 0.0;
}

double fp32(double tolerance)
{
    return ops == &bridge_table ? 4.0 * tolerance : tolerance;
}

struct dt_view tensor_of(enum dt_dtype type, size_t count)
{
    struct dt_view v = guarded(count, type);

    for (size_t i = 0; i < count; i++)
        set_element(v, i, 2.0 * uniform() - 1.0);
    return v;
}

struct dt_view tensor(size_t count)
{
    return tensor_of(DT_F32, count);
}

struct dt_view tensor_ids(size_t count, size_t V)
{
    struct dt_view v = guarded(count, DT_I32);

    for (size_t i = 0; i < count; i++)
        dt_view_i32(v)[i] = (int32_t)(uniform() * (double)V);
    return v;
}

struct dt_view tensor_pixels(size_t count)
{
    struct dt_view v = guarded(count, DT_U8);
    uint8_t *pixels = dt_view_data(v);

    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(uniform() * 256.0);
    return v;
}

struct dt_view tensor_rows(size_t B)
{
    struct dt_view v = guarded(B, DT_I64);
    int64_t *rows = dt_view_i64(v);

    for (size_t b = 0; b < B; b++)
        rows[b] = (int64_t)(uniform() * 0x1p40);
    return v;
}

struct dt_view tensor_bounds(size_t count, const int64_t *bounds)
{
    struct dt_view v = guarded(count, DT_I64);

    memcpy(dt_view_i64(v), bounds, count * sizeof(*bounds));
    return v;
}

struct dt_view tensor_draws(size_t B)
{
    struct dt_view v = guarded(B, DT_F64), random = tensor(B);

    for (size_t b = 0; b < B; b++)
        dt_view_f64(v)[b] = (double)(dt_view_f32(random)[b] + 1.0f) / 2.0;
    return v;
}

struct dt_view tensor_step(double loss_scale)
{
    struct dt_view v = guarded(DT_STEP_COUNT, DT_F64);

    memset(dt_view_f64(v), 0, DT_STEP_COUNT * sizeof(double));
    dt_view_f64(v)[DT_STEP_LOSS_SCALE] = loss_scale;
    return v;
}

struct dt_view workspace(size_t count)
{
    struct dt_view v = guarded(count, DT_F32);

    pool.tensors[pool.count - 1].workspace = true;
    return v;
}

double *zeros(size_t count)
{
    double *x = calloc(count + 1, sizeof(*x));

    assert_non_null(x);
    assert_true(pool.other_count < MAX_TENSORS);
    pool.others[pool.other_count++] = x;
    return x;
}

double *doubles(struct dt_view v)
{
    double *x = zeros(v.count);

    for (size_t i = 0; i < v.count; i++)
        x[i] = element(v, i);
    return x;
}

/* A case that runs again, for its bits, has passed its checks already. */
static bool only_bits;

int case_setup(void **state)
{
    ops = *state;
    pool.seed = 1;
    return 0;
}

static bool guard_intact(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != GUARD_BYTE)
            return false;
    }
    return true;
}

int case_teardown(void **state)
{
    int status = 0;
    (void)state;
    only_bits = false; /* also after a failure */

    for (size_t i = 0; i < pool.count; i++) {
        struct tensor *t = &pool.tensors[i];
        const unsigned char *data = t->host.data;
        size_t guard = GUARD * dt_dtype_bytes(t->type);
        if (!guard_intact(data, guard) ||
            !guard_intact(data + t->host.bytes - guard, guard)) {
            print_error("tensor %zu of the case: written outside\n", i);
            status = -1;
        }
        bridge_forget(t);
        free(t->host.data);
    }
    for (size_t i = 0; i < pool.other_count; i++)
        free(pool.others[i]);
    pool.count = pool.other_count = 0;
    return status;
}

void check_close(const char *what, struct dt_view v, const double *want,
                 double tolerance)
{
    double largest = 1e-30;

    for (size_t i = 0; i < v.count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < v.count; i++) {
        double got = element(v, i);
        double allowed =
            fp32(tolerance) * largest + rounding(v.dtype) * fabs(want[i]);
        if (!(fabs(got - want[i]) <= allowed))
            fail_msg("%s[%zu] is %.9g, should be %.9g (largest %.3g)", what, i,
                     got, want[i], largest);
    }
}

void check_gradient(const char *what, struct dt_view grad, double *x,
                    double (*loss)(void *context), void *context,
                    const double *before)
{
    check_rough_gradient(what, grad, x, loss, context, before, 0.0);
}

void check_rough_gradient(const char *what, struct dt_view grad, double *x,
                          double (*loss)(void *context), void *context,
                          const double *before, double slack)
{
    const double step = 1e-4, allowed = fmax(1e-5, 4.0 * rounding(grad.dtype));
    const size_t most =
        ops == &bridge_table ? FEW_DIFFERENCES : MAX_DIFFERENCES;
    const size_t count = grad.count < most ? grad.count : most;
    double largest = 0.0;

    for (size_t i = 0; i < grad.count; i++)
        largest = fmax(largest, fabs(element(grad, i)));
    for (size_t i = 0; i < count && !only_bits; i++) {
        size_t j = i * grad.count / count;
        double keep = x[j], up, down, want, got;
        x[j] = keep + step;
        up = loss(context);
        x[j] = keep - step;
        down = loss(context);
        x[j] = keep;
        want = (up - down) / (2.0 * step) + (before ? before[j] : 0.0);
        got = element(grad, j);
        if (!(fabs(got - want) <=
              allowed * (1.0 + fabs(want)) + slack * largest))
            fail_msg("%s[%zu] is %.9g, should be %.9g", what, j, got, want);
    }
}

bool checks_threads(void)
{
    return only_bits;
}

void check_threads(void (*run)(void **state), void **state)
{
    const int threads = omp_get_max_threads();
    size_t count;

    only_bits = true;
    omp_set_num_threads(1);
    run(state);
    count = pool.count;
    for (int i = 2; i <= 3; i++) {
        size_t first = pool.count;
        case_setup(state);
        omp_set_num_threads(i);
        run(state);
        assert_true(pool.count - first == count);
        for (size_t j = 0; j < count; j++) {
            const struct tensor *t = &pool.tensors[j];
            if (!t->workspace)
                assert_memory_equal(t[first].host.data, t->host.data,
                                    t->host.bytes);
        }
    }
    omp_set_num_threads(threads);
    only_bits = false;
}

double dot(const double *a, const double *b, size_t count)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}
