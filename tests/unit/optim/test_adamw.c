/* SPDX-License-Identifier: Apache-2.0 */
/* test_adamw.c - arithmetic of AdamW without an instruction for it */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/adamw.h"

static void check_fma(float a, float b, float c)
{
    const float want = fmaf(a, b, c), got = dt_adamw_fma(a, b, c);
    if (memcmp(&got, &want, sizeof(got)) != 0 && !(isnan(got) && isnan(want)))
        fail_msg("fma(%a, %a, %a) is %a, should be %a", a, b, c, got, want);
}

/* c and a * b, which is half of the last digit of c, or misses it by less than
 * a double can tell, and the same with other signs.
 */
static void check_halves(float a, float b, float c)
{
    check_fma(a, b, c);
    check_fma(-a, b, c);
    check_fma(a, b, -c);
}

static void a_product_and_a_sum_are_rounded_once(void **state)
{
    (void)state;
    for (int k = -40; k <= 40; k++) {
        /* a * b is 1 without the last 46 bits, or with a few of them */
        float a = 1.0f + (float)k * 0x1p-23f;
        float b = 1.0f - (float)k * 0x1p-23f;
        for (int i = 0; i < 100; i++) {
            float c = 1.0f + (float)i * 0x1p-23f;
            float subnormal = (float)(i * 10007) * 0x1p-149f;
            check_halves(a * 0x1p-12f, b * 0x1p-12f, c);
            check_halves(a * 0x1p-12f, b * 0x1p-13f, c / 2);
            check_halves(a * 0x1p-75f, b * 0x1p-75f, subnormal);
        }
    }
}

static void zeros_infinities_and_nan_are_kept(void **state)
{
    const float odd[] = {0.0f,    -0.0f,     INFINITY, -INFINITY,
                         FLT_MAX, 0x1p-149f, 1.0f,     NAN};
    (void)state;
    for (int i = 0; i < 8 * 8 * 8; i++)
        check_fma(odd[i % 8], odd[i / 8 % 8], odd[i / 64]);
}

static void any_numbers_are_rounded_once(void **state)
{
    uint32_t x[3] = {1, 2, 3};
    float f[3];
    (void)state;
    for (int i = 0; i < 300000; i++) {
        for (int j = 0; j < 3; j++)
            x[j] = x[j] * 1664525u + 1013904223u + (uint32_t)i;
        memcpy(f, x, sizeof(f));
        check_fma(f[0], f[1], f[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_and_a_sum_are_rounded_once),
        cmocka_unit_test(zeros_infinities_and_nan_are_kept),
        cmocka_unit_test(any_numbers_are_rounded_once),
    };
    return cmocka_run_group_tests_name("adamw", tests, NULL, NULL);
}
