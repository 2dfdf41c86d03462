/* SPDX-License-Identifier: Apache-2.0 */
/* case_elementwise.c - zeros and conversions */
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
