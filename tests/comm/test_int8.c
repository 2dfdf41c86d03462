/* SPDX-License-Identifier: Apache-2.0 */
/* test_int8.c - what 8 bits keep of fp32, and sums of what travels so */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "comm/comm_impl.h"
#include "scene.h"
#include "tensor.h"

enum { BLOCK = DT_INT8_BLOCK };

struct packed {
    int8_t q[BLOCK];
    float scale;
};

static struct packed pack(const float *x, uint64_t seed, int rank)
{
    const struct dt_noise noise = {.seed = seed, .step = 3, .first = 256};
    struct packed packed;
    assert_int_equal(sizeof(packed), dt_int8_bytes(BLOCK));
    dt_int8_pack(&packed, x, BLOCK, 0, rank, &noise);
    return packed;
}

static void unpack(const struct packed *packed, float *x)
{
    dt_int8_add(x, packed, BLOCK, true);
}

/* Elements of very different sizes. */
static void fill(float *x)
{
    dt_rng_normals(x, BLOCK, 1e-3f, 5, DT_RNG_INIT, 0);
    x[7] *= 50;
    x[90] *= 1e-4f;
    x[91] = 0;
}

/* --- one block --- */

static void no_element_is_off_by_more_than_a_step(void **state)
{
    float x[BLOCK], y[BLOCK];
    (void)state;
    fill(x);
    for (int scale = -90; scale <= 120; scale += 30) {
        for (int i = 0; i < BLOCK; i++)
            y[i] = ldexpf(x[i], scale);
        float a = 0;
        for (int i = 0; i < BLOCK; i++)
            a = fmaxf(a, fabsf(y[i]));
        struct packed packed = pack(y, 1, 0);
        float z[BLOCK];
        unpack(&packed, z);
        for (int i = 0; i < BLOCK; i++) {
            assert_in_range(packed.q[i] + 127, 0, 254);
            assert_true(fabsf(z[i] - y[i]) <= a / 127 * 1.0001f);
        }
    }
}

/* The mean over many seeds, of elements large and small beside the largest. */
static void the_mean_is_the_element(void **state)
{
    enum { SEEDS = 4096 };
    float x[BLOCK], y[BLOCK];
    double sum[BLOCK] = {0}, a = 0;
    (void)state;
    fill(x);
    for (int i = 0; i < BLOCK; i++)
        a = fmax(a, (double)fabsf(x[i]));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct packed packed = pack(x, seed, 1);
        unpack(&packed, y);
        for (int i = 0; i < BLOCK; i++)
            sum[i] += (double)y[i];
    }
    /* of a coin: standard deviation half a step; five of them, and 1/512 for
     * the 256 values of the noise
     */
    for (int i = 0; i < BLOCK; i++) {
        double off = fabs(sum[i] / SEEDS - (double)x[i]);
        if (off > a / 127 * (5 * 0.5 / sqrt(SEEDS) + 1.0 / 512))
            fail_msg("element %d: %g off", i, off);
    }
}

static void noise_differs_by_seed_rank_step_and_place(void **state)
{
    float x[2 * BLOCK];
    char a[2 * (BLOCK + 4)], b[2 * (BLOCK + 4)];
    const struct dt_noise noises[] = {
        {1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {1, 1, BLOCK}};
    (void)state;
    fill(x);
    memcpy(x + BLOCK, x, BLOCK * sizeof(*x));
    dt_int8_pack(a, x, sizeof(x) / sizeof(*x), 0, 0, &noises[0]);
    assert_memory_not_equal(a, a + BLOCK, BLOCK);
    for (int i = 1; i < 4; i++) {
        dt_int8_pack(b, x, sizeof(x) / sizeof(*x), 0, 0, &noises[i]);
        assert_memory_not_equal(a, b, BLOCK);
    }
    dt_int8_pack(b, x, sizeof(x) / sizeof(*x), 0, 1, &noises[0]);
    assert_memory_not_equal(a, b, BLOCK);
    /* the number of an element decides, not how they are cut */
    dt_int8_pack(b, x + BLOCK, BLOCK, BLOCK, 0, &noises[0]);
    assert_memory_equal(a + BLOCK, b, BLOCK);
    dt_int8_pack(b, x, BLOCK, 0, 0, &noises[3]);
    assert_memory_equal(a + BLOCK, b, BLOCK);
}

static void zeros_and_denormals_become_zeros(void **state)
{
    float x[BLOCK] = {0}, y[BLOCK];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct packed packed = pack(x, 1, 0);
        unpack(&packed, y);
        for (int k = 0; k < BLOCK; k++)
            assert_true(y[k] == 0);
        x[3] = FLT_TRUE_MIN * 5;
        x[4] = -0x1p-101f;
    }
}

static void what_is_not_finite_is_still_seen(void **state)
{
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    float x[BLOCK], y[BLOCK];
    (void)state;
    for (int i = 0; i < 3; i++) {
        fill(x);
        x[77] = poisons[i];
        struct packed packed = pack(x, 1, 0);
        unpack(&packed, y);
        for (int k = 0; k < BLOCK; k++)
            assert_true(isnan(y[k]));
    }
    x[77] = 0x1p127f; /* large, but finite */
    struct packed packed = pack(x, 1, 0);
    unpack(&packed, y);
    assert_true(isfinite(y[77]) && y[77] > 0x1p127f * 0.99f);
}

/* --- between ranks --- */

static const size_t parts[] = {BLOCK, 10 * BLOCK, 3000 * BLOCK};
static const struct dt_noise noise = {.seed = 9, .step = 4, .first = 512};

static float value(int rank, size_t i)
{
    return dt_rng_uniform((uint64_t)rank, DT_RNG_INIT, i) - 0.5f;
}

/* What rank `owner` has of `count` elements per part: the same on CPU and GPU.
 */
static float *expected(int size, int owner, size_t count)
{
    float *sum = calloc(count, sizeof(*sum)), *x = calloc(count, sizeof(*x));
    char *packed = malloc(dt_int8_bytes(count));
    size_t from = (size_t)owner * count;
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < count; i++)
            x[i] = value(r, from + i);
        if (r == owner) {
            for (size_t i = 0; i < count; i++)
                sum[i] += x[i];
            continue;
        }
        dt_int8_pack(packed, x, count, from, r, &noise);
        dt_int8_add(sum, packed, count, false);
    }
    free(x);
    free(packed);
    return sum;
}

static int scatter(struct ctx *c, size_t count)
{
    int rank = c->rank.rank, size = c->rank.size;
    if (open_case(c, count * (size_t)size, DT_F32, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < c->v.count; i++)
        ((float *)before(c))[i] = value(rank, i);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_reduce_scatter_int8(c->rank.comm, c->v, &noise, &c->ticket,
                                    &c->err) == 0);
    if (download(c) < 0)
        return -1;
    float *want = expected(size, rank, count);
    int differ = memcmp((float *)after(c) + count * (size_t)rank, want,
                        count * sizeof(*want));
    free(want);
    TRY(differ == 0);
    return close_case(c);
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    struct ctx c = {.rank.rank = world->rank, .rank.size = world->size};
    int rc = rank_open(&c.rank, world, PATIENCE_MS, &c.err);
    (void)arg;
    for (size_t i = 0; i < (hardware()->large ? 3 : 2) && rc == 0; i++)
        rc = scatter(&c, parts[i]);
    rank_close(&c.rank, rc < 0 ? &c.err : NULL);
    return rc == 0 ? 0 : 1;
}

static void each_rank_gets_its_part_of_the_sum(void **state)
{
    (void)state;
    for (int size = 1; size <= hardware()->most_ranks; size++)
        ranks_run(size, rank_main, NULL, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_element_is_off_by_more_than_a_step),
        cmocka_unit_test(the_mean_is_the_element),
        cmocka_unit_test(noise_differs_by_seed_rank_step_and_place),
        cmocka_unit_test(zeros_and_denormals_become_zeros),
        cmocka_unit_test(what_is_not_finite_is_still_seen),
        cmocka_unit_test(each_rank_gets_its_part_of_the_sum),
    };
    return cmocka_run_group_tests_name("int8", tests, NULL, NULL);
}
