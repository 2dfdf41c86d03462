/* SPDX-License-Identifier: Apache-2.0 */
/* test_comm.c - worlds that come about, and those that cannot */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/world.h"

static int join_alone(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.timeout_ms = 1000};
    const char *backend = arg;
    struct dt_error err;
    struct dt_comm *comm = dt_comm_create(backend, world, &options, &err);
    int rc = comm && strcmp(dt_comm_backend(comm), "self") == 0 ? 0 : -1;
    dt_comm_destroy(comm);
    return rc;
}

static void one_rank_needs_no_network(void **state)
{
    (void)state;
    world_threads(1, join_alone, "self");
    world_threads(1, join_alone, "gloo");
}

#ifndef HAVE_GLOO
static void several_ranks_are_refused_without_gloo(void **state)
{
    const struct dt_comm_options options = {.timeout_ms = 1000};
    struct dt_error err;
    (void)state;
    world_refuse("gloo", 2, &options, &err);
    assert_string_equal(err.text,
                        "comm: this disttrain was built without gloo, so it "
                        "cannot use 2 ranks: configure it --with-gloo "
                        "(Debian: libgloo-dev)");
    assert_int_equal(err.status, EX_CONFIG);
}
#else
static int failing_get(void *ctx, int rank, const char *key, void **data,
                       size_t *bytes, struct dt_error *err)
{
    (void)ctx;
    (void)rank;
    (void)key;
    (void)data;
    (void)bytes;
    return dt_error_set(err, EX_UNAVAILABLE, "no such thing");
}

/* Rank 1 cannot connect; rank 0 has to notice: when it connects, or, if rank 1
 * was still listening then, in its first operation.
 */
static int no_connection(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 1000};
    struct dt_comm_world own = *world;
    struct dt_error *err = &((struct dt_error *)arg)[world->rank];
    if (world->rank == 1)
        own.get = failing_get;
    struct dt_comm *comm = dt_comm_create("gloo", &own, &options, err);
    int rc = comm ? dt_comm_barrier(comm, err) : -1;
    dt_comm_destroy(comm);
    return rc < 0 ? 0 : -1;
}

static void a_rank_that_cannot_connect_is_named(void **state)
{
    struct dt_error errs[2];
    (void)state;
    world_threads(2, no_connection, errs);
    assert_string_equal(errs[1].text, "comm/gloo: rank 1 on h1: no such thing");
    assert_non_null(strstr(errs[0].text, "rank 1 on h1"));
    assert_int_equal(errs[0].status, EX_UNAVAILABLE);
}

/* As ranks of two steps would, if PMIx brought them together. */
static int other_secret(const struct dt_comm_world *world, void *arg)
{
    static const char *const secrets[] = {"of a step", "of another"};
    const struct dt_comm_options options = {
        .interface = "lo", .timeout_ms = 1000, .secret = secrets[world->rank]};
    struct dt_error *err = &((struct dt_error *)arg)[world->rank];
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, err);
    dt_comm_destroy(comm);
    return comm ? -1 : 0;
}

static void a_rank_with_another_secret_is_not_believed(void **state)
{
    struct dt_error errs[2];
    (void)state;
    world_threads(2, other_secret, errs);
    assert_non_null(strstr(errs[0].text, "connecting to rank 1 on h1"));
    assert_non_null(
        strstr(errs[0].text, ": it does not know the token of this run"));
    assert_non_null(
        strstr(errs[1].text, "it has not connected within 1000 ms"));
}

/* Ranks that mpirun starts have none, if it has started others by srun. */
static int secret_of_one(const struct dt_comm_world *world, void *arg)
{
    const int owner = *(const int *)arg;
    const struct dt_comm_options options = {
        .interface = "lo",
        .timeout_ms = owner == 0 ? 1000 : 60000,
        .secret = world->rank == owner ? "of a step" : NULL};
    struct dt_error err = {.text = ""};
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &err);
    bool said = strstr(err.text, "rank 0 has a secret of srun's plugin, and "
                                 "this rank has none") != NULL;
    dt_comm_destroy(comm);
    return !comm == (owner == 0) && said == (owner == 0 && world->rank == 1)
               ? 0
               : -1;
}

static void only_a_secret_of_rank_0_counts(void **state)
{
    (void)state;
    for (int owner = 0; owner < 2; owner++)
        world_threads(2, secret_of_one, &owner);
}

static void refuse(const char *backend, int size, const char *interface,
                   const char *text)
{
    const struct dt_comm_options options = {.interface = interface,
                                            .timeout_ms = 1000};
    struct dt_error err;
    world_refuse(backend, size, &options, &err);
    assert_int_equal(err.status, EX_CONFIG);
    if (!strstr(err.text, text))
        fail_msg("expected \"%s\", got \"%s\"", text, err.text);
}

static void unusable_backends_and_interfaces_are_refused(void **state)
{
    (void)state;
    refuse("self", 2, NULL,
           "comm: backend self is for one rank, not for 2: use gloo");
    refuse("mpi", 2, NULL,
           "comm: there is no backend \"mpi\"; expected self or gloo");
    refuse("gloo", 2, "eth77",
           "comm/gloo: rank 0 on h0: distributed.interface: there is no "
           "interface \"eth77\" with an address on this host; there are: ");
}

/* Two hosts by name, and both have all the addresses of this machine. */
static int share_addresses(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.timeout_ms = 1000};
    struct dt_error *err = &((struct dt_error *)arg)[world->rank];
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, err);
    dt_comm_destroy(comm);
    return comm ? -1 : 0;
}

static void an_address_of_several_hosts_is_never_used(void **state)
{
    const char *expected[] = {
        "comm/gloo: rank 0 on h0: h0 has no route to rank 1 on h1 at ",
        "comm/gloo: rank 1 on h1: h1 has no route to rank 0 on h0 at "};
    struct dt_error errs[2];
    (void)state;
    world_threads(2, share_addresses, errs);
    for (int r = 0; r < 2; r++)
        if (!strstr(errs[r].text, expected[r]))
            fail_msg("rank %d: %s", r, errs[r].text);
}

static int entries_of(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* A world that does not come about leaves no descriptor, thread or memory
 * behind: here because rank 1 has put nothing.
 */
static void a_failed_world_leaves_nothing_behind(void **state)
{
    enum {
        WARM = 16, /* worlds after which the allocator keeps no more */
        TIMES = 24,
        LEAST = 32 /* bytes that a leak takes each time */
    };
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 1000};
    struct dt_error err;
    int descriptors = 0, threads = 0;
    size_t used = 0;
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        world_refuse("gloo", 2, &options, &err);
        assert_string_equal(err.text, "comm/gloo: rank 0 on h0: world: rank 1 "
                                      "has no dt.comm.address");
        if (i != WARM)
            continue;
        descriptors = entries_of("/proc/self/fd");
        threads = entries_of("/proc/self/task");
        used = mallinfo2().uordblks;
    }
    assert_int_equal(entries_of("/proc/self/fd"), descriptors);
    assert_int_equal(entries_of("/proc/self/task"), threads);
    assert_true(mallinfo2().uordblks < used + (TIMES - WARM - 1) * LEAST);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_no_network),
#ifdef HAVE_GLOO
        cmocka_unit_test(a_rank_that_cannot_connect_is_named),
        cmocka_unit_test(a_rank_with_another_secret_is_not_believed),
        cmocka_unit_test(only_a_secret_of_rank_0_counts),
        cmocka_unit_test(unusable_backends_and_interfaces_are_refused),
        cmocka_unit_test(an_address_of_several_hosts_is_never_used),
        cmocka_unit_test(a_failed_world_leaves_nothing_behind),
#else
        cmocka_unit_test(several_ranks_are_refused_without_gloo),
#endif
    };
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
