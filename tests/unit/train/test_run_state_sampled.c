/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_state_sampled.c - the same for runs that sample, and for references
 * that follow: workers are killed and go on with what they have left
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#ifdef ENABLE_FAULT_INJECTION

/* Rank 0 writes down when it asks for rewards. */
int __real_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err);
int __wrap_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err);

int __wrap_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err)
{
    if (run->spec.rank == 0) {
        FILE *file = fopen("asked", "a");
        fprintf(file, "rewards of step %ld\n", step);
        fclose(file);
    }
    return __real_dt_scoring_begin(run, of, step, err);
}

static void a_run_goes_on_within_a_generation(void **state)
{
    static const struct lost grpo[] = {
        {{"train.step:step=3:kill", "samples.keep:step=5:kill",
          "state.commit:step=5:kill"},
         "0 2 4 4"},
        {{"state.settle:step=4:kill"}, "0 4"},
    };
    static const struct lost ppo[] = {
        {{"learner.update:step=3:nth=2:kill"}, "0 2"},
        {{"learner.update:step=3:nth=7:kill", "learner.update:nth=8:kill"},
         "0 2"},
    };
    (void)state;
    CHECK(1, GRPO "grpo.dynamic_sampling.enabled: true\n", grpo);
    CHECK(1, PPO BF16, ppo);
}

static const struct lost within[] = {
    {{"learner.update:step=3:nth=2:rank=0:kill",
      "samples.keep:step=5:rank=0:kill"},
     "0 2 4"},
};

static void ranks_go_on_within_a_generation(void **state)
{
    (void)state;
    CHECK(2, GRPO STRATEGY("zero2"), within);
    CHECK(2, PPO STRATEGY("zero3") BF16, within);
}

/* Rank 1 gets the generation from rank 0. */
static void a_rank_without_memory_gets_the_generation(void **state)
{
    (void)state;
    keeper.lost = 1 << 1;
    CHECK(2, GRPO STRATEGY("ddp"), within);
    CHECK(2, PPO STRATEGY("ddp"), within);
    keeper.lost = 0;
}

/* Their completions are of older weights, so nobody can sample them again. */
static void completions_that_were_sampled_ahead_are_kept(void **state)
{
    static const struct lost lost[] = {
        {{"samples.keep:step=3:rank=0:kill", "state.commit:step=3:rank=0:kill"},
         "0 2 2"},
    };
    (void)state;
    keeper.asks_again = true;
    CHECK(1, SAMPLED("grpo") SIXTEEN "rollout.overlap: 1\n", lost);
    keeper.lost = 1 << 1;
    CHECK(2, SAMPLED("grpo") SIXTEEN STRATEGY("ddp") "rollout.overlap: 1\n",
          lost);
    keeper.asks_again = false;
    keeper.lost = 0;
}

/* A run that resumes at step 3 has the generation of a checkpoint, and goes on
 * with it like with one of its own.
 */
static void go_on_after_resuming(int size, const char *lines)
{
    static const char *const faults[] = {"train.step:step=4:rank=0:kill",
                                         "state.commit:step=4:rank=0:kill"};
    char *want = undisturbed(size, lines);
    small_clean(NULL);
    begin(size, lines, true);
    keeper.conf->checkpoint.steps = 3;
    assert_false(start(faults[0]));
    keeper.lost = (1 << RANKS) - 1;
    lose_memory();
    keeper.lost = 0;
    for (int i = 0; i < 2; i++)
        assert_false(start(faults[i]));
    assert_true(start(NULL));
    end();
    char *got = left(), *begun = starts();
    assert_string_equal(got, want);
    assert_string_equal(begun, "0 3 3 3");
    free(begun);
    free(got);
    free(want);
}

static void so_it_is_after_resuming_within_a_generation(void **state)
{
    (void)state;
    go_on_after_resuming(1, GRPO "grpo.dynamic_sampling.enabled: true\n");
    go_on_after_resuming(2, GRPO STRATEGY("zero2"));
    go_on_after_resuming(1, PPO BF16);
    keeper.asks_again = true;
    go_on_after_resuming(2, SAMPLED("grpo") SIXTEEN "rollout.overlap: 1\n");
    keeper.asks_again = false;
}

/* It is moved after steps 2, 4 and 6, unit by unit. */
static void a_reference_that_follows_is_moved_once(void **state)
{
    static const struct lost lost[] = {
        {{"reference.move:step=2:nth=2:rank=0:kill",
          "reference.move:step=0:nth=1:rank=0:kill",
          "state.settle:step=4:rank=0:kill"},
         "0 1 4"},
    };
    (void)state;
    CHECK(1, PAIRS FOLLOWS("dpo") BF16, lost);
    CHECK(2, PAIRS FOLLOWS("dpo") STRATEGY("ddp"), lost);
    CHECK(2, GRPO FOLLOWS("grpo") "grpo.beta: 0.1\n" STRATEGY("zero3"), lost);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_goes_on_within_a_generation),
        TEST(ranks_go_on_within_a_generation),
        TEST(a_rank_without_memory_gets_the_generation),
        TEST(completions_that_were_sampled_ahead_are_kept),
        TEST(so_it_is_after_resuming_within_a_generation),
        TEST(a_reference_that_follows_is_moved_once),
    };
    return cmocka_run_group_tests_name("run_state_sampled", tests, enter,
                                       small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
