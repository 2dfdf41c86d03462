/* SPDX-License-Identifier: Apache-2.0 */
/* test_frozen_parts.c - a model of which some parts are frozen: what is trained
 * has the bits that it has without, however ranks share both
 */
#include "config.h"

#include <math.h>
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

enum { CHOICES = (1 << DT_PARTS) - 2 }; /* neither none nor all */

/* The options of choice c: bit i of c + 1 freezes part i. */
static void freeze(struct learner_options *options, int c)
{
    for (int i = 0; i < DT_PARTS; i++)
        options->freezes[i] = (c + 1) >> i & 1;
}

/* A head that is tied is in the part of its embedding. */
static bool fits(const struct reference *r, enum learner_split split)
{
    return split == LEARNER_INSIDE || !dt_model_tied(&r->config);
}

static void open_learner(struct learner *l, const struct reference *r,
                         const struct learner_options *options)
{
    if (learner_init(l, r, options, NULL) < 0)
        fail_msg("%s", l->err.text);
}

static void step(struct learner *l, const struct rows *rows, size_t k)
{
    learner_begin(l, k, 1);
    if (learner_pass(l, 0, 1, &rows->batch, true) < 0)
        fail_msg("%s", l->err.text);
    if (dt_parallel_finish(l->parallel, &l->err) < 0 ||
        l->exec.device->stream_wait(l->exec.stream, &l->err) < 0)
        fail_msg("%s", l->err.text);
}

/* The gradients of what this rank trains, at their places in `flat`. */
static float *fetch_grads(struct learner *l)
{
    float *flat = calloc(l->layout->count, sizeof(*flat));
    assert_non_null(flat);
    if (learner_fetch(l, DT_OWNED_GRADS, flat) < 0)
        fail_msg("%s", l->err.text);
    return flat;
}

/* The same bits on the CPU. A GPU sums gradients of biases in norms, but not if
 * a norm is frozen.
 */
static void compare_unit(const float *a, const float *b, size_t count,
                         enum dt_dtype compute)
{
    const float part = compute == DT_F32 ? 1e-5f : 2e-2f;
    float most = 0;
    if (subject_exec()->device->is_host) {
        assert_memory_equal(a, b, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(b[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= part * most))
            fail_msg("element %zu: %g, expected %g", i, (double)a[i],
                     (double)b[i]);
}

/* Compares the gradients of all units that `some` trains. */
static void compare_grads(struct learner *some, struct learner *all)
{
    float *a = fetch_grads(some), *b = fetch_grads(all);
    for (size_t u = 0; u < all->layout->unit_count; u++) {
        const struct dt_unit *mine = &some->layout->units[u];
        const struct dt_unit *own = &all->layout->units[u];
        assert_true(mine->count == 0 || mine->count == own->count);
        compare_unit(a + mine->offset, b + own->offset, mine->count,
                     all->options.compute);
    }
    free(a);
    free(b);
}

/* With a dropped block of activations below the lowest trained unit, and with
 * recomputation.
 */
static void gradients_are_those_of_a_model_that_is_trained(void **state)
{
    struct reference r;
    struct rows rows;
    reference_open(&r, *state);
    reference_rows(&r, 0, true, false, &rows, NULL);
    /* what a GPU computes in another way depends on neither */
    const int ways = subject_exec()->device->is_host ? 2 * 2 : 1;
    for (int i = 0; i < CHOICES * ways; i++) {
        struct learner_options options = {
            .compute = i / CHOICES % 2 ? DT_BF16 : DT_F32,
            .recompute = i / CHOICES / 2,
            .parallel = {.strategy = DT_DDP, .prefetch = 2},
        };
        struct learner all, some;
        open_learner(&all, &r, &options);
        step(&all, &rows, 0);
        for (int split = LEARNER_INSIDE; split < LEARNER_SPLITS; split++) {
            options.split = (enum learner_split)split;
            if (!fits(&r, options.split))
                continue;
            freeze(&options, i % CHOICES);
            open_learner(&some, &r, &options);
            step(&some, &rows, 0);
            compare_grads(&some, &all);
            learner_fini(&some);
        }
        learner_fini(&all);
    }
    reference_close(&r);
}

/* The weights of unit u as passes read them, a copy to free. */
static void *copy_unit(struct learner *l, size_t u, size_t *bytes)
{
    struct dt_view unit;
    if (dt_learner_gather(&l->own, u, false, &unit, &l->err) < 0)
        fail_msg("%s", l->err.text);
    void *copy = malloc(*bytes = dt_view_bytes(unit));
    assert_non_null(copy);
    memcpy(copy, dt_view_data(unit), *bytes);
    return copy;
}

/* What is frozen has neither gradients nor state, and stays as it is; what is
 * trained does not.
 */
static void frozen_parts_have_weights_alone(void **state)
{
    struct reference r;
    struct rows rows;
    double scalars[DT_STEP_COUNT];
    reference_open(&r, *state);
    if (!subject_exec()->device->is_host)
        skip();
    reference_rows(&r, 0, true, false, &rows, NULL);
    for (int c = 0; c < CHOICES; c++) {
        struct learner_options options = {.compute = DT_BF16,
                                          .split = LEARNER_INSIDE,
                                          .parallel = {.prefetch = 2}};
        struct learner l;
        freeze(&options, c);
        open_learner(&l, &r, &options);
        const struct dt_learner_spec *spec = &l.spec;
        const struct dt_parallel_options parallel = {.compute = DT_BF16};
        const struct dt_parallel_bytes bytes =
            dt_learner_bytes(spec, 1, &parallel);
        assert_int_equal(bytes.weights, 2 * spec->whole->count);
        assert_int_equal(bytes.master, 4 * spec->layout->count);
        assert_int_equal(bytes.gradients, 4 * spec->layout->count);
        assert_int_equal(bytes.moments, 8 * spec->layout->count);
        assert_int_equal(spec->layout->count + spec->frozen->count,
                         spec->whole->count);
        for (size_t u = 0; u < spec->whole->unit_count; u++) {
            size_t size;
            void *before = copy_unit(&l, u, &size);
            step(&l, &rows, 1);
            if (learner_update(&l, scalars) < 0)
                fail_msg("%s", l.err.text);
            void *after = copy_unit(&l, u, &size);
            const bool frozen = options.freezes[spec->whole->units[u].part];
            assert_true(!memcmp(before, after, size) == frozen);
            free(before);
            free(after);
        }
        learner_fini(&l);
    }
    reference_close(&r);
}

/* --- ranks --- */

static struct dt_offload tier(enum dt_tier state, enum dt_tier weights)
{
    return (struct dt_offload){
        .state = state,
        .ratio = 1,
        .tile = 13 * 128,
        .weights = weights,
        .path = drive(),
        .weights_path = drive(),
        .buffers = 3,
        .block_bytes = 4096,
        .queue_depth = 8,
    };
}

/* Compares what is offloaded with ddp. */
static void compare_tiers(const struct trial *like, int world)
{
    struct trial without = trial_run(like, DT_DDP, world);
    for (int i = 0; i < 2; i++) {
        struct trial offloads = *like;
        offloads.options.parallel.offload =
            i == 0 ? tier(DT_TIER_HOST, DT_TIER_DEVICE)
                   : tier(DT_TIER_FILE, DT_TIER_FILE);
        struct trial with =
            trial_run(&offloads, i == 0 ? DT_ZERO1 : DT_ZERO3, world);
        trial_check_same(&without, &with);
        trial_free(&with);
    }
    trial_free(&without);
}

static void compare_ways(const struct trial *like, int world)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, false, DT_WHEN_AUTO},
        {DT_ZERO2, false, DT_WHEN_AUTO},
        {DT_ZERO3, false, DT_WHEN_AUTO},
    };
    trial_compare(like, world, ways, sizeof(ways) / sizeof(ways[0]));
}

static void compare_hybrids(struct trial trial)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO2, true, DT_WHEN_AUTO},
        {DT_ZERO3, true, DT_WHEN_AUTO},
    };
    trial.options.parallel.group = 2;
    trial_compare(&trial, 4, ways, sizeof(ways) / sizeof(ways[0]));
}

/* Each choice of what is frozen, of one rank and of two, with an overflow,
 * rates of parts, and recomputation in turn.
 */
static void every_strategy_computes_the_bits_of_ddp(void **state)
{
    struct reference r;
    if (!trial_has_ranks() || !has_uring())
        skip();
    reference_open(&r, *state);
    for (int c = 0; c < CHOICES; c++) {
#ifdef SANITIZER /* each with one model: as in REFERENCE_LONG_TESTS */
        if ((c + 1) / 2 % 2 != dt_model_tied(&r.config))
            continue;
#endif
        struct trial trial = {
            .reference = &r,
            .options = {.compute = c % 2 ? DT_BF16 : DT_F32,
                        .max_norm = c % 3 ? 0 : 0.01,
                        .split = dt_model_tied(&r.config) ? LEARNER_INSIDE
                                                          : LEARNER_BELOW,
                        .recompute = c % 2,
                        .rates = {1, 5, 0.25},
                        .parallel = {.bucket_bytes = 1 << 12, .prefetch = 2}},
            .micro_batches = 1,
            .overflow = true,
            .evaluates = true,
        };
        freeze(&trial.options, c);
        for (int world = 1; world <= 2; world++)
            compare_ways(&trial, world);
        compare_tiers(&trial, 2);
        compare_hybrids(trial);
    }
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(gradients_are_those_of_a_model_that_is_trained),
        REFERENCE_TESTS(frozen_parts_have_weights_alone),
        {"every_strategy_computes_the_bits_of_ddp: gpt2",
         every_strategy_computes_the_bits_of_ddp, NULL, NULL, "gpt2"},
        {"every_strategy_computes_the_bits_of_ddp: llama",
         every_strategy_computes_the_bits_of_ddp, NULL, NULL, "llama"},
    };
    omp_set_num_threads(1); /* a child has none of its parent's threads */
    return cmocka_run_group_tests_name("frozen_parts", tests, NULL, NULL);
}
