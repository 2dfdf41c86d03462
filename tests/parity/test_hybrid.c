/* SPDX-License-Identifier: Apache-2.0 */
/* test_hybrid.c - strategies over groups of ranks compute the bits of ddp */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <omp.h>

#include "tests/parity/trial.h"
#include "tests/unit/drive.h"
#include "tests/families.h"

/* Worlds of groups; ranks are dealt to them in turn, as some launchers do. */
static const struct {
    int ranks, group;
    int order[6];
} worlds[] = {
    {4, 2, {0, 2, 1, 3}},
    {6, 3, {0, 2, 4, 1, 3, 5}},
    {6, 2, {5, 0, 1, 2, 4, 3}},
};

/* How many of them hybrids are compared in, and with micro-batches. */
#ifdef SANITIZER /* as in REFERENCE_LONG_TESTS */
enum { COUNT = 2, BATCHES_COUNT = 1 };
#else
enum { COUNT = sizeof(worlds) / sizeof(worlds[0]), BATCHES_COUNT = 2 };
#endif

/* The trial in one of these worlds. */
static struct trial in_world(const struct trial *like, int w)
{
    struct trial t = *like;
    t.options.parallel.group = worlds[w].group;
    t.options.parallel.order = worlds[w].order;
    return t;
}

static struct trial run_way(const struct trial *like, int w,
                            const struct trial_way *way)
{
    const struct trial t = in_world(like, w);
    return trial_run_way(&t, way, worlds[w].ranks);
}

static void compare(const struct trial *like, int w,
                    const struct trial_way *ways, size_t count)
{
    const struct trial t = in_world(like, w);
    trial_compare(&t, worlds[w].ranks, ways, count);
}

/* With and without clipping, an overflow, and an evaluation in between; on the
 * wire fp32 and bf16; with tied weights and without.
 */
static void a_hybrid_has_the_bits_of_ddp_in_two_levels(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},   {DT_ZERO1, false, DT_WHEN_AUTO},
        {DT_ZERO2, false, DT_WHEN_AUTO}, {DT_ZERO3, false, DT_WHEN_AUTO},
        {DT_ZERO2, true, DT_WHEN_AUTO},  {DT_ZERO3, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_LAST},
    };
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    for (size_t i = 0; i < COUNT; i++) {
        if (r.config.family != &dt_family_gpt2 && i != 1)
            continue; /* worlds and types know no model */
        const struct trial trial = {
            .reference = &r,
            .options = {.compute = types[i],
                        .max_norm = i == 2 ? 0 : 0.1,
                        .parallel = {.wire = i == 1 ? DT_BF16 : DT_F32,
                                     .bucket_bytes = 1 << 12,
                                     .prefetch = 2 + i}},
            .micro_batches = 1,
            .overflow = true,
            .evaluates = true,
        };
        compare(&trial, (int)i, ways, sizeof(ways) / sizeof(ways[0]));
    }
    reference_close(&r);
}

/* Of several micro-batches, sums in the group are made after each in a hybrid,
 * and after the last without; so are those of ddp, if it is told to.
 */
static void when_micro_batches_are_added_decides_the_bits(void **state)
{
    static const struct trial_way each[] = {
        {DT_DDP, false, DT_WHEN_EACH},
        {DT_ZERO1, true, DT_WHEN_EACH},
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_EACH},
    };
    static const struct trial_way last[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, false, DT_WHEN_LAST},
        {DT_ZERO2, true, DT_WHEN_LAST},
        {DT_ZERO3, true, DT_WHEN_LAST},
    };
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    const struct trial trial = {
        .reference = &r,
        .options = {.compute = DT_BF16,
                    .max_norm = 1,
                    .parallel = {.wire = DT_BF16,
                                 .bucket_bytes = 1 << 20,
                                 .prefetch = 2}},
        .micro_batches = 3,
    };
    const bool is_gpt2 = r.config.family == &dt_family_gpt2;
    for (int w = 0; w < (is_gpt2 ? BATCHES_COUNT : 1); w++) {
        compare(&trial, w, each, sizeof(each) / sizeof(each[0]));
        compare(&trial, w, last, sizeof(last) / sizeof(last[0]));
    }
    reference_close(&r);
}

/* Gradients that are kept in bf16 are a group's until the last micro-batch. */
static void so_are_those_in_bf16(void **state)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, true, DT_WHEN_AUTO},
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_AUTO},
    };
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    for (int w = 0; w < 2; w++) {
        const struct trial trial = {
            .reference = &r,
            .options = {.compute = DT_BF16,
                        .max_norm = 1,
                        .parallel = {.state = DT_BF16,
                                     .grads = DT_BF16,
                                     .prefetch = 2,
                                     .seed = 5}},
            .micro_batches = w ? 1 : 3,
        };
        compare(&trial, w, ways, sizeof(ways) / sizeof(ways[0]));
    }
    reference_close(&r);
}

/* Weights and gradients are a group's, and the state of the optimizer, of which
 * each rank of the world has a part, is not on the device.
 */
static void offloaded_state_of_a_hybrid_has_the_bits_of_ddp(void **state)
{
    static const struct trial_way ddp = {DT_DDP, false, DT_WHEN_EACH};
    static const struct trial_way ways[] = {
        {DT_ZERO1, true, DT_WHEN_EACH},
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_AUTO},
    };
    struct reference r;
    if (!trial_has_ranks() || !has_uring())
        skip();
    reference_open(&r, *state);
    const struct trial on_device = {
        .reference = &r,
        .options = {.compute = DT_BF16,
                    .max_norm = 0.1,
                    .parallel = {.bucket_bytes = 1 << 20, .prefetch = 2}},
        .micro_batches = 2,
        .overflow = true,
    };
    struct trial first = run_way(&on_device, 0, &ddp), offloaded = on_device;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        offloaded.options.parallel.offload = (struct dt_offload){
            .state = i % 2 ? DT_TIER_HOST : DT_TIER_FILE,
            .ratio = 0.6,
            .tile = 13 * 128, /* divides neither units nor parts */
            .path = drive(),
            .buffers = 2,
            .block_bytes = 4096,
            .queue_depth = 8,
        };
        struct trial other = run_way(&offloaded, 0, &ways[i]);
        trial_check_same(&first, &other);
        trial_free(&other);
    }
    trial_free(&first);
    reference_close(&r);
}

/* The same in one level over all ranks: ddp and zero1 as zero2, and zero2 and
 * zero3 as ddp.
 */
static void without_groups_too(void **state)
{
    static const enum dt_when whens[] = {DT_WHEN_EACH, DT_WHEN_LAST};
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    for (int i = 0; i < 2; i++) {
        struct trial trial = {
            .reference = &r,
            .options = {.max_norm = 1,
                        .parallel = {.bucket_bytes = 1 << 20, .prefetch = 2}},
            .micro_batches = 3,
        };
        struct trial own = trial_run(&trial, i == 0 ? DT_ZERO2 : DT_DDP, 3);
        trial.options.parallel.when = whens[i];
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++) {
            struct trial other = trial_run(&trial, s, 3);
            trial_check_same(&own, &other);
            trial_free(&other);
        }
        trial_free(&own);
    }
    reference_close(&r);
}

/* Sums between groups in 8 bits are noisy, but the same in every run, and an
 * overflow is still one.
 */
static void int8_has_the_same_bits_in_every_run(void **state)
{
    static const struct trial_way ways[] = {
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_AUTO},
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO1, true, DT_WHEN_EACH},
    };
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    struct trial trial = {
        .reference = &r,
        .options = {.compute = DT_BF16,
                    .max_norm = 1,
                    .parallel = {.bucket_bytes = 1 << 20, .prefetch = 2}},
        .micro_batches = 2,
        .overflow = true,
    };
    struct trial native = run_way(&trial, 0, &ways[0]);
    trial.options.parallel.int8 = true;
    compare(&trial, 0, ways, sizeof(ways) / sizeof(ways[0]));
    struct trial int8 = run_way(&trial, 0, &ways[0]);
    trial.options.parallel.seed = 1;
    struct trial other = run_way(&trial, 0, &ways[0]);
    assert_true(native.norms[0] != int8.norms[0]);
    assert_true(other.norms[0] != int8.norms[0]);
    assert_true(fabs(native.norms[0] / int8.norms[0] - 1) < 0.01);
    trial_free(&native);
    trial_free(&int8);
    trial_free(&other);
    reference_close(&r);
}

#define OF(test, model)                                                        \
    {                                                                          \
#test ": " model, test, NULL, NULL, model                              \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF(a_hybrid_has_the_bits_of_ddp_in_two_levels, "gpt2"),
        OF(when_micro_batches_are_added_decides_the_bits, "gpt2"),
#ifndef SANITIZER /* as in REFERENCE_LONG_TESTS */
        OF(a_hybrid_has_the_bits_of_ddp_in_two_levels, "llama"),
        OF(when_micro_batches_are_added_decides_the_bits, "llama"),
#endif
        OF(so_are_those_in_bf16, "gpt2"),
        OF(offloaded_state_of_a_hybrid_has_the_bits_of_ddp, "gpt2"),
        OF(without_groups_too, "gpt2"),
        OF(int8_has_the_same_bits_in_every_run, "gpt2"),
    };
    omp_set_num_threads(1); /* a child has none of its parent's threads */
    return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
