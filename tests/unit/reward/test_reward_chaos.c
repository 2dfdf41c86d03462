/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_chaos.c - programs that misbehave, and what each does to a run */
#include "config.h"

#include "tests/unit/reward/reward.h"
#include "tests/unit/reward/reward_program.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/span.h"
#include "reward/reward_impl.h"
#include "tests/unit/count.h"
#include "tests/unit/stderr_text.h"

static char program[512]; /* this one */

/* How many of the processes that named themselves are left. */
static int count_alive(void)
{
    FILE *file = fopen("pids", "r");
    int pid, alive = 0;
    while (file && fscanf(file, "%d", &pid) == 1) {
        struct dt_proc_stat stat;
        /* Whoever adopts a grandchild reaps it in its own time. */
        for (int i = 0; i < 1000; i++) {
            if (!dt_proc_stat(&stat, "", pid) || stat.state == 'Z')
                break;
            dt_clock_sleep(0.005);
        }
        alive += stat.state != '\0' && stat.state != 'Z';
    }
    if (file)
        fclose(file);
    return alive;
}

static void remove_files(void)
{
    unlink("pids");
    unlink("once");
}

struct chaos {
    const char *mode, *more; /* keys beside type, name and command */
    const char *error;       /* of a run without retries; %s: the program */
    int status;
};

/* Scores three samples; `once`: only the first process misbehaves. */
static int run(const struct chaos *c, const char *more, bool once,
               double values[3], struct dt_error *err)
{
    static char large[300000];
    char keys[1024];
    struct dt_reward_sample samples[] = {
        sample_of("1", NULL), sample_of("22", NULL), sample_of("", NULL)};
    /* a long one where it is not what the case is about */
    bool silent = c->error && strstr(c->error, "after 2 s");
    const char *timeout = silent ? "timeout_s: 2, " : "timeout_s: 60, ";
    remove_files();
    snprintf(keys, sizeof(keys),
             "type: command, name: judge, command: [%s, as, %s%s], "
             "%s%s%s%s",
             program, c->mode, once ? ", once" : "",
             strstr(c->more, "timeout_s") ? "" : timeout, c->more,
             *c->more ? ", " : "", more);
    if (strcmp(c->mode, "mute") == 0) { /* more than a pipe holds */
        memset(large, 'p', sizeof(large));
        samples[0].prompt_text = large;
        samples[0].prompt_bytes = sizeof(large);
    }
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, err);
    int rc = rewards ? dt_rewards_submit(rewards, 1, samples, 3, err) : -1;
    if (rc == 0)
        rc = dt_rewards_collect(rewards, values, 3, err);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    assert_int_equal(count_alive(), 0);
    return rc;
}

static const struct chaos modes[] = {
    {"exit", "",
     "%s ended with exit status 3; its last line on stderr: ValueError: no",
     EX_UNAVAILABLE},
    {"abort", "", "%s was killed by signal 6 (Aborted)", EX_UNAVAILABLE},
    {"killed", "", "%s was killed by signal 9 (Killed)", EX_UNAVAILABLE},
    {"stopped", "", "after 2 s: %s did not answer in time", EX_UNAVAILABLE},
    {"hang", "", "after 2 s: %s did not answer in time", EX_UNAVAILABLE},
    {"mute", "", "after 2 s: %s did not answer in time", EX_UNAVAILABLE},
    {"stdin", "", "%s has closed its stdin", EX_UNAVAILABLE},
    {"stdout", "", "%s has closed its stdout", EX_UNAVAILABLE},
    {"grandchild", "", "%s ended with exit status 0", EX_UNAVAILABLE},
#ifndef SANITIZER /* which maps terabytes */
    {"memory", "memory_mb: 1024", "%s ended with exit status 9",
     EX_UNAVAILABLE},
#endif
    {"huge", "",
     "%s wrote more than 1048768 bytes without an end of the line, which "
     "begins: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
     EX_PROTOCOL},
    {"garbage", "",
     "expected a line of JSON (other output belongs on stderr), got: Loading "
     "weights ...",
     EX_PROTOCOL},
    {"binary", "",
     "expected a line of JSON (other output belongs on stderr), got: ???[2J",
     EX_PROTOCOL},
    {"empty", "",
     "expected a line of JSON (other output belongs on stderr), got: ",
     EX_PROTOCOL},
    {"list", "", "expected an object of JSON in a line, got an array: [1, 2]",
     EX_PROTOCOL},
    {"few", "",
     "\"rewards\" has 1 values for 3 completions: {\"id\": 1, \"rewards\": "
     "[1]}",
     EX_PROTOCOL},
    {"many", "",
     "\"rewards\" has 4 values for 3 completions: {\"id\": 1, \"rewards\": [1, "
     "2, 3, 4]}",
     EX_PROTOCOL},
    {"none", "", "expected an array \"rewards\", got none: {\"id\": 1}",
     EX_PROTOCOL},
    {"nan", "",
     "NaN and Infinity are not JSON: write null where there is no reward: "
     "{\"id\": 1, \"rewards\": [1, NaN, 2]}",
     EX_PROTOCOL},
    {"inf", "",
     "expected a line of JSON (other output belongs on stderr), got: {\"id\": "
     "1, \"rewards\": [1, 1e999, 2]}",
     EX_PROTOCOL},
    {"text", "",
     "\"rewards\"[1]: expected a number or null, got a string: {\"id\": 1, "
     "\"rewards\": [1, \"2\", 3]}",
     EX_PROTOCOL},
    {"id", "",
     "expected \"id\":1, that of the request: {\"id\": 7, \"rewards\": [1, 2, "
     "3]}",
     EX_PROTOCOL},
    {"channels", "",
     "\"channels\": the file has none: name them in the key channels of the "
     "function, each with a weight: {\"id\": 1, \"channels\": {\"a\": [1, 2, "
     "3]}}",
     EX_PROTOCOL},
    {"error", "", "it says: no judge is left", EX_UNAVAILABLE},
    {"twice", "",
     "%s wrote more than one line; the first is: {\"id\": 1, \"rewards\": [1, "
     "2, 3]}",
     EX_PROTOCOL},
    {"unasked", "",
     "the start: %s wrote more than one line; the first is: {\"ready\": true, "
     "\"abi\": 1}",
     EX_PROTOCOL},
    {"start-exit", "", "the start: %s ended with exit status 4",
     EX_UNAVAILABLE},
    {"start-hang", "", "the start: after 2 s: %s did not answer in time",
     EX_UNAVAILABLE},
    {"start-garbage", "",
     "the start: expected a line of JSON (other output belongs on stderr), "
     "got: hello",
     EX_PROTOCOL},
    {"start-abi", "",
     "the start: expected {\"ready\":true,\"abi\":1}, got: {\"ready\": true, "
     "\"abi\": 2}",
     EX_PROTOCOL},
    {"start-error", "", "the start: it says: no model at /x", EX_UNAVAILABLE},
};
enum { MODES = sizeof(modes) / sizeof(*modes) };

/* Ends the run with a message that names the function and what happened; no
 * process is left, in bounded time.
 */
static void each_failure_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        char wanted[1024] = "reward judge: ";
        struct dt_error err = {.text = ""};
        double values[3], start = dt_clock_now();
        const char *at = strstr(modes[i].error, "%s");
        size_t n = at ? (size_t)(at - modes[i].error) : 0;
        sprintf(wanted + strlen(wanted), "%.*s%s%s", (int)n, modes[i].error,
                at ? program : "", at ? at + 2 : modes[i].error);
        assert_int_equal(run(&modes[i], "retries: 0", false, values, &err), -1);
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.status, modes[i].status);
        assert_true(dt_clock_now() - start < 30);
    }
}

/* A new process repeats the request, and the run knows nothing of it. */
static void a_second_process_takes_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        struct dt_error err = {.text = ""};
        double values[3] = {0};
        int rc = run(&modes[i], "retries: 1", true, values, &err);
        if (strncmp(modes[i].mode, "start", 5) == 0 ||
            strcmp(modes[i].mode, "unasked") == 0) {
            assert_int_equal(rc, -1); /* the start of the run is not repeated */
            continue;
        }
        assert_string_equal(err.text, "");
        assert_int_equal(rc, 0);
        assert_true(values[0] == 1.5 && values[1] == 2.5 && values[2] == 0.5);
    }
}

/* on_error: nan goes on up to max_failed, with what is known. */
static void failures_may_leave_no_reward(void **state)
{
    static const char *const some[] = {"exit", "killed", "garbage",
                                       "few",  "huge",   "grandchild"};
    (void)state;
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
        const struct chaos mode = {.mode = some[i], .more = ""};
        struct dt_error err = {.text = ""};
        double values[3];
        assert_int_equal(
            run(&mode, "on_error: nan, max_failed: 1", false, values, &err), 0);
        assert_true(isnan(values[0]) && isnan(values[1]) && isnan(values[2]));
        assert_int_equal(
            run(&mode, "on_error: nan, max_failed: 0.7", false, values, &err),
            -1);
        assert_string_equal(err.text,
                            "reward judge: none of the 3 completions of the "
                            "step has a reward: the log says why");
    }
}

/* The mean and deviation of such rewards overflow; 1e30 itself is one. */
static void too_large_rewards_are_refused_by_name(void **state)
{
    const struct chaos large = {.mode = "large", .more = ""};
    struct dt_error err = {.text = ""};
    double values[3];
    (void)state;
    assert_int_equal(run(&large, "retries: 0", false, values, &err), -1);
    assert_int_equal(err.status, EX_PROTOCOL);
    assert_string_equal(err.text,
                        "reward judge: \"rewards\"[2]: -1.1e+30 is too large: "
                        "expected a number from -1e+30 to 1e+30, or none");
    assert_int_equal(run(&large, "retries: 0, on_error: nan, max_failed: 1",
                         false, values, &err),
                     0);
    assert_true(isnan(values[0]) && isnan(values[1]) && isnan(values[2]));
}

/* Collects `count` samples of a step one by one, of which the first fails. */
static int lose_one(struct dt_rewards *rewards, long step, size_t count,
                    struct dt_error *err)
{
    const struct dt_reward_sample samples[] = {sample_of("1", NULL),
                                               sample_of("22", NULL)};
    double values[2] = {0};
    assert_int_equal(dt_rewards_submit(rewards, step, samples, count, err), 0);
    int rc = dt_rewards_collect(rewards, values, count, err);
    assert_true(rc < 0 || (isnan(values[0]) && !isnan(values[count - 1])) ||
                count == 1);
    return rc;
}

/* A step's share is also that of the prompts that replace others, and is no
 * share of a few completions.
 */
static void failures_are_counted_over_many_completions(void **state)
{
    struct dt_error err = {.text = ""};
    char keys[1024];
    (void)state;
    snprintf(keys, sizeof(keys),
             "type: command, name: judge, command: [%s, as, picky], "
             "timeout_s: 20, retries: 0, batch_size: 1, on_error: nan, "
             "max_failed: 0.014",
             program);
    struct dt_conf *conf = one_function(keys);
    remove_files();
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_non_null(rewards);
    assert_int_equal(lose_one(rewards, 1, 2, &err), 0);
    assert_int_equal(lose_one(rewards, 1, 1, &err), 0); /* of 3 in all */
    assert_int_equal(lose_one(rewards, 2, 2, &err), 0);
    assert_int_equal(lose_one(rewards, 3, 2, &err), -1);
    assert_string_equal(err.text,
                        "reward judge: 4 of the last 7 completions have no "
                        "reward, and max_failed allows 3 of 256: the log says "
                        "why");
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

static void each_step_has_its_own_failures(void **state)
{
    struct dt_reward_sample sample = sample_of("1", NULL);
    struct dt_error err = {.text = ""};
    char keys[1024];
    double value;
    (void)state;
    remove_files();
    snprintf(keys, sizeof(keys),
             "type: command, name: judge, command: [%s, as, exit], "
             "timeout_s: 60, retries: 0, on_error: nan, max_failed: 1",
             program);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_non_null(rewards);
    for (long step = 1; step <= 2; step++) {
        assert_int_equal(dt_rewards_submit(rewards, step, &sample, 1, &err), 0);
        assert_int_equal(dt_rewards_collect(rewards, &value, 1, &err), 0);
        assert_true(isnan(value));
    }
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

/* What programs do that is odd and allowed. */
static void odd_programs_are_understood(void **state)
{
    const struct chaos null = {.mode = "null", .more = ""};
    const struct chaos loud = {.mode = "stderr", .more = ""};
    const struct chaos well = {.mode = "well", .more = ""};
    struct dt_error err = {.text = ""};
    double values[3];
    (void)state;
    assert_int_equal(run(&null, "retries: 0", false, values, &err), 0);
    assert_true(isnan(values[0]) && isnan(values[1]) && values[2] == 2);
    assert_int_equal(run(&loud, "retries: 0", false, values, &err), 0);
    assert_true(values[0] == 1.5);
    assert_int_equal(
        run(&well, "processes: 3, batch_size: 1", false, values, &err), 0);
    assert_true(values[0] == 1.5 && values[1] == 2.5 && values[2] == 0.5);
}

static void cpu_time_is_limited(void **state)
{
    const struct chaos burn = {.mode = "cpu", .more = "timeout_s: 600"};
    struct dt_error err = {.text = ""};
    double values[3];
    (void)state;
    assert_int_equal(run(&burn, "retries: 0, cpu_s: 1", false, values, &err),
                     -1);
    assert_non_null(strstr(err.text, "was killed by signal 9"));
}

/* No GPU, no rank, the directory of the file, and no descriptor of ours. */
static void programs_see_little_of_the_rank(void **state)
{
    char keys[1024];
    struct dt_error err = {.text = ""};
    struct dt_reward_sample samples[4];
    double values[4] = {-1, -1, -1, -1};
    (void)state;
    remove_files();
    setenv("RANK", "3", 1);
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    snprintf(keys, sizeof(keys), "type: command, command: [%s, as, where]",
             program);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    for (int i = 0; i < 4; i++)
        samples[i] = sample_of("a", NULL);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 4, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 4, &err), 0);
    assert_true(values[0] == 1 && values[1] == 0 && values[2] == 1);
    assert_true(values[3] == 0);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    unsetenv("RANK");
    close(leak);
}

/* Closing in the middle of a request does not wait for its deadline. */
static void closing_ends_what_runs(void **state)
{
    char keys[1024];
    struct dt_error err = {.text = ""};
    struct dt_reward_sample sample = sample_of("a", NULL);
    (void)state;
    remove_files();
    snprintf(keys, sizeof(keys),
             "type: command, command: [%s, as, hang], timeout_s: 3600",
             program);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    double start = dt_clock_now();
    assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
    dt_rewards_close(rewards);
    assert_true(dt_clock_now() - start < 60);
    assert_int_equal(count_alive(), 0);
    dt_conf_destroy(conf);
}

/* Asks a program that floods stderr; its last line is as long as what is kept
 * of one.
 */
static void ask_a_flood(int stop, double timeout_s, struct dt_error *err)
{
    char *argv[] = {program, "as", "start-flood", NULL};
    const struct dt_process_options options = {
        .argv = argv, .directory = ".", .name = "judge", .stop = stop};
    struct dt_process process = {0};
    const char *reply;
    size_t bytes;
    remove_files();
    assert_int_equal(dt_process_start(&process, &options, err), 0);
    assert_int_equal(
        dt_process_ask(&process, "{}\n", 100, timeout_s, &reply, &bytes, err),
        -1);
    dt_process_end(&process, 0);
    assert_int_equal(count_alive(), 0);
}

/* Stops what runs when the log has more of the flood. */
static void *stop_later(void *stop)
{
    struct stat before, now;
    fstat(STDERR_FILENO, &before);
    for (int i = 0; i < 12000; i++) {
        fstat(STDERR_FILENO, &now);
        if (now.st_size > before.st_size)
            break;
        dt_clock_sleep(0.005);
    }
    eventfd_write(*(int *)stop, 1);
    return NULL;
}

/* At a level of the log at which the program is faster than we are. */
static void a_flood_on_stderr_delays_no_deadline_and_no_stop(void **state)
{
    static char text[1 << 20];
    char wanted[640];
    struct dt_error err[2] = {{.text = ""}};
    pthread_t thread;
    int stop = eventfd(0, EFD_CLOEXEC);
    (void)state;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    ask_a_flood(-1, 0.2, &err[0]);
    pthread_create(&thread, NULL, stop_later, &stop);
    ask_a_flood(stop, 3600, &err[1]);
    pthread_join(thread, NULL);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    close(stop);
    snprintf(wanted, sizeof(wanted), "after 0.2 s: %s did not answer in time",
             program);
    if (!strstr(err[0].text, wanted))
        fail_msg("%s", err[0].text);
    snprintf(wanted, sizeof(wanted), "%s was stopped", program);
    assert_string_equal(err[1].text, wanted);
}

/* Of 20,000 lines a pipe holds 2000 that may be counted later. */
static void the_log_has_1000_lines_of_a_request(void **state)
{
    static char text[1 << 20];
    const struct chaos loud = {.mode = "stderr", .more = ""};
    struct dt_error err = {.text = ""};
    double values[3];
    (void)state;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    int rc = run(&loud, "retries: 0", false, values, &err);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    assert_int_equal(rc, 0);
    assert_int_equal(count_of(text, "judge: line "), 1000);
    assert_non_null(strstr(text, " more lines on stderr are left out"));
}

static void missing_programs_are_named(void **state)
{
    struct dt_error err = {.text = ""};
    struct dt_conf *conf = one_function("type: command, command: [no-judge-x]");
    char wanted[256];
    (void)state;
    assert_null(open_rewards(conf, &err));
    snprintf(wanted, sizeof(wanted),
             "reward command: the start: no-judge-x: cannot be started in %s: "
             "No such file or directory",
             test_directory);
    assert_string_equal(err.text, wanted);
    dt_conf_destroy(conf);
}

/* Steps follow each other with the same process. */
static void a_program_serves_many_steps(void **state)
{
    char keys[1024];
    struct dt_error err = {.text = ""};
    struct dt_reward_sample samples[] = {sample_of("a", NULL),
                                         sample_of("bb", NULL)};
    (void)state;
    remove_files();
    snprintf(keys, sizeof(keys),
             "type: command, name: judge, command: [%s, as, well]", program);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    struct dt_span_totals spent;
    dt_span_totals(&spent);
    const uint64_t spans = spent.count[DT_SPAN_SCORE];
    for (int step = 0; step < 20; step++) {
        double values[3];
        assert_int_equal(dt_rewards_submit(rewards, step, samples, 2, &err), 0);
        assert_int_equal(dt_rewards_submit(rewards, step, samples, 1, &err), 0);
        assert_int_equal(dt_rewards_collect(rewards, values, 3, &err), 0);
        assert_true(values[0] == 1.5 && values[1] == 2.5 && values[2] == 1.5);
    }
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    dt_span_totals(&spent);
    assert_true(spent.count[DT_SPAN_SCORE] - spans >= 20);
}

static int leave(void **state)
{
    remove_files();
    return leave_directory(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_is_named),
        cmocka_unit_test(a_second_process_takes_over),
        cmocka_unit_test(failures_may_leave_no_reward),
        cmocka_unit_test(too_large_rewards_are_refused_by_name),
        cmocka_unit_test(failures_are_counted_over_many_completions),
        cmocka_unit_test(each_step_has_its_own_failures),
        cmocka_unit_test(odd_programs_are_understood),
        cmocka_unit_test(cpu_time_is_limited),
        cmocka_unit_test(programs_see_little_of_the_rank),
        cmocka_unit_test(closing_ends_what_runs),
        cmocka_unit_test(a_flood_on_stderr_delays_no_deadline_and_no_stop),
        cmocka_unit_test(the_log_has_1000_lines_of_a_request),
        cmocka_unit_test(missing_programs_are_named),
        cmocka_unit_test(a_program_serves_many_steps),
    };
    if (argc > 2 && strcmp(argv[1], "as") == 0)
        return reward_program(argc, argv);
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return 1;
    dt_log_init(0, DT_LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave);
}
