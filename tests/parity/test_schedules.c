/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedules.c - learning rates of files are those of transformers */
#include "config.h"

#include <math.h>

#include <jansson.h>

#include "run/numerics.h"
#include "tests/unit/conf.h"

static json_t *cases; /* what make_schedule_reference.py wrote */

static int setup(void **state)
{
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/parity/schedules.json",
             srcdir ? srcdir : ".");
    cases = json_load_file(path, 0, NULL);
    return cases ? enter_directory(state) : -1;
}

static int teardown(void **state)
{
    json_decref(cases);
    return leave_directory(state);
}

/* The schedule of 100 steps in a file with these lines. */
static struct dt_schedule schedule_of(const char *lines, int world)
{
    char text[1024];
    struct dt_error err;
    snprintf(text, sizeof(text), LEAST "lr: 1e-3\nmax_steps: 100\n%s", lines);
    struct dt_conf *conf = load_good(text, "");
    assert_int_equal(dt_conf_resolve_steps(conf, 100, &err), 0);
    struct dt_schedule schedule = dt_run_schedule(conf, world, 100);
    dt_conf_destroy(conf);
    return schedule;
}

/* A case in Hugging Face's words. */
static struct dt_schedule schedule_of_case(const json_t *one)
{
    char lines[512];
    const char *name = json_string_value(json_object_get(one, "name"));
    long warmup = (long)json_integer_value(json_object_get(one, "warmup"));
    char *keys = json_dumps(json_object_get(one, "keys"), 0);
    bool warms = strcmp(name, "constant") != 0;
    snprintf(lines, sizeof(lines),
             "training:\n  lr_scheduler_type: %s\n  warmup_steps: %ld\n"
             "  lr_scheduler_kwargs: %s\n",
             name, warms ? warmup : 0, keys);
    free(keys);
    return schedule_of(lines, 1);
}

static void schedules_give_the_rates_of_transformers(void **state)
{
    size_t i, bad = 0;
    json_t *one;
    (void)state;
    assert_true(json_array_size(cases) >= 20);
    json_array_foreach(cases, i, one)
    {
        struct dt_schedule schedule = schedule_of_case(one);
        const json_t *wanted = json_object_get(one, "lr");
        assert_int_equal(json_array_size(wanted), 100);
        for (long k = 0; k < 100; k++) {
            double want = json_real_value(json_array_get(wanted, (size_t)k));
            double got = dt_schedule_lr(&schedule, k);
            if (fabs(got - want) > 1e-13 && bad++ < 10)
                fprintf(stderr, "case %zu, step %ld: got %.14g, not %.14g\n", i,
                        k, got, want);
        }
    }
    assert_int_equal(bad, 0);
}

/* A ratio of the run means what the number of steps means. */
static void a_ratio_means_the_same_as_its_number_of_steps(void **state)
{
    static const char *const lines[][2] = {
        {"warmup_steps: 7\n", "warmup_steps: 0.065\n"},
        {"warmup_steps: 7\n", "warmup_ratio: 0.065\n"},
        {"scheduler: {name: warmup_stable_decay, decay_steps: 20}\n",
         "scheduler: {name: warmup_stable_decay, decay_steps: 0.2}\n"},
        {"scheduler: {name: nanogpt, min_lr: 1e-4}\n",
         "scheduler: {name: nanogpt}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct dt_schedule one = schedule_of(lines[i][0], 1);
        struct dt_schedule two = schedule_of(lines[i][1], 1);
        for (long k = 0; k < 100; k++)
            assert_true(dt_schedule_lr(&one, k) == dt_schedule_lr(&two, k));
    }
}

static void the_learning_rate_scales_with_the_world_size(void **state)
{
    const char *const lines = "lr_scaling: linear\nlr_scheduler_type: "
                              "cosine_with_min_lr\nmin_lr: 1e-4\n";
    struct dt_schedule s = schedule_of(lines, 4);
    struct dt_conf *conf;
    char note[160];
    (void)state;
    assert_true(fabs(dt_schedule_lr(&s, 0) - 4e-3) < 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 100) - 4e-4) < 1e-15);
    conf = load_good(LEAST "lr_scaling: linear\n", "");
    dt_run_lr_note(conf, 4, note, sizeof(note));
    assert_string_equal(note, "lr 2e-05 x 4 (linear, world 4) = 8e-05");
    dt_conf_destroy(conf);
    conf = load_good(LEAST "lr_scaling: sqrt\nlr_scaling_ref_world: 8\n", "");
    assert_true(dt_run_lr_factor(conf, 32) == 2);
    dt_run_lr_note(conf, 2, note, sizeof(note));
    assert_string_equal(note, "lr 2e-05 x 0.5 (sqrt, world 2 instead of 8) = "
                              "1e-05");
    dt_conf_destroy(conf);
    conf = load_good(LEAST, "");
    assert_true(dt_run_lr_factor(conf, 32) == 1);
    dt_run_lr_note(conf, 32, note, sizeof(note));
    assert_string_equal(note, "");
    dt_conf_destroy(conf);
}

/* DeepSpeed's, in the words of its own files. */
static void schedules_of_deepspeed_keep_their_shape(void **state)
{
    struct dt_schedule s =
        schedule_of("scheduler:\n  type: WarmupDecayLR\n  params:\n"
                    "    warmup_min_lr: 1e-4\n    warmup_max_lr: 5e-3\n"
                    "    warmup_num_steps: 10\n    warmup_type: linear\n"
                    "    total_num_steps: 100\n",
                    1);
    (void)state;
    assert_true(dt_schedule_lr(&s, 0) == 1e-4);
    assert_true(dt_schedule_lr(&s, 1) == 1e-4);
    assert_true(fabs(dt_schedule_lr(&s, 6) - (1e-4 + 4.9e-3 * .5)) < 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 11) - 5e-3) < 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 56) - (1e-4 + 4.9e-3 * .5)) < 1e-15);
    s = schedule_of("scheduler: {type: WarmupCosineLR, params: "
                    "{cos_min_ratio: 0.1, warmup_min_ratio: 0.2, "
                    "warmup_num_steps: 10}}\n",
                    1);
    assert_true(dt_schedule_lr(&s, 0) == 0);
    assert_true(fabs(dt_schedule_lr(&s, 1) - 2e-4) < 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 55) - 5.5e-4) < 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 100) - 1e-4) < 1e-15);
}

/* A run of `total` steps, and what is said of it. */
static struct dt_schedule short_schedule(const char *lines, long total,
                                         const char *wanted)
{
    char text[512], note[256];
    snprintf(text, sizeof(text), LEAST "lr: 1e-3\n%s", lines);
    struct dt_conf *conf = load_good(text, "");
    assert_int_equal(dt_conf_resolve_steps(conf, total, NULL), 0);
    struct dt_schedule schedule = dt_run_schedule(conf, 1, total);
    dt_run_schedule_note(&schedule, conf->training.max_steps, note,
                         sizeof(note));
    assert_string_equal(note, wanted);
    dt_conf_destroy(conf);
    return schedule;
}

static void what_the_file_is_warned_of_is_not_said_again(void **state)
{
    char note[256];
    struct dt_conf *conf = load_good(
        LEAST "warmup_steps: 5\nmax_steps: 3\n",
        "t.yaml:5:15: scheduler.warmup_steps: E110 longer than the run of 3 "
        "steps\n");
    (void)state;
    assert_int_equal(dt_conf_resolve_steps(conf, 3, NULL), 0);
    struct dt_schedule schedule = dt_run_schedule(conf, 1, 3);
    dt_run_schedule_note(&schedule, 3, note, sizeof(note));
    assert_string_equal(note, "");
    dt_conf_destroy(conf);
}

/* Warm-up begins at rate 0: a ratio of a short run must leave a step to learn
 * in, and one that is given in steps says what it does.
 */
static void a_short_warm_up_still_leaves_a_step_to_learn_in(void **state)
{
    static const char *const names[] = {"linear", "cosine", "inverse_sqrt",
                                        "constant_with_warmup"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char lines[128];
        snprintf(lines, sizeof(lines),
                 "scheduler: {name: %s, warmup_ratio: 0.03}\n", names[i]);
        struct dt_schedule s = short_schedule(lines, 1, "");
        assert_int_equal(s.warmup, 0);
        assert_true(dt_schedule_lr(&s, 0) == 1e-3);
        s = short_schedule(lines, 2, ""); /* as transformers has it */
        assert_int_equal(s.warmup, 1);
        assert_true(dt_schedule_lr(&s, 1) == 1e-3);
    }
    assert_int_equal(short_schedule("warmup_steps: 0.9\n", 3, "").warmup, 2);
    assert_int_equal(short_schedule("warmup_ratio: 0.9\n", 20, "").warmup, 18);
    short_schedule("warmup_steps: 5\n", 1,
                   "E110 the model will not change: the run ends at step 1 "
                   "of 5 of the warm-up, and its learning rate is always 0; "
                   "train for more steps or lower scheduler.warmup_steps");
    short_schedule("scheduler: {name: WarmupLR, warmup_num_steps: 10}\n", 2,
                   "E110 the model will not change: the run ends at step 2 "
                   "of 10 of the warm-up, and its learning rate is always 0; "
                   "train for more steps or lower scheduler.warmup_steps");
    short_schedule("warmup_steps: 5\n", 5,
                   "E110 the run ends after 5 of 5 steps of warm-up");
    short_schedule("scheduler: {name: nanogpt, warmup_steps: 5}\n", 3,
                   "E110 the run ends after 3 of 5 steps of warm-up");
    short_schedule("warmup_steps: 5\nmax_steps: 5\n", 5,
                   "E110 the run ends after 5 of 5 steps of warm-up");
    short_schedule("warmup_steps: 5\n", 6, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_give_the_rates_of_transformers),
        cmocka_unit_test(a_ratio_means_the_same_as_its_number_of_steps),
        cmocka_unit_test(the_learning_rate_scales_with_the_world_size),
        cmocka_unit_test(schedules_of_deepspeed_keep_their_shape),
        cmocka_unit_test(a_short_warm_up_still_leaves_a_step_to_learn_in),
        cmocka_unit_test(what_the_file_is_warned_of_is_not_said_again),
    };
    return cmocka_run_group_tests_name("schedules", tests, setup, teardown);
}
