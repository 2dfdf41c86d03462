/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - metrics.jsonl, the console lines, the failure line */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "report/report.h"

static char dir[64], path[128];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/dt-test-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return dt_file_remove_tree(dir, NULL);
}

static int columns; /* of the console */

static struct dt_report *create(long first_step, bool console)
{
    const struct dt_report_options options = {.dir = dir,
                                              .first_step = first_step,
                                              .resumes = first_step > 0,
                                              .console = console,
                                              .columns = columns};
    struct dt_error err;
    struct dt_report *report = dt_report_create(&options, &err);
    if (!report)
        fail_msg("%s", err.text);
    return report;
}

static void step(struct dt_report *report, long n, double loss)
{
    const struct dt_report_step line = {
        .step = n,
        .total_steps = 10,
        .epoch = 0.5,
        .loss = loss,
        .lr = 1e-3,
        .grad_norm = 2.0,
        .tokens = 100,
        .seconds = 0.5,
        .values = {1, {{"kl", 0.25, false}}},
        .costs = {2, {{"mem", 1e10, false}, {"mfu", NAN, false}}}};
    dt_report_step(report, &line);
}

/* Runs `body` with descriptor fd going to a file; returns what came. */
static char *captured(int fd, void (*body)(void))
{
    char file[128];
    snprintf(file, sizeof(file), "%s/captured", dir);
    fflush(stdout);
    int saved = dup(fd);
    assert_non_null(freopen(file, "w", fd == 1 ? stdout : stderr));
    body();
    fflush(stdout);
    assert_int_equal(dup2(saved, fd), fd);
    close(saved);
    return dt_file_read(file, 4096, NULL);
}

static void steps_and_evaluations_are_lines_of_json(void **state)
{
    struct dt_error err;
    (void)state;
    struct dt_report *report = create(0, false);
    step(report, 1, 3.25);
    step(report, 2, NAN);
    dt_report_eval(
        report, &(struct dt_report_eval){.step = 2, .loss = 2.0, .count = 64});
    dt_report_eval(report, &(struct dt_report_eval){
                               .step = 3,
                               .count = 8,
                               .of = DT_REPORT_COMPLETIONS,
                               .values = {1, {{"reward", 0.5, true}}}});
    assert_int_equal(dt_report_sync(report, &err), 0);
    dt_report_destroy(report);

    char *text = dt_file_read(path, 4096, &err);
    assert_non_null(text);
    char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_non_null(strstr(text, "{\"step\": 1, \"split\": \"train\", "
                                 "\"epoch\": 0.5, \"loss\": 3.25, "
                                 "\"lr\": 0.001, \"grad_norm\": 2, "
                                 "\"tokens_per_s\": 200, \"kl\": 0.25, "
                                 "\"mem\": 10000000000, \"mfu\": null, "
                                 "\"time\": "));
    assert_non_null(strstr(second, "\"loss\": null"));
    assert_non_null(strstr(third, "{\"step\": 2, \"split\": \"eval\", "
                                  "\"loss\": 2, \"perplexity\": 7.3890561, "
                                  "\"tokens\": 64"));
    assert_non_null(strstr(third, "{\"step\": 3, \"split\": \"eval\", "
                                  "\"completions\": 8, \"reward\": 0.5"));
    json_t *object = json_loadb(text, (size_t)(second - text), 0, NULL);
    double age =
        dt_clock_wall() - json_real_value(json_object_get(object, "wall"));
    assert_non_null(object);
    assert_true(age > -0.01 && age < 600);
    json_decref(object);
    free(text);
}

/* The second line does not fit: it is lost, and the third is written. */
static void a_full_disk_loses_whole_lines_only(void **state)
{
    struct rlimit before, limit;
    struct dt_error err;
    (void)state;
    struct dt_report *report = create(0, false);
    step(report, 1, 1.0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 300;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    step(report, 2, 2.0);
    step(report, 3, 3.0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    step(report, 4, 4.0);
    assert_int_equal(dt_report_sync(report, &err), 0);
    dt_report_destroy(report);
    char *text = dt_file_read(path, 4096, &err);
    assert_non_null(text);
    char *second = strchr(text, '\n') + 1;
    assert_memory_equal(text, "{\"step\": 1,", 11);
    assert_memory_equal(second, "{\"step\": 4,", 11);
    assert_string_equal(strchr(second, '\n'), "\n");
    free(text);
}

static void a_fifo_for_metrics_is_refused(void **state)
{
    const struct dt_report_options options = {.dir = dir};
    struct dt_error err;
    (void)state;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(dt_report_create(&options, &err));
    assert_non_null(strstr(err.text, "metrics.jsonl: not a regular file"));
    unlink(path);
}

/* A run that is resumed at step 2 writes step 3 and the torn line again. */
static void a_resumed_run_cuts_what_it_writes_again(void **state)
{
    static const char old[] = "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n"
                              "{\"step\": 4";
    struct dt_error err;
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(old, f);
    fclose(f);
    struct dt_report *report = create(2, false);
    step(report, 3, 1.0);
    dt_report_destroy(report);
    char *text = dt_file_read(path, 4096, &err);
    assert_memory_equal(text, old, 24);
    assert_memory_equal(text + 24, "{\"step\": 3, \"split\"", 19);
    free(text);

    report = create(0, false); /* a run that starts anew keeps nothing */
    dt_report_destroy(report);
    text = dt_file_read(path, 4096, &err);
    assert_string_equal(text, "");
    free(text);
}

static void resume_damaged(void)
{
    struct dt_report *report = create(5, false);
    step(report, 6, 1.0);
    dt_report_destroy(report);
}

static void a_damaged_line_costs_nothing_but_itself(void **state)
{
    static const char old[] = "{\"step\": 1}\n{\"step\": 2, \"lo\n{\"st\"\n"
                              "{\"step\": 3}\n\n{\"step\": 5}\n{\"step\": 6}\n"
                              "{\"step\": 4}\n{\"st\"\n",
                      kept[] = "{\"step\": 5}\n";
    struct dt_error err;
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(old, f);
    fclose(f);
    char *said = captured(STDERR_FILENO, resume_damaged);
    assert_non_null(strstr(said, "/metrics.jsonl:2: not a line of JSON with "
                                 "a step, skipped, and others after it\n"));
    assert_non_null(strstr(said, "/metrics.jsonl:7: of a later step than a "
                                 "line below it, removed\n"));
    assert_non_null(strstr(said, "/metrics.jsonl:9: not a line of JSON with "
                                 "a step, removed\n"));
    free(said);
    size_t n = (size_t)(strstr(old, kept) - old) + strlen(kept);
    char *text = dt_file_read(path, 4096, &err);
    assert_memory_equal(text, old, n);
    n += strlen(kept);
    assert_memory_equal(text + n - strlen(kept), "{\"step\": 4}\n", 12);
    assert_memory_equal(text + n, "{\"step\": 6, \"split\"", 19);
    assert_null(strchr(strchr(text + n, '\n') + 1, '\n'));
    free(text);
}

/* A NUL over the end of a line joins it with the next one. */
static void a_nul_in_a_line_is_damage(void **state)
{
    static const char old[] = "{\"step\": 1}\n{\"step\": 2}\0{\"step\": 3}\n"
                              "{\"step\": 4}\n";
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(old, 1, sizeof(old) - 1, f);
    fclose(f);
    char *said = captured(STDERR_FILENO, resume_damaged);
    assert_non_null(strstr(said, "/metrics.jsonl:2: not a line of JSON with "
                                 "a step, skipped\n"));
    free(said);
}

static const char *goes_to;

static void print_removed(void)
{
    struct dt_report *report = create(0, false);
    step(report, 1, 1.0);
    assert_int_equal(goes_to ? rename(path, goes_to) : unlink(path), 0);
    step(report, 2, 1.0);
    step(report, 3, 1.0);
    dt_report_destroy(report);
}

static void a_removed_or_moved_file_is_made_anew(void **state)
{
    char moved[128];
    struct dt_error err;
    (void)state;
    snprintf(moved, sizeof(moved), "%s/moved", dir);
    for (int i = 0; i < 2; i++) {
        goes_to = i ? moved : NULL;
        char *said = captured(STDERR_FILENO, print_removed);
        assert_non_null(
            strstr(said, "/metrics.jsonl: was removed or moved during the run; "
                         "it is created again, without"));
        free(said);
        char *text = dt_file_read(path, 4096, &err);
        assert_memory_equal(text, "{\"step\": 2,", 11);
        assert_non_null(strstr(text, "\n{\"step\": 3,"));
        free(text);
    }
    char *text = dt_file_read(moved, 4096, &err);
    assert_memory_equal(text, "{\"step\": 1,", 11);
    assert_null(strstr(text, "\n{"));
    free(text);
}

static void a_report_in_a_missing_directory_is_refused(void **state)
{
    const struct dt_report_options options = {.dir = "/nowhere"};
    struct dt_error err;
    (void)state;
    assert_null(dt_report_create(&options, &err));
    assert_string_equal(err.text, "/nowhere/metrics.jsonl: cannot open: "
                                  "No such file or directory");
    assert_int_equal(err.status, EX_CANTCREAT);
}

static void print_lines(void)
{
    struct dt_report *report = create(0, true);
    const struct dt_report_summary summary = {.steps = 2,
                                              .seconds = 61.0,
                                              .tokens = 200,
                                              .measure = "loss",
                                              .first = 3.0,
                                              .last = 2.5,
                                              .eval_loss = NAN,
                                              .peak_bytes = (size_t)1 << 30,
                                              .output = "out/latest"};
    step(report, 1, 3.0);
    dt_report_note(report, "saved %d", 1);
    dt_report_summary(report, &summary);
    dt_report_destroy(report);
}

static void the_console_shows_progress_and_a_summary(void **state)
{
    (void)state;
    char *text = captured(STDOUT_FILENO, print_lines);
    assert_non_null(strstr(text, "step 1/10  loss 3.0000  lr 0.001  "
                                 "grad norm 2  200 tokens/s  left 00:0"));
    assert_non_null(strstr(text, "\nsaved 1\ndone: 2 steps in 01:01, 3 "
                                 "tokens/s, peak memory of rank 0 1.00 GiB\n"
                                 "loss 3.0000 -> 2.5000\n"
                                 "model: out/latest\n"));
    free(text);
}

static void print_mean_of_nothing(void)
{
    const struct dt_report_step line = {
        .step = 1,
        .total_steps = 10,
        .lr = 1e-3,
        .values = {2, {{"entropy", -NAN, true}, {"reward", 0.5, true}}}};
    struct dt_report *report = create(0, true);
    dt_report_step(report, &line);
    dt_report_destroy(report);
}

static void a_mean_of_nothing_is_left_out(void **state)
{
    (void)state;
    char *text = captured(STDOUT_FILENO, print_mean_of_nothing);
    assert_non_null(
        strstr(text, "step 1/10  loss 0.0000  reward 0.5  lr 0.001"));
    free(text);
}

static void print_step(void)
{
    struct dt_report *report = create(0, true);
    step(report, 1, 3.0);
    dt_report_destroy(report);
}

static void a_line_fits_above_its_bar(void **state)
{
    static const struct {
        int columns;
        const char *line;
    } cases[] = {
        {61, "step 1/10  loss 3.0000  lr 0.001  grad norm 2  200 tokens/s\n"},
        {46, "step 1/10  loss 3.0000  lr 0.001  grad norm 2\n"},
        {45, "step 1/10  loss 3.0000  lr 0.001  grad norm 2\n"},
        {44, "step 1/10  loss 3.0000  lr 0.001\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        columns = cases[i].columns;
        char *text = captured(STDOUT_FILENO, print_step);
        assert_string_equal(text, cases[i].line);
        free(text);
    }
    columns = 0;
}

static void print_rewards(void)
{
    struct dt_report *report = create(0, true);
    struct dt_report_summary summary = {.steps = 2,
                                        .measure = "reward",
                                        .first = 0.25,
                                        .last = 1,
                                        .eval_loss = NAN};
    dt_report_summary(report, &summary);
    summary.kl = (struct dt_report_value){"objective/kl", 3.25, false};
    dt_report_summary(report, &summary);
    summary.kl.value = NAN;
    dt_report_summary(report, &summary);
    dt_report_destroy(report);
}

static void a_run_that_samples_ends_with_its_reward(void **state)
{
    (void)state;
    char *text = captured(STDOUT_FILENO, print_rewards);
    const char *with = strstr(text, "\nreward 0.2500 -> 1.0000\ndone: "),
               *without = strstr(text, "objective/kl 3.25\n");
    assert_non_null(with);
    assert_non_null(strstr(with, "\nreward 0.2500 -> 1.0000, objective/kl"));
    assert_non_null(without);
    assert_non_null(strstr(without, "\nreward 0.2500 -> 1.0000\n"));
    free(text);
}

static double last_losses;
static const char *measure;

/* 30 steps about 1.5, then 10 others. */
static void print_explosion(void)
{
    struct dt_report *report = create(0, true);
    const struct dt_report_summary summary = {.steps = 40,
                                              .measure = measure,
                                              .first = 5,
                                              .last = last_losses,
                                              .eval_loss = NAN};
    for (int n = 1; n <= 30; n++)
        step(report, n, n % 2 ? 0.1 : 2.9);
    for (int n = 31; n <= 40; n++)
        step(report, n, last_losses);
    step(report, 41, NAN);
    dt_report_summary(report, &summary);
    dt_report_destroy(report);
}

static void only_an_exploding_loss_is_reported(void **state)
{
    (void)state;
    measure = "loss";
    last_losses = 100;
    char *text = captured(STDOUT_FILENO, print_explosion);
    const char *found = strstr(text, "\nthe loss exploded: it was 1.");
    assert_non_null(found);
    assert_non_null(strstr(found, " now; the model is not usable; lower "
                                  "optimizer.lr, or look at the data after"));
    assert_null(strstr(found + 15, "exploded"));
    free(text);
    last_losses = 2.9; /* noise is none, and neither is a loss that falls */
    text = captured(STDOUT_FILENO, print_explosion);
    assert_null(strstr(text, "exploded"));
    free(text);
    last_losses = 0.01;
    text = captured(STDOUT_FILENO, print_explosion);
    assert_null(strstr(text, "exploded"));
    free(text);
    measure = "reward"; /* the loss of completions is no measure */
    last_losses = 100;
    text = captured(STDOUT_FILENO, print_explosion);
    assert_null(strstr(text, "exploded"));
    free(text);
}

static int logged;

/* 20 lines: one of the first loss, and others. */
static void print_early_explosion(void)
{
    struct dt_report *report = create(0, true);
    const struct dt_report_summary summary = {.steps = 20 * logged,
                                              .measure = "loss",
                                              .first = 0.5,
                                              .last = last_losses,
                                              .eval_loss = NAN};
    for (int n = 1; n <= 20; n++)
        step(report, n * logged, n * logged == 1 ? 0.5 : last_losses);
    dt_report_summary(report, &summary);
    dt_report_destroy(report);
}

/* Whatever logging.steps is: 5 lines are of exploded losses alone. */
static void a_loss_that_explodes_at_once_is_compared_with_the_first(
    void **state)
{
    (void)state;
    last_losses = 100;
    for (logged = 1; logged <= 5; logged += 4) {
        char *text = captured(STDOUT_FILENO, print_early_explosion);
        assert_non_null(strstr(text, "\nthe loss exploded: it was 0.5000 about "
                                     "step 1 and is "));
        free(text);
    }
    last_losses = 2.9; /* the first batch was easy by chance */
    char *text = captured(STDOUT_FILENO, print_early_explosion);
    assert_null(strstr(text, "exploded"));
    free(text);
}

static void print_failures(void)
{
    struct dt_error err;
    dt_error_set(&err, EX_IOERR, "disk full");
    dt_report_failure(3, 8, "n2", &err);
    dt_report_failure(0, 1, "n1", &err);
}

static void a_failure_names_its_rank_among_several(void **state)
{
    (void)state;
    char *text = captured(STDERR_FILENO, print_failures);
    assert_string_equal(text, "disttrain: rank 3 of 8 on n2 failed: disk full\n"
                              "disttrain: disk full\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_evaluations_are_lines_of_json),
        cmocka_unit_test(a_resumed_run_cuts_what_it_writes_again),
        cmocka_unit_test(a_damaged_line_costs_nothing_but_itself),
        cmocka_unit_test(a_nul_in_a_line_is_damage),
        cmocka_unit_test(a_removed_or_moved_file_is_made_anew),
        cmocka_unit_test(a_report_in_a_missing_directory_is_refused),
        cmocka_unit_test(the_console_shows_progress_and_a_summary),
        cmocka_unit_test(a_mean_of_nothing_is_left_out),
        cmocka_unit_test(a_line_fits_above_its_bar),
        cmocka_unit_test(a_run_that_samples_ends_with_its_reward),
        cmocka_unit_test(only_an_exploding_loss_is_reported),
        cmocka_unit_test(
            a_loss_that_explodes_at_once_is_compared_with_the_first),
        cmocka_unit_test(a_full_disk_loses_whole_lines_only),
        cmocka_unit_test(a_fifo_for_metrics_is_refused),
        cmocka_unit_test(a_failure_names_its_rank_among_several),
    };
    return cmocka_run_group_tests_name("report", tests, make_dir, remove_dir);
}
