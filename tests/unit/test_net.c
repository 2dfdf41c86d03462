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

#include "spank/task/net.h"

static void assert_none(const char *master, const char *other, const char *text)
{
    char name[IF_NAMESIZE];
    struct dt_error err;
    assert_int_equal(dtspank_net_interface(master, other, name, &err), -1);
    assert_string_equal(err.text, text);
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
        cmocka_unit_test(an_rdma_device_is_found_by_its_directory),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
