/* SPDX-License-Identifier: Apache-2.0 */
/* test_zero.c - every strategy and tier computes the bits of ddp */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <omp.h>

#include "tests/parity/trial.h"
#include "tests/unit/drive.h"
#include "tests/families.h"

/* A sanitizer is slow: as in REFERENCE_LONG_TESTS. */
#ifdef SANITIZER
enum { WORLDS = 4, OFFLOAD_WORLDS = 2, ONE_TYPE_A_WORLD = true };
#else
enum { WORLDS = 4, OFFLOAD_WORLDS = 3, ONE_TYPE_A_WORLD = false };
#endif

/* The families differ in tied heads and biases: two of them take all types and
 * worlds. The others, whose layers differ, need one world of several ranks, of
 * which one has no rows.
 */
static bool is_main(const char *model)
{
    return !strcmp(model, "gpt2") || !strcmp(model, "llama");
}

enum { OTHERS_WORLD = 3 };

/* Compares all strategies in a world of so many ranks. */
static void compare(const struct trial *like, int world)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, false, DT_WHEN_AUTO},
        {DT_ZERO2, false, DT_WHEN_AUTO},
        {DT_ZERO3, false, DT_WHEN_AUTO},
    };
    trial_compare(like, world, ways, sizeof(ways) / sizeof(ways[0]));
}

/* The worlds of four ranks and fewer have each type with and without clipping,
 * and on the wire fp32 and bf16, in all four combinations.
 */
static void one_micro_batch(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    bool all = is_main(*state);
    for (int i = 0; i < (all ? 3 : 1); i++)
        for (int world = 1; world <= WORLDS; world++) {
            if (all && ONE_TYPE_A_WORLD && i != (world + 1) % 3)
                continue;
            const struct trial trial = {
                .reference = &r,
                .options = {.compute = types[i],
                            .max_norm = (i + world) % 2 ? 0.1 : 0,
                            .parallel = {.wire = (i + world / 2) % 2 ? DT_BF16
                                                                     : DT_F32,
                                         .bucket_bytes = 1 << 12,
                                         .prefetch = (size_t)i + 2}},
                .micro_batches = 1,
                .overflow = true,
                .evaluates = true,
            };
            if (all || world == OTHERS_WORLD)
                compare(&trial, world);
        }
    reference_close(&r);
}

/* zero1 adds micro-batches as ddp does, zero3 as zero2 does. */
static void several_micro_batches(void **state)
{
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    const struct trial trial = {
        .reference = &r,
        .options = {.compute = DT_BF16,
                    .max_norm = 1,
                    .parallel = {.bucket_bytes = 1 << 20, .prefetch = 2}},
        .micro_batches = 3,
    };
    for (int world = 1; world <= WORLDS; world++) {
        if (!is_main(*state) && world != OTHERS_WORLD)
            continue;
        struct trial runs[DT_ZERO3 + 1];
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++)
            runs[s] = trial_run(&trial, s, world);
        trial_check_same(&runs[DT_DDP], &runs[DT_ZERO1]);
        trial_check_same(&runs[DT_ZERO2], &runs[DT_ZERO3]);
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++)
            trial_free(&runs[s]);
    }
    reference_close(&r);
}

/* --- offload --- */

/* A tile of these elements divides neither units nor all of a rank's parts. */
enum { ODD_TILE = 13 * 128 };

static struct dt_offload tier(enum dt_tier state, double ratio,
                              enum dt_tier weights, size_t buffers)
{
    return (struct dt_offload){
        .state = state,
        .ratio = ratio,
        .tile = ODD_TILE,
        .weights = weights,
        .path = drive(),
        .weights_path = drive(),
        .buffers = buffers,
        .block_bytes = 4096,
        .queue_depth = 8,
    };
}

/* Compares tiers of one strategy with what it does without. */
static void compare_tiers(const struct trial *like, enum dt_strategy s,
                          int world)
{
    const struct dt_offload tiers[] = {
        tier(DT_TIER_HOST, 1, DT_TIER_DEVICE, 0),
        tier(DT_TIER_FILE, 1, DT_TIER_DEVICE, 3),
        tier(DT_TIER_FILE, 0.5, DT_TIER_DEVICE, 1),
        tier(DT_TIER_HOST, 0.5, DT_TIER_FILE, 4),
        tier(DT_TIER_FILE, 1, DT_TIER_FILE, 2),
        tier(DT_TIER_FILE, 0.3, DT_TIER_HOST, 3),
    };
    struct trial without = trial_run(like, s, world);
    for (size_t i = 0; i < (s == DT_ZERO3 ? 6 : 3); i++) {
        struct trial offloads = *like;
        offloads.options.parallel.offload = tiers[i];
        struct trial with = trial_run(&offloads, s, world);
        trial_check_same(&without, &with);
        trial_free(&with);
    }
    trial_free(&without);
}

/* Weights, moments and gradients in bf16 are rounded with the same random bits,
 * whoever has them. With gradients in bf16 ddp, too, sums over ranks in each
 * micro-batch.
 */
static void random_roundings_are_those_of_ddp(void **state)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, false, DT_WHEN_AUTO},
        {DT_ZERO2, false, DT_WHEN_AUTO},
        {DT_ZERO3, false, DT_WHEN_AUTO},
    };
    struct reference r;
    if (!trial_has_ranks() || !has_uring())
        skip();
    reference_open(&r, *state);
    for (int world = 1; world <= OFFLOAD_WORLDS; world++) {
        struct trial trial = {
            .reference = &r,
            .options = {.compute = DT_BF16,
                        .max_norm = 0.1,
                        .parallel = {.wire = world == 2 ? DT_BF16 : DT_F32,
                                     .state = DT_BF16,
                                     .grads = world == 1 ? DT_F32 : DT_BF16,
                                     .prefetch = 2,
                                     .seed = 7}},
            .micro_batches = 1,
            .overflow = true,
            .evaluates = true,
        };
        trial_compare(&trial, world, ways, 4);
        trial.micro_batches = 3;
        trial.options.parallel.grads = DT_BF16;
        trial_compare(&trial, world, ways, 4);
        compare_tiers(&trial, world == 1 ? DT_ZERO1 : DT_ZERO3, world);
    }
    reference_close(&r);
}

/* With an overflow in the third step, with and without clipping. */
static void every_tier_has_the_bits_of_none(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct reference r;
    if (!trial_has_ranks() || !has_uring())
        skip();
    reference_open(&r, *state);
    /* the other model has each type in another world */
    int shift = r.config.family == &dt_family_gpt2 ? 0 : 1;
    for (int world = 1; world <= OFFLOAD_WORLDS; world++) {
        int type = (world + shift) % 3;
        const struct trial trial = {
            .reference = &r,
            .options = {.compute = types[type],
                        .max_norm = type == 2 ? 0 : 0.1,
                        .parallel = {.prefetch = 2}},
            .micro_batches = (size_t)(world + shift) % 2 + 1,
            .overflow = true,
            .evaluates = true,
        };
        for (enum dt_strategy s = DT_ZERO1; s <= DT_ZERO3; s++)
            compare_tiers(&trial, s, world);
    }
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_LONG_TESTS(one_micro_batch),
        REFERENCE_LONG_TESTS(several_micro_batches),
        {"random_roundings_are_those_of_ddp: llama",
         random_roundings_are_those_of_ddp, NULL, NULL, "llama"},
        {"every_tier_has_the_bits_of_none: gpt2",
         every_tier_has_the_bits_of_none, NULL, NULL, "gpt2"},
#ifndef SANITIZER /* as in REFERENCE_LONG_TESTS */
        {"every_tier_has_the_bits_of_none: llama",
         every_tier_has_the_bits_of_none, NULL, NULL, "llama"},
#endif
    };
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    omp_set_num_threads(1); /* a child has none of its parent's threads */
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
