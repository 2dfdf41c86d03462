/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_library.c - libraries, in a process of their own and in ours */
#include "config.h"

#include "reward.h"

#include "base/log.h"
#include "reward/serve.h"

static char program[512], good[512], newer[512];

/* A function with the library; `more` are keys or "". */
static struct dt_rewards *open_library(struct dt_conf **conf, const char *path,
                                       const char *mode, const char *more,
                                       struct dt_error *err)
{
    char keys[2048];
    const struct dt_reward_options options = {.where = DT_CONF_RANK0,
                                              .program = program};
    snprintf(keys, sizeof(keys),
             "type: library, name: lib, path: %s, config: {mode: %s}, "
             "retries: 0%s%s",
             path, mode, *more ? ", " : "", more);
    *conf = one_function(keys);
    return dt_rewards_open(*conf, &options, err);
}

/* Scores two samples. */
static int run(const char *mode, const char *more, double values[2],
               struct dt_error *err)
{
    struct dt_conf *conf;
    struct dt_reward_sample samples[] = {sample_of("ab", NULL),
                                         sample_of("", "{\"k\": 1}")};
    struct dt_rewards *rewards = open_library(&conf, good, mode, more, err);
    samples[0].prompt = 2;
    samples[0].truncated = true;
    samples[1].messages = json_loads("[{\"role\": \"user\"}]", 0, NULL);
    int rc = rewards ? dt_rewards_submit(rewards, 3, samples, 2, err) : -1;
    if (rc == 0)
        rc = dt_rewards_collect(rewards, values, 2, err);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    json_decref((json_t *)samples[1].messages);
    sample_fini(&samples[1]);
    return rc;
}

/* The samples that the library sees are those that were submitted. */
static void a_library_sees_the_samples(void **state)
{
    static const char *const where[] = {"", "in_process: true"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dt_error err = {.text = ""};
        double values[2];
        assert_int_equal(run("well", where[i], values, &err), 0);
        assert_true(
            fabs(values[0] - (2e5 + 4e4 + 2e3 + 2e1 + 1 + 0.18 + 3e-4)) < 1e-9);
        assert_true(fabs(values[1] - (18e4 + 0 + 8e1 + 0.18 + 3e-4)) < 1e-9);
        assert_int_equal(run("none", where[i], values, &err), 0);
        assert_true(isnan(values[0]) && !isnan(values[1]));
    }
}

static void failures_of_a_library_are_named(void **state)
{
    static const struct {
        const char *mode, *more, *error;
        int status;
    } cases[] = {
        {"crash", "", "%s was killed by signal 11 (Segmentation fault)",
         EX_UNAVAILABLE},
        {"exit", "", "%s ended with exit status 6", EX_UNAVAILABLE},
        {"hang", "timeout_s: 2", "after 2 s: %s did not answer in time",
         EX_UNAVAILABLE},
        {"fail", "", "it says: %s says: cannot judge", EX_UNAVAILABLE},
        {"fail", "in_process: true", "%s says: cannot judge", EX_UNAVAILABLE},
        {"refuse", "", "the start: it says: %s says: no?model", EX_UNAVAILABLE},
        {"refuse", "in_process: true", "%s says: no?model", EX_UNAVAILABLE},
        {"infinite", "in_process: true",
         "%s: reward 1 is infinite: expected a finite number, or NaN where "
         "there is none",
         EX_PROTOCOL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_error err = {.text = ""};
        char wanted[2048], begin[256];
        double values[2];
        const char *at = strstr(cases[i].error, "%s");
        snprintf(begin, sizeof(begin), "%.*s", (int)(at - cases[i].error),
                 cases[i].error);
        snprintf(wanted, sizeof(wanted), "reward lib: %s%s%s", begin, good,
                 at + 2);
        assert_int_equal(run(cases[i].mode, cases[i].more, values, &err), -1);
        /* What it wrote to stdout is the last line on stderr. */
        err.text[strlen(wanted)] = '\0';
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.status, cases[i].status);
    }
}

static void other_files_are_refused(void **state)
{
    struct dt_error err = {.text = ""};
    struct dt_conf *conf;
    (void)state;
    assert_null(open_library(&conf, newer, "well", "in_process: true", &err));
    assert_non_null(
        strstr(err.text, "has version 2 of disttrain_reward.h, expected 1"));
    dt_conf_destroy(conf);
    assert_null(
        open_library(&conf, "train.txt", "well", "in_process: true", &err));
    assert_non_null(strstr(err.text, "train.txt: "));
    dt_conf_destroy(conf);
    assert_null(open_library(&conf, "train.txt", "well", "", &err));
    assert_non_null(strstr(err.text, "train.txt: "));
    dt_conf_destroy(conf);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_sees_the_samples),
        cmocka_unit_test(failures_of_a_library_are_named),
        cmocka_unit_test(other_files_are_refused),
    };
    if (argc == 4 && strcmp(argv[1], "reward") == 0) {
        int fd = dup(1);
        FILE *out = fdopen(fd, "w");
        return dup2(2, 1) < 0 || dt_reward_host(argv[3], stdin, out, NULL) < 0;
    }
    const char *root = getenv("DT_BUILDDIR");
    char path[512];
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return 1;
    snprintf(path, sizeof(path), "%s/tests/unit/reward.so", root ? root : ".");
    if (!realpath(path, good))
        return 1;
    snprintf(path, sizeof(path), "%s/tests/unit/reward_newer.so",
             root ? root : ".");
    if (!realpath(path, newer))
        return 1;
    dt_log_init(0, DT_LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
