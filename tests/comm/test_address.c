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
#include "comm/rendezvous.h"

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

static const struct dt_token token = {{7}}, other_token = {{8}};
static const struct dt_reach rank_0 = {.token = &token, .size = 2, .peer = 1};

/* Rank 1 listens. */
static struct dt_rendezvous *open_door(const struct dt_token *known,
                                       union dt_net_address *at)
{
    struct dt_error err;
    struct dt_rendezvous *door = dt_rendezvous_listen(NULL, &err);
    assert_non_null(door);
    const struct dt_rendezvous_options options = {
        .token = known, .rank = 1, .size = 2};
    assert_int_equal(dt_rendezvous_start(door, &options, &err), 0);
    *at = loopback(dt_rendezvous_port(door));
    return door;
}

static void assert_reaches(const union dt_net_address *at, int count,
                           const struct dt_reach_times *times, int expected)
{
    struct dt_error err;
    int fd;
    assert_int_equal(dt_reach_first(&rank_0, at, count, times, &fd, &err),
                     expected);
    close(fd);
}

static void the_first_address_where_the_rank_is_is_taken(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 60000,
                                         .prefer_ms = 60000};
    struct dt_rendezvous *stranger, *doors[2];
    union dt_net_address at[4] = {loopback(1)}; /* refuses */
    (void)state;
    stranger = open_door(&other_token, &at[1]);
    doors[0] = open_door(&token, &at[2]);
    doors[1] = open_door(&token, &at[3]);
    for (int i = 0; i < 3; i++)
        assert_reaches(at, 4, &times, 2);
    dt_rendezvous_close(doors[0]);
    assert_reaches(at, 4, &times, 3);
    dt_rendezvous_close(doors[1]);
    dt_rendezvous_close(stranger);
}

static void a_silent_address_delays_the_next_one_only_for_a_moment(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 60000, .prefer_ms = 50};
    struct silent silent;
    union dt_net_address at[2];
    struct dt_rendezvous *door = open_door(&token, &at[1]);
    (void)state;
    silent_open(&silent);
    at[0] = silent.at;
    double begun = dt_clock_now();
    assert_reaches(at, 2, &times, 1);
    assert_true(dt_clock_now() - begun < 30);
    silent_close(&silent);
    dt_rendezvous_close(door);
}

static void what_came_from_each_address_is_said(void **state)
{
    const struct dt_reach_times times = {.answer_ms = 300, .prefer_ms = 50};
    union dt_net_address at[3] = {loopback(1)};
    struct dt_rendezvous *stranger = open_door(&other_token, &at[1]);
    struct silent silent;
    struct dt_error err;
    char expected[512];
    int fd;
    (void)state;
    silent_open(&silent);
    at[2] = silent.at;
    assert_int_equal(dt_reach_first(&rank_0, at, 3, &times, &fd, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    snprintf(expected, sizeof(expected),
             "127.0.0.1 port 1: Connection refused; 127.0.0.1 port %u: it does "
             "not know the token of this run; 127.0.0.1 port %u: no answer "
             "within 300 ms",
             (unsigned)ntohs(at[1].v4.sin_port),
             (unsigned)ntohs(at[2].v4.sin_port));
    assert_string_equal(err.text, expected);
    silent_close(&silent);
    dt_rendezvous_close(stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            loopback_addresses_are_left_out_and_loopback_interfaces_are_not),
        cmocka_unit_test(link_local_addresses_come_last),
        cmocka_unit_test(the_first_address_where_the_rank_is_is_taken),
        cmocka_unit_test(
            a_silent_address_delays_the_next_one_only_for_a_moment),
        cmocka_unit_test(what_came_from_each_address_is_said),
    };
    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
