/* SPDX-License-Identifier: Apache-2.0 */
/* test_held_out.c - evaluations with completions of held-out prompts */
#include "config.h"

#include "sampling/sampling.h"
#include "tests/unit/sampled_run.h"

#define EVAL "data.eval: held.jsonl\n"
#define AHEAD STEP "rollout.overlap: 1\n"

enum { HELD = 5 };

static int enter(void **state)
{
    if (prompts_enter(state) < 0)
        return -1;
    FILE *file = fopen("held.jsonl", "w");
    for (int i = 0; i < HELD; i++)
        fprintf(file, "{\"prompt\": \"%c%d\"}\n", 'k' + i, i);
    return fclose(file);
}

static double value_of(const struct dt_report_eval *line, const char *name)
{
    for (size_t i = 0; i < line->values.count; i++)
        if (!strcmp(line->values.value[i].name, name))
            return line->values.value[i].value;
    return NAN;
}

/* --- one evaluation --- */

static int evaluate(struct dt_run *run, void *arg)
{
    struct dt_report_eval line = {0};
    struct dt_error err = {0};
    TRY(dt_run_evaluate_prompts(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        *(struct dt_report_eval *)arg = line;
    return 0;
}

/* The names belong to the run, which has ended. */
static struct dt_report_eval evaluated(int size, const char *lines)
{
    struct dt_report_eval line;
    small_runs(size, lines, evaluate, &line);
    return line;
}

static void assert_same(const struct dt_report_eval *a,
                        const struct dt_report_eval *b)
{
    assert_true(a->count == b->count);
    assert_int_equal(a->values.count, b->values.count);
    for (size_t i = 0; i < a->values.count; i++)
        assert_true(a->values.value[i].value == b->values.value[i].value);
}

static void all_worlds_and_strategies_have_the_same_numbers(void **state)
{
    struct dt_report_eval one = evaluated(1, STEP EVAL PRINTABLE), here;
    (void)state;
    assert_true(one.count == HELD);
    for (int size = 2; size <= 4; size *= 2) {
        here = evaluated(size, STEP EVAL PRINTABLE);
        assert_same(&here, &one);
    }
    here = evaluated(2, STEP EVAL PRINTABLE "distributed.zero_stage: 3\n");
    assert_same(&here, &one);
}

struct shares {
    double reward, flat, count;
};

static int share(struct dt_run *run, void *arg)
{
    struct shares *shares = arg;
    struct dt_report_eval line = {0};
    struct dt_error err = {0};
    TRY(dt_run_evaluate_prompts(run, &line, &err) == 0);
    shares->reward = value_of(&line, "reward");
    shares->flat = value_of(&line, "frac_reward_zero_std");
    shares->count = line.count;
    TRY(value_of(&line, "rewards/regex/mean") == shares->reward);
    TRY(value_of(&line, "completions/max_length") <= 8);
    return 0;
}

/* Copies of greedy completions are equal, others are not. */
static void completions_are_greedy_unless_a_temperature_is_given(void **state)
{
    struct shares shares;
    (void)state;
    small_runs(1, STEP EVAL PRINTABLE, share, &shares);
    assert_true(isnan(shares.flat) && shares.count == HELD);
    small_runs(1, STEP EVAL PRINTABLE "rollout.eval_generations: 8\n", share,
               &shares);
    assert_true(shares.flat == 1 && shares.count == 8 * HELD);
    small_runs(1,
               STEP EVAL PRINTABLE
               "rollout.eval_generations: 8\nrollout.eval_temperature: 1\n",
               share, &shares);
    assert_true(shares.flat < 1 && shares.reward > 0 && shares.reward < 1);
}

/* --- beside training --- */

struct end {
    uint64_t hash;
    bool evaluates;
};

static int train(struct dt_run *run, void *arg)
{
    struct end *end = arg;
    struct dt_report_step line;
    struct dt_report_eval eval;
    struct dt_error err = {0};
    for (int i = 0; i < 4; i++) {
        TRY(!end->evaluates || dt_run_evaluate_prompts(run, &eval, &err) == 0);
        TRY(small_step(run, &line, &err) == 0);
    }
    if (run->spec.rank == 0)
        end->hash = dt_experience_hash(&run->samples.experience);
    return 0;
}

static void an_evaluation_changes_nothing(void **state)
{
    static const char *const lines[] = {
        STEP EVAL PRINTABLE, AHEAD EVAL PRINTABLE, REUSED EVAL PRINTABLE};
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct end with = {.evaluates = true}, without = {0};
        small_runs(2, lines[i], train, &with);
        small_runs(2, lines[i], train, &without);
        assert_int_equal(with.hash, without.hash);
    }
}

/* --- what is held out --- */

static int count_prompts(struct dt_run *run, void *arg)
{
    size_t *counts = arg;
    counts[0] = dt_prompts_stats(run->data.prompts).count;
    counts[1] = dt_prompts_stats(run->data.held_out).count;
    return 0;
}

static void the_last_share_of_the_prompts_may_be_held_out(void **state)
{
    size_t counts[2];
    (void)state;
    small_runs(1, STEP PRINTABLE "data.validation_split: 0.3\n", count_prompts,
               counts);
    assert_int_equal(counts[0], PROMPTS - 3);
    assert_int_equal(counts[1], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_worlds_and_strategies_have_the_same_numbers),
        cmocka_unit_test(completions_are_greedy_unless_a_temperature_is_given),
        cmocka_unit_test(an_evaluation_changes_nothing),
        cmocka_unit_test(the_last_share_of_the_prompts_may_be_held_out),
    };
    return cmocka_run_group_tests(tests, enter, small_leave);
}
