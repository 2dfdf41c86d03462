/* SPDX-License-Identifier: Apache-2.0 */
/* test_siteconf.c - plugstack.conf arguments: defaults, values, mistakes */
#include "config.h"

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

#include "spank/siteconf.h"

static void no_arguments_mean_the_defaults(void **state)
{
    struct dtspank_siteconf conf;
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(0, NULL, &conf, NULL), 0);
    assert_string_equal(conf.runtime, DTSPANK_RUNTIME);
    assert_int_equal(conf.port_first, 61000);
    assert_int_equal(conf.port_last, 65535);
    for (int part = 0; part < DTSPANK_PART_COUNT; part++)
        assert_false(dtspank_siteconf_off(&conf, part));
}

static void given_values_replace_the_defaults(void **state)
{
    char *av[] = {"port_range=1024-1024", "runtime=/opt/x=y/disttrain"};
    struct dtspank_siteconf conf;
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(2, av, &conf, NULL), 0);
    assert_string_equal(conf.runtime, "/opt/x=y/disttrain");
    assert_int_equal(conf.port_first, 1024);
    assert_int_equal(conf.port_last, 1024);
}

#define UNKNOWN(arg)                                                           \
    "plugstack.conf: unknown argument \"" arg                                  \
    "\": expected runtime=PATH, port_range=A-B, env=NAME=VALUE, "              \
    "force=NAME=VALUE, allow_runtime=DIR or off=PART"
#define PORTS(value)                                                           \
    "plugstack.conf: port_range: expected A-B with 1024 <= A <= B <= 65535, "  \
    "got \"" value "\""

#define OFF(value)                                                             \
    "plugstack.conf: off: expected some of console,signal,requeue,preflight,"  \
    "ports,net,gpu,cpu,limits, got \"" value "\""
#define VARIABLE(key, value)                                                   \
    "plugstack.conf: " key ": expected NAME=VALUE, got \"" value "\""
#define RESERVED(key, name)                                                    \
    "plugstack.conf: " key ": " name                                           \
    " cannot be set by the site: it comes from the step"

static void a_wrong_argument_is_named_and_refused(void **state)
{
    static const struct {
        char *arg;
        const char *text;
    } cases[] = {
        {"runtme=/x", UNKNOWN("runtme=/x")},
        {"runtime", UNKNOWN("runtime")},
        {"run=/x", UNKNOWN("run=/x")},
        {"", UNKNOWN("")},
        {"=", UNKNOWN("=")},
        {"runtime=disttrain",
         "plugstack.conf: runtime: expected an absolute path, got "
         "\"disttrain\""},
        {"runtime=",
         "plugstack.conf: runtime: expected an absolute path, got \"\""},
        {"port_range=5-7", PORTS("5-7")},
        {"port_range=3000-2000", PORTS("3000-2000")},
        {"port_range=2000-65536", PORTS("2000-65536")},
        {"port_range=2000-3000x", PORTS("2000-3000x")},
        {"port_range=2000", PORTS("2000")},
        {"port_range=", PORTS("")},
        {"port_range=99999999999-2", PORTS("99999999999-2")},
        {"port_range=-5--3", PORTS("-5--3")},
        {"port_range[gpu]=2000-3000", UNKNOWN("port_range[gpu]=2000-3000")},
        {"env[]=A=1", UNKNOWN("env[]=A=1")},
        {"env[gpu=A=1", UNKNOWN("env[gpu=A=1")},
        {"env[gpu]A=1", UNKNOWN("env[gpu]A=1")},
        {"env[gpu]", UNKNOWN("env[gpu]")},
        {"env=", VARIABLE("env", "")},
        {"env=A", VARIABLE("env", "A")},
        {"env=1A=x", VARIABLE("env", "1A=x")},
        {"env==x", VARIABLE("env", "=x")},
        {"force[gpu]=A-B=x", VARIABLE("force", "A-B=x")},
        {"env=RANK=0", RESERVED("env", "RANK")},
        {"force=MASTER_PORT=1", RESERVED("force", "MASTER_PORT")},
        {"env[gpu]=SLURM_JOB_ID=1", RESERVED("env", "SLURM_JOB_ID")},
        {"force=PMIX_RANK=1", RESERVED("force", "PMIX_RANK")},
        {"off=", OFF("")},
        {"off=gpus", OFF("gpus")},
        {"off=gpu,", OFF("")},
        {"off=gpu,Net", OFF("Net")},
        {"allow_runtime=opt",
         "plugstack.conf: allow_runtime: expected an absolute path, got "
         "\"opt\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *av[] = {cases[i].arg};
        struct dtspank_siteconf conf;
        struct dt_error err;
        assert_int_equal(dtspank_siteconf_parse(1, av, &conf, &err), -1);
        assert_string_equal(err.text, cases[i].text);
        assert_string_equal(conf.runtime, DTSPANK_RUNTIME);
        assert_int_equal(conf.port_first, 61000);
    }
}

static void off_disables_only_the_named_parts(void **state)
{
    char *av[] = {"off=gpu", "off=limits,console"};
    struct dtspank_siteconf conf;
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(2, av, &conf, NULL), 0);
    for (int part = 0; part < DTSPANK_PART_COUNT; part++)
        assert_int_equal(dtspank_siteconf_off(&conf, part),
                         part == DTSPANK_GPU || part == DTSPANK_LIMITS ||
                             part == DTSPANK_CONSOLE);
}

/* All that `key` sets in a partition, with a blank behind each. */
static void assert_variables(const struct dtspank_siteconf *conf,
                             const char *key, const char *partition,
                             const char *expected)
{
    char text[256] = "";
    const char *entry;
    int at = 0;
    while ((entry = dtspank_siteconf_variable(conf, key, partition, &at)))
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                 entry);
    assert_string_equal(text, expected);
}

static void the_partition_wins_then_what_is_said_last(void **state)
{
    char *av[] = {
        "env[gpu]=A=gpu", "force[cpu]=C=x=y", "env=A=first", "env=B=",
        "env=A=last",     "force=A=forced",   "env=AB=1",    "env[gpu]=B=1",
    };
    struct dtspank_siteconf conf;
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(8, av, &conf, NULL), 0);
    assert_variables(&conf, "env", "gpu", "A=gpu AB=1 B=1 ");
    assert_variables(&conf, "env", "cpu", "B= A=last AB=1 ");
    assert_variables(&conf, "env", "", "B= A=last AB=1 ");
    assert_variables(&conf, "env", "gp", "B= A=last AB=1 ");
    assert_variables(&conf, "force", "cpu", "C=x=y A=forced ");
    assert_variables(&conf, "force", "gpu", "A=forced ");
}

static char dir[] = "/tmp/test_siteconf.XXXXXX";

static void in_dir(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
}

static void make_program(const char *name, mode_t mode)
{
    char path[64];
    in_dir(path, sizeof(path), name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

/* DIR/yes/a may be used; DIR/no/a may not, whatever leads to it. */
static int setup_programs(void **state)
{
    char path[64];
    char target[64];
    static const char *const folders[] = {"yes", "yes/deep", "no", "yesyes"};
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        in_dir(path, sizeof(path), folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    make_program("yes/a", 0755);
    make_program("yes/deep/a", 0755);
    make_program("yes/text", 0644);
    make_program("no/a", 0755);
    make_program("yesyes/a", 0755);
    in_dir(path, sizeof(path), "yes/link");
    in_dir(target, sizeof(target), "no/a");
    assert_int_equal(symlink(target, path), 0);
    in_dir(path, sizeof(path), "no/link");
    in_dir(target, sizeof(target), "yes/a");
    assert_int_equal(symlink(target, path), 0);
    return 0;
}

static int teardown_programs(void **state)
{
    static const char *const names[] = {
        "yes/a",   "yes/deep/a", "yes/text", "no/a", "yesyes/a", "yes/link",
        "no/link", "yes/deep",   "yes",      "no",   "yesyes",   "",
    };
    char path[64];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        in_dir(path, sizeof(path), names[i]);
        assert_int_equal(remove(path), 0);
    }
    return 0;
}

static void assert_runtime(struct dtspank_siteconf *conf, const char *name,
                           const char *refusal)
{
    struct dt_error err = {.text = ""};
    char path[64];
    char expected[256] = "";
    in_dir(path, sizeof(path), name);
    if (refusal)
        snprintf(expected, sizeof(expected), "%s%s", path, refusal);
    assert_int_equal(dtspank_siteconf_use_runtime(conf, path, &err),
                     refusal ? -1 : 0);
    assert_string_equal(err.text, expected);
    assert_string_equal(conf->runtime, refusal ? DTSPANK_RUNTIME : path);
    conf->runtime = DTSPANK_RUNTIME;
}

#define OUTSIDE " is in none of the directories that this site allows"

static void only_runtimes_in_allowed_directories_are_used(void **state)
{
    char allowed[80];
    char *av[] = {"allow_runtime=/nonexistent", allowed};
    struct dtspank_siteconf conf;
    struct dt_error err;
    (void)state;
    snprintf(allowed, sizeof(allowed), "allow_runtime=%s/yes", dir);
    assert_int_equal(dtspank_siteconf_parse(2, av, &conf, NULL), 0);
    assert_runtime(&conf, "yes/a", NULL);
    assert_runtime(&conf, "yes/deep/a", NULL);
    assert_runtime(&conf, "no/link", NULL);
    assert_runtime(&conf, "no/a", OUTSIDE);
    assert_runtime(&conf, "yesyes/a", OUTSIDE);
    assert_runtime(&conf, "yes/link", OUTSIDE);
    assert_runtime(&conf, "yes/../no/a", OUTSIDE);
    assert_runtime(&conf, "yes/b", ": No such file or directory");
    assert_runtime(&conf, "yes/text", ": Permission denied");
    assert_int_equal(dtspank_siteconf_use_runtime(&conf, "yes/a", &err), -1);
    assert_string_equal(err.text, "expected an absolute path, got \"yes/a\"");

    assert_int_equal(dtspank_siteconf_parse(0, NULL, &conf, NULL), 0);
    assert_int_equal(dtspank_siteconf_use_runtime(&conf, "/bin/sh", &err), -1);
    assert_string_equal(err.text, "this site allows no runtime except its "
                                  "own: " DTSPANK_RUNTIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_arguments_mean_the_defaults),
        cmocka_unit_test(given_values_replace_the_defaults),
        cmocka_unit_test(a_wrong_argument_is_named_and_refused),
        cmocka_unit_test(off_disables_only_the_named_parts),
        cmocka_unit_test(the_partition_wins_then_what_is_said_last),
        cmocka_unit_test_setup_teardown(
            only_runtimes_in_allowed_directories_are_used, setup_programs,
            teardown_programs),
    };
    return cmocka_run_group_tests_name("siteconf", tests, NULL, NULL);
}
