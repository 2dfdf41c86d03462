/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c - tensors with guards, and comparison with double precision */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tensor/half.h"

enum {
    GUARD = 64,              /* elements before and behind every tensor */
    GUARD_BYTES = GUARD * 2, /* at least */
    MAX_TENSORS = 4096,
    MAX_DIFFERENCES = 100,
};

static const unsigned char GUARD_BYTE = 0xa5;

const struct dt_ops *ops;
const enum dt_dtype TYPES[TYPE_COUNT] = {DT_F32, DT_BF16, DT_F16};

static struct {
    struct dt_buffer buffers[MAX_TENSORS];
    bool scratch[MAX_TENSORS];
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
    struct dt_buffer *buf = &pool.buffers[pool.count];

    assert_true(pool.count < MAX_TENSORS);
    buf->data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(buf->data);
    buf->bytes = bytes;
    pool.scratch[pool.count] = false;
    memset(buf->data, GUARD_BYTE, bytes);
    pool.count++;
    return (struct dt_view){buf, GUARD, count, dtype};
}

double element(struct dt_view v, size_t i)
{
    const void *data = dt_view_data(v);

    if (v.dtype == DT_BF16)
        return (double)dt_bf16_to_f32(((const uint16_t *)data)[i]);
    if (v.dtype == DT_F16)
        return (double)dt_f16_to_f32(((const uint16_t *)data)[i]);
    return (double)dt_view_f32(v)[i];
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

struct dt_view tensor_rows(size_t B)
{
    struct dt_view v = guarded(B, DT_I64);
    int64_t *rows = dt_view_data(v);

    for (size_t b = 0; b < B; b++)
        rows[b] = (int64_t)(uniform() * 0x1p40);
    return v;
}

struct dt_view scratch(size_t count)
{
    struct dt_view v = guarded(count, DT_F32);

    pool.scratch[pool.count - 1] = true;
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

int case_setup(void **state)
{
    ops = *state;
    pool.seed = 1;
    return 0;
}

static int guard_intact(const unsigned char *bytes)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD_BYTE)
            return 0;
    }
    return 1;
}

int case_teardown(void **state)
{
    int status = 0;
    (void)state;

    for (size_t i = 0; i < pool.count; i++) {
        unsigned char *data = pool.buffers[i].data;
        size_t bytes = pool.buffers[i].bytes;
        if (!guard_intact(data) || !guard_intact(data + bytes - GUARD_BYTES)) {
            print_error("tensor %zu of the case: written outside\n", i);
            status = -1;
        }
        free(data);
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
            tolerance * largest + rounding(v.dtype) * fabs(want[i]);
        if (!(fabs(got - want[i]) <= allowed))
            fail_msg("%s[%zu] is %.9g, should be %.9g (largest %.3g)", what, i,
                     got, want[i], largest);
    }
}

void check_gradient(const char *what, struct dt_view grad, double *x,
                    double (*loss)(void *context), void *context,
                    const double *before)
{
    const double step = 1e-4, allowed = fmax(1e-5, 4.0 * rounding(grad.dtype));
    size_t count = grad.count < MAX_DIFFERENCES ? grad.count : MAX_DIFFERENCES;

    for (size_t i = 0; i < count; i++) {
        size_t j = i * grad.count / count;
        double keep = x[j], up, down, want, got;
        x[j] = keep + step;
        up = loss(context);
        x[j] = keep - step;
        down = loss(context);
        x[j] = keep;
        want = (up - down) / (2.0 * step) + (before ? before[j] : 0.0);
        got = element(grad, j);
        if (!(fabs(got - want) <= allowed * (1.0 + fabs(want))))
            fail_msg("%s[%zu] is %.9g, should be %.9g", what, j, got, want);
    }
}

void check_threads(void (*run)(void **state), void **state)
{
    const int threads = omp_get_max_threads();
    size_t count;

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
            if (!pool.scratch[j])
                assert_memory_equal(pool.buffers[first + j].data,
                                    pool.buffers[j].data,
                                    pool.buffers[j].bytes);
        }
    }
    omp_set_num_threads(threads);
}

double dot(const double *a, const double *b, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}
