/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefetch.c - how many blocks of weights ranks hold with zero3 */
#include "config.h"

#define SMALL                                                                  \
    "algorithm: sft\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 16, n_layer: 6, n_head: 2}\n"            \
    "data.train: train.jsonl\n"                                                \
    "data.max_length: 32\n"                                                    \
    "training.per_device_batch_size: 2\n"                                      \
    "logging.report_to: jsonl\n"

#include "plan/plan.h"
#include "run/sharing.h"
#include "train/train.h"
#include "tests/unit/small_run.h"

#define ZERO3 "distributed.strategy: zero3\n"

/* BLOCK parameters of a block of GPT-2 with a hidden size of 16: matrices of
 * 12 C^2, and 13 C of biases and norms. Each of its twelve is padded to 16
 * elements, which all are multiples of, and the block to 128 for a rank.
 */
enum { C = 16, BLOCK = 12 * C * C + 13 * C, LAYERS = 6, WORLD = 2 };

static size_t padded(void)
{
    const size_t to = (size_t)DT_LAYOUT_ALIGN * WORLD;
    return (BLOCK + to - 1) / to * to;
}

/* Lines, in which %ld is `elements`, and the blocks that they allow. */
static const struct {
    const char *lines;
    long elements;
    size_t blocks;
} cases[] = {
    {"", 0, 2},
    {"distributed.prefetch_units: 5\n", 0, 5},
    {"distributed.prefetch_elements: %ld\n", 0, 2},
    {"distributed.prefetch_elements: %ld\n", BLOCK - 1, 2},
    {"distributed.prefetch_elements: %ld\n", BLOCK, 2},
    {"distributed.prefetch_elements: %ld\n", BLOCK + 1, 2},
    {"distributed.prefetch_elements: %ld\n", 2 * BLOCK - 1, 2},
    {"distributed.prefetch_elements: %ld\n", 2 * BLOCK, 3},
    {"distributed.prefetch_elements: %ld\n", 2 * BLOCK + 1, 3},
    {"distributed.prefetch_elements: %ld\n", 1000000000000, LAYERS},
    {"distributed: {prefetch_units: 4, prefetch_elements: %ld}\n", 0, 4},
    {"distributed: {prefetch_units: 5, live_elements: %ld}\n", 0, 2},
    {"distributed: {prefetch_units: 5, live_elements: %ld}\n", 3 * BLOCK - 1,
     2},
    {"distributed: {prefetch_units: 5, live_elements: %ld}\n", 3 * BLOCK, 3},
    {"distributed: {prefetch_units: 5, live_elements: %ld}\n", 3 * BLOCK + 1,
     3},
    {"distributed: {prefetch_units: 5, live_elements: %ld}\n", 1000000000000,
     5},
    {"distributed: {prefetch_elements: 1000000000000, live_elements: %ld}\n",
     4 * BLOCK, 4},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static struct dt_conf *conf_of(size_t i, const char *strategy)
{
    char all[256], lines[192];
    snprintf(lines, sizeof(lines), cases[i].lines, cases[i].elements);
    snprintf(all, sizeof(all), "%s%s", strategy, lines);
    return small_conf(all);
}

/* The plan of a rank of two. */
static struct dt_plan planned(const struct dt_conf *conf)
{
    struct dt_spec spec = {
        .conf = *conf, .world = WORLD, .exec = dt_exec_cpu()};
    struct dt_model_options options;
    struct dt_error err = {0};
    if (dt_plan_resolve(&spec, &options, &err) < 0)
        fail_msg("%s", err.text);
    struct dt_plan plan = dt_plan_make(&spec, &options);
    dt_spec_fini(&spec);
    return plan;
}

/* Other than weights nothing changes, and with other strategies nothing. */
static void the_plan_has_a_slot_for_each_block_that_is_allowed(void **state)
{
    (void)state;
    struct dt_conf *conf = conf_of(0, ZERO3);
    const struct dt_plan two = planned(conf);
    dt_conf_destroy(conf);
    for (size_t i = 0; i < CASES; i++) {
        conf = conf_of(i, ZERO3);
        const struct dt_plan plan = planned(conf);
        dt_conf_destroy(conf);
        assert_int_equal(plan.weights - two.weights,
                         (cases[i].blocks - 2) * padded() * sizeof(float));
        assert_int_equal(dt_plan_total(&plan) - dt_plan_total(&two),
                         plan.weights - two.weights);
    }
    conf = conf_of(9, "distributed.strategy: zero2\n");
    const struct dt_plan all = planned(conf);
    dt_conf_destroy(conf);
    conf = conf_of(0, "distributed.strategy: zero2\n");
    assert_int_equal(all.weights, planned(conf).weights);
    dt_conf_destroy(conf);
}

/* --- what is allocated --- */

static _Thread_local size_t allocated;

static int count_bytes(size_t bytes, void **data, struct dt_error *err)
{
    allocated += bytes;
    return dt_cpu.allocate(bytes, data, err);
}

/* Two steps, so that the plan's slots are also enough to train with. */
static int allocates_what_is_planned(const struct dt_comm_world *world,
                                     void *arg)
{
    struct small_world *small = arg;
    struct dt_device device = dt_cpu;
    struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_run whole = {.spec = {.rank = world->rank, .world = world->size}};
    struct dt_run *run = &whole;
    struct dt_report_step line;
    device.allocate = count_bytes;
    exec.device = &device;
    struct dt_comm *comm = small_comm(world, &err);
    TRY(comm);
    allocated = 0;
    TRY(dt_run_init(run, small->conf, &exec, comm, world->size, &err) == 0);
    const size_t planned_bytes = *(const size_t *)small->arg;
    /* beside it are the scalars of steps and the ranges of the optimizer */
    TRY(allocated >= planned_bytes && allocated - planned_bytes < 1024);
    TRY(small_step(run, &line, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    dt_run_fini(run);
    dt_comm_destroy(comm);
    return 0;
}

static void a_run_allocates_what_is_planned(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        size_t bytes;
        struct small_world small = {.conf = conf_of(i, ZERO3), .arg = &bytes};
        const struct dt_plan plan = planned(small.conf);
        bytes = dt_plan_total(&plan) - plan.batches;
        small_clean(NULL);
        world_threads(WORLD, allocates_what_is_planned, &small);
        dt_conf_destroy((struct dt_conf *)small.conf);
    }
}

/* --- bits --- */

static int train(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_report_step line;
    double *sums = arg;
    for (int i = 0; i < 3; i++)
        TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0) {
        sums[0] = run->progress.loss_sum;
        sums[1] = line.grad_norm;
    }
    return 0;
}

static void how_many_are_held_changes_no_bit(void **state)
{
    static const char *const lines[] = {
        ZERO3 "distributed.prefetch_elements: 0\n",
        ZERO3 "distributed.prefetch_elements: 10000\n",
        ZERO3 "distributed.prefetch_elements: 1000000000000\n",
        ZERO3 "distributed: {prefetch_units: 6, live_elements: 9840}\n",
    };
    double ddp[2], same[2];
    (void)state;
    small_runs(WORLD, "distributed.strategy: ddp\n", train, ddp);
    assert_true(ddp[0] > 1 && ddp[1] > 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        small_runs(WORLD, lines[i], train, same);
        assert_memory_equal(ddp, same, sizeof(ddp));
    }
}

/* A critic from a reward model of another size: its own blocks count. */
static void a_critic_is_limited_by_its_own_blocks(void **state)
{
    struct dt_conf *conf =
        small_conf(ZERO3 "distributed.prefetch_elements: 9840\n"); /* 3 */
    struct dt_spec spec = {
        .conf = *conf, .world = WORLD, .exec = dt_exec_cpu()};
    struct dt_model_options options;
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_plan_resolve(&spec, &options, &err), 0);
    struct dt_model_config larger = spec.learner.config;
    larger.n_embd = 2 * C;
    larger.head_size = C;
    larger.n_inner = 4 * 2 * C;
    larger.text = NULL;
    spec.critic.config = larger;
    spec.critic.layout = dt_model_layout(&larger, WORLD, &err);
    assert_non_null(spec.critic.layout);
    struct dt_parallel_options parallel =
        dt_spec_parallel_options(&spec, DT_F32);
    assert_int_equal(parallel.prefetch, 4);
    parallel = dt_spec_critic_sharing(&spec, &parallel);
    assert_int_equal(parallel.prefetch, 2);
    dt_spec_fini(&spec);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_has_a_slot_for_each_block_that_is_allowed),
        cmocka_unit_test(a_run_allocates_what_is_planned),
        cmocka_unit_test(how_many_are_held_changes_no_bit),
        cmocka_unit_test(a_critic_is_limited_by_its_own_blocks),
    };
    return cmocka_run_group_tests_name("prefetch", tests, small_enter,
                                       small_leave);
}
