/* SPDX-License-Identifier: Apache-2.0 */
/* case_dither.c - numbers in bf16 that are rounded up or down at random */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "harness.h"
#include "ops/adamw.h"
#include "ops/dither.h"
#include "tensor/half.h"

/* --- one number --- */

static float float_of(uint32_t bits)
{
    return dt_f32_of_bits(bits);
}

/* Of all 2^16 random numbers, as many round x away from zero as the part says
 * that it is on the way to the next number; the others give the one before.
 */
static void check_number(uint32_t bits)
{
    const uint16_t before = (uint16_t)(bits >> 16);
    uint32_t ups = 0;
    for (uint32_t random = 0; random < 1 << 16; random++) {
        const uint16_t got = dt_bf16_at_random(float_of(bits), random);
        if (got != before && got != before + 1)
            fail_msg("%a becomes %04x", (double)float_of(bits), got);
        ups += got != before;
    }
    assert_int_equal(ups, bits & 0xffff);
}

static void check_stays(uint32_t bits, uint16_t want)
{
    static const uint32_t randoms[] = {0, 1, 0x7fff, 0x8000, 0xffff};
    for (size_t i = 0; i < sizeof(randoms) / sizeof(randoms[0]); i++)
        assert_int_equal(dt_bf16_at_random(float_of(bits), randoms[i]), want);
}

void test_dither_number(void **state)
{
    /* 1, 1 + some of a digit, below 2, a subnormal, below the smallest normal
     * number, pi, 1e-20 and their negatives
     */
    static const uint32_t some[] = {
        0x3f800000, 0x3f800001, 0x3f804000, 0x3f808000, 0x3f80ffff, 0x3fffffff,
        0x00000001, 0x0000ffff, 0x007fc123, 0x40490fdb, 0x1e3ce508, 0x7f7e9999};
    (void)state;
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        check_number(some[i]);
        check_number(some[i] | 0x80000000);
    }
    for (uint32_t sign = 0; sign < 2; sign++) {
        const uint32_t s = sign << 31;
        const uint16_t h = (uint16_t)(sign << 15);
        check_stays(s, h);                       /* zero */
        check_stays(s | 0x7f800000, h | 0x7f80); /* infinity */
        /* the largest, and all numbers above it that are finite */
        check_stays(s | 0x7f7f0000, h | 0x7f7f);
        check_stays(s | 0x7f7f0001, h | 0x7f7f);
        check_stays(s | 0x7f7fffff, h | 0x7f7f);
        /* NaN, with a payload that rounding would carry away */
        check_stays(s | 0x7f800001, h | 0x7fc0);
        check_stays(s | 0x7fffffff, h | 0x7fff);
    }
}

/* --- the random bits --- */

/* Philox4x32-10 as its paper has it. */
static void philox(uint32_t c[4], uint64_t seed)
{
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < 10; i++) {
        const uint64_t p0 = (uint64_t)0xD2511F53 * c[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57 * c[2];
        const uint32_t next[] = {
            (uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1,
            (uint32_t)(p0 >> 32) ^ c[3] ^ k[1], (uint32_t)p0};
        memcpy(c, next, sizeof(next));
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
}

/* x, rounded as element i of a view. */
static uint16_t rounded(float x, const struct dt_dither *d, int kind, size_t i)
{
    const uint64_t n = d->first + i, block = n / 8;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32),
                     (uint32_t)d->step, 1u << 28 | (uint32_t)kind};
    philox(c, d->seed);
    return dt_bf16_at_random(x, c[n % 8 / 2] >> (n % 2 ? 16 : 0) & 0xffff);
}

/* The generator is that of all other draws. */
void test_dither_generator(void **state)
{
    uint32_t want[4], got[4] = {7, 5, DT_RNG_SHUFFLE, 0};
    (void)state;
    dt_rng_block(0x123456789abcdef, DT_RNG_SHUFFLE, UINT64_C(5) << 32 | 7,
                 want);
    philox(got, 0x123456789abcdef);
    assert_memory_equal(got, want, sizeof(want));
}

/* Numbers of blocks that begin below and above 2^32. */
static struct dt_dither dither_of(int i)
{
    return (struct dt_dither){.seed = 0x9876543210 + (uint64_t)i,
                              .step = 4000000000u + (uint32_t)i,
                              .first = i % 2 ? (UINT64_C(1) << 35) - 64
                                             : (uint64_t)i * 48};
}

static const uint16_t *halves(struct dt_view v)
{
    return dt_view_data(v);
}

/* Every backend has the bits of this file, so they have each other's. */
static void check_add(size_t count, size_t begin, int i)
{
    struct dt_view all = tensor_of(DT_BF16, count + begin);
    struct dt_view out = dt_view_slice(all, begin, count);
    struct dt_view x = dt_view_slice(tensor(count + begin), begin, count);
    const struct dt_dither dither = dither_of(i);
    double *before = doubles(out);
    const bool accumulate = i % 2 == 0;
    ops->add_dithered(NULL, out, x, accumulate, &dither);
    for (size_t j = 0; j < count; j++) {
        const float add = dt_view_f32(x)[j];
        const float sum = accumulate ? (float)before[j] + add : add;
        if (halves(out)[j] != rounded(sum, &dither, DT_DITHER_GRAD, j))
            fail_msg("element %zu of %zu", j, count);
    }
}

void test_add_dithered(void **state)
{
    static const size_t counts[] = {0,  1,   7,   8,    9,    63,  64,
                                    65, 127, 128, 1024, 1029, 9001};
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (size_t begin = 0; begin < 2; begin++)
            check_add(counts[i], begin, (int)(2 * i + begin));
}

/* Terms that are too small for bf16 add up: 100 times 2^-10, to 1 and to -1.
 * Nearest numbers would stay 1. The variance of a step is below that of its
 * digit, 2^-7, times the square root of (1/8) (7/8).
 */
void test_dither_mean(void **state)
{
    enum { COUNT = 20000, STEPS = 100 };
    const double deviation = 0x1p-7 * sqrt(STEPS * 7.0 / 64 / COUNT);
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct dt_view sum = tensor_of(DT_BF16, COUNT), x = tensor(COUNT);
        double mean = 0;
        for (size_t i = 0; i < COUNT; i++) {
            set_element(sum, i, sign);
            set_element(x, i, sign * 0x1p-10);
        }
        for (uint64_t n = 0; n < STEPS; n++) {
            const struct dt_dither dither = {.seed = 1, .step = n};
            ops->add_dithered(NULL, sum, x, true, &dither);
        }
        for (size_t i = 0; i < COUNT; i++)
            mean += element(sum, i) / COUNT;
        assert_true(fabs(mean - sign * (1 + STEPS * 0x1p-10)) < 5 * deviation);
    }
}

/* --- sums that read bf16 --- */

void test_add_bf16(void **state)
{
    enum { COUNT = 5003 };
    (void)state;
    for (size_t first = 0; first < 2; first++) {
        struct dt_view out = tensor(COUNT);
        struct dt_view x =
            dt_view_slice(tensor_of(DT_BF16, COUNT), first, COUNT - first);
        double *want = doubles(out);
        for (size_t i = 0; i < x.count; i++)
            want[i] = (double)(dt_view_f32(out)[i] + (float)element(x, i));
        ops->add(NULL, dt_view_slice(out, 0, x.count), x);
        check_close("add", out, want, 0.0);
    }
}

void test_squares_bf16(void **state)
{
    static const size_t counts[] = {0, 1, 7, 8, 9, 4099, 65537, 300007};
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (size_t begin = 0; begin < 2; begin++) {
            struct dt_view x = dt_view_slice(
                tensor_of(DT_BF16, counts[i] + begin), begin, counts[i]);
            struct dt_view step = tensor_step(1.0);
            double *copy = doubles(x), want = dot(copy, copy, x.count);
            ops->sum_of_squares(NULL, step, x);
            assert_true(fabs(dt_view_f64(step)[DT_STEP_SQUARES] - want) <=
                        1e-12 * want);
        }
}

/* --- AdamW --- */

enum { COUNT = 1003 };
/* Runs end within blocks of random bits; every second one decays. */
static const int64_t BOUNDS[] = {0, 100, 101, 700, COUNT};

struct update {
    struct dt_view p, w, g, m, v;
};

/* Gradients in fp32 or bf16; with a copy of p, or none. */
static struct update random_update(int i)
{
    struct update u = {.p = tensor_of(DT_BF16, COUNT),
                       .w = tensor_of(DT_BF16, i % 2 ? COUNT : 0),
                       .g = tensor_of(i / 2 % 2 ? DT_BF16 : DT_F32, COUNT),
                       .m = tensor_of(DT_BF16, COUNT),
                       .v = tensor_of(DT_BF16, COUNT)};
    for (size_t j = 0; j < COUNT; j++)
        set_element(u.v, j, fabs(element(u.v, j)) * 1e-3);
    return u;
}

static struct dt_view copy_of(struct dt_view v)
{
    struct dt_view copy = tensor_of(v.dtype, v.count);
    memcpy(dt_view_data(copy), dt_view_data(v), dt_view_bytes(v));
    return copy;
}

static struct update copy_update(const struct update *u)
{
    return (struct update){copy_of(u->p), copy_of(u->w), copy_of(u->g),
                           copy_of(u->m), copy_of(u->v)};
}

static void assert_same(const struct update *a, const struct update *b)
{
    const struct dt_view of[] = {a->p, a->m, a->v, a->w};
    const struct dt_view to[] = {b->p, b->m, b->v, b->w};
    for (int i = 0; i < 4; i++)
        assert_memory_equal(dt_view_data(of[i]), dt_view_data(to[i]),
                            dt_view_bytes(of[i]));
}

static struct dt_adamw adamw_of(int i)
{
    return (struct dt_adamw){
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .coupled = i % 2,
        .rate = 1.0,
        .bounds = tensor_bounds(sizeof(BOUNDS) / sizeof(BOUNDS[0]), BOUNDS),
        .dither = dither_of(i)};
}

static struct dt_view update_step(void)
{
    struct dt_view step = tensor_step(1.0);
    double *s = dt_view_f64(step);
    s[DT_STEP_LR] = 0.001;
    s[DT_STEP_GRAD_SCALE] = 0.5;
    s[DT_STEP_BIAS1] = 1.0 - 0.81;
    s[DT_STEP_BIAS2] = 1.0 - 0.95 * 0.95;
    return step;
}

static void store(struct dt_view to, size_t i, float x,
                  const struct dt_dither *dither, int kind)
{
    ((uint16_t *)dt_view_data(to))[i] = rounded(x, dither, kind, i);
}

/* Element by element, by the functions of adamw.h. */
static void update_here(const struct update *u, struct dt_view step,
                        const struct dt_adamw *args)
{
    const struct dt_adamw_constants c = dt_adamw_constants_of(args);
    const struct dt_adamw_factors all =
        dt_adamw_factors_of(dt_view_f64(step), &c);
    for (size_t i = 0; i < COUNT; i++) {
        const bool decays = (i >= 100 && i < 101) || i >= 700;
        struct dt_adamw_factors f = dt_adamw_factors_in(all, decays);
        float p = (float)element(u->p, i), m = (float)element(u->m, i);
        float v = (float)element(u->v, i);
        dt_adamw_update(&f, &c, (float)element(u->g, i), &p, &m, &v);
        store(u->p, i, p, &args->dither, DT_DITHER_WEIGHT);
        store(u->m, i, m, &args->dither, DT_DITHER_M);
        store(u->v, i, v, &args->dither, DT_DITHER_V);
        if (u->w.count > 0)
            store(u->w, i, p, &args->dither, DT_DITHER_WEIGHT);
    }
}

static void run(const struct update *u, struct dt_view step,
                const struct dt_adamw *args)
{
    ops->adamw(NULL, step, u->p, u->w, u->g, u->m, u->v, args);
}

void test_adamw_dithered(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct dt_adamw args = adamw_of(i);
        struct dt_view step = update_step();
        struct update got = random_update(i), want = copy_update(&got);
        update_here(&want, step, &args);
        run(&got, step, &args);
        assert_same(&got, &want);
        dt_view_f64(step)[DT_STEP_OUTCOME] = DT_STEP_OVERFLOW;
        run(&got, step, &args);
        assert_same(&got, &want);
    }
}

static struct dt_view part_of(struct dt_view v, size_t first, size_t count)
{
    return v.count > 0 ? dt_view_slice(v, first, count) : v;
}

/* A rank that owns a part of a flat buffer updates it alone. */
void test_adamw_dithered_parts(void **state)
{
    static const size_t parts[] = {128, 384, 512, 16};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct dt_adamw args = adamw_of(i);
        const uint64_t origin = args.dither.first;
        struct dt_view step = update_step();
        struct update whole = random_update(i), cut = copy_update(&whole);
        run(&whole, step, &args);
        for (size_t first = 0; first < COUNT; first += parts[i]) {
            const size_t n =
                COUNT - first < parts[i] ? COUNT - first : parts[i];
            const struct update part = {
                part_of(cut.p, first, n), part_of(cut.w, first, n),
                part_of(cut.g, first, n), part_of(cut.m, first, n),
                part_of(cut.v, first, n)};
            args.first = first;
            args.dither.first = origin + first;
            run(&part, step, &args);
        }
        assert_same(&cut, &whole);
    }
}

/* fp32 state with gradients in bf16 has the bits of these gradients in fp32. */
void test_adamw_bf16_gradients(void **state)
{
    (void)state;
    struct dt_adamw args = adamw_of(0);
    struct dt_view step = update_step();
    struct update narrow = {.p = tensor(COUNT),
                            .w = tensor_of(DT_F16, COUNT),
                            .g = tensor_of(DT_BF16, COUNT),
                            .m = tensor(COUNT),
                            .v = tensor(COUNT)};
    for (size_t i = 0; i < COUNT; i++)
        set_element(narrow.v, i, fabs(element(narrow.v, i)));
    struct update wide = copy_update(&narrow);
    wide.g = tensor(COUNT);
    for (size_t i = 0; i < COUNT; i++)
        set_element(wide.g, i, element(narrow.g, i));
    run(&narrow, step, &args);
    run(&wide, step, &args);
    assert_same(&narrow, &wide);
}
