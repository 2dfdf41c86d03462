/* SPDX-License-Identifier: Apache-2.0 */
/* test_connected.c - which hosts are connected to a port */
#include "config.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "console/console.h"
#include "console/console_impl.h"

/* As the kernel writes them; of 10.11.12.1, port 61234 is EF32. */
static const char tcp4[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n"
    "   0: 00000000:EF32 00000000:0000 0A 00000000:00000000 00:00000000\n"
    "   1: 010C0B0A:EF32 020C0B0A:9C41 01 00000000:00000000 00:00000000\n"
    "   2: 010C0B0A:EF32 020C0B0A:9C42 01 00000000:00000000 00:00000000\n"
    "   3: 010C0B0A:EF32 010C0B0A:9C43 01 00000000:00000000 00:00000000\n"
    "   4: 0100007F:EF32 0100007F:9C44 01 00000000:00000000 00:00000000\n"
    "   5: 010C0B0A:EF33 030C0B0A:9C41 01 00000000:00000000 00:00000000\n"
    "   6: 010C0B0A:9C43 040C0B0A:EF32 01 00000000:00000000 00:00000000\n"
    "garbage\n";
static const char tcp6[] =
    "  sl  local_address                         remote_address\n"
    "   0: 00000000000000000000000000000000:EF32 "
    "00000000000000000000000000000000:0000 0A 00000000:00000000\n"
    "   1: 0000000000000000FFFF0000010C0B0A:EF32 "
    "0000000000000000FFFF0000040C0B0A:9C41 06 00000000:00000000\n"
    "   2: 000080FE000000000000000001000000:EF32 "
    "000080FE000000000000000002000000:9C41 01 00000000:00000000\n";

static void read_table(struct dt_connected *connected, const char *text,
                       unsigned port)
{
    const unsigned ports[] = {0, port};
    FILE *table = fmemopen((void *)text, strlen(text), "r");
    assert_non_null(table);
    dt_connected_read(connected, table, ports, 2);
    fclose(table);
}

static bool has(const struct dt_connected *connected, const char *address)
{
    struct in6_addr in6;
    assert_int_equal(inet_pton(AF_INET6, address, &in6), 1);
    return dt_connected_has(connected, &in6);
}

static void each_node_connected_to_the_port_counts_once(void **state)
{
    struct dt_connected connected = {.count = 0};
    (void)state;
    read_table(&connected, tcp4, 61236);
    assert_int_equal(connected.listens, 0);
    read_table(&connected, tcp4, 61234);
    assert_int_equal(connected.listens, 61234);
    assert_int_equal(connected.count, 1);
    assert_true(has(&connected, "::ffff:10.11.12.2"));
    assert_false(has(&connected, "::ffff:10.11.12.3"));
    connected.listens = 0;
    read_table(&connected, tcp6, 61234);
    assert_int_equal(connected.listens, 61234);
    assert_int_equal(connected.count, 3);
    assert_true(has(&connected, "::ffff:10.11.12.4"));
    assert_true(has(&connected, "fe80::2"));
    free(connected.addresses);
}

/* A kernel with many buckets takes milliseconds to print its tables. */
static void looks_take_little_of_the_cpu_of_rank_0(void **state)
{
    (void)state;
    assert_int_equal(dt_console_watch_pause(0), 500);
    assert_int_equal(dt_console_watch_pause(0.0025), 500);
    assert_int_equal(dt_console_watch_pause(0.0175), 3500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_node_connected_to_the_port_counts_once),
        cmocka_unit_test(looks_take_little_of_the_cpu_of_rank_0),
    };
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
