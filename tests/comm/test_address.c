/* SPDX-License-Identifier: Apache-2.0 */
/* test_address.c - which addresses a host offers, and which of them is taken */
#include "config.h"

#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/address.h"

enum { MOST = 8 };

/* The addresses that a host with these interfaces offers, "a b c". */
static void assert_offers(const char *const interfaces[][2], const char *first,
                          const char *expected)
{
    struct ifaddrs all[MOST] = {0};
    union dt_net_address addresses[MOST];
    struct dt_address_list list;
    char text[256] = "";
    for (int i = 0; interfaces[i][0]; i++) {
        all[i].ifa_name = (char *)interfaces[i][0];
        all[i].ifa_flags = strcmp(all[i].ifa_name, "down") ? IFF_UP : 0;
        if (!strcmp(all[i].ifa_name, "lo"))
            all[i].ifa_flags |= IFF_LOOPBACK;
        if (dt_net_parse(&addresses[i], interfaces[i][1], 0) > 0)
            all[i].ifa_addr = &addresses[i].any;
        if (i > 0)
            all[i - 1].ifa_next = &all[i];
    }
    dt_address_list(all, first, &list);
    for (int i = 0; i < DT_ADDRESSES && list.text[i][0]; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                 i ? " " : "", list.text[i]);
    assert_string_equal(text, expected);
}

static void loopback_addresses_are_left_out_and_loopback_interfaces_are_not(
    void **state)
{
    (void)state;
    assert_offers((const char *const[][2]){{"lo", "127.0.0.1"},
                                           {"lo", "10.11.12.1"},
                                           {"lo", "::1"},
                                           {"eth0", "fe80::1"},
                                           {NULL, NULL}},
                  NULL, "10.11.12.1");
    assert_offers((const char *const[][2]){{"lo", "127.0.0.1"},
                                           {"down", "10.0.0.1"},
                                           {"eth0", ""},
                                           {NULL, NULL}},
                  NULL, "");
}

static void link_local_addresses_come_last(void **state)
{
    const char *const interfaces[][2] = {{"lo", "127.0.0.1"},
                                         {"bmc0", "169.254.3.1"},
                                         {"eth1", "10.11.12.1"},
                                         {"eth2", "fd00::7"},
                                         {NULL, NULL}};
    (void)state;
    assert_offers(interfaces, NULL, "10.11.12.1 fd00::7 169.254.3.1");
    assert_offers(interfaces, "eth2", "fd00::7 10.11.12.1 169.254.3.1");
    assert_offers(interfaces, "bmc0", "10.11.12.1 fd00::7 169.254.3.1");
    assert_offers(interfaces, "eth9", "10.11.12.1 fd00::7 169.254.3.1");
}

static union dt_net_address loopback(unsigned port)
{
    union dt_net_address address;
    assert_true(dt_net_parse(&address, "127.0.0.1", port) > 0);
    return address;
}

/* A port that swallows packets: connections that nobody accepts fill it. */
struct silent {
    int listener, guests[4];
    union dt_net_address at;
};

static void silent_open(struct silent *s)
{
    socklen_t bytes = sizeof(s->at);
    s->at = loopback(0);
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listener, &s->at.any, sizeof(s->at.v4)), 0);
    assert_int_equal(listen(s->listener, 0), 0);
    assert_int_equal(getsockname(s->listener, &s->at.any, &bytes), 0);
    for (int i = 0; i < 4; i++) {
        s->guests[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(s->guests[i], &s->at.any, sizeof(s->at.v4));
    }
}

static void silent_close(struct silent *s)
{
    for (int i = 0; i < 4; i++)
        close(s->guests[i]);
    close(s->listener);
}

static void the_first_address_that_answers_is_taken(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 60000,
                                         .prefer_ms = 60000};
    unsigned ports[2];
    struct dt_door *doors[2];
    union dt_net_address at[3], source;
    struct dt_error err;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_non_null(doors[i] = dt_door_open(&ports[i], &err));
    at[0] = loopback(1); /* refuses */
    at[1] = loopback(ports[0]);
    at[2] = loopback(ports[1]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(dt_reach_first(at, 3, &times, &source, &err), 1);
    assert_true(dt_net_same_host(&source, &at[1].any));
    dt_door_close(doors[0]);
    assert_int_equal(dt_reach_first(at, 3, &times, &source, &err), 2);
    dt_door_close(doors[1]);
}

static void a_silent_address_delays_the_next_one_only_for_a_moment(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 60000, .prefer_ms = 50};
    struct silent silent;
    unsigned port;
    struct dt_error err;
    struct dt_door *door = dt_door_open(&port, &err);
    union dt_net_address source;
    (void)state;
    silent_open(&silent);
    const union dt_net_address at[] = {silent.at, loopback(port)};
    double begun = dt_clock_now();
    assert_int_equal(dt_reach_first(at, 2, &times, &source, &err), 1);
    assert_true(dt_clock_now() - begun < 30);
    silent_close(&silent);
    dt_door_close(door);
}

static void what_came_from_each_address_is_said(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 50, .prefer_ms = 50};
    struct silent silent;
    union dt_net_address source;
    struct dt_error err;
    (void)state;
    silent_open(&silent);
    const union dt_net_address at[] = {silent.at, loopback(1)};
    assert_int_equal(dt_reach_first(at, 2, &times, &source, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    assert_string_equal(err.text, "127.0.0.1: no answer within 50 ms; "
                                  "127.0.0.1: Connection refused");
    silent_close(&silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            loopback_addresses_are_left_out_and_loopback_interfaces_are_not),
        cmocka_unit_test(link_local_addresses_come_last),
        cmocka_unit_test(the_first_address_that_answers_is_taken),
        cmocka_unit_test(
            a_silent_address_delays_the_next_one_only_for_a_moment),
        cmocka_unit_test(what_came_from_each_address_is_said),
    };
    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
