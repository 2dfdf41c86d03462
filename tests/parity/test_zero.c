/* SPDX-License-Identifier: Apache-2.0 */
/* test_zero.c - every strategy and tier computes the bits of ddp */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <omp.h>

#include "tests/parity/learner.h"
#include "tests/unit/drive.h"
#include "tests/unit/world.h"

enum { STEPS = 5, WORLDS = 4 };

/* A run of a few steps. */
struct trial {
    const struct reference *reference;
    struct learner_options options;
    size_t micro_batches;
    bool overflow;  /* of the third step's gradients */
    bool evaluates; /* between two steps */
    size_t count;   /* elements of the flat buffers below */
    /* What the ranks own at the end, together, and the norms: shared memory. */
    float *state[DT_OWNED_GRADS];
    double *norms; /* (STEPS) */
};

/* The rows of micro-batch `a` that are this rank's; the last of more than two
 * ranks has none.
 */
static void take_rows(const struct trial *t, size_t rank, size_t world,
                      size_t k, size_t a, struct rows *part)
{
    struct rows all;
    bool empty = world > 2 && rank + 1 == world;
    reference_rows(t->reference, (k + a) % REFERENCE_BATCHES, true, false, &all,
                   NULL);
    rows_take(part, &all, rank % all.batch.B, world, 1);
    for (size_t i = 0; empty && i < part->batch.B * part->batch.T; i++)
        part->targets[i] = -100;
    if (empty)
        part->batch.target_count = 0;
}

static int run_step(const struct trial *t, struct learner *l, size_t k,
                    double scalars[DT_STEP_COUNT])
{
    size_t rank = (size_t)dt_comm_rank(l->comm);
    size_t world = (size_t)dt_comm_size(l->comm);
    struct rows part;
    learner_begin(l, k, t->overflow && k == 2 ? INFINITY : 0x1p-5);
    for (size_t a = 0; a < t->micro_batches; a++) {
        take_rows(t, rank, world, k, a, &part);
        if (learner_pass(l, a, t->micro_batches, &part.batch, true) < 0)
            return -1;
    }
    if (learner_update(l, scalars) < 0)
        return -1;
    if (!t->evaluates || k != 1)
        return 0;
    take_rows(t, rank, world, k, 0, &part);
    return learner_pass(l, 0, 1, &part.batch, false);
}

static int run_steps(struct trial *t, struct learner *l)
{
    double scalars[DT_STEP_COUNT];
    for (size_t k = 0; k < STEPS; k++) {
        if (run_step(t, l, k, scalars) < 0)
            return -1;
        if (dt_comm_rank(l->comm) == 0)
            t->norms[k] = scalars[DT_STEP_NORM];
        if ((scalars[DT_STEP_OUTCOME] == DT_STEP_OVERFLOW) !=
            (t->overflow && k == 2))
            return dt_error_set(&l->err, EX_DATAERR, "step %zu: outcome %g", k,
                                scalars[DT_STEP_OUTCOME]);
    }
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        if (learner_fetch(l, kind, t->state[kind]) < 0)
            return -1;
    return 0;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    struct trial *t = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct learner l = {0};
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &l.err);
    int rc = comm ? learner_init(&l, t->reference, &t->options, comm) : -1;
    if (rc == 0)
        rc = run_steps(t, &l);
    if (rc < 0)
        fprintf(stderr, "# rank %d: %s\n", world->rank, l.err.text);
    learner_fini(&l);
    return rc;
}

static void *share(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(data != MAP_FAILED);
    return data;
}

/* Runs a trial in a strategy, with a process for each rank; free_trial. */
static struct trial run_trial(const struct trial *like, enum dt_strategy s,
                              int world)
{
    struct trial t = *like;
    int statuses[WORLDS];
    struct dt_layout *layout =
        dt_model_layout(&t.reference->config, world, NULL);
    assert_non_null(layout);
    t.count = layout->count;
    dt_layout_destroy(layout);
    t.options.parallel.strategy = s;
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        t.state[kind] = share(t.count * sizeof(float));
    t.norms = share(STEPS * sizeof(*t.norms));
    world_processes(world, rank_main, &t, statuses);
    for (int rank = 0; rank < world; rank++)
        assert_int_equal(statuses[rank], 0);
    return t;
}

static void free_trial(struct trial *t)
{
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        munmap(t->state[kind], t->count * sizeof(float));
    munmap(t->norms, STEPS * sizeof(*t->norms));
}

static void check_same(const struct trial *a, const struct trial *b)
{
    for (size_t k = 0; k < STEPS; k++)
        if (memcmp(&a->norms[k], &b->norms[k], sizeof(a->norms[k])) != 0)
            fail_msg("strategy %d and %d, step %zu: norms %.17g and %.17g",
                     a->options.parallel.strategy, b->options.parallel.strategy,
                     k, a->norms[k], b->norms[k]);
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        assert_memory_equal(a->state[kind], b->state[kind],
                            a->count * sizeof(float));
}

/* Compares strategies `from` .. zero3 in worlds of 1 to 4 ranks. */
static void compare(const struct trial *like, enum dt_strategy from)
{
    for (int world = 1; world <= WORLDS; world++) {
        struct trial first = run_trial(like, from, world);
        for (enum dt_strategy s = from + 1; s <= DT_ZERO3; s++) {
            struct trial other = run_trial(like, s, world);
            check_same(&first, &other);
            free_trial(&other);
        }
        free_trial(&first);
    }
}

static bool has_ranks(void)
{
#ifdef HAVE_GLOO
    return subject_exec()->device->is_host;
#else
    return false;
#endif
}

/* With and without clipping; on the wire fp32 and bf16. The families differ in
 * tied heads and biases, so two of them take all types.
 */
static void one_micro_batch(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct reference r;
    if (!has_ranks())
        skip();
    reference_open(&r, *state);
    bool all = !strcmp(*state, "gpt2") || !strcmp(*state, "llama");
    for (size_t i = 0; i < (all ? 3 : 1); i++) {
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
        compare(&trial, DT_DDP);
    }
    reference_close(&r);
}

/* zero1 adds micro-batches as ddp does, zero3 as zero2 does. */
static void several_micro_batches(void **state)
{
    struct reference r;
    if (!has_ranks())
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
        struct trial runs[DT_ZERO3 + 1];
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++)
            runs[s] = run_trial(&trial, s, world);
        check_same(&runs[DT_DDP], &runs[DT_ZERO1]);
        check_same(&runs[DT_ZERO2], &runs[DT_ZERO3]);
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++)
            free_trial(&runs[s]);
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
    struct trial without = run_trial(like, s, world);
    for (size_t i = 0; i < (s == DT_ZERO3 ? 6 : 3); i++) {
        struct trial offloads = *like;
        offloads.options.parallel.offload = tiers[i];
        struct trial with = run_trial(&offloads, s, world);
        check_same(&without, &with);
        free_trial(&with);
    }
    free_trial(&without);
}

/* With an overflow in the third step, with and without clipping. */
static void every_tier_has_the_bits_of_none(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct reference r;
    if (!has_ranks() || !has_uring())
        skip();
    reference_open(&r, *state);
    for (int i = 0; i < 3 * 3; i++) {
        int world = 1 + i / 3;
        const struct trial trial = {
            .reference = &r,
            .options = {.compute = types[i % 3],
                        .max_norm = i % 3 == 2 ? 0 : 0.1,
                        .parallel = {.prefetch = 2}},
            .micro_batches = i % 2 + 1,
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
        REFERENCE_TESTS(one_micro_batch),
        REFERENCE_TESTS(several_micro_batches),
        {"every_tier_has_the_bits_of_none: gpt2",
         every_tier_has_the_bits_of_none, NULL, NULL, "gpt2"},
        {"every_tier_has_the_bits_of_none: llama",
         every_tier_has_the_bits_of_none, NULL, NULL, "llama"},
    };
    omp_set_num_threads(1); /* a child has none of its parent's threads */
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
