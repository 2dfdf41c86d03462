/* SPDX-License-Identifier: Apache-2.0 */
/* test_overlap.c - the next generation is sampled before this one is used */
#include "config.h"

#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/sampled_run.h"

#define PLAIN STEP "rollout.correction: none\n"
#define AHEAD STEP "rollout.overlap: 1\n"
#define UNCORRECTED PLAIN "rollout.overlap: 1\n"

/* --- which weights sample what --- */

enum { GENERATIONS = 4 };

struct hashes {
    uint64_t of[GENERATIONS];
    uint64_t skip; /* from here on prompts are those of the next generation */
    bool still;    /* weights stay as they are */
};

static int keep_hashes(struct dt_run *run, void *arg)
{
    struct hashes *hashes = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    if (hashes->still)
        run->learner.schedule.lr = 0;
    for (uint64_t i = 0; i < GENERATIONS; i++) {
        if (i == hashes->skip)
            run->samples.position += run->spec.sampling.groups;
        TRY(small_step(run, &line, &err) == 0);
        if (run->spec.rank == 0)
            hashes->of[i] = dt_experience_hash(&run->samples.experience);
    }
    return 0;
}

/* The same weights sample the next prompts, too, so that without an update the
 * first two generations are the same as ever. The third is of the weights after
 * one update, as the second is without overlap, if that has its prompts.
 */
static void completions_are_of_weights_one_step_old(void **state)
{
    struct hashes ahead = {.skip = GENERATIONS}, moved = {.skip = 1};
    struct hashes still = {.skip = GENERATIONS, .still = true};
    (void)state;
    small_runs(1, UNCORRECTED PRINTABLE, keep_hashes, &ahead);
    small_runs(1, PLAIN PRINTABLE, keep_hashes, &still);
    small_runs(1, PLAIN PRINTABLE, keep_hashes, &moved);
    assert_int_equal(ahead.of[0], still.of[0]);
    assert_int_equal(ahead.of[1], still.of[1]);
    assert_int_equal(ahead.of[2], moved.of[1]);
    assert_int_not_equal(ahead.of[2], still.of[2]);
}

/* --- while a step is trained --- */

static int look_ahead(struct dt_run *run, void *arg)
{
    const struct dt_samples *s = &run->samples;
    const double *value = run->progress.metrics.value;
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    run->total_steps = 3;
    TRY(small_step(run, &line, &err) == 0);
    TRY(value[DT_GRPO_SAMPLING_DIFF_MAX] <= 1e-5);
    TRY(s->scoring && s->ahead.groups == run->spec.sampling.groups);
    TRY(s->ahead.number[0] == run->spec.sampling.groups &&
        s->position == 2 * run->spec.sampling.groups);
    TRY(small_step(run, &line, &err) == 0);
    TRY(value[DT_GRPO_SAMPLING_DIFF_MAX] > 1e-3);
    TRY(value[DT_GRPO_SAMPLING_RATIO_MAX] > 1);
    TRY(value[DT_GRPO_RATIO_ERROR_MAX] == 0);
    TRY(s->scoring && s->position == 3 * run->spec.sampling.groups);
    TRY(small_step(run, &line, &err) == 0);
    TRY(!s->scoring && s->ahead.groups == 0);
    TRY(s->position == 3 * run->spec.sampling.groups);
    return 0;
}

static void rewards_have_a_step_and_nothing_is_sampled_for_none(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, AHEAD PRINTABLE, look_ahead, NULL);
}

/* --- strategies --- */

static void all_strategies_have_the_same_bits(void **state)
{
    struct hashes ddp = {.skip = GENERATIONS}, here = ddp;
    char lines[1024];
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        snprintf(lines, sizeof(lines), "%sdistributed.zero_stage: %d\n",
                 AHEAD PRINTABLE, stage);
        small_runs(2, lines, keep_hashes, stage == 0 ? &ddp : &here);
        if (stage > 0)
            assert_memory_equal(here.of, ddp.of, sizeof(ddp.of));
    }
}

/* --- saving --- */

static void a_run_resumes_at_every_step(void **state)
{
    (void)state;
    resumes_at_every_step(AHEAD PRINTABLE);
}

static bool stop_asked;

static bool is_stopped(void)
{
    return stop_asked;
}

/* Stops while generation 3 is sampled, and saves what was before. */
static int stop_ahead(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    const struct kept *kept = arg;
    run->stop = is_stopped;
    TRY(steps(run, kept->from, &line, &err) == 0);
    stop_asked = true;
    TRY(dt_run_queue_step(run, false, &err) == 1);
    TRY(run->samples.ahead.groups > 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    stop_asked = false;
    return 0;
}

static void a_run_that_was_stopped_in_a_rollout_resumes(void **state)
{
    struct kept kept = {.from = 2};
    (void)state;
    small_runs(1, AHEAD PRINTABLE, kept_go, &kept);
    small_runs(1, AHEAD PRINTABLE, stop_ahead, &kept);
    small_resume(1, AHEAD PRINTABLE, kept_resume, &kept);
    free(kept.weights);
}

static int save_two(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(steps(run, 2, &line, &err) == 0);
    TRY(run->samples.position == 3 * run->spec.sampling.groups);
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

/* Generation 2 is sampled again, by the weights of now. */
static int take_third(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(run->samples.ahead.groups == 0);
    TRY(steps(run, 3, &line, &err) == 0);
    TRY(run->samples.experience.number[0] == 4);
    return 0;
}

static void without_overlap_a_resumed_run_leaves_no_prompt_out(void **state)
{
    (void)state;
    small_runs(1, AHEAD PRINTABLE, save_two, NULL);
    small_resume(1, STEP PRINTABLE, take_third, NULL);
}

/* Generations of four prompts, too, go on behind the two that were used. */
static void other_sizes_resume_with_the_next_prompt(void **state)
{
    static const char *const others[] = {
        "training: {train_batch_size: 32, max_steps: 9, resume: auto}\n"
        "rollout.overlap: 1\n" PRINTABLE,
        AHEAD "grpo.num_generations: 4\n" PRINTABLE,
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        small_runs(1, AHEAD PRINTABLE, save_two, NULL);
        small_resume(1, others[i], take_third, NULL);
    }
}

/* --- learning --- */

static void rewards_rise(void **state)
{
    (void)state;
    assert_learned(2, LEARNING "rollout.overlap: 1\n" PRINTABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_of_weights_one_step_old),
        cmocka_unit_test(rewards_have_a_step_and_nothing_is_sampled_for_none),
        cmocka_unit_test(all_strategies_have_the_same_bits),
        cmocka_unit_test(a_run_resumes_at_every_step),
        cmocka_unit_test(a_run_that_was_stopped_in_a_rollout_resumes),
        cmocka_unit_test(without_overlap_a_resumed_run_leaves_no_prompt_out),
        cmocka_unit_test(other_sizes_resume_with_the_next_prompt),
        cmocka_unit_test(rewards_rise),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
