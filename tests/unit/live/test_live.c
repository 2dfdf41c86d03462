/* SPDX-License-Identifier: Apache-2.0 */
/* test_live.c - the state of a run in status.json, and its bar */
#include "config.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "live/bar.h"
#include "live/live.h"
#include "live/live_impl.h"
#include "live/state.h"
#include "tests/unit/scratch.h"
#include "tests/unit/turned_clock.h"

static struct dt_live *create(int world)
{
    struct dt_error err;
    struct dt_live *live = dt_live_create(
        &(struct dt_live_options){
            .name = "tiny", .algorithm = "sft", .world = world},
        &err);
    if (!live)
        fail_msg("%s", err.text);
    return live;
}

static const char *make_dir(const char *name)
{
    const char *path = scratch_path(name);
    mkdir(path, 0755);
    return path;
}

/* The state in a directory, as `disttrain top` reads it; static. */
static const struct dt_live_state *read_state(const char *dir)
{
    static struct dt_live_state state;
    char path[600];
    struct dt_error err;
    snprintf(path, sizeof(path), "%s/status.json", dir);
    char *text = dt_file_read(path, 1 << 20, &err);
    if (!text || dt_live_parse_status(&state, path, text, &err) < 0)
        fail_msg("%s", err.text);
    free(text);
    return &state;
}

static void a_run_is_read_back_as_it_was_told(void **state)
{
    const double compute[] = {0.1, 0.3, 0.2};
    const double mem[] = {1 << 20, 2 << 20, 1 << 20};
    const char *const hosts[] = {"n1", "n2", "n3"};
    const char *dir = make_dir("told");
    (void)state;
    setenv("SLURM_JOB_ID", "123", 1);
    setenv("SLURM_STEP_ID", "4", 1);
    struct dt_live *live = create(3);
    dt_live_publish(live, dir, NULL, NULL);
    dt_live_event(live, &(struct dt_report_event){
                            .kind = "start", .wall = 1.7e9, .spent = {1e-9}});
    dt_live_step(live, 10, 100);
    dt_live_step(live, 11, 100);
    dt_live_numbers(live,
                    &(struct dt_live_numbers){11, 0.5, 2.25, 1234, 5e9, 0.4,
                                              NAN, NAN, 0.75, 0.01, 42});
    dt_live_event(live, &(struct dt_report_event){.kind = "save",
                                                  .step = 11,
                                                  .wall = 1.7e9,
                                                  .seconds = 2.5,
                                                  .rank = -1,
                                                  .text = "saved \033[31m"});
    dt_live_event(live, &(struct dt_report_event){.kind = "straggler",
                                                  .step = 11,
                                                  .wall = dt_clock_wall(),
                                                  .rank = 1,
                                                  .host = "n2",
                                                  .text = "slow"});
    dt_live_event(live, &(struct dt_report_event){.kind = "straggler",
                                                  .step = 5,
                                                  .wall = 1.7e9,
                                                  .rank = 0,
                                                  .host = "n1",
                                                  .text = "long ago"});
    dt_live_hosts(live, hosts, 3);
    dt_live_ranks(
        live, &(struct dt_report_ranks){
                  .step = 11, .count = 3, .compute_s = compute, .mem = mem});
    dt_live_end(live, "failed", "rank 1 was lost");
    dt_live_destroy(live);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
    const struct dt_live_state *s = read_state(dir);
    assert_string_equal(s->name, "tiny");
    assert_true(s->numbers.reward == 0.75 && s->numbers.kl == 0.01 &&
                s->numbers.length == 42 && s->losses[0].reward == 0.75);
    assert_string_equal(s->algorithm, "sft");
    assert_string_equal(s->job, "123.4");
    assert_string_equal(s->status, "failed");
    assert_string_equal(s->verdict, "rank 1 was lost");
    assert_true(s->counts && s->step == 11 && s->total == 100);
    assert_true(s->numbers.loss == 2.25 && s->numbers.total_tokens == 5e9);
    assert_true(s->numbers.mfu == 0.4 && isnan(s->numbers.energy_j));
    assert_true(s->loss_count == 1 && s->losses[0].step == 11);
    assert_true(s->saved && s->save.step == 11 && s->save.seconds == 2.5);
    assert_string_equal(s->events[1].text, "saved ?[31m");
    assert_int_equal(s->row_count, 3);
    assert_int_equal(s->rows[0].rank, 1); /* slowest first */
    assert_string_equal(s->rows[0].host, "n2");
    assert_true(s->rows[0].mem == 2 << 20 && isnan(s->rows[0].power_w));
    assert_true(s->goodput >= 0 && s->goodput <= 1);
    assert_true(s->rows[0].straggler && !s->rows[1].straggler);
    assert_true(!s->rows[2].straggler);
}

static void only_the_newest_points_and_events_are_kept(void **state)
{
    const char *dir = make_dir("newest");
    (void)state;
    struct dt_live *live = create(1);
    dt_live_publish(live, dir, NULL, NULL);
    for (long i = 1; i <= 100; i++) {
        dt_live_numbers(
            live, &(struct dt_live_numbers){.step = i, .loss = (double)i});
        dt_live_event(live,
                      &(struct dt_report_event){.kind = "eval", .step = i});
        dt_live_event(live,
                      &(struct dt_report_event){.kind = "epoch", .step = i});
    }
    dt_live_destroy(live);
    const struct dt_live_state *s = read_state(dir);
    assert_int_equal(s->loss_count, DT_LIVE_LOSSES);
    assert_int_equal(s->losses[0].step, 41);
    assert_int_equal(s->losses[DT_LIVE_LOSSES - 1].step, 100);
    assert_int_equal(s->event_count, DT_LIVE_EVENTS);
    assert_int_equal(s->events[0].step, 96);
    assert_false(s->saved);
}

/* One step of 1 s among those of 1 ms must not matter. */
static void what_is_left_follows_the_median_step(void **state)
{
    const char *dir = make_dir("median");
    (void)state;
    struct dt_live *live = create(1);
    dt_live_publish(live, dir, NULL, NULL);
    dt_live_step(live, 0, 1000);
    for (long i = 1; i <= 20; i++) {
        dt_clock_sleep(i == 7 ? 0.5 : 0.002);
        dt_live_step(live, i, 1000);
    }
    dt_live_destroy(live);
    const struct dt_live_state *s = read_state(dir);
    assert_true(s->step_s >= 0.002 && s->step_s < 0.25);
    assert_true(s->left_s >= 0.002 * 980 && s->left_s < 0.25 * 980);
    assert_true(s->elapsed_s >= 0.5);
}

/* An evaluation is no part of a step, also not of those that follow it, and of
 * the time that is left it is: steps of 10 s, and two evaluations of 100 s.
 */
static void phases_between_steps_count_for_what_is_left_alone(void **state)
{
    const char *dir = make_dir("phases");
    (void)state;
    struct dt_live *live = create(1);
    dt_live_publish(live, dir, NULL, NULL);
    dt_live_step(live, 0, 10);
    for (long i = 1; i <= 8; i++) {
        if (i <= 2) {
            dt_live_phase(live, DT_ACCOUNT_EVALUATION, "evaluating");
            turned_s += 100;
            dt_live_phase(live, DT_ACCOUNT_STEPS, NULL);
        }
        turned_s += 10;
        dt_live_step(live, i, 10);
    }
    dt_live_destroy(live);
    turned_s = 0;
    const struct dt_live_state *s = read_state(dir);
    assert_true(s->step_s > 9 && s->step_s < 100);
    assert_true(s->left_s > 2 * (9 + 200 / 8.0));
}

/* Of this process from its beginning, and of those before it. */
static void time_is_in_the_part_of_its_phase(void **state)
{
    static const struct dt_account earlier = {
        .sums =
            {.known = true,
             .starts = 1,
             .seconds = {[DT_ACCOUNT_STARTUP] = 7, [DT_ACCOUNT_STEPS] = 100}},
        .wall = 1.7e9,
        .allocation = "7",
        .mark = {{0, 0}, {10, 100}},
        .marks = 2,
        .reached = 10};
    struct dt_account_sums sums;
    struct dt_error err;
    const struct dt_live_options options = {
        .name = "tiny", .world = 1, .began = dt_clock_now() - 40};
    struct dt_report_event start = {
        .kind = "resume", .step = 5, .allocation = "7"};
    (void)state;
    struct dt_live *live = dt_live_create(&options, &err);
    assert_non_null(live);
    dt_live_earlier(live, &earlier);
    dt_live_spent(live, start.spent);
    start.wall = 1.7e9 + start.spent[DT_ACCOUNT_STARTUP] + 3;
    dt_live_event(live, &start);
    static const struct {
        enum dt_account_part part;
        const char *phase;
        time_t seconds;
    } phases[] = {{DT_ACCOUNT_STEPS, NULL, 50},
                  {DT_ACCOUNT_DATA, NULL, 20},
                  {DT_ACCOUNT_STEPS, NULL, 50},
                  {DT_ACCOUNT_SAVING, "saving", 4},
                  {DT_ACCOUNT_EVALUATION, "evaluating", 6}};
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        dt_live_phase(live, phases[i].part, phases[i].phase);
        turned_s += phases[i].seconds;
    }
    dt_live_sums(live, &sums);
    turned_s = 0;
    dt_live_destroy(live);
    static const double wanted[DT_ACCOUNT_PARTS] = {
        [DT_ACCOUNT_STARTUP] = 7,    [DT_ACCOUNT_STEPS] = 150,
        [DT_ACCOUNT_DATA] = 20,      [DT_ACCOUNT_SAVING] = 4,
        [DT_ACCOUNT_EVALUATION] = 6, [DT_ACCOUNT_RECOVERY] = 43,
        [DT_ACCOUNT_LOST] = 50};
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++)
        if (!(fabs(sums.seconds[i] - wanted[i]) < 2))
            fail_msg("%s: %g, expected %g", dt_account_names[i],
                     sums.seconds[i], wanted[i]);
    assert_int_equal(sums.redone, 5);
}

static void before_step_1_the_phase_is_known(void **state)
{
    const char *dir = make_dir("phase");
    (void)state;
    struct dt_live *live = create(1);
    dt_live_publish(live, dir, NULL, NULL);
    dt_live_phase(live, DT_ACCOUNT_STARTUP, "loading weights");
    dt_live_destroy(live);
    const struct dt_live_state *s = read_state(dir);
    assert_string_equal(s->phase, "loading weights");
    assert_string_equal(s->status, "running");
    assert_false(s->counts);
    assert_true(isnan(s->left_s));
}

static long file_bytes(const char *dir)
{
    char path[600];
    struct stat st;
    snprintf(path, sizeof(path), "%s/status.json", dir);
    return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

/* 64 KiB, with the longest hosts: a row each up to 256 ranks, then one a host.
 */
static void a_large_world_fits_the_file(void **state)
{
    static double values[4096];
    static char names[4096][DT_LIVE_NAME];
    const char *hosts[4096];
    const char *dir = make_dir("large");
    (void)state;
    for (size_t i = 0; i < 4096; i++) {
        snprintf(names[i], sizeof(names[i]),
                 "a-very-long-name-of-a-host-in-some-cluster-that-is-%04zu",
                 i / 8);
        hosts[i] = names[i];
        values[i] = 0.1234567 + (double)i;
    }
    for (size_t count = 256; count <= 4096; count += 3840) {
        struct dt_live *live = create((int)count);
        dt_live_publish(live, dir, NULL, NULL);
        dt_live_hosts(live, hosts, count);
        for (long i = 0; i < 100; i++)
            dt_live_numbers(live, &(struct dt_live_numbers){.step = 1000000 + i,
                                                            .loss = 1.234567});
        dt_live_ranks(live, &(struct dt_report_ranks){1000000, 0, count, values,
                                                      values, values, values,
                                                      values});
        dt_live_destroy(live);
        assert_in_range(file_bytes(dir), 1000, 64 * 1024);
        const struct dt_live_state *s = read_state(dir);
        assert_int_equal(s->row_count, 256);
        assert_int_equal(s->rows_left_out, count == 256 ? 0 : 256);
        assert_int_equal(s->rows[0].rank, count == 256 ? 255 : 4088);
        assert_int_equal(s->rows[0].count, count == 256 ? 1 : 8);
        if (count > 256) { /* means of times, the largest memory */
            assert_true(fabs(s->rows[0].compute_s - 4092) < 1);
            assert_true(fabs(s->rows[0].mem - 4095.123) < 0.01);
        }
    }
}

/* The reader sees a whole file at any moment. */
static void the_file_is_replaced_and_never_rewritten(void **state)
{
    char path[600];
    struct dt_error err;
    struct stat before, after;
    static struct dt_live_state live = {.name = "x"};
    const char *dir = make_dir("replaced");
    (void)state;
    snprintf(path, sizeof(path), "%s/status.json", dir);
    assert_int_equal(dt_live_write_status(&live, dir, &err), 0);
    assert_int_equal(stat(path, &before), 0);
    FILE *held = fopen(path, "r"); /* so that its inode is not used again */
    assert_int_equal(dt_live_write_status(&live, dir, &err), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino != after.st_ino);
    fclose(held);
    snprintf(path, sizeof(path), "%s/status.json.new", dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void what_cannot_be_written_says_why(void **state)
{
    struct dt_error err;
    static struct dt_live_state live = {.name = "x"};
    (void)state;
    assert_int_equal(dt_live_write_status(&live, "/nonexistent", &err), -1);
    assert_string_equal(err.text, "/nonexistent/status.json.new: cannot "
                                  "create: No such file or directory");
}

static void a_file_of_something_else_is_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{}", "f: expected the state of a run: an object with \"version\": 1"},
        {"[1]",
         "f: expected the state of a run: an object with \"version\": 1"},
        {"{\"version\": 2}",
         "f: expected the state of a run: an object with \"version\": 1"},
        {"{\"version\": 1, \"step\"", "f:1:"},
        {"", "f:1:"},
    };
    static struct dt_live_state live;
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(dt_live_parse_status(&live, "f", cases[i].text, &err),
                         -1);
        if (strncmp(err.text, cases[i].error, strlen(cases[i].error)) != 0)
            fail_msg("%s", err.text);
    }
}

static void members_of_other_types_are_unknown(void **state)
{
    static struct dt_live_state s;
    struct dt_error err;
    (void)state;
    assert_int_equal(
        dt_live_parse_status(
            &s, "f",
            "{\"version\": 1, \"step\": \"x\", \"loss\": [], \"name\": 5, "
            "\"losses\": [1, [2], [3, null]], \"events\": [null], "
            "\"ranks\": {\"a\": 1}, \"user\": \"a\\u0007b\\u009bc\"}",
            &err),
        0);
    assert_false(s.counts);
    assert_true(isnan(s.numbers.loss));
    assert_string_equal(s.name, "");
    assert_int_equal(s.loss_count, 3);
    assert_true(isnan(s.losses[2].loss));
    assert_int_equal(s.row_count, 0);
    assert_null(strchr(s.user, '\a'));
    assert_null(strstr(s.user, "\xc2\x9b"));
}

/* As `promtool check metrics` wants it: HELP, TYPE and a value for each, a
 * counter's name ends in _total, labels are escaped, there are no times.
 */
static void prometheus_gets_what_its_format_allows(void **state)
{
    static struct dt_live_state s = {.name = "a\"b\\c\nd",
                                     .job = "5.0",
                                     .user = "me",
                                     .counts = true,
                                     .step = 7,
                                     .total = 9,
                                     .step_s = 0.25};
    char *text = NULL, name[64], type[16], *line, *rest;
    size_t bytes;
    int metrics = 0;
    (void)state;
    s.numbers = (struct dt_live_numbers){7,   1,   2.5, NAN, 1e15, NAN,
                                         NAN, NAN, NAN, NAN, NAN};
    FILE *out = open_memstream(&text, &bytes);
    dt_prometheus_print(&s, out);
    fclose(out);
    assert_non_null(strstr(text, "\ndisttrain_step{job=\"5.0\",user=\"me\","
                                 "name=\"a\\\"b\\\\c\\nd\"} 7\n"));
    assert_non_null(strstr(text, "} 1e+15\n"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "energy"));
    assert_int_equal(text[bytes - 1], '\n');
    for (rest = text; (line = strsep(&rest, "\n")) && *line; metrics++) {
        assert_int_equal(sscanf(line, "# HELP %63s", name), 1);
        line = strsep(&rest, "\n");
        assert_int_equal(sscanf(line, "# TYPE %*s %15s", type), 1);
        assert_ptr_equal(strstr(line + 7, name), line + 7);
        bool total = strcmp(name + strlen(name) - 6, "_total") == 0;
        assert_string_equal(type, total ? "counter" : "gauge");
        line = strsep(&rest, "\n");
        assert_int_equal(strncmp(line, name, strlen(name)), 0);
        assert_int_equal(line[strlen(name)], '{');
        assert_null(strchr(strchr(line, '}') + 2, ' ')); /* no time */
    }
    assert_int_equal(metrics, 8);
    free(text);
}

static void the_file_for_prometheus_goes_with_the_run(void **state)
{
    struct dt_error err;
    const char *dir = make_dir("prometheus"), *logs = make_dir("plogs");
    char path[600];
    (void)state;
    setenv("SLURM_JOB_ID", "8", 1);
    setenv("SLURM_STEP_ID", "1", 1);
    struct dt_live *live = dt_live_create(
        &(struct dt_live_options){
            .name = "tiny", .algorithm = "sft", .world = 1, .prometheus = dir},
        &err);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
    snprintf(path, sizeof(path), "%s/disttrain_8_1.prom", dir);
    dt_live_publish(live, logs, NULL, NULL);
    for (int i = 0; i < 1000 && access(path, F_OK) != 0; i++)
        dt_clock_sleep(0.01);
    assert_int_equal(access(path, F_OK), 0);
    dt_live_destroy(live);
    assert_int_equal(access(path, F_OK), -1);
}

static void files_of_killed_runs_are_removed(void **state)
{
    static const char *const names[] = {"disttrain_1_0.prom",
                                        "disttrain_2_0.prom", "others.prom",
                                        "disttrain_1_0.txt"};
    const struct timespec old[2] = {{.tv_sec = 1700000000},
                                    {.tv_sec = 1700000000}};
    char path[64];
    (void)state;
    make_dir("killed");
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "killed/%s", names[i]);
        scratch_write(path, "", 0);
        if (i != 1)
            utimensat(AT_FDCWD, scratch_path(path), old, 0);
    }
    dt_prometheus_clean(scratch_path("killed"));
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "killed/%s", names[i]);
        assert_int_equal(access(scratch_path(path), F_OK), i == 0 ? -1 : 0);
    }
    dt_prometheus_clean("/nowhere");
}

static void the_bar_is_that_of_tqdm(void **state)
{
    static const struct {
        int columns;
        bool utf8;
        const char *text;
    } cases[] = {
        {80, false,
         " 37%|####        | 370/1000 [01:02<01:45, 5.9 step/s, loss 2.13, "
         "12.3k tokens/s]"},
        {62, false,
         " 37%|###       | 370/1000 [01:02<01:45, 5.9 step/s, loss 2.13]"},
        {40, true, " 37%|████       | 370/1000 [01:02<01:45]"},
        {20, false, " 37%|#    | 370/1000"},
        {15, false, " 37% 370/1000"},
        {6, false, " 37% 3"},
    };
    char text[DT_BAR_BYTES];
    struct dt_bar bar = {"", 370, 1000, NAN, 62, 105, 1 / 5.9, 2.13, 12345};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dt_bar_format(&bar, cases[i].columns, cases[i].utf8, text);
        assert_string_equal(text, cases[i].text);
    }
    strcpy(bar.phase, "evaluating");
    dt_bar_format(&bar, 60, false, text);
    assert_ptr_equal(strstr(text, "evaluating:  37%|"), text);
    bar.total = 0;
    bar.phase_s = 3;
    dt_bar_format(&bar, 60, false, text);
    assert_string_equal(text, "evaluating [00:03]");
}

static void the_bar_never_exceeds_its_columns(void **state)
{
    char text[DT_BAR_BYTES];
    const struct dt_bar bars[] = {
        {"saving a checkpoint", 1, 3, 1, 4000, NAN, 61.234, 1e-9, 1e30},
        {"", 999999999, 1000000000, 0, 1e9, 1e9, 1e-6, NAN, NAN},
        {"loading weights", 0, 0, 5, NAN, NAN, NAN, NAN, NAN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bars) / sizeof(*bars); i++)
        for (int columns = 1; columns < 150; columns++) {
            dt_bar_format(&bars[i], columns, false, text);
            if ((int)strlen(text) > columns)
                fail_msg("%d columns: \"%s\"", columns, text);
        }
}

static void counts_and_times_have_three_digits(void **state)
{
    static const struct {
        double count;
        const char *text;
    } cases[] = {{0, "0"},          {12.34, "12.3"},  {999.4, "999"},
                 {999.6, "1.00k"},  {12345, "12.3k"}, {123456, "123k"},
                 {999700, "1.00M"}, {NAN, "-"},       {4.2e9, "4.20G"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dt_bar_count(cases[i].count, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
    dt_bar_time(3723, text, sizeof(text));
    assert_string_equal(text, "1:02:03");
    dt_bar_time(NAN, text, sizeof(text));
    assert_string_equal(text, "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_read_back_as_it_was_told),
        cmocka_unit_test(only_the_newest_points_and_events_are_kept),
        cmocka_unit_test(what_is_left_follows_the_median_step),
        cmocka_unit_test(phases_between_steps_count_for_what_is_left_alone),
        cmocka_unit_test(time_is_in_the_part_of_its_phase),
        cmocka_unit_test(before_step_1_the_phase_is_known),
        cmocka_unit_test(a_large_world_fits_the_file),
        cmocka_unit_test(the_file_is_replaced_and_never_rewritten),
        cmocka_unit_test(what_cannot_be_written_says_why),
        cmocka_unit_test(a_file_of_something_else_is_refused),
        cmocka_unit_test(members_of_other_types_are_unknown),
        cmocka_unit_test(prometheus_gets_what_its_format_allows),
        cmocka_unit_test(the_file_for_prometheus_goes_with_the_run),
        cmocka_unit_test(files_of_killed_runs_are_removed),
        cmocka_unit_test(the_bar_is_that_of_tqdm),
        cmocka_unit_test(the_bar_never_exceeds_its_columns),
        cmocka_unit_test(counts_and_times_have_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
