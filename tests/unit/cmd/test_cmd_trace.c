/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_trace.c - `disttrain trace` asks, waits, and says what came of it */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/scratch.h"
#include "trace/trace.h"

static int run(const char *const *words)
{
    char *argv[16] = {"trace"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    return run_command_here(dt_cmd_trace, argc, argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static int enter(void **state)
{
    struct dt_error err;
    (void)state;
    return chdir(scratch_path("")) < 0 || dt_file_mkdirs("run/logs", &err) < 0;
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_true(file && fclose(file) == 0);
}

static void set_time(const char *path, time_t seconds, long nanoseconds)
{
    const struct timespec time = {seconds, nanoseconds};
    assert_int_equal(
        utimensat(AT_FDCWD, path, (struct timespec[]){time, time}, 0), 0);
}

static long take(void)
{
    const double end = dt_clock_now() + 30;
    long steps;
    while ((steps = dt_trace_request_take("run/logs", NULL)) == 0 &&
           dt_clock_now() < end)
        dt_clock_sleep(0.01);
    return steps;
}

/* Takes the request, as rank 0 does, and writes a file; how many steps. */
static void *answer(void *steps)
{
    *(long *)steps = take();
    write_file("run/logs/trace-8.pftrace");
    return NULL;
}

static void the_name_of_the_new_file_is_printed(void **state)
{
    long steps;
    pthread_t thread;
    (void)state;
    write_file("run/logs/trace-4.pftrace"); /* an older one */
    for (int given = 0; given < 2; given++) {
        assert_int_equal(pthread_create(&thread, NULL, answer, &steps), 0);
        assert_int_equal(
            given ? RUN("run/logs/..", "--steps", "7") : RUN("run"), EX_OK);
        pthread_join(thread, NULL);
        assert_string_equal(out, given ? "run/logs/../logs/trace-8.pftrace\n"
                                       : "run/logs/trace-8.pftrace\n");
        assert_int_equal(steps, given ? 7 : 3);
    }
}

static void *renew(void *path)
{
    take();
    set_time(path, 2000, 0);
    return NULL;
}

/* Whatever the order of the files in their directory. */
static void the_newest_file_is_that_of_the_last_second(void **state)
{
    static char *const names[] = {"run/logs/trace-1.pftrace",
                                  "run/logs/trace-2.pftrace"};
    char said[64];
    (void)state;
    unlink("run/logs/trace-4.pftrace");
    unlink("run/logs/trace-8.pftrace");
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        for (int k = 0; k < 2; k++) {
            write_file(names[k]);
            set_time(names[k], 1000, 999999999);
        }
        assert_int_equal(pthread_create(&thread, NULL, renew, names[i]), 0);
        assert_int_equal(RUN("run", "--timeout", "30"), EX_OK);
        pthread_join(thread, NULL);
        snprintf(said, sizeof(said), "%s\n", names[i]);
        assert_string_equal(out, said);
    }
}

static void a_run_that_is_over_takes_no_request(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "--timeout", "1"), EX_TEMPFAIL);
    assert_string_equal(
        errors,
        "disttrain trace: run/logs: the run did not take the request within 1 "
        "seconds: is it running? Its rank 0 looks for one every "
        "logging.steps steps\n");
    assert_false(dt_trace_request_waits("run/logs"));
}

static void write_status(const char *status)
{
    FILE *file = fopen("run/logs/status.json", "w");
    assert_true(file &&
                fprintf(file, "{\"version\": 1, \"status\": \"%s\"}", status) &&
                fclose(file) == 0);
}

/* It ends while the request waits. */
static void *end_run(void *unused)
{
    while (!dt_trace_request_waits("run/logs"))
        dt_clock_sleep(0.01);
    write_status("failed");
    return unused;
}

static void a_run_that_has_ended_is_not_waited_for(void **state)
{
    static const char ended[] = "disttrain trace: run/logs: the run has ended "
                                "(%s): only steps to come can be traced\n";
    char said[256];
    pthread_t thread;
    (void)state;
    write_status("finished");
    assert_int_equal(RUN("run"), EX_NOINPUT);
    snprintf(said, sizeof(said), ended, "finished");
    assert_string_equal(errors, said);
    assert_false(dt_trace_request_waits("run/logs"));
    write_status("running");
    assert_int_equal(pthread_create(&thread, NULL, end_run, NULL), 0);
    assert_int_equal(RUN("run"), EX_NOINPUT);
    pthread_join(thread, NULL);
    snprintf(said, sizeof(said), ended, "failed");
    assert_string_equal(errors, said);
    assert_false(dt_trace_request_waits("run/logs"));
    unlink("run/logs/status.json");
}

static void what_is_no_run_is_refused(void **state)
{
    (void)state;
    assert_int_equal(RUN("nothing"), EX_NOINPUT);
    assert_string_equal(errors,
                        "disttrain trace: nothing: no run; expected its "
                        "run.output_dir or logging.dir\n");
    assert_int_equal(RUN("run", "--steps", "1001"), EX_USAGE);
    assert_non_null(strstr(errors,
                           "--steps: expected an integer from 1 to 1000, "
                           "got '1001'"));
    assert_int_equal(RUN("--steps", "7"), EX_USAGE);
    assert_non_null(strstr(errors, "expected RUN"));
}

static void json_is_refused_with_what_makes_it(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "--json"), EX_USAGE);
    assert_string_equal(errors,
                        "disttrain trace: --json is gone: open the trace at "
                        "https://ui.perfetto.dev, or run Perfetto's "
                        "`traceconv json FILE.pftrace FILE.json` (see "
                        "disttrain trace --help)\n");
    assert_false(dt_trace_request_waits("run/logs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_of_the_new_file_is_printed),
        cmocka_unit_test(the_newest_file_is_that_of_the_last_second),
        cmocka_unit_test(a_run_that_is_over_takes_no_request),
        cmocka_unit_test(a_run_that_has_ended_is_not_waited_for),
        cmocka_unit_test(what_is_no_run_is_refused),
        cmocka_unit_test(json_is_refused_with_what_makes_it),
    };
    return cmocka_run_group_tests(tests, enter, NULL);
}
