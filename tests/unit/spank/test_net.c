/* SPDX-License-Identifier: Apache-2.0 */
/* test_net.c - the interface towards a host, as far as one machine can tell */
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

#include "spank/task/task_impl.h"

static void assert_none(const char *master, const char *other, const char *text)
{
    char name[IF_NAMESIZE];
    struct dt_error err;
    const char *before = "this node cannot find MASTER_ADDR: ";
    assert_int_equal(dtspank_net_interface(master, other, name, &err), -1);
    assert_memory_equal(err.text, before, strlen(before));
    assert_string_equal(err.text + strlen(before), text);
}

static void a_loopback_address_is_refused(void **state)
{
    (void)state;
    assert_none("127.0.0.1", NULL,
                "127.0.0.1: the name resolves to this node itself");
    assert_none("localhost", "127.0.1.1",
                "localhost: the name resolves to this node itself");
    assert_none("::1", NULL, "::1: the name resolves to this node itself");
}

static void a_name_that_does_not_resolve_is_refused(void **state)
{
    (void)state;
    assert_none("no such host", NULL,
                "no such host: Name or service not known");
    assert_none("127.0.0.1", "no such host",
                "no such host: Name or service not known");
}

/* Interfaces in the order in which the kernel lists addresses. */
static struct ifaddrs interfaces[6];
static union dt_net_address addresses[6];

static void list_interfaces(const char *const names_and_addresses[][2])
{
    memset(interfaces, 0, sizeof(interfaces));
    for (int i = 0; names_and_addresses[i][0]; i++) {
        const char *text = names_and_addresses[i][1];
        interfaces[i].ifa_name = (char *)names_and_addresses[i][0];
        if (text && dt_net_parse(&addresses[i], text, 0) > 0)
            interfaces[i].ifa_addr = &addresses[i].any;
        if (i > 0)
            interfaces[i - 1].ifa_next = &interfaces[i];
    }
}

static void assert_owner(const char *source, const char *owner,
                         const char *refusal)
{
    union dt_net_address address;
    char name[IF_NAMESIZE];
    struct dt_error err;
    assert_true(dt_net_parse(&address, source, 9) > 0);
    int rc = dtspank_net_owner(interfaces, &address, name, &err);
    assert_int_equal(rc, refusal ? -1 : 0);
    if (refusal)
        assert_string_equal(err.text, refusal);
    else
        assert_string_equal(name, owner);
}

static void the_interface_with_the_source_address_is_named(void **state)
{
    (void)state;
    list_interfaces((const char *const[][2]){{"eth0", NULL},
                                             {"lo", "127.0.0.1"},
                                             {"eth0", "10.1.2.3"},
                                             {"eth0", "169.254.1.1"},
                                             {"ib0", "fd00::7"},
                                             {NULL, NULL}});
    assert_owner("10.1.2.3", "eth0", NULL);
    assert_owner("169.254.1.1", "eth0", NULL);
    assert_owner("fd00::7", "ib0", NULL);
    assert_owner("127.0.0.1", "", NULL);
    assert_owner("10.9.9.9", "", NULL);
}

/* gloo and NCCL take the first address of the interface that they are told. */
static void an_interface_whose_first_address_leads_less_far_is_refused(
    void **state)
{
    (void)state;
    list_interfaces((const char *const[][2]){{"lo", "127.0.0.1"},
                                             {"lo", "10.11.12.1"},
                                             {"eth1", "169.254.3.1"},
                                             {"eth1", "10.1.2.3"},
                                             {NULL, NULL}});
    assert_owner("10.11.12.1", NULL,
                 "this node has the address 10.11.12.1 on lo, where 127.0.0.1 "
                 "comes first, and libraries would use that");
    assert_owner("10.1.2.3", NULL,
                 "this node has the address 10.1.2.3 on eth1, where "
                 "169.254.3.1 comes first, and libraries would use that");
    list_interfaces(
        (const char *const[][2]){{"lo", "10.11.12.1"}, {NULL, NULL}});
    assert_owner("10.11.12.1", "lo", NULL);
}

static void an_rdma_device_is_found_by_its_directory(void **state)
{
    char dir[] = "/tmp/disttrain-net.XXXXXX";
    char device[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_false(dtspank_net_has_rdma(dir));
    snprintf(device, sizeof(device), "%s/mlx5_0", dir);
    assert_int_equal(mkdir(device, 0700), 0);
    assert_true(dtspank_net_has_rdma(dir));
    rmdir(device);
    rmdir(dir);
    assert_false(dtspank_net_has_rdma(dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loopback_address_is_refused),
        cmocka_unit_test(a_name_that_does_not_resolve_is_refused),
        cmocka_unit_test(the_interface_with_the_source_address_is_named),
        cmocka_unit_test(
            an_interface_whose_first_address_leads_less_far_is_refused),
        cmocka_unit_test(an_rdma_device_is_found_by_its_directory),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
