/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostlist.c - the n-th host of a host list, and what is no host list */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spank/hostlist.h"

static void the_hosts_of_a_list_come_in_order(void **state)
{
    static const struct {
        const char *list;
        const char *hosts[14];
    } cases[] = {
        {"a", {"a"}},
        {"a1,b[2-3],c", {"a1", "b2", "b3", "c"}},
        {"n[08-10]", {"n08", "n09", "n10"}},
        {"n[8-10]", {"n8", "n9", "n10"}},
        {"n[001,3,7-8]", {"n001", "n3", "n7", "n8"}},
        {"r[0-1]n[08-10]",
         {"r0n08", "r0n09", "r0n10", "r1n08", "r1n09", "r1n10"}},
        {"n[01-02]-ib", {"n01-ib", "n02-ib"}},
        {"a-b.example.org,[3-4]", {"a-b.example.org", "3", "4"}},
        {"x[1]y[2]z[3-4]", {"x1y2z3", "x1y2z4"}},
        /* as scontrol show hostnames prints them */
        {"a[1-2]b[3,7-8]c[1-2]",
         {"a1b3c1", "a1b3c2", "a2b3c1", "a2b3c2", "a1b7c1", "a1b7c2", "a2b7c1",
          "a2b7c2", "a1b8c1", "a1b8c2", "a2b8c1", "a2b8c2"}},
        {"a[1-2]b[1-2]c[1]d[1-2],x3",
         {"a1b1c1d1", "a1b1c1d2", "a2b1c1d1", "a2b1c1d2", "a1b2c1d1",
          "a1b2c1d2", "a2b2c1d1", "a2b2c1d2", "x3"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char host[64];
        uint32_t n = 0;
        for (; cases[i].hosts[n]; n++) {
            assert_int_equal(dtspank_hostlist_nth(cases[i].list, n, host,
                                                  sizeof(host), NULL),
                             0);
            assert_string_equal(host, cases[i].hosts[n]);
        }
        assert_int_equal(
            dtspank_hostlist_nth(cases[i].list, n, host, sizeof(host), NULL),
            -1);
    }
}

static void free_hosts(char **hosts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(hosts[i]);
}

/* The hosts of each list at once are the same as one by one. */
static void expanding_a_list_gives_the_same_hosts(void **state)
{
    static const char *const lists[] = {
        "a",
        "a1,b[2-3],c",
        "n[001,3,7-8]",
        "r[0-1]n[08-10]",
        "n[01-02]-ib",
        "x[1]y[2]z[3-4]",
        "a[1-2]b[3,7-8]c[01-2]",
        "a[1-2]b[1-2]c[1]d[1-2],x3",
        "a-b.example.org,[3-4]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        char host[64];
        uint32_t count = 0;
        char *hosts[16] = {NULL};
        while (dtspank_hostlist_nth(lists[i], count, host, sizeof(host),
                                    NULL) == 0)
            count++;
        for (uint32_t wanted = 1; wanted <= count; wanted++) {
            char *some[16] = {NULL};
            assert_int_equal(dtspank_hostlist_expand(lists[i], wanted, some),
                             0);
            for (uint32_t n = 0; n < wanted; n++) {
                dtspank_hostlist_nth(lists[i], n, host, sizeof(host), NULL);
                assert_string_equal(some[n], host);
            }
            assert_null(some[wanted]);
            free_hosts(some, wanted);
        }
        assert_int_equal(dtspank_hostlist_expand(lists[i], count + 1, hosts),
                         -1);
        free_hosts(hosts, count);
    }
}

static void the_millionth_host_of_a_list_is_found(void **state)
{
    char host[32];
    (void)state;
    assert_int_equal(dtspank_hostlist_nth("r[1-1000]n[1-1000]", 999999, host,
                                          sizeof(host), NULL),
                     0);
    assert_string_equal(host, "r1000n1000");
}

/* Exactly as long as the buffer, and one byte more. */
static void host_names_longer_than_the_buffer_are_refused(void **state)
{
    struct dt_error err;
    char host[6];
    (void)state;
    assert_int_equal(dtspank_hostlist_nth("abc12", 0, host, 6, NULL), 0);
    assert_string_equal(host, "abc12");
    assert_int_equal(dtspank_hostlist_nth("abc[12]", 0, host, 6, NULL), 0);
    assert_string_equal(host, "abc12");
    assert_int_equal(dtspank_hostlist_nth("abc123", 0, host, 6, &err), -1);
    assert_string_equal(err.text, "host name longer than 5 at \"abc123\"");
    assert_int_equal(dtspank_hostlist_nth("abc[123]", 0, host, 6, NULL), -1);
    assert_int_equal(dtspank_hostlist_nth("[12345678]d", 0, host, 6, NULL), -1);

    char list[DTSPANK_HOST_BYTES + 8];
    char *hosts[2] = {NULL};
    memset(list, 'x', sizeof(list));
    strcpy(list + DTSPANK_HOST_BYTES - 2, "[7-8]");
    assert_int_equal(dtspank_hostlist_expand(list, 2, hosts), 0);
    assert_int_equal(strlen(hosts[1]), DTSPANK_HOST_BYTES - 1);
    free_hosts(hosts, 2);
    strcpy(list + DTSPANK_HOST_BYTES - 2, "[9-10]");
    hosts[0] = NULL;
    assert_int_equal(dtspank_hostlist_expand(list, 2, hosts), -1);
    free(hosts[0]);
}

static void malformed_host_lists_are_refused(void **state)
{
    static const char *const lists[] = {
        "",
        ",",
        "a,,b",
        "n[1",
        "n[",
        "n]",
        "n[]",
        "n[3-1]",
        "n[a-b]",
        "n[1-]",
        "n[-1]",
        "n[1,]",
        "n[1 ]",
        "n[[1]]",
        "n[1-2-3]",
        "n[0-1]]",
        "n[1-2",
        "[",
        "n[1234567890]",
        "n[1-999999999]",
        "a[1-2000]b[1-2000]",
        "a[1-99999]b[1-99999]c[1-99999]d[1-99999]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        char host[64];
        struct dt_error err = {0};
        assert_int_equal(
            dtspank_hostlist_nth(lists[i], 3, host, sizeof(host), &err), -1);
        char *hosts[4] = {NULL};
        assert_int_equal(dtspank_hostlist_expand(lists[i], 4, hosts), -1);
        free_hosts(hosts, 4);
        assert_non_null(strstr(err.text, "malformed host list at \""));
    }
}

static void a_host_beyond_the_list_is_refused(void **state)
{
    char host[64];
    struct dt_error err;
    (void)state;
    assert_int_equal(
        dtspank_hostlist_nth("n[1-2]", 2, host, sizeof(host), &err), -1);
    assert_string_equal(err.text, "host list \"n[1-2]\" has no host 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hosts_of_a_list_come_in_order),
        cmocka_unit_test(expanding_a_list_gives_the_same_hosts),
        cmocka_unit_test(the_millionth_host_of_a_list_is_found),
        cmocka_unit_test(host_names_longer_than_the_buffer_are_refused),
        cmocka_unit_test(malformed_host_lists_are_refused),
        cmocka_unit_test(a_host_beyond_the_list_is_refused),
    };
    return cmocka_run_group_tests_name("hostlist", tests, NULL, NULL);
}
