/* SPDX-License-Identifier: Apache-2.0 */
/* test_port.c - ports of a step: apart, in range, free, and whose if not */
#include "config.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "spank/task/task_impl.h"

enum {
    FIRST = 61000, /* the default range */
    LAST = 65535,
    STEPS = 1200, /* that may be near each other */
};

/* Fails if one of the ports is held by another step, else takes it. */
static void take(int *holder, unsigned port, unsigned count, int step)
{
    for (unsigned i = 0; i < count; i++) {
        assert_in_range(port + i, FIRST, LAST);
        assert_true(holder[port + i] < 0 || holder[port + i] == step);
        holder[port + i] = step;
    }
}

static void release(int *holder, int step)
{
    for (int port = FIRST; port <= LAST; port++)
        if (holder[port] == step)
            holder[port] = -1;
}

/* Steps within a window that slides over `steps` numbers share no port. */
static void check_window(uint32_t job, int steps, int window, bool all)
{
    static int holder[LAST + 1];
    memset(holder, -1, sizeof(holder));
    for (int step = 0; step < steps; step++) {
        struct dtspank_ports ports;
        dtspank_port_choose(FIRST, LAST, job, (uint32_t)step, 8, &ports);
        if (step >= window)
            release(holder, step - window);
        take(holder, ports.master, 1, step);
        if (!all)
            continue;
        take(holder, ports.jax, 1, step);
        take(holder, ports.ras, 1, step);
        take(holder, ports.tf, 8, step);
    }
}

/* MASTER_PORT for 1701 steps in a row, all ports for 70. */
static void ports_of_neighboring_steps_differ(void **state)
{
    static const uint32_t jobs[] = {0, 1, 2, 4711, 4712, 67108863, UINT32_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        check_window(jobs[i], 3000, 1701, false);
        check_window(jobs[i], 500, 70, true);
    }
}

/* Numbers that Slurm gives to the first and to the last step of all. */
static void the_last_step_numbers_get_different_ports(void **state)
{
    struct dtspank_ports a;
    struct dtspank_ports b;
    (void)state;
    dtspank_port_choose(FIRST, LAST, UINT32_MAX, UINT32_MAX, 1, &a);
    dtspank_port_choose(FIRST, LAST, UINT32_MAX, UINT32_MAX - 1, 1, &b);
    assert_in_range(a.master, FIRST, LAST);
    assert_int_not_equal(a.master, b.master);
}

/* Jobs in a row, as they run side by side, are spread over the range. */
static void jobs_in_a_row_spread_over_the_range(void **state)
{
    static int hits[LAST + 1];
    int most = 0;
    (void)state;
    for (uint32_t job = 1; job <= 1701; job++) {
        struct dtspank_ports ports;
        dtspank_port_choose(FIRST, LAST, job, 0, 8, &ports);
        if (++hits[ports.master] > most)
            most = hits[ports.master];
    }
    assert_true(most <= 3);
}

static void ports_of_all_workers_lie_apart_in_range(void **state)
{
    static const unsigned sizes[] = {64, 65, 100, 128, 500, 4536, 60000};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (uint32_t step = 0; step < 200; step++) {
            unsigned last = 2000 + sizes[i] - 1;
            struct dtspank_ports ports;
            dtspank_port_choose(2000, last, 99, step, 20, &ports);
            assert_in_range(ports.master, 2000, last);
            assert_in_range(ports.jax, ports.master + 1, last);
            assert_in_range(ports.ras, ports.jax + 1, last);
            if (ports.tf > 0)
                assert_in_range(ports.tf, ports.ras + 1, last - 19);
            else
                assert_true(sizes[i] < 100);
        }
}

static void a_small_range_gives_only_the_master_port(void **state)
{
    struct dtspank_ports ports;
    (void)state;
    for (uint32_t step = 0; step < 10; step++) {
        dtspank_port_choose(2000, 2001, 99, step, 8, &ports);
        assert_in_range(ports.master, 2000, 2001);
        assert_int_equal(ports.jax, 0);
        assert_int_equal(ports.tf, 0);
        assert_int_equal(ports.ras, 0);
    }
}

static void reserved_ports_are_used_where_they_suffice(void **state)
{
    static const struct {
        const char *list;
        unsigned master, jax, tf;
    } cases[] = {
        {"12000-12008", 12000, 12001, 12001}, /* as Slurm does for 8 tasks */
        {"12000-12007", 12000, 12001, 7},     /* one short */
        {"12000,12005-12012", 12000, 12005, 12005},
        {"12000-12004,12009-12012", 12000, 12001, 7}, /* a gap */
        {"12000,12009", 12000, 12009, 7},
        {"12000", 12000, 6, 7},
        {"hello", 5, 6, 7},
        {"", 5, 6, 7},
        {"0", 5, 6, 7},
        {"12001-12000", 5, 6, 7},
        {"99999", 5, 6, 7},
        {"12000-99999", 5, 6, 7},
        {"12000-", 5, 6, 7},
        {"12000x,12001", 12000, 6, 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dtspank_ports ports = {.master = 5, .jax = 6, .tf = 7, .ras = 8};
        dtspank_port_reserve(cases[i].list, 8, &ports);
        assert_int_equal(ports.master, cases[i].master);
        assert_int_equal(ports.jax, cases[i].jax);
        assert_int_equal(ports.tf, cases[i].tf);
        assert_int_equal(ports.ras, 8);
    }
}

/* A socket on *port of 127.0.0.1 or ::1; 0 is any port, which is written. */
static int hold(int family, bool listening, unsigned *port)
{
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in)
                                       : sizeof(struct sockaddr_in6);
    int yes = 1;
    int fd = socket(family, SOCK_STREAM, 0);
    if (listening)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    ((struct sockaddr_in *)&address)->sin_port = htons((in_port_t)*port);
    if (family == AF_INET)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr =
            htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0)
        skip();
    if (listening && listen(fd, 1) != 0)
        fail();
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    return fd;
}

static void assert_taken(unsigned port, const char *holder)
{
    char text[512];
    struct dt_error err;
    assert_int_equal(dtspank_port_test("MASTER_PORT", port, &err), -1);
    snprintf(text, sizeof(text),
             "MASTER_PORT: port %u is taken%s; end that program, start the "
             "step again for "
             "another port, or set MASTER_PORT to a free one",
             port, holder);
    assert_string_equal(err.text, text);
}

static void the_holder_of_a_taken_port_is_named(void **state)
{
    unsigned port = 0;
    char name[16];
    char holder[64];
    struct dt_error err;
    (void)state;
    int fd = hold(AF_INET, true, &port);
    assert_int_equal(prctl(PR_GET_NAME, name), 0);
    snprintf(holder, sizeof(holder), " by process %d (%s)", getpid(), name);
    assert_taken(port, holder);
    close(fd);
    assert_int_equal(dtspank_port_test("MASTER_PORT", port, &err), 0);
}

/* A socket that is bound and nothing more is in no table. */
static void a_taken_port_may_have_no_known_holder(void **state)
{
    unsigned port = 0;
    (void)state;
    int fd = hold(AF_INET, false, &port);
    assert_taken(port, "");
    close(fd);
}

/* torch then listens on IPv4, and that is enough. */
static void a_port_taken_only_on_ipv6_is_free(void **state)
{
    unsigned port = 0;
    struct dt_error err;
    (void)state;
    int ipv4 = hold(AF_INET, false, &port); /* nobody else has it there */
    int fd = hold(AF_INET6, true, &port);
    close(ipv4);
    assert_int_equal(dtspank_port_test("MASTER_PORT", port, &err), 0);
    close(fd);
}

static void a_port_of_an_ended_connection_is_free(void **state)
{
    unsigned port = 0;
    struct dt_error err;
    struct sockaddr_in address = {.sin_family = AF_INET};
    (void)state;
    int server = hold(AF_INET, true, &port);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    assert_int_equal(
        connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    int peer = accept(server, NULL, NULL);
    close(peer); /* first: the server's side waits */
    close(client);
    close(server);
    assert_int_equal(dtspank_port_test("MASTER_PORT", port, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_of_neighboring_steps_differ),
        cmocka_unit_test(the_last_step_numbers_get_different_ports),
        cmocka_unit_test(jobs_in_a_row_spread_over_the_range),
        cmocka_unit_test(ports_of_all_workers_lie_apart_in_range),
        cmocka_unit_test(a_small_range_gives_only_the_master_port),
        cmocka_unit_test(reserved_ports_are_used_where_they_suffice),
        cmocka_unit_test(the_holder_of_a_taken_port_is_named),
        cmocka_unit_test(a_taken_port_may_have_no_known_holder),
        cmocka_unit_test(a_port_taken_only_on_ipv6_is_free),
        cmocka_unit_test(a_port_of_an_ended_connection_is_free),
    };
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
