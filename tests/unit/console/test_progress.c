/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - the progress bar: in a terminal of this process, and in
 * that of srun's console
 */
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
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/contract.h"
#include "live/live.h"
#include "tests/unit/pty.h"
#include "tests/unit/scratch.h"

#define TOKEN "c0ffee"
#define HEAD DT_RECORD TOKEN " progress 0 n1 1.000 "

static struct pty pty;

static void set_terminal(const char *term)
{
    setenv("TERM", term, 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("CI");
    unsetenv(DT_ENV_PROGRESS);
}

static struct dt_live *create(void)
{
    struct dt_error err;
    const struct dt_live_options options = {
        .name = "tiny", .algorithm = "sft", .world = 1, .progress = true};
    struct dt_live *live = dt_live_create(&options, &err);
    if (!live)
        _exit(99);
    return live;
}

/* Waits in a run that is shown until the test says that it has seen this. */
static void wait_until_seen(const char *what)
{
    for (int i = 0; i < 6000 && access(what, F_OK) != 0; i++)
        dt_clock_sleep(0.01);
}

/* A run of three steps that prints a line between them. */
static int train(void *way)
{
    const char *what = way;
    set_terminal(strcmp(what, "dumb") == 0 ? "dumb" : "xterm");
    if (strcmp(what, "CI") == 0)
        setenv("CI", "true", 1);
    if (strcmp(what, "pipe") == 0 && !freopen("log", "w", stderr))
        return 98;
    struct dt_live *live = create();
    if (dt_live_columns(live) != (strcmp(what, "terminal") == 0 ? 60 : 0))
        return 97;
    dt_live_phase(live, DT_ACCOUNT_STARTUP, "loading weights");
    if (strcmp(what, "terminal") == 0)
        wait_until_seen("seen-loading");
    else
        dt_clock_sleep(0.6);
    dt_live_step(live, 0, 4);
    dt_live_phase(live, DT_ACCOUNT_STEPS, NULL);
    for (long i = 1; i <= 3; i++) {
        if (i == 2 && strcmp(what, "terminal") == 0)
            wait_until_seen("seen-25");
        else
            dt_clock_sleep(0.4);
        dt_live_step(live, i, 4);
        dt_live_numbers(live, &(struct dt_live_numbers){.step = i,
                                                        .loss = 2.5,
                                                        .tokens_per_s = 12e3});
    }
    dt_log(DT_LOG_WARN, "test", "a line between");
    dt_clock_sleep(0.4);
    dt_live_end(live, "stopped", NULL);
    puts("a summary");
    dt_live_destroy(live);
    return 0;
}

/* What is on the screen: the lines, of which carriage returns and escapes that
 * clear have overwritten parts.
 */
static char *screen_of(const char *text)
{
    static char screen[1 << 16];
    size_t begin = 0, at = 0, end = 0;
    for (; *text; text++) {
        if (*text == '\r') {
            at = begin;
        } else if (strncmp(text, "\033[K", 3) == 0) {
            end = at;
            text += 2;
        } else if (*text == '\n') {
            screen[end++] = '\n';
            begin = at = end;
        } else {
            screen[at++] = *text;
            end = at > end ? at : end;
        }
    }
    screen[end] = '\0';
    return screen;
}

static void the_bar_is_below_all_lines_and_stays_at_the_end(void **state)
{
    (void)state;
    pty_start(&pty, 60, 24, train, "terminal");
    assert_true(pty_sees(&pty, 0, "\rloading weights [00:"));
    scratch_write("seen-loading", "", 0);
    assert_true(pty_sees(&pty, 0, "\r 25%|"));
    scratch_write("seen-25", "", 0);
    assert_int_equal(pty_end(&pty), 0);
    char *screen = screen_of(pty.text);
    assert_non_null(strstr(screen, "warning: a line between\n 75%|"));
    char *bar = strstr(screen, " 75%|");
    assert_non_null(strstr(bar, "| 3/4 [00:"));
    assert_string_equal(strchr(bar, '\n'), "\na summary\n");
    assert_true(strchr(bar, '\n') - bar < 60);
    assert_null(strstr(pty.text, "\033[?25l")); /* the cursor is never hidden */
    assert_true(pty_is_sane(&pty));
    pty_close(&pty);
}

static void where_lines_cannot_be_rewritten_there_is_none(void **state)
{
    static const char *const ways[] = {"dumb", "CI", "pipe"};
    char log[4096];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        pty_start(&pty, 60, 24, train, (void *)ways[i]);
        assert_int_equal(pty_end(&pty), 0);
        assert_null(strchr(pty.text, '\033'));
        assert_null(strchr(pty.text, '|'));
        assert_non_null(strstr(pty.text, "a summary\r\n"));
        pty_close(&pty);
    }
    FILE *file = fopen("log", "r"); /* of the last */
    assert_non_null(file);
    log[fread(log, 1, sizeof(log) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(log, "a line between\n"));
    assert_null(strpbrk(log, "\033\r"));
}

/* A run under srun whose console draws: at most four records a second, with
 * nothing but the token of progress.
 */
static void under_srun_records_tell_the_console(void **state)
{
    static const struct dt_step_identity step = {.token = "secret",
                                                 .progress = TOKEN};
    struct dt_console_event event;
    char line[2048];
    int progress = 0, ended = 0, saved = dup(STDERR_FILENO);
    (void)state;
    fflush(stderr);
    assert_non_null(freopen("records", "w", stderr));
    setenv(DT_ENV_PROGRESS, TOKEN, 1);
    struct dt_live *live = create();
    assert_int_equal(dt_live_columns(live), 80);
    dt_live_step(live, 0, 1000);
    double start = dt_clock_now();
    for (long i = 1; i <= 100; i++) {
        dt_clock_sleep(0.01);
        dt_live_step(live, i, 1000);
    }
    double seconds = dt_clock_now() - start;
    dt_live_end(live, "finished", NULL);
    dt_live_destroy(live);
    unsetenv(DT_ENV_PROGRESS);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    FILE *file = fopen("records", "r");
    while (fgets(line, sizeof(line), file)) {
        dt_console_event_parse(line, strlen(line), &step, DT_ORIGIN_TASK,
                               &event);
        assert_true(event.kind == DT_EVENT_PROGRESS ||
                    event.kind == DT_EVENT_ENDED);
        assert_false(ended);
        progress += event.kind == DT_EVENT_PROGRESS;
        ended += event.kind == DT_EVENT_ENDED;
        if (event.kind == DT_EVENT_PROGRESS)
            assert_int_equal(event.bar.total, 1000);
    }
    fclose(file);
    assert_int_equal(event.kind, DT_EVENT_ENDED);
    assert_in_range(progress, 2, (int)(4 * seconds) + 2);
}

/* --- the console --- */

static struct {
    const char *labels;
    const char *progress; /* a line of the console's settings, or "" */
    int out[2], err[2];   /* pipes, of which srun has the ends to write */
} srun;

static int console(void *unused)
{
    char settings[256];
    (void)unused;
    set_terminal("xterm");
    snprintf(settings, sizeof(settings),
             DT_CONSOLE_VERSION_LINE "\nLABELS=%s\nTASKS=2\nSTEP=5.0\n"
                                     "TOKEN=a1b2\n%s",
             srun.labels, srun.progress);
    FILE *file = fmemopen(settings, strlen(settings), "r");
    dup2(srun.out[0], 20);
    dup2(srun.err[0], 21);
    for (int fd = 3; fd < 20; fd++)
        close(fd);
    dup2(20, DT_CONSOLE_OUT_FD);
    dup2(21, DT_CONSOLE_ERR_FD);
    close(20);
    close(21);
    return dt_console_run(file);
}

static void start_console(const char *labels, const char *progress)
{
    srun.labels = labels;
    srun.progress = progress;
    assert_int_equal(pipe(srun.out), 0);
    assert_int_equal(pipe(srun.err), 0);
    pty_start(&pty, 60, 24, console, NULL);
    close(srun.out[0]);
    close(srun.err[0]);
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void end_console(void)
{
    close(srun.out[1]);
    close(srun.err[1]);
    assert_int_equal(pty_end(&pty), 0);
    assert_true(pty_is_sane(&pty));
    pty_close(&pty);
}

static void the_console_draws_the_bar_below_what_it_prints(void **state)
{
    (void)state;
    start_console("strip", "PROGRESS=" TOKEN "\n");
    say(srun.err[1], "0: " HEAD "0 0 3 nan nan nan nan nan loading weights\n");
    assert_true(pty_sees(&pty, 0, "\rloading weights [00:03]\033[K"));
    say(srun.out[1], "1: hello\n");
    assert_true(pty_sees(&pty, 0, "\r\033[Khello\r\n\rloading weights"));
    say(srun.err[1], "0: " HEAD "1 4 0 7 21 7 2.5 nan training\n");
    assert_true(pty_sees(&pty, 0, "\r 25%|"));
    say(srun.out[1], "0: in a");
    assert_true(pty_sees(&pty, 0, "in a"));
    size_t from = pty.used;
    say(srun.err[1], "0: " HEAD "2 4 0 14 14 7 2.5 nan training\n");
    say(srun.out[1], "0:  line\n");
    assert_true(pty_sees(&pty, from, " line\r\n\r "));
    assert_true(pty_sees(&pty, from, "\r 50%|"));
    say(srun.err[1], "0: " DT_RECORD TOKEN " ended 0 n1 1.000\n");
    say(srun.err[1], "0: done\n");
    assert_true(pty_sees(&pty, from, "done\r\n"));
    end_console();
    assert_null(strstr(pty.text, "record"));
    char *screen = screen_of(pty.text);
    if (strstr(screen, "hello\nin a line\n 50%|") != screen)
        fail_msg("%s", screen);
    assert_string_equal(strchr(strstr(screen, " 50%|"), '\n'), "\ndone\n");
}

/* Rank 0 is killed: the bar stays where it was, and the report is below it. */
static void a_run_that_dies_leaves_the_bar_on_its_own_line(void **state)
{
    (void)state;
    start_console("strip", "PROGRESS=" TOKEN "\n");
    say(srun.err[1], "0: " HEAD "1 4 0 7 21 7 2.5 nan training\n");
    say(srun.err[1], "0: slurmstepd: " DT_RECORD "a1b2 exit 0 n1 2.000 9\n");
    end_console();
    char *screen = screen_of(pty.text);
    assert_ptr_equal(strstr(screen, " 25%|"), screen);
    assert_non_null(strstr(screen, "\ndisttrain: first failure: rank 0"));
}

/* A program that makes up a record, or a bar where there is none. */
static void other_tokens_draw_nothing(void **state)
{
    (void)state;
    start_console("strip", "PROGRESS=" TOKEN "\n");
    say(srun.err[1], "0: " DT_RECORD "a1b2 progress 0 n1 1.000 1 4 0 7 21 7 "
                     "2.5 nan training\n");
    say(srun.err[1], "0: " DT_RECORD TOKEN " exit 0 n1 2.000 9\n");
    say(srun.err[1], "0: " HEAD "1 4 0 7 21 7 2.5 nan \033[2J\n");
    assert_true(pty_sees(&pty, 0, "\033[2J"));
    end_console();
    assert_null(strstr(pty.text, "25%"));
    assert_null(strstr(pty.text, "first failure"));
}

static void a_bar_is_resized_with_its_terminal(void **state)
{
    (void)state;
    start_console("strip", "PROGRESS=" TOKEN "\n");
    say(srun.err[1], "0: " HEAD "1 4 0 7 21 7 2.5 nan training\n");
    assert_true(pty_sees(&pty, 0, "loss 2.5]\033[K"));
    size_t from = pty.used;
    pty_resize(&pty, 20, 24);
    say(srun.err[1], "0: " HEAD "2 4 0 14 14 7 2.5 nan training\n");
    assert_true(pty_sees(&pty, from, "\r 50%|####     | 2/4\033[K"));
    end_console();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bar_is_below_all_lines_and_stays_at_the_end),
        cmocka_unit_test(where_lines_cannot_be_rewritten_there_is_none),
        cmocka_unit_test(under_srun_records_tell_the_console),
        cmocka_unit_test(the_console_draws_the_bar_below_what_it_prints),
        cmocka_unit_test(a_run_that_dies_leaves_the_bar_on_its_own_line),
        cmocka_unit_test(other_tokens_draw_nothing),
        cmocka_unit_test(a_bar_is_resized_with_its_terminal),
    };
    setenv("PATH", "/nonexistent", 1); /* nobody asks Slurm */
    scratch_path("");
    if (chdir(scratch_root) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
