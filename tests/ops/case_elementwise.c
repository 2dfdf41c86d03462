/* SPDX-License-Identifier: Apache-2.0 */
/* case_elementwise.c - zeros, conversions and sums */
#include "config.h"

#include <string.h>

#include "harness.h"

void test_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        struct dt_view x = tensor_of(TYPES[i], 5003);
        double *want = doubles(x);
        ops->zero(NULL, dt_view_slice(x, 1, x.count - 2));
        memset(want + 1, 0, (x.count - 2) * sizeof(*want));
        check_close("zero", x, want, 0.0);
    }
}

/* The nearest, ties to even, is what set_element writes. */
void test_convert(void **state)
{
    enum { COUNT = 5003 };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        struct dt_view x = tensor(COUNT), back = tensor(COUNT);
        struct dt_view out = tensor_of(TYPES[i], COUNT);
        struct dt_view want = tensor_of(TYPES[i], COUNT);
        for (size_t j = 0; j < COUNT; j++)
            set_element(want, j, element(x, j));
        ops->convert(NULL, out, x);
        assert_memory_equal(dt_view_data(out), dt_view_data(want),
                            COUNT * dt_dtype_bytes(TYPES[i]));
        ops->convert(NULL, back, out);
        check_close("back", back, doubles(want), 0.0);
    }
}

/* With and without the alignment of vectors, and the second summand. */
void test_combine(void **state)
{
    enum { COUNT = 5003 };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT * 2; i++) {
        const enum dt_dtype type = TYPES[i / 2];
        struct dt_view all = tensor_of(type, COUNT), none = tensor(0);
        struct dt_view x = dt_view_slice(all, i % 2, COUNT - i % 2);
        struct dt_view y = tensor_of(type, x.count);
        struct dt_view out = tensor_of(type, x.count);
        double *want = zeros(x.count);
        for (size_t j = 0; j < x.count; j++)
            want[j] = 0.75 * element(x, j) - 2.5 * element(y, j);
        ops->combine(NULL, out, x, 0.75f, y, -2.5f);
        check_close("sum", out, want, 1e-7);
        for (size_t j = 0; j < x.count; j++)
            want[j] = 12.0 * element(x, j);
        ops->combine(NULL, x, x, 12.0f, none, 0.0f);
        check_close("multiple in place", x, want, 1e-7);
    }
}

/* With and without the alignment of vectors. */
void test_add(void **state)
{
    enum { COUNT = 5003 };
    (void)state;

    for (size_t first = 0; first < 2; first++) {
        struct dt_view out = tensor(COUNT);
        struct dt_view x = dt_view_slice(tensor(COUNT), first, COUNT - first);
        struct dt_view sum = dt_view_slice(out, 0, x.count);
        double *want = doubles(out);
        for (size_t i = 0; i < x.count; i++)
            want[i] = (double)(dt_view_f32(out)[i] + dt_view_f32(x)[i]);
        ops->add(NULL, sum, x);
        check_close("add", out, want, 0.0);
    }
}
