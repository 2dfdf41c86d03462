/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_state.c - runs whose workers are killed and go on with the memory
 * that they have left
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#include "tests/unit/stderr_text.h"

#ifdef ENABLE_FAULT_INJECTION

/* The first block is a tower, and frozen, if keeper.splits. */
struct dt_layout *__real_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);
struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);
int __real_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err);
int __wrap_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err);

struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err)
{
    struct dt_layout *layout = __real_dt_model_layout(config, world, err);
    if (layout && keeper.splits)
        layout->units[1].part = DT_PART_VISION;
    return layout;
}

int __wrap_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err)
{
    spec->freezes[DT_PART_VISION] = keeper.splits;
    return __real_dt_learner_divide(spec, world, err);
}

/* --- the claims --- */

#define STATE16 "optimizer.state_dtype: bf16\n"

static void a_step_is_ended_wherever_it_was(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=3:kill"}, "0 2"},
        {{"state.prepare:step=3:kill"}, "0 2"},
        {{"state.commit:step=3:kill"}, "0 2"},
        {{"learner.update:step=3:nth=1:kill"}, "0 2"},
        {{"learner.update:step=3:nth=3:kill"}, "0 2"},
        {{"state.settle:step=3:kill"}, "0 3"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static void a_save_is_made_again(void **state)
{
    static const struct lost lost[] = {
        {{"ckpt.write:step=4:nth=3:kill"}, "0 3"},
        {{"ckpt.rename:step=4:nth=2:kill"}, "0 3"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static void a_worker_that_ends_a_step_may_be_killed(void **state)
{
    static const struct lost lost[] = {
        {{"learner.update:step=3:nth=2:kill", "learner.update:nth=3:kill",
          "state.settle:nth=2:kill"},
         "0 2 4"},
        {{"state.commit:step=2:kill", "state.commit:kill", "state.commit:kill"},
         "0 1"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static const struct lost updates[] = {
    {{"learner.update:step=3:nth=2:kill"}, "0 2"},
};

static void so_it_is_for_all_that_is_trained(void **state)
{
    static const char *const lines[] = {
        TEXT BF16,
        TEXT STATE16,
        TEXT "precision: {compute: fp16, loss_scale_window: 2}\n",
        "algorithm: sft\nmodel.path: base\n" LORA ROWS_HELD TAKE,
        PAIRS,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CHECK(1, lines[i], updates);
}

static void so_it_is_beside_frozen_parts(void **state)
{
    (void)state;
    keeper.splits = true;
    CHECK(1, TEXT BF16, updates);
    keeper.splits = false;
}

/* One rank has begun to update, and the other has not. */
static const struct lost apart[] = {
    {{"learner.update:step=3:nth=2:rank=1:kill"}, "0 2"},
    {{"state.commit:step=3:rank=0:kill"}, "0 2"},
};

static void ranks_end_a_step_together(void **state)
{
    static const struct lost all[] = {
        {{"train.step:step=3:rank=1:kill"}, "0 2"},
        {{"state.prepare:step=3:rank=0:kill"}, "0 2"},
        {{"state.commit:step=3:rank=1:kill"}, "0 2"},
    };
    static const char *const lines[] = {
        TEXT STRATEGY("ddp") BF16,      TEXT STRATEGY("zero1"),
        TEXT STRATEGY("zero3") BF16,    PAIRS STRATEGY("zero3"),
        TEXT STRATEGY("zero1") STATE16,
    };
    (void)state;
    CHECK(2, TEXT STRATEGY("ddp"), all);
    CHECK(2, TEXT STRATEGY("zero2") BF16, apart);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        check(2, lines[i], &apart[i % 2], 1);
}

static void groups_of_ranks_do_so(void **state)
{
    (void)state;
    keeper.two_nodes = true;
    check(4, TEXT STRATEGY("zero3") BF16, &apart[0], 1);
    check(4, TEXT STRATEGY("zero2"), &apart[1], 1);
    keeper.two_nodes = false;
}

/* The checkpoint is that of step 4. */
static void a_rank_without_memory_gets_a_copy(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=6:rank=0:kill"}, "0 5"},
        {{"state.commit:step=6:rank=0:kill"}, "0 5"},
        {{"learner.update:step=6:nth=2:rank=1:kill"}, "0 5"},
    };
    static const struct lost first[] = {
        {{"learner.update:step=6:nth=2:rank=0:kill", "state.copy:kill",
          "learner.update:nth=2:rank=0:kill"},
         "0 5"},
    };
    (void)state;
    keeper.lost = 1 << 1;
    CHECK(2, TEXT STRATEGY("ddp") BF16, lost);
    keeper.lost = 1 << 0;
    CHECK(2, PAIRS STRATEGY("ddp"), first);
    keeper.lost = 0;
}

static void without_a_copy_all_read_a_checkpoint(void **state)
{
    static const struct lost lost[] = {
        {{"state.commit:step=6:rank=0:kill"}, "0 4"},
    };
    (void)state;
    keeper.lost = 3;
    CHECK(2, TEXT STRATEGY("ddp"), lost);
    keeper.lost = 1 << 1;
    CHECK(2, TEXT STRATEGY("zero1"), lost);
    keeper.two_nodes = true;
    CHECK(4, TEXT STRATEGY("zero3"), lost);
    keeper.two_nodes = false;
    keeper.lost = 0;
}

/* Rank 0 says that bits differ, and marks its memory. At the next start rank 1
 * is killed before it has cleared its own. Nobody gets a copy of that.
 */
static void memory_that_was_given_up_is_never_used_again(void **state)
{
    static const struct lost lost[] = {
        {{"replica.m:rank=1:step=6:error,state.forget:rank=0:kill",
          "state.clear:rank=1:kill"},
         "0 4"},
    };
    (void)state;
    CHECK(2, TEXT STRATEGY("ddp") "distributed.check_replicas: 1\n", lost);
}

/* What ranks say that are started again after rank 0 was lost in step 6. */
static void restart_says(const char *lines, unsigned lost, const char *words)
{
    char text[4096];
    small_clean(NULL);
    begin(2, lines, true);
    assert_false(start("train.step:step=6:rank=0:kill"));
    keeper.lost = lost;
    lose_memory();
    keeper.lost = 0;
    keeper.conf->training.restarted = true;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    const bool done = start(NULL);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    end();
    assert_true(done);
    if (!strstr(text, words))
        fail_msg("%s", text);
}

static void ranks_say_what_they_continue_with(void **state)
{
    (void)state;
    restart_says(TEXT STRATEGY("ddp"), 0,
                 "continuing after step 5 with the memory of the processes "
                 "before\n");
    restart_says(TEXT STRATEGY("ddp"), 1 << 1,
                 "continuing after step 5 with the memory of the processes "
                 "before, of which 1 rank gets a copy\n");
    restart_says(TEXT STRATEGY("zero1"), 1 << 1,
                 "the run cannot continue where it was: 1 rank has lost memory "
                 "of which no other rank has a copy\n");
    restart_says(TEXT "distributed: {strategy: zero2, offload_optimizer: "
                      "{device: nvme, path: .}}\n",
                 0,
                 "the run cannot continue where it was: offloaded state is "
                 "lost with a process\n");
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_is_ended_wherever_it_was),
        TEST(a_save_is_made_again),
        TEST(a_worker_that_ends_a_step_may_be_killed),
        TEST(so_it_is_for_all_that_is_trained),
        TEST(so_it_is_beside_frozen_parts),
        TEST(ranks_end_a_step_together),
        TEST(groups_of_ranks_do_so),
        TEST(a_rank_without_memory_gets_a_copy),
        TEST(without_a_copy_all_read_a_checkpoint),
        TEST(memory_that_was_given_up_is_never_used_again),
        TEST(ranks_say_what_they_continue_with),
    };
    return cmocka_run_group_tests_name("run_state", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
