/* SPDX-License-Identifier: Apache-2.0 */
/* test_half.c - 16-bit floats against arithmetic in double precision */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tensor/half.h"

/* A format: widening, narrowing, and what its definition says. */
static const struct format {
    const char *name;
    float (*widen)(uint16_t half);
    uint16_t (*narrow)(float value);
    int mantissa, bias;
} formats[] = {
    {"bf16", dt_bf16_to_f32, dt_f32_to_bf16, 7, 127},
    {"f16", dt_f16_to_f32, dt_f32_to_f16, 10, 15},
};

static int exponent_bits(const struct format *f)
{
    return 15 - f->mantissa;
}

/* The value of a half by the definition of IEEE 754. */
static double value_of(const struct format *f, uint16_t half)
{
    int all = (1 << exponent_bits(f)) - 1;
    int exponent = half >> f->mantissa & all;
    int fraction = half & ((1 << f->mantissa) - 1);
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == all)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign * ldexp(fraction + (1 << f->mantissa),
                        exponent - f->bias - f->mantissa);
}

/* The nearest half by division, rint (ties to even), and the largest one. */
static double nearest(const struct format *f, double value)
{
    int exponent;
    frexp(value, &exponent);
    int lowest = 2 - f->bias; /* frexp's mantissa is below 1 */
    double step =
        ldexp(1, (exponent < lowest ? lowest : exponent) - 1 - f->mantissa);
    double rounded = rint(value / step) * step;
    double above = ldexp(1, (1 << exponent_bits(f)) - 1 - f->bias);
    return fabs(rounded) >= above ? copysign(INFINITY, value) : rounded;
}

static void expect(const struct format *f, float value)
{
    uint16_t half = f->narrow(value);
    double got = value_of(f, half), want = nearest(f, value);
    if (!(got == want) || !!signbit(value) != half >> 15)
        fail_msg("%s of %a is %a, expected %a", f->name, value, got, want);
}

/* Every half, and the values between it and its neighbors. */
static void every_half_widens_exactly_and_rounds_correctly(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct format *f = &formats[i];
        for (uint32_t half = 0; half < 0x10000; half++) {
            double want = value_of(f, (uint16_t)half);
            float wide = f->widen((uint16_t)half);
            if (isnan(want)) {
                assert_true(isnan(wide));
                continue;
            }
            assert_true(wide == want);
            assert_int_equal(f->narrow(wide), half);
            double next = value_of(f, (uint16_t)(half + 1));
            if (!isfinite(want) || !isfinite(next))
                continue;
            float tie = (float)((want + next) / 2);
            expect(f, tie);
            expect(f, nextafterf(tie, INFINITY));
            expect(f, nextafterf(tie, -INFINITY));
        }
    }
}

static void random_floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 1000000; n++) {
        uint32_t words[4];
        dt_rng_block(7, DT_RNG_INIT, n, words);
        for (size_t i = 0; i < 4; i++) {
            float value = dt_f32_of_bits(words[i]);
            for (size_t k = 0; k < 2 && isfinite(value); k++)
                expect(&formats[k], value);
        }
    }
}

static void special_values_convert_to_known_bits(void **state)
{
    static const struct {
        uint32_t bits;
        uint16_t bf16, f16;
    } rows[] = {
        {0x7f800001, 0x7fc0, 0x7e00}, /* a signalling NaN, small payload */
        {0xffd00000, 0xffd0, 0xfe80}, {0x7fffffff, 0x7fff, 0x7fff},
        {0x7f800000, 0x7f80, 0x7c00}, {0xff800000, 0xff80, 0xfc00},
        {0x7f7fffff, 0x7f80, 0x7c00}, /* the largest fp32 */
        {0x477fefff, 0x4780, 0x7bff}, {0x477ff000, 0x4780, 0x7c00},
        {0x33000000, 0x3300, 0x0000}, /* 2^-25: half of the smallest f16 */
        {0x33000001, 0x3300, 0x0001}, {0x33c00000, 0x33c0, 0x0002},
        {0x387fffff, 0x3880, 0x0400}, {0x00000001, 0x0000, 0x0000},
        {0x80008000, 0x8000, 0x8000}, {0x00018000, 0x0002, 0x0000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        float value = dt_f32_of_bits(rows[i].bits);
        assert_int_equal(dt_f32_to_bf16(value), rows[i].bf16);
        assert_int_equal(dt_f32_to_f16(value), rows[i].f16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_widens_exactly_and_rounds_correctly),
        cmocka_unit_test(random_floats_round_to_the_nearest_half),
        cmocka_unit_test(special_values_convert_to_known_bits),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
