/* SPDX-License-Identifier: Apache-2.0 */
/* test_base_net.c - numeric addresses, and the source of packets to a host */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/net.h"

static union dt_net_address parse(const char *text, unsigned port)
{
    union dt_net_address address;
    assert_true(dt_net_parse(&address, text, port) > 0);
    return address;
}

static void addresses_are_parsed_and_printed(void **state)
{
    const char *const texts[] = {"127.0.0.1", "192.0.2.7", "::1", "2001:db8::"};
    char back[DT_NET_ADDRESS_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        union dt_net_address address = parse(texts[i], 1);
        dt_net_print(&address, back);
        assert_string_equal(back, texts[i]);
    }
    assert_int_equal(parse("192.0.2.7", 513).v4.sin_port, htons(513));
    assert_int_equal(parse("::1", 513).v6.sin6_port, htons(513));
}

static void a_name_is_not_a_numeric_address(void **state)
{
    union dt_net_address address;
    (void)state;
    assert_int_equal(dt_net_parse(&address, "localhost", 1), 0);
    assert_int_equal(dt_net_parse(&address, "", 1), 0);
    assert_int_equal(dt_net_parse(&address, "1.2.3", 1), 0);
}

static void an_address_is_the_same_on_any_port(void **state)
{
    union dt_net_address a = parse("192.0.2.7", 1);
    union dt_net_address b = parse("192.0.2.7", 2);
    union dt_net_address c = parse("192.0.2.8", 1);
    union dt_net_address d = parse("2001:db8::7", 1);
    union dt_net_address e = parse("2001:db8::7", 2);
    union dt_net_address f = parse("2001:db8::8", 1);
    const struct sockaddr_un file = {.sun_family = AF_UNIX};
    (void)state;
    assert_true(dt_net_same_host(&a, &b.any));
    assert_true(dt_net_same_host(&d, &e.any));
    assert_false(dt_net_same_host(&a, &c.any));
    assert_false(dt_net_same_host(&d, &f.any));
    assert_false(dt_net_same_host(&a, &d.any));
    assert_false(dt_net_same_host(&a, (const void *)&file));
    assert_false(dt_net_same_host(&a, NULL));
}

static void an_address_leads_to_this_host_its_network_or_farther(void **state)
{
    const struct {
        const char *text;
        enum dt_net_reach reach;
    } cases[] = {
        {"127.0.0.1", DT_NET_HOST},
        {"127.255.255.255", DT_NET_HOST},
        {"0.0.0.0", DT_NET_HOST},
        {"::1", DT_NET_HOST},
        {"::", DT_NET_HOST},
        {"::ffff:127.0.1.1", DT_NET_HOST},
        {"126.255.255.255", DT_NET_ROUTED},
        {"128.0.0.0", DT_NET_ROUTED},
        {"169.254.0.0", DT_NET_LINK},
        {"169.254.255.255", DT_NET_LINK},
        {"::ffff:169.254.3.1", DT_NET_LINK},
        {"169.253.255.255", DT_NET_ROUTED},
        {"169.255.0.0", DT_NET_ROUTED},
        {"fe80::1", DT_NET_LINK},
        {"febf::1", DT_NET_LINK},
        {"fec0::1", DT_NET_ROUTED},
        {"fd00::1", DT_NET_ROUTED},
        {"::2", DT_NET_ROUTED},
    };
    const struct sockaddr_un file = {.sun_family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        union dt_net_address address = parse(cases[i].text, 1);
        if (dt_net_reach(&address.any) != cases[i].reach)
            fail_msg("%s", cases[i].text);
    }
    assert_int_equal(dt_net_reach(NULL), DT_NET_HOST);
    assert_int_equal(dt_net_reach((const void *)&file), DT_NET_HOST);
}

static void packets_to_loopback_leave_from_it(void **state)
{
    union dt_net_address to;
    union dt_net_address source;
    socklen_t length = dt_net_parse(&to, "127.0.0.1", 9);
    (void)state;
    assert_int_equal(dt_net_source(&to.any, length, &source), 0);
    assert_true(dt_net_same_host(&source, &to.any));
}

static void a_host_without_a_route_has_no_source(void **state)
{
    union dt_net_address to;
    union dt_net_address source;
    socklen_t length = dt_net_parse(&to, "192.0.2.1", 9);
    (void)state;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        skip(); /* no namespaces here */
    assert_int_equal(dt_net_source(&to.any, length, &source), ENETUNREACH);
}

static void an_unknown_family_is_an_error(void **state)
{
    const struct sockaddr to = {.sa_family = AF_MAX};
    union dt_net_address source;
    (void)state;
    assert_int_equal(dt_net_source(&to, sizeof(to), &source), EAFNOSUPPORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_parsed_and_printed),
        cmocka_unit_test(a_name_is_not_a_numeric_address),
        cmocka_unit_test(an_address_is_the_same_on_any_port),
        cmocka_unit_test(an_address_leads_to_this_host_its_network_or_farther),
        cmocka_unit_test(packets_to_loopback_leave_from_it),
        cmocka_unit_test(an_unknown_family_is_an_error),
        /* last: it leaves this network */
        cmocka_unit_test(a_host_without_a_route_has_no_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
