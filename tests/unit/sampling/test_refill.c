/* SPDX-License-Identifier: Apache-2.0 */
/* test_refill.c - prompts whose completions teach nothing are replaced */
#include "config.h"

#include "sampling/sampling.h"
#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/sampled_run.h"

/* One of eight bytes is what these completions need to begin with, so that
 * more than half of the groups of four have none.
 */
#define RARE "reward: {functions: [{type: regex, pattern: \"(?s)[ -?].*\"}]}\n"
#define REPLACES                                                               \
    REUSED "grpo.dynamic_sampling: {enabled: true, max_refills: 40}\n"

/* --- one generation, in any world --- */

struct first {
    uint64_t hash, position;
    size_t flat;
    double refill[DT_REFILL_NUMBERS];
};

static size_t count_flat(const struct dt_run *run)
{
    const struct dt_advantage_options options =
        dt_advantage_options(&run->spec.conf);
    struct dt_group_rewards r;
    struct dt_error err = {0};
    bool flat[64];
    size_t count = SIZE_MAX;
    if (dt_group_rewards_init(&r, &run->samples, &run->samples.experience,
                              &err) == 0)
        count = dt_advantage_find_flat(&options, &r.table, r.rewards, flat);
    dt_group_rewards_fini(&r);
    return count;
}

static int sample_first(struct dt_run *run, void *arg)
{
    struct first *first = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    TRY(run->samples.experience.groups == run->spec.sampling.groups);
    TRY(run->progress.position == run->samples.position);
    if (run->spec.rank > 0)
        return 0;
    first->hash = dt_experience_hash(&run->samples.experience);
    first->position = run->samples.position;
    first->flat = count_flat(run);
    memcpy(first->refill, run->samples.refill, sizeof(first->refill));
    return 0;
}

static void groups_of_equal_rewards_are_replaced_in_any_world(void **state)
{
    struct first one = {0}, plain;
    (void)state;
    small_runs(1, REUSED RARE, sample_first, &plain);
    assert_int_equal(plain.position, 4);
    assert_in_range(plain.flat, 1, 3);
    for (int size = 1; size <= 4; size *= 2) {
        struct first here;
        small_runs(size, REPLACES RARE, sample_first, &here);
        if (size == 1)
            one = here;
        assert_int_equal(here.flat, 0);
        assert_true(here.position >= 4 + plain.flat);
        assert_true(here.refill[DT_REFILL_PROMPTS] == (double)here.position);
        assert_int_equal(here.hash, one.hash);
        assert_int_equal(here.position, one.position);
        assert_memory_equal(here.refill, one.refill, sizeof(one.refill));
    }
    assert_true(one.refill[DT_REFILL_ROUNDS] >= 1);
    assert_true(one.refill[DT_REFILL_FLAT] ==
                1 - 4 / one.refill[DT_REFILL_PROMPTS]);
    assert_in_range((int)(100 * one.refill[DT_REFILL_REWARD]), 5, 25);
}

/* --- what cannot be replaced --- */

static int sample_equal(struct dt_run *run, void *arg)
{
    const struct dt_samples *s = &run->samples;
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(s->experience.groups == 4 && s->position == 16);
    for (size_t g = 0; g < 4; g++)
        TRY(s->experience.number[g] == g);
    TRY(s->refill[DT_REFILL_ROUNDS] == 3);
    TRY(s->refill[DT_REFILL_PROMPTS] == 16);
    TRY(s->refill[DT_REFILL_FLAT] == 1);
    TRY(s->refill[DT_REFILL_REWARD] == 1);
    TRY(line.grad_norm == 0);
    return 0;
}

static void after_the_last_try_the_first_prompts_stay(void **state)
{
    (void)state;
    small_runs(2,
               REUSED
               "grpo.dynamic_sampling: {enabled: true, max_refills: 3}\n"
               "reward: {functions: [{type: regex, pattern: \"(?s).*\"}]}\n",
               sample_equal, NULL);
}

/* --- saving --- */

static void a_run_resumes_at_every_step(void **state)
{
    (void)state;
    resumes_at_every_step(REPLACES RARE);
}

static long asked, stop_at; /* questions whether to stop; 0: never */

static bool is_stopped(void)
{
    return ++asked == stop_at;
}

enum { STOPPED = 4 }; /* steps, after which a generation is made */

/* How often the generation asks, and what the run comes to. */
static int ask(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    run->stop = is_stopped;
    TRY(steps(run, STOPPED, &line, &err) == 0);
    asked = 0;
    TRY(steps(run, STOPPED + 1, &line, &err) == 0);
    stop_at = asked * 9 / 10;
    TRY(run->samples.refill[DT_REFILL_ROUNDS] > 1);
    return kept_go(run, arg);
}

static int stop_late(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(steps(run, STOPPED, &line, &err) == 0);
    run->stop = is_stopped;
    asked = 0;
    TRY(dt_run_queue_step(run, false, &err) == 1);
    TRY(asked >= stop_at);
    TRY(run->samples.position == run->progress.position);
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

static void a_run_that_was_stopped_in_a_refill_resumes(void **state)
{
    struct kept kept = {.from = STOPPED + 1};
    (void)state;
    stop_at = 0;
    small_runs(1, REPLACES RARE, ask, &kept);
    small_runs(1, REPLACES RARE, stop_late, NULL);
    kept.from = STOPPED;
    small_resume(1, REPLACES RARE, kept_resume, &kept);
    free(kept.weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_equal_rewards_are_replaced_in_any_world),
        cmocka_unit_test(after_the_last_try_the_first_prompts_stay),
        cmocka_unit_test(a_run_resumes_at_every_step),
        cmocka_unit_test(a_run_that_was_stopped_in_a_refill_resumes),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
