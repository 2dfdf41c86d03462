/* SPDX-License-Identifier: Apache-2.0 */
/* test_top.c - `disttrain top`: what it shows, and the terminal it leaves */
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "live/state.h"
#include "tests/unit/command.h"
#include "tests/unit/pty.h"
#include "tests/unit/scratch.h"
#include "top/top_impl.h"

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

static struct dt_live_state run;

static double wall_clock(void)
{
    return (double)time(NULL);
}

/* A run of `ranks` ranks, of which number 2 is slow; written `age` s ago. */
static void make_run(int ranks, double age)
{
    run = (struct dt_live_state){
        .name = "tiny",
        .algorithm = "sft",
        .job = "123.0",
        .status = "running",
        .world = ranks,
        .interval_s = 2,
        .wall = wall_clock() - age,
        .counts = true,
        .step = 370,
        .total = 1000,
        .elapsed_s = 62,
        .left_s = 105,
        .step_s = 1 / 5.9,
        .goodput = 0.934,
        .account = {.known = true, .seconds = {1, 934, 65}, .starts = 1},
        .rank_step = 360};
    run.numbers = (struct dt_live_numbers){370, 0.5, 2.13, 12345, 4.5e6, NAN,
                                           NAN, NAN, NAN,  NAN,   NAN};
    for (int i = 0; i < 10; i++)
        run.losses[run.loss_count++] =
            (struct dt_live_point){280 + 10 * i, 4.0 - 0.2 * i, NAN};
    run.events[run.event_count++] = (struct dt_live_said){
        "save", "", "checkpoint-300", 300, run.wall - 42, 3.1, -1};
    run.save = run.events[0];
    run.saved = true;
    for (int i = 0; i < ranks && i < DT_LIVE_RANKS; i++) {
        struct dt_live_row *row = &run.rows[run.row_count++];
        *row = (struct dt_live_row){.rank = i,
                                    .count = 1,
                                    .straggler = i == 2,
                                    .compute_s = i == 2 ? 0.141 : 0.1,
                                    .comm_s = 0.02,
                                    .data_wait_s = 0.001,
                                    .mem = 3.5 * 0x1p30,
                                    .power_w = NAN};
        snprintf(row->host, sizeof(row->host), "n%d", i / 4 + 1);
    }
}

/* Writes the run to DIR/logs and returns DIR. */
static const char *write_run(const char *dir)
{
    char logs[600];
    struct dt_error err;
    const char *path = scratch_path(dir);
    snprintf(logs, sizeof(logs), "%s/logs", path);
    assert_int_equal(dt_file_mkdirs(logs, &err), 0);
    assert_int_equal(dt_live_write_status(&run, logs, &err), 0);
    return path;
}

static int top(const char *option, const char *what)
{
    char *argv[] = {"top", (char *)(option ? option : what),
                    (char *)(option ? what : NULL), NULL};
    int argc = what ? (option ? 3 : 2) : option ? 2 : 1;
    return run_command(dt_cmd_top, argc, argv);
}

static void a_run_is_one_plain_table(void **state)
{
    (void)state;
    make_run(4, 1);
    assert_int_equal(top("--once", write_run("plain")), 0);
    char *verdict = strstr(out, "running, as of ");
    assert_non_null(verdict);
    verdict = strchr(verdict, '\n') + 1;
    assert_ptr_equal(strstr(out, "tiny  sft  4 ranks  job 123.0\n"), out);
    assert_ptr_equal(strstr(verdict, " 37%|###"), verdict);
    assert_non_null(strstr(out,
                           "| 370/1000 [01:02<01:45, 5.9 step/s, loss "
                           "2.13, 12.3k tokens/s]\n"
                           "loss 4 -> 2.2  ^^^--..___  since step 280\n"
                           "epoch 0.5  4.50M tokens  saved at step 300, "));
    assert_non_null(strstr(out, " ago\ngoodput 93.4 %: steps 15:34, start-up "
                                "00:01, waiting for data 01:05\n"));
    assert_non_null(strstr(
        out,
        "   RANK  HOST           COMPUTE  MEDIAN      COMM      DATA    MEMORY"
        "   POWER\n"
        "!     2  n1              141 ms   +41 %     20 ms      1 ms   3.5 GiB"
        "       -\n"
        "      0  n1              100 ms    +0 %     20 ms      1 ms   3.5 GiB"
        "       -\n"));
    assert_non_null(strstr(out,
                           "means of a step at step 360, told once a minute; "
                           "! named as slow\n"));
    assert_non_null(strstr(out, "step 300  save  checkpoint-300\n"));
    assert_null(strchr(out, '\033'));
    assert_null(strchr(out, '\r'));
}

/* Of two ranks the median is the time of the faster one. */
static void the_slow_one_of_two_ranks_is_seen(void **state)
{
    (void)state;
    make_run(2, 1);
    run.rows[1].compute_s = 0.141;
    assert_int_equal(top("--once", write_run("two")), 0);
    assert_non_null(strstr(out, "      1  n1              141 ms   +41 %"));
    assert_non_null(strstr(out, "      0  n1              100 ms    +0 %"));
}

static void until_ranks_have_told_their_numbers_it_says_when(void **state)
{
    static const char says[] =
        "\nranks tell their numbers once a minute; none have yet\n";
    (void)state;
    make_run(0, 1);
    assert_int_equal(top("--once", write_run("early")), 0);
    assert_non_null(strstr(out, says));
    strcpy(run.status, "finished");
    assert_int_equal(top("--once", write_run("early")), 0);
    assert_null(strstr(out, says));
}

static void a_run_that_samples_shows_its_reward(void **state)
{
    (void)state;
    make_run(1, 1);
    for (size_t i = 0; i < run.loss_count; i++)
        run.losses[i].reward = (double)i / 8;
    run.losses[9].reward = NAN; /* is not known */
    run.numbers.kl = 0.0123;
    run.numbers.length = 41.5;
    assert_int_equal(top("--once", write_run("samples")), 0);
    assert_non_null(strstr(out, "\nreward 0 -> -  __..--^^^x  since step 280\n"
                                "KL 0.0123  length 41.5  loss 2.13  epoch "));
    assert_null(strstr(out, "nan"));
}

static void a_pipe_gets_the_same_without_being_asked(void **state)
{
    (void)state;
    make_run(1, 1);
    assert_int_equal(top(NULL, write_run("pipe")), 0);
    assert_non_null(strstr(out, "tiny  sft  1 rank  job 123.0\n"));
    assert_null(strchr(out, '\033'));
}

static void json_is_the_file_itself(void **state)
{
    char path[600], *text;
    struct dt_error err;
    const char *dir;
    (void)state;
    make_run(4, 1);
    dir = write_run("json");
    snprintf(path, sizeof(path), "%s/logs/status.json", dir);
    text = dt_file_read(path, 1 << 20, &err);
    assert_int_equal(top("--json", dir), 0);
    assert_int_equal(strncmp(out, text, strlen(text)), 0);
    assert_string_equal(out + strlen(text), "\n");
    free(text);
}

/* Programs that answer like Slurm's, first in PATH. */
static void fake_slurm(const char *squeue, const char *scontrol)
{
    static char path[4096];
    char text[1024];
    mkdir(scratch_path("bin"), 0755);
    const char *const programs[][2] = {{"bin/squeue", squeue},
                                       {"bin/scontrol", scontrol},
                                       {"bin/sacct", "exit 1"}};
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", programs[i][1]);
        scratch_write(programs[i][0], text, strlen(text));
        chmod(scratch_path(programs[i][0]), 0755);
    }
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", scratch_path("bin"));
    setenv("PATH", path, 1);
}

static void a_silent_run_is_asked_of_slurm(void **state)
{
    (void)state;
    fake_slurm("echo 124 FAILED; echo 123 COMPLETING; echo 1234 FAILED",
               "exit 1"); /* an array */
    make_run(1, 65);
    assert_int_equal(top(NULL, write_run("silent")), 0);
    assert_non_null(strstr(out, "no news for 01:0"));
    assert_non_null(strstr(out, ": squeue: job 123 is COMPLETING\n"));
    fake_slurm("exit 1", "exit 1");
    assert_int_equal(top(NULL, write_run("silent")), 0);
    assert_non_null(strstr(out, ": squeue knows no job 123\n"));
    strcpy(run.status, "finished");
    assert_int_equal(top(NULL, write_run("silent")), 0);
    assert_non_null(strstr(out, "finished 01:0"));
    strcpy(run.status, "failed");
    strcpy(run.verdict, "rank 1 was lost");
    assert_int_equal(top(NULL, write_run("silent")), 0);
    assert_non_null(strstr(out, " ago: rank 1 was lost\n"));
}

static void a_job_is_found_below_its_directory(void **state)
{
    char script[800];
    (void)state;
    make_run(1, 1);
    strcpy(run.job, "124.0");
    write_run("work/a/other");
    strcpy(run.job, "123.0");
    write_run("work/a/mine");
    snprintf(script, sizeof(script),
             "[ \"$*\" = 'show job 123' ] && echo '   WorkDir=%s'",
             scratch_path("work"));
    fake_slurm("exit 1", script);
    assert_int_equal(top("--json", "123"), 0);
    assert_non_null(strstr(out, "\"job\":\"123.0\""));
    assert_int_equal(top("--json", "123.0"), 0);
    assert_int_equal(top("--json", "12"), EX_NOINPUT);
    assert_string_equal(
        errors, "disttrain top: job 12: Slurm does not know it, and nothing "
                "of it is below this directory: name the run's output "
                "directory\n");
    snprintf(script, sizeof(script), "echo '123 %s'", scratch_path("work"));
    fake_slurm(script, "exit 1");
    assert_int_equal(top("--json", NULL), 0);
    assert_non_null(strstr(out, "\"job\":\"123.0\""));
}

static void a_directory_of_runs_is_a_list(void **state)
{
    char where[600];
    (void)state;
    fake_slurm("exit 1", "exit 1");
    make_run(2, 1);
    write_run("many/one");
    strcpy(run.name, "two");
    strcpy(run.status, "finished");
    write_run("many/two");
    run.numbers.loss = NAN;
    scratch_write("many/two/logs/status.json", "{\"ver", 5); /* torn */
    strcpy(run.name, "three");
    write_run("many/a/b/three");
    assert_int_equal(top("--once", scratch_path("many")), 0);
    assert_non_null(strstr(out, "\ntiny                 123.0      running"));
    assert_non_null(strstr(out, "\nthree                123.0      finished"));
    snprintf(where, sizeof(where), "  %s\n", scratch_path("many/a/b/three"));
    assert_non_null(strstr(out, where));
    assert_non_null(strstr(out, "  370/1000         -     12.3k "));
    assert_null(strstr(out, "nan"));
    assert_non_null(strstr(out, "two/logs/status.json:1:"));
}

static void what_is_not_there_or_torn_is_said(void **state)
{
    char expected[700];
    (void)state;
    assert_int_equal(top("--once", "/nonexistent"), EX_NOINPUT);
    assert_string_equal(errors,
                        "disttrain top: /nonexistent: No such file or "
                        "directory; expected a run's output directory, a "
                        "directory of runs, or the number of a job\n");
    mkdir(scratch_path("empty"), 0755);
    assert_int_equal(top("--once", scratch_path("empty")), EX_NOINPUT);
    snprintf(expected, sizeof(expected), "disttrain top: %s: no status.json",
             scratch_path("empty"));
    assert_int_equal(strncmp(errors, expected, strlen(expected)), 0);
    const char *torn = scratch_write("torn.json", "{\"version\": 1,", 14);
    assert_int_equal(top("--once", torn), EX_DATAERR);
    assert_non_null(strstr(errors, "torn.json:1:"));
}

/* --- drawing --- */

static char *draw(int columns, int rows, bool utf8, enum dt_top_sort sort,
                  const char *filter)
{
    static char *text;
    size_t bytes;
    struct dt_top_view view = {.columns = columns,
                               .rows = rows,
                               .utf8 = utf8,
                               .end = "\n",
                               .sort = sort,
                               .now = run.wall + 1};
    strcpy(view.filter, filter);
    free(text);
    FILE *file = open_memstream(&text, &bytes);
    dt_top_draw(file, &run, &view);
    fclose(file);
    return text;
}

static void ranks_are_sorted_and_filtered(void **state)
{
    (void)state;
    make_run(8, 0);
    run.rows[5].mem = 7 * 0x1p30;
    run.rows[6].power_w = 400;
    assert_non_null(
        strstr(draw(80, 0, false, DT_TOP_SLOWEST, ""), "POWER\n!     2  n1"));
    assert_non_null(
        strstr(draw(80, 0, false, DT_TOP_MEMORY, ""), "POWER\n      5  n2"));
    assert_non_null(
        strstr(draw(80, 0, false, DT_TOP_POWER, ""), "POWER\n      6  n2"));
    assert_non_null(
        strstr(draw(80, 0, false, DT_TOP_RANK, ""), "POWER\n      0  n1"));
    assert_null(strstr(draw(80, 0, false, DT_TOP_RANK, "n2"), "  n1  "));
    assert_non_null(
        strstr(draw(80, 0, false, DT_TOP_RANK, "3"), "POWER\n      3  n1"));
}

static void count_lines(const char *text, int columns, int rows)
{
    int lines = 0;
    for (; *text; lines++) {
        int cells = 0;
        for (; *text != '\n'; text++)
            cells += ((unsigned char)*text & 0xc0) != 0x80;
        if (cells > columns)
            fail_msg("%d cells in %d columns", cells, columns);
        text++;
    }
    if (lines > rows)
        fail_msg("%d lines in %d rows", lines, rows);
}

static void no_line_is_too_long_at_any_size(void **state)
{
    (void)state;
    make_run(256, 0);
    run.rows_left_out = 3840;
    snprintf(run.name, sizeof(run.name), "läßt-日本語-%040d", 0);
    for (int columns = 1; columns < 120; columns += 7)
        for (int utf8 = 0; utf8 < 2; utf8++)
            draw(columns, 24, utf8, DT_TOP_SLOWEST, "");
    for (int columns = 20; columns < 120; columns += 20)
        for (int rows = 15; rows < 50; rows += 5)
            count_lines(draw(columns, rows, true, DT_TOP_SLOWEST, ""), columns,
                        rows);
    assert_non_null(strstr(draw(80, 24, true, DT_TOP_RANK, ""), "more rows"));
}

static void without_utf8_everything_is_ascii(void **state)
{
    (void)state;
    make_run(4, 0);
    strcpy(run.name, "lä\xff");
    for (char *c = draw(80, 24, false, DT_TOP_SLOWEST, ""); *c; c++)
        assert_true((unsigned char)*c < 0x80);
    assert_non_null(strstr(draw(80, 24, true, DT_TOP_SLOWEST, ""), "⣿"));
}

/* --- in a terminal --- */

static int follow(void *dir)
{
    char *argv[] = {"top", dir, NULL};
    setenv("TERM", "xterm", 1);
    setenv("LANG", "C.UTF-8", 1);
    unsetenv("LC_ALL");
    unsetenv("CI");
    unsetenv("NO_COLOR");
    return dt_cmd_top(2, argv);
}

static struct pty pty;

/* Starts the view in a terminal and waits until it shows the run. */
static void start_view(int columns, int rows, const char *dir)
{
    pty_start(&pty, columns, rows, follow, (void *)dir);
    assert_true(pty_sees(&pty, 0, ENTER));
    assert_true(pty_sees(&pty, 0, "370/1000"));
    assert_false(pty_is_sane(&pty));
}

static void expect_clean(void)
{
    size_t bytes = strlen(LEAVE);
    assert_true(pty.used >= bytes);
    assert_string_equal(pty.text + pty.used - bytes, LEAVE);
    assert_true(pty_is_sane(&pty));
    pty_close(&pty);
}

static void keys_sort_filter_and_quit(void **state)
{
    (void)state;
    make_run(8, 1);
    start_view(80, 24, write_run("keys"));
    size_t from = pty.used;
    pty_type(&pty, "r");
    assert_true(pty_sees(&pty, from, "POWER\033[0m\033[K\r\n      0  n1"));
    from = pty.used;
    pty_type(&pty, "/n2\n");
    assert_true(pty_sees(&pty, from, "filter: n2"));
    assert_true(pty_sees(&pty, from, "POWER\033[0m\033[K\r\n      4  n2"));
    pty_type(&pty, "q");
    int status = pty_end(&pty);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_clean();
}

static void every_signal_leaves_the_terminal_as_it_was(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT};
    const struct rlimit none = {0, 0};
    (void)state;
    setrlimit(RLIMIT_CORE, &none);
    make_run(2, 1);
    const char *dir = write_run("signals");
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        start_view(80, 24, dir);
        if (signals[i] == SIGINT)
            pty_type(&pty, "\003");
        else
            kill(pty.pid, signals[i]);
        int status = pty_end(&pty);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        expect_clean();
    }
}

static void a_resized_terminal_is_drawn_anew(void **state)
{
    (void)state;
    make_run(8, 1);
    start_view(80, 24, write_run("resize"));
    for (int columns = 20; columns <= 200; columns += 60) {
        size_t from = pty.used;
        pty_resize(&pty, columns, 10);
        assert_true(pty_sees(&pty, from,
                             columns == 20   ? "37% 370/1000\033[K"
                             : columns == 80 ? "12.3k tokens/s]\033[K"
                                             : "job 123.0\033[0m\033[K"));
    }
    pty_type(&pty, "q");
    pty_end(&pty);
    expect_clean();
}

/* The writer replaces the file all the time; a torn one leaves the last state.
 */
static void a_file_that_changes_is_followed(void **state)
{
    char path[600];
    (void)state;
    make_run(2, 1);
    const char *dir = write_run("follow");
    snprintf(path, sizeof(path), "%s/logs/status.json", dir);
    start_view(80, 24, dir);
    FILE *torn = fopen(path, "w");
    fputs("{\"version\"", torn);
    fclose(torn);
    run.step = 371;
    size_t from = pty.used;
    assert_true(pty_sees(&pty, from, "370/1000")); /* drawn again */
    unlink(path);
    from = pty.used;
    assert_true(pty_sees(&pty, from, "370/1000"));
    write_run("follow");
    assert_true(pty_sees(&pty, from, "371/1000"));
    pty_type(&pty, "q");
    pty_end(&pty);
    expect_clean();
}

static int follow_dumb(void *dir)
{
    char *argv[] = {"top", dir, NULL};
    setenv("TERM", "dumb", 1);
    return dt_cmd_top(2, argv);
}

static void a_dumb_terminal_gets_one_table(void **state)
{
    (void)state;
    make_run(2, 1);
    pty_start(&pty, 80, 24, follow_dumb, (void *)write_run("dumb"));
    assert_int_equal(pty_end(&pty), 0);
    assert_non_null(strstr(pty.text, "370/1000"));
    assert_null(strchr(pty.text, '\033'));
    pty_close(&pty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_one_plain_table),
        cmocka_unit_test(the_slow_one_of_two_ranks_is_seen),
        cmocka_unit_test(until_ranks_have_told_their_numbers_it_says_when),
        cmocka_unit_test(a_run_that_samples_shows_its_reward),
        cmocka_unit_test(a_pipe_gets_the_same_without_being_asked),
        cmocka_unit_test(json_is_the_file_itself),
        cmocka_unit_test(a_silent_run_is_asked_of_slurm),
        cmocka_unit_test(a_job_is_found_below_its_directory),
        cmocka_unit_test(a_directory_of_runs_is_a_list),
        cmocka_unit_test(what_is_not_there_or_torn_is_said),
        cmocka_unit_test(ranks_are_sorted_and_filtered),
        cmocka_unit_test(no_line_is_too_long_at_any_size),
        cmocka_unit_test(without_utf8_everything_is_ascii),
        cmocka_unit_test(keys_sort_filter_and_quit),
        cmocka_unit_test(every_signal_leaves_the_terminal_as_it_was),
        cmocka_unit_test(a_resized_terminal_is_drawn_anew),
        cmocka_unit_test(a_file_that_changes_is_followed),
        cmocka_unit_test(a_dumb_terminal_gets_one_table),
    };
    setenv("LC_ALL", "C", 1);
    setenv("TZ", "UTC", 1);
    scratch_path("");
    if (chdir(scratch_root) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
