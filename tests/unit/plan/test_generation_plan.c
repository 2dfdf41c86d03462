/* SPDX-License-Identifier: Apache-2.0 */
/* test_generation_plan.c - what sampling and scoring take, as a run plans it */
#include "config.h"

#include "plan/predict.h"
#include "plan/plan.h"
#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/ppo_run.h"

#define LINES                                                                  \
    "training: {train_batch_size: 16, max_steps: 9}\n"                         \
    "ppo: {epochs: 2, num_mini_batches: 2}\n"
#define SHARED "ppo.critic.share_backbone: true\n"
#define MODEL "reward.functions: [{type: model, name: rm, path: reward}]\n"
#define NO_REFERENCE "ppo.kl_coef: 0\n"
#define SLOTS "rollout.slots: 16\n"

/* --- a device that counts what it has given --- */

static size_t held;

static int allocate(size_t bytes, void **data, struct dt_error *err)
{
    held += bytes;
    return dt_cpu.allocate(bytes, data, err);
}

static void release(void *data, size_t bytes)
{
    held -= bytes;
    dt_cpu.release(data, bytes);
}

/* The plan of a run with these lines, in a world of one, where several
 * documents are one row.
 */
static struct dt_plan planned(const struct dt_conf *conf)
{
    struct dt_spec spec = {.conf = *conf, .world = 1, .exec = dt_exec_cpu()};
    struct dt_model_options options;
    struct dt_error err = {0};
    if (dt_plan_resolve(&spec, &options, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(options.T > (size_t)conf->data.max_length);
    assert_int_equal(options.document, conf->data.max_length);
    struct dt_plan plan = dt_plan_make(&spec, &options);
    dt_spec_fini(&spec);
    return plan;
}

/* Two steps of a run, the second of which has seen every buffer; *arg: the
 * bytes that it holds then.
 */
static int hold(const struct dt_comm_world *world, void *arg)
{
    const struct small_world *small = arg;
    static struct dt_device counting;
    counting = dt_cpu;
    counting.allocate = allocate;
    counting.release = release;
    struct dt_exec exec = dt_exec_cpu();
    exec.device = &counting;
    struct dt_error err = {0};
    struct dt_run whole = {.spec.world = 1}, *run = &whole;
    struct dt_comm *comm = small_comm(world, &err);
    TRY(comm);
    TRY(dt_run_init(run, small->conf, &exec, comm, 1, &err) == 0);
    TRY(go_to(run, 2, &err) == 0);
    *(size_t *)small->arg = held;
    dt_run_fini(run);
    dt_comm_destroy(comm);
    return held == 0 ? 0 : -1;
}

/* Bytes that such a run holds beside its plan: scalars of steps, and where
 * AdamW's decay begins.
 */
static size_t beside_plan(const char *lines)
{
    size_t bytes = 0;
    struct small_world small = {.conf = small_conf(lines), .arg = &bytes};
    struct dt_plan plan = planned(small.conf);
    small_clean(NULL);
    world_threads(1, hold, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
    size_t total = dt_plan_total(&plan) - plan.batches;
    if (bytes < total || bytes - total > 4096)
        fail_msg("planned %zu, held %zu", total, bytes);
    return bytes - total;
}

static int save(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

/* A critic is a reward model. */
static void make_reward_model(void)
{
    small_runs(1, LINES PRINTABLE, save, NULL);
    assert_int_equal(rename("out/checkpoints/checkpoint-0/critic", "reward"),
                     0);
}

static void bytes_are_planned_to_the_last_one(void **state)
{
    (void)state;
    make_reward_model();
    size_t rules = beside_plan(LINES PRINTABLE NO_REFERENCE SHARED);
    assert_int_equal(beside_plan(LINES PRINTABLE SHARED), rules);
    assert_int_equal(beside_plan(LINES MODEL SHARED), rules);
    /* more slots than activations have room for */
    assert_int_equal(beside_plan(LINES PRINTABLE SHARED "rollout.slots: 64\n"),
                     rules);
    /* a second learner has as much beside it */
    assert_in_range(beside_plan(LINES MODEL), rules + 1, 2 * rules);
}

static void a_reward_model_is_in_the_plan(void **state)
{
    (void)state;
    struct dt_conf *with = small_conf(LINES MODEL);
    struct dt_conf *without = small_conf(LINES PRINTABLE);
    const struct dt_plan a = planned(with), b = planned(without);
    assert_int_equal(b.rewards, 0);
    assert_true(a.rewards > a.weights);
    assert_int_equal(dt_plan_total(&a) - dt_plan_total(&b), a.rewards);
    dt_conf_destroy(with);
    dt_conf_destroy(without);
}

/* --- time --- */

/* Round numbers: reading is free, then computing is. */
static const struct dt_rates computes = {.of = {[DT_RATE_BLOCKS_FP32] = 1e9,
                                                [DT_RATE_HEAD_FP32] = 1e9,
                                                [DT_RATE_MEMORY] = 1e18}};
static const struct dt_rates reads = {.of = {[DT_RATE_BLOCKS_FP32] = 1e18,
                                             [DT_RATE_HEAD_FP32] = 1e18,
                                             [DT_RATE_MEMORY] = 1e9}};

static struct dt_generation_plan generation(const char *lines,
                                            const struct dt_rates *rates)
{
    struct dt_conf *conf = small_conf(lines);
    struct dt_spec spec = {.conf = *conf, .world = 1, .exec = dt_exec_cpu()};
    struct dt_model_options options;
    struct dt_error err = {0};
    if (dt_plan_resolve(&spec, &options, &err) < 0)
        fail_msg("%s", err.text);
    struct dt_generation_plan plan =
        dt_generation_plan_make(&spec, &options, rates, 1);
    dt_spec_fini(&spec);
    dt_conf_destroy(conf);
    return plan;
}

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 0.01 * fabs(b))
        fail_msg("%g, expected %g", a, b);
}

/* The model has 32 channels and a layer of 12 * 32^2 weights in matrices. 16
 * prompts of 4 tokens take 4 positions each; 8 steps have 16 rows, which look
 * at 4 + 4.5 tokens on average.
 */
static void computing_takes_its_operations(void **state)
{
    const double W = 12 * 32 * 32, head = 257 * 32, all = 16 * 8;
    (void)state;
    struct dt_generation_plan plan =
        generation(LINES PRINTABLE NO_REFERENCE SLOTS, &computes);
    assert_int_equal(plan.completions, 16);
    assert_int_equal(plan.uses, 4);
    assert_int_equal(plan.slots, 16);
    assert_int_equal(plan.bytes, 16 * 32 * 2 * 32 * 4);
    assert_near(plan.prefill, 16 * 4 * (2 * W + 4 * 32 * 2.5) / 1e9);
    assert_near(plan.decode, all * (2 * W + 2 * head + 4 * 32 * 8.5) / 1e9);
    assert_true(plan.scoring == 0 && plan.gather == 0);
    /* 16 rows of 12 tokens through the policy and the critic, 8 of which have
     * values */
    assert_near(plan.before,
                16 * (2 * 12 * (2 * W + 4 * 32 * 6.5) + 8 * 2 * head) / 1e9);
}

/* Each step reads all weights once, whatever its rows, and what is cached. */
static void reading_takes_the_bytes_of_weights_and_cache(void **state)
{
    const double W = 12 * 32 * 32, head = 257 * 32;
    (void)state;
    struct dt_generation_plan plan =
        generation(LINES PRINTABLE NO_REFERENCE SLOTS, &reads);
    assert_near(plan.decode,
                8 * 4 * (W + head + 16 * 2 * 32 * 8.5 + 16 * 3 * 257.0) / 1e9);
    /* half as many slots: twice as many steps of the same weights */
    struct dt_generation_plan half =
        generation(LINES PRINTABLE NO_REFERENCE "rollout.slots: 8\n", &reads);
    assert_int_equal(half.slots, 8);
    assert_true(half.decode > 1.3 * plan.decode);
}

static void a_reward_model_takes_its_forward_pass(void **state)
{
    (void)state;
    struct dt_generation_plan plan = generation(LINES MODEL, &computes);
    /* 13 tokens, with the one that ends a text */
    assert_near(plan.scoring,
                16 * 13 * (2 * 12 * 32 * 32 + 4 * 32 * 7.0) / 1e9);
}

static void the_reference_takes_a_pass_too(void **state)
{
    (void)state;
    struct dt_generation_plan with = generation(LINES PRINTABLE, &computes);
    struct dt_generation_plan shared =
        generation(LINES PRINTABLE NO_REFERENCE SHARED, &computes);
    struct dt_generation_plan both =
        generation(LINES PRINTABLE SHARED, &computes);
    assert_near(both.before, 2 * shared.before);
    assert_true(with.before > both.before); /* and the critic's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_planned_to_the_last_one),
        cmocka_unit_test(a_reward_model_is_in_the_plan),
        cmocka_unit_test(computing_takes_its_operations),
        cmocka_unit_test(reading_takes_the_bytes_of_weights_and_cache),
        cmocka_unit_test(a_reward_model_takes_its_forward_pass),
        cmocka_unit_test(the_reference_takes_a_pass_too),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
