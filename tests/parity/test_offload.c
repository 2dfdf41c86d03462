/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_offload.c - a rank alone has the same bits wherever its state is, and
 * wherever AdamW computes; on the CPU, or on what $DT_TEST_DEVICE names
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/parity/learner.h"
#include "tests/unit/drive.h"

enum { STEPS = 4, ODD_TILE = 13 * 128 };

/* All that a rank has at the end: master, m, v, and its weights gathered, in
 * fp32 and as the model reads them.
 */
struct state {
    size_t count;
    float *owned[DT_OWNED_GRADS], *master, *weights;
};

static void must(int rc, struct learner *l)
{
    if (rc < 0)
        fail_msg("%s", l->err.text);
}

static void copy_here(struct learner *l, float *to, struct dt_view from)
{
    const struct dt_exec *exec = &l->exec;
    must(exec->device->copy(exec->stream, to, dt_view_data(from),
                            from.count * dt_dtype_bytes(from.dtype), &l->err),
         l);
    must(exec->device->stream_wait(exec->stream, &l->err), l);
}

static void train(struct learner *l, const struct reference *r)
{
    double scalars[DT_STEP_COUNT];
    struct rows rows;
    for (size_t k = 0; k < STEPS; k++) {
        learner_begin(l, k, k == 2 ? INFINITY : 0x1p-5);
        for (size_t a = 0; a < 2; a++) {
            reference_rows(r, (k + a) % REFERENCE_BATCHES, true, false, &rows,
                           NULL);
            must(learner_pass(l, a, 2, &rows.batch, true), l);
        }
        must(learner_update(l, scalars), l);
        assert_true(scalars[DT_STEP_OUTCOME] ==
                    (k == 2 ? DT_STEP_OVERFLOW : DT_STEP_TAKEN));
    }
}

static void fetch(struct learner *l, struct state *s)
{
    s->count = l->layout->count;
    s->master = calloc(s->count, sizeof(float));
    s->weights = calloc(s->count, sizeof(float));
    assert_true(s->master && s->weights);
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++) {
        s->owned[kind] = calloc(s->count, sizeof(float));
        assert_non_null(s->owned[kind]);
        must(learner_fetch(l, kind, s->owned[kind]), l);
    }
    for (size_t u = 0; u < l->layout->unit_count; u++) {
        struct dt_view unit;
        size_t at = l->layout->units[u].offset;
        must(dt_parallel_gather(l->parallel, u, true, &unit, &l->err), l);
        copy_here(l, s->master + at, unit);
        must(dt_parallel_gather(l->parallel, u, false, &unit, &l->err), l);
        copy_here(l, s->weights + at, unit);
    }
}

/* An element that is not finite is found, wherever it is. */
static void check_squares(struct learner *l)
{
    static const float infinity = INFINITY;
    static const uint16_t half = 0x7f80; /* the same in bf16 */
    const void *bad =
        l->own.state == DT_BF16 ? (const void *)&half : (const void *)&infinity;
    double scalars[DT_STEP_COUNT];
    for (int round = 0; round < 2; round++) {
        learner_begin(l, 0, 1);
        for (size_t u = 0; u < l->layout->unit_count; u++)
            must(dt_parallel_squares(
                     l->parallel,
                     dt_parallel_part(l->parallel, DT_OWNED_MASTER, u), l->step,
                     &l->err),
                 l);
        struct dt_view part = dt_parallel_part(l->parallel, DT_OWNED_MASTER, 1);
        must(dt_parallel_put(l->parallel,
                             dt_view_slice(part, part.count - 1, 1), bad,
                             &l->err),
             l);
        copy_here(l, (float *)scalars, l->step);
        assert_true(isfinite(scalars[DT_STEP_SQUARES]) == (round == 0));
    }
}

static struct state run(const struct reference *r,
                        const struct learner_options *options)
{
    struct learner l;
    struct state s = {0};
    must(learner_init(&l, r, options, NULL), &l);
    train(&l, r);
    fetch(&l, &s);
    check_squares(&l);
    learner_fini(&l);
    return s;
}

static void free_state(struct state *s)
{
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        free(s->owned[kind]);
    free(s->master);
    free(s->weights);
}

static void compare(const struct state *a, const struct state *b)
{
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        assert_memory_equal(a->owned[kind], b->owned[kind],
                            a->count * sizeof(float));
    assert_memory_equal(a->master, b->master, a->count * sizeof(float));
    assert_memory_equal(a->weights, b->weights, a->count * sizeof(float));
}

/* Every tier and place to compute at with every other; those of weights are
 * for zero3. On a host, all compute there.
 */
static const struct dt_offload tiers[] = {
    {.state = DT_TIER_HOST, .compute = DT_OFFLOAD_STREAM, .ratio = 1},
    {.state = DT_TIER_FILE, .compute = DT_OFFLOAD_STREAM, .ratio = 0.6},
    {.state = DT_TIER_HOST, .compute = DT_OFFLOAD_HOST, .ratio = 0.6},
    {.state = DT_TIER_FILE, .compute = DT_OFFLOAD_HOST, .ratio = 1},
    {.state = DT_TIER_HOST,
     .compute = DT_OFFLOAD_STREAM,
     .ratio = 0.6,
     .weights = DT_TIER_FILE},
    {.state = DT_TIER_FILE,
     .compute = DT_OFFLOAD_STREAM,
     .ratio = 1,
     .weights = DT_TIER_HOST},
    {.state = DT_TIER_FILE,
     .compute = DT_OFFLOAD_HOST,
     .ratio = 1,
     .weights = DT_TIER_HOST},
    {.state = DT_TIER_HOST,
     .compute = DT_OFFLOAD_HOST,
     .ratio = 1,
     .weights = DT_TIER_FILE},
};
enum { TIERS = sizeof(tiers) / sizeof(tiers[0]) };

static void compare_tiers(const struct reference *r, enum dt_dtype compute,
                          enum dt_dtype kept, enum dt_strategy strategy)
{
    struct learner_options options = {
        .compute = compute,
        .max_norm = 0.1,
        .parallel = {
            .strategy = strategy, .prefetch = 2, .state = kept, .grads = kept}};
    struct dt_offload *offload = &options.parallel.offload;
    struct state none = run(r, &options);
    for (int i = 0; i < TIERS; i++) {
        if (tiers[i].weights != DT_TIER_DEVICE && strategy != DT_ZERO3)
            continue;
        *offload = tiers[i];
        if (subject_exec()->device->is_host)
            offload->compute = DT_OFFLOAD_IN_PLACE;
        offload->tile = ODD_TILE;
        offload->path = offload->weights_path = drive();
        offload->buffers = 3;
        struct state s = run(r, &options);
        compare(&none, &s);
        free_state(&s);
    }
    free_state(&none);
}

static void every_tier_has_the_bits_of_none(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct reference r;
    /* an emulated GPU is slow: one family, and each type and tier once */
    bool whole = subject_exec()->device->is_host;
    if (!has_uring() || !(whole || !strcmp(*state, "gpt2")))
        skip();
    reference_open(&r, *state);
    for (enum dt_strategy s = whole ? DT_ZERO1 : DT_ZERO2; s <= DT_ZERO3; s++)
        compare_tiers(&r, types[s - DT_ZERO1], s == DT_ZERO2 ? DT_BF16 : DT_F32,
                      s);
    for (int i = 0; i < (whole ? 2 : 0); i++)
        compare_tiers(&r, types[i], types[i], DT_ZERO3);
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"every_tier_has_the_bits_of_none: gpt2",
         every_tier_has_the_bits_of_none, NULL, NULL, "gpt2"},
        {"every_tier_has_the_bits_of_none: llama",
         every_tier_has_the_bits_of_none, NULL, NULL, "llama"},
    };
    subject_deterministic();
    return cmocka_run_group_tests_name("offload", tests, NULL, NULL);
}
