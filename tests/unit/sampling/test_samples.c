/* SPDX-License-Identifier: Apache-2.0 */
/* test_samples.c - what a run that samples writes and warns of */
#include "config.h"

#include <errno.h>
#include <sys/stat.h>

#include <jansson.h>

#include "sampling/sampling.h"
#include "train/train.h"
#include "tests/unit/count.h"
#include "tests/unit/sampled_run.h"
#include "tests/unit/said.h"

/* --- the log of samples --- */

enum { COPIES = 8, LOGGED = 2 };

/* A completion of the generation that is there. */
static int check_line(const struct dt_run *run, const char *text, size_t row)
{
    const struct dt_experience *e = &run->samples.experience;
    struct dt_error err = {0};
    json_t *line = json_loads(text, JSON_ALLOW_NUL, NULL), *ids;
    const char *end;
    double reward, advantage;
    int number, copy;
    TRY(line);
    TRY(json_unpack(line, "{s:i, s:i, s:{s:F}, s:F, s:s, s:o, s:{s:s}}",
                    "number", &number, "copy", &copy, "rewards", "regex",
                    &reward, "advantage", &advantage, "end", &end, "ids", &ids,
                    "columns", "answer", &(char *){0}) == 0);
    TRY(json_is_string(json_object_get(line, "prompt")));
    TRY(json_is_string(json_object_get(line, "completion")));
    TRY(number == (int)e->number[row / COPIES] && copy == (int)row % COPIES);
    TRY(reward == e->rewards[row] && advantage == e->advantages[row]);
    TRY(!strcmp(end, e->end[row] == DT_END_LENGTH ? "length" : "eos"));
    TRY(json_array_size(ids) == (size_t)e->count[row]);
    for (int t = 0; t < e->count[row]; t++)
        TRY(json_integer_value(json_array_get(ids, (size_t)t)) ==
            e->ids[e->at[row] + (size_t)t]);
    json_decref(line);
    return 0;
}

static int read_samples(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    char *text = NULL;
    size_t room = 0, rows = 0;
    (void)arg;
    TRY(steps(run, 4, &line, &err) == 0);
    if (run->spec.rank > 0)
        return 0;
    TRY(access("out/logs/samples-1.jsonl", F_OK) == 0);
    TRY(access("out/logs/samples-2.jsonl", F_OK) < 0);
    FILE *file = fopen("out/logs/samples-4.jsonl", "r");
    TRY(file);
    while (getline(&text, &room, file) > 0)
        if (check_line(run, text, rows++) < 0)
            return -1;
    TRY(rows == LOGGED * COPIES);
    fclose(file);
    free(text);
    return 0;
}

static void samples_are_logged_with_all_that_was_made_of_them(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size,
                   STEP PRINTABLE "rollout.log_every: 3\n"
                                  "rollout.log_samples: 2\n",
                   read_samples, NULL);
}

static int go_without_a_place(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(mkdir("out/logs/samples-1.jsonl", 0777) == 0);
    errno = EBADF; /* of something before, and no reason */
    TRY(steps(run, 2, &line, &err) == 0);
    TRY(rmdir("out/logs/samples-1.jsonl") == 0);
    return 0;
}

static void a_log_that_cannot_be_written_costs_a_warning(void **state)
{
    const char *text;
    (void)state;
    text = said(1, STEP PRINTABLE, go_without_a_place);
    assert_int_equal(count_of(text, "out/logs/samples-1.jsonl: samples are not "
                                    "logged: Is a directory"),
                     1);
}

/* --- warnings --- */

static int go(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(steps(run, 7, &line, &err) == 0);
    return 0;
}

#define FLAT "reward: {functions: [{type: regex, pattern: \"(?s).*\"}]}\n"

static void runs_that_learn_nothing_are_warned_of(void **state)
{
    const char *text;
    (void)state;
    for (int size = 1; size <= 2; size++) {
        text = said(size, STEP FLAT, go);
        assert_int_equal(
            count_of(text, "5 generations in a row had equal rewards"), 1);
        assert_int_equal(
            count_of(text, "more than 90 % of their completions cut"), 1);
    }
    text = said(1, STEP PRINTABLE, go);
    assert_int_equal(count_of(text, "equal rewards"), 0);
    assert_int_equal(count_of(text, "no update has changed"), 0);
}

static int disagree(struct dt_run *run, void *arg)
{
    struct dt_metrics metrics;
    (void)arg;
    dt_metrics_clear(run->spec.algo, &metrics);
    metrics.value[run->spec.algo->metric_count - 2] = 8; /* tokens */
    metrics.value[DT_GRPO_SAMPLING_DIFF_MEAN] = 8 * 0.05;
    metrics.value[DT_GRPO_RATIO_ERROR_MAX] = 1e-5;
    dt_run_warn_disagreement(run, &metrics);
    metrics.value[DT_GRPO_SAMPLING_DIFF_MEAN] = 8 * 0.25;
    dt_run_warn_disagreement(run, &metrics);
    metrics.value[DT_GRPO_RATIO_ERROR_MAX] = 0.5;
    dt_run_warn_disagreement(run, &metrics);
    run->samples.disagrees = false;
    dt_run_warn_disagreement(run, &metrics);
    return 0;
}

static void a_trainer_that_is_not_the_sampler_is_warned_of(void **state)
{
    const char *text = said(1, STEP PRINTABLE, disagree);
    (void)state;
    assert_int_equal(count_of(text, "sampling_logp_difference/mean is 0.25 "
                                    "(expected: at most 0.1) for tokens that "
                                    "no update has changed yet"),
                     2);
    assert_int_equal(count_of(text, "ratio_error_max is 0.5 (expected: at most "
                                    "0.01) for tokens"),
                     1);
}

/* --- signals --- */

static bool is_told(void)
{
    return true;
}

/* Rank 1 is told to stop while it reads prompts, which each rank does. */
static int begin_stopped(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_run run = {.stop = world->rank == 1 ? is_told : NULL};
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = dt_run_init(&run, arg, &exec, comm, 2, &err);
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    return rc < 0 && err.status == EX_TEMPFAIL ? 0 : -1;
}

static void all_ranks_end_if_one_is_told_to_while_it_reads_prompts(void **state)
{
    (void)state;
    struct dt_conf *conf = small_conf(STEP PRINTABLE);
    world_threads(2, begin_stopped, conf);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_logged_with_all_that_was_made_of_them),
        cmocka_unit_test(a_log_that_cannot_be_written_costs_a_warning),
        cmocka_unit_test(runs_that_learn_nothing_are_warned_of),
        cmocka_unit_test(a_trainer_that_is_not_the_sampler_is_warned_of),
        cmocka_unit_test(
            all_ranks_end_if_one_is_told_to_while_it_reads_prompts),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
