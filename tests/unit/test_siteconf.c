/* SPDX-License-Identifier: Apache-2.0 */
/* test_siteconf.c - plugstack.conf arguments: defaults, values, mistakes */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spank/siteconf.h"

static void test_defaults(void **state)
{
    struct dtspank_siteconf conf;
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(0, NULL, &conf, NULL), 0);
    assert_string_equal(conf.runtime, DTSPANK_RUNTIME);
    assert_int_equal(conf.port_first, 61000);
    assert_int_equal(conf.port_last, 65535);
}

static void test_values(void **state)
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
    "\": expected runtime=PATH or port_range=A-B"
#define PORTS(value)                                                           \
    "plugstack.conf: port_range: expected A-B with 1024 <= A <= B <= 65535, "  \
    "got \"" value "\""

static void test_mistakes(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests_name("siteconf", tests, NULL, NULL);
}
