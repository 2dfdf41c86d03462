/* SPDX-License-Identifier: Apache-2.0 */
/* test_comm_lost.c - ranks that die, leave, come late or never come */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "world.h"

/* What one rank has seen. */
struct seen {
    int rc;
    struct dt_error first, later; /* of the failing call, and of the next */
    double failed_after, destroy_took;
};

/* Seconds that tell "at once" from a time-out, also on a busy machine. */
enum { IN_TIME = 10 };

struct scene {
    void (*act)(struct dt_comm *comm, struct seen *seen, int odd);
    int timeout_ms;
    int odd;           /* the rank that does something else than the others */
    struct seen *seen; /* [WORLD_MAX], in shared memory */
};

static struct seen *seen_create(void)
{
    struct seen *seen =
        mmap(NULL, WORLD_MAX * sizeof(*seen), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    return seen;
}

/* Reduces `count` floats; keeps what went wrong. */
static int reduce(struct dt_comm *comm, struct seen *seen, size_t count)
{
    struct dt_buffer buf = {calloc(count, 4), count * 4, &dt_cpu};
    double begun = dt_clock_now();
    dt_ticket_t ticket;
    struct dt_error *err = seen->rc < 0 ? &seen->later : &seen->first;
    int rc = dt_comm_all_reduce(comm, dt_view_of(&buf, DT_F32), DT_SUM, DT_F32,
                                &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(comm, ticket, err);
    free(buf.data);
    if (rc < 0 && seen->rc == 0) {
        seen->rc = rc;
        seen->failed_after = dt_clock_now() - begun;
    }
    return rc;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct scene *scene = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = scene->timeout_ms};
    struct seen *seen = &scene->seen[world->rank];
    struct dt_comm *comm =
        dt_comm_create("gloo", world, &options, &seen->first);
    double begun;
    if (!comm)
        return EX_SOFTWARE;
    scene->act(comm, seen, scene->odd);
    begun = dt_clock_now();
    if (seen->first.status == EX_IOERR && seen->rc == 0)
        dt_comm_abandon(comm, &seen->first);
    else
        dt_comm_destroy(comm);
    seen->destroy_took = dt_clock_now() - begun;
    return 0;
}

static void assert_seen(const struct seen *seen, const char *text)
{
    assert_int_equal(seen->rc, -1);
    if (!strstr(seen->first.text, text))
        fail_msg("expected \"%s\", got \"%s\"", text, seen->first.text);
    assert_int_equal(seen->first.status, EX_UNAVAILABLE);
    assert_true(seen->destroy_took < IN_TIME);
}

/* The odd rank is killed in the middle of a stream of operations. */
static void act_killed(struct dt_comm *comm, struct seen *seen, int odd)
{
    for (int i = 0; i < 1000000; i++) {
        if (i == 20 && dt_comm_rank(comm) == odd)
            raise(SIGKILL);
        if (reduce(comm, seen, 300000) < 0)
            break;
    }
    reduce(comm, seen, 300000);
}

static void check_killed(int odd)
{
    struct scene scene = {act_killed, 30000, odd, seen_create()};
    int statuses[WORLD_MAX];
    char text[96];
    snprintf(text, sizeof(text),
             "comm/gloo: all_reduce(300000 x f32): lost rank %d on h%d: ", odd,
             odd);
    world_processes(4, rank_main, &scene, statuses);
    for (int r = 0; r < 4; r++) {
        if (r == odd) {
            assert_int_equal(WTERMSIG(statuses[r]), SIGKILL);
            continue;
        }
        assert_int_equal(statuses[r], 0);
        assert_seen(&scene.seen[r], text);
        assert_int_equal(scene.seen[r].first.lost_rank, odd);
        assert_string_equal(scene.seen[r].later.text, scene.seen[r].first.text);
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

static void a_killed_rank_is_named_at_once(void **state)
{
    (void)state;
    check_killed(0);
    check_killed(2);
    check_killed(3);
}

/* The odd rank leaves before the others do. */
static void act_leave(struct dt_comm *comm, struct seen *seen, int odd)
{
    reduce(comm, seen, 10);
    if (dt_comm_rank(comm) != odd)
        reduce(comm, seen, 10);
}

static void a_rank_that_leaves_early_is_named(void **state)
{
    (void)state;
    for (int odd = 0; odd < 3; odd++) {
        struct scene scene = {act_leave, 30000, odd, seen_create()};
        char text[128];
        snprintf(text, sizeof(text),
                 "comm/gloo: all_reduce(10 x f32): rank %d on h%d has left in "
                 "order: it started fewer operations than this rank",
                 odd, odd);
        world_threads(3, rank_main, &scene);
        assert_int_equal(scene.seen[odd].rc, 0);
        for (int r = 0; r < 3; r++)
            if (r != odd)
                assert_seen(&scene.seen[r], text);
    }
}

/* All leave at once, without waiting for each other. */
static void act_end(struct dt_comm *comm, struct seen *seen, int odd)
{
    (void)odd;
    for (int i = 0; i < 5; i++)
        reduce(comm, seen, 200000);
}

static void all_ranks_can_leave_at_the_same_time(void **state)
{
    struct scene scene = {act_end, 30000, -1, seen_create()};
    (void)state;
    for (int i = 0; i < 10; i++) {
        world_threads(4, rank_main, &scene);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(scene.seen[r].rc, 0);
            assert_true(scene.seen[r].destroy_took < IN_TIME);
        }
    }
}

/* The odd rank comes 4 s late. */
static void act_late(struct dt_comm *comm, struct seen *seen, int odd)
{
    reduce(comm, seen, 100);
    if (dt_comm_rank(comm) == odd)
        dt_clock_sleep(4);
    reduce(comm, seen, 100);
}

static void a_late_rank_has_until_the_timeout(void **state)
{
    struct scene patient = {act_late, 30000, 1, seen_create()};
    struct scene hasty = {act_late, 2000, 1, seen_create()};
    (void)state;
    world_threads(3, rank_main, &patient);
    for (int r = 0; r < 3; r++)
        assert_int_equal(patient.seen[r].rc, 0);
    world_threads(3, rank_main, &hasty);
    for (int r = 0; r < 3; r++)
        assert_seen(&hasty.seen[r], "comm/gloo: all_reduce(100 x f32): rank 1 "
                                    "on h1 did not answer within 2000 ms");
}

/* The odd rank does another operation, or the same of another size. */
static void act_other_size(struct dt_comm *comm, struct seen *seen, int odd)
{
    reduce(comm, seen, dt_comm_rank(comm) == odd ? 100 : 200);
}

static void act_other_kind(struct dt_comm *comm, struct seen *seen, int odd)
{
    static float zero[2];
    static struct dt_buffer buf = {zero, sizeof(zero), &dt_cpu};
    dt_ticket_t ticket;
    if (dt_comm_rank(comm) != odd) {
        reduce(comm, seen, 2);
        return;
    }
    seen->rc = dt_comm_broadcast(comm, dt_view_of(&buf, DT_F32), odd, &ticket,
                                 &seen->first);
    if (seen->rc == 0)
        seen->rc = dt_comm_wait(comm, ticket, &seen->first);
}

static void ranks_in_different_operations_never_mix_data(void **state)
{
    struct scene size = {act_other_size, 2000, 1, seen_create()};
    struct scene kind = {act_other_kind, 2000, 1, seen_create()};
    (void)state;
    world_threads(2, rank_main, &size);
    for (int r = 0; r < 2; r++)
        assert_seen(&size.seen[r], "did not answer within 2000 ms");
    world_threads(2, rank_main, &kind);
    assert_seen(&kind.seen[0], "did not answer within 2000 ms");
}

/* Rank 0 gives up in the middle of an operation. */
static void act_give_up(struct dt_comm *comm, struct seen *seen, int odd)
{
    static float zero[4];
    static struct dt_buffer buf = {zero, sizeof(zero), &dt_cpu};
    dt_ticket_t ticket;
    if (dt_comm_rank(comm) == odd) {
        seen->rc = dt_comm_all_reduce(comm, dt_view_of(&buf, DT_F32), DT_SUM,
                                      DT_F32, &ticket, &seen->first);
        dt_clock_sleep(0.1);
    } else {
        dt_clock_sleep(1);
        reduce(comm, seen, 4);
    }
}

static void a_rank_that_leaves_mid_operation_is_named(void **state)
{
    struct scene scene = {act_give_up, 30000, 0, seen_create()};
    (void)state;
    world_threads(2, rank_main, &scene);
    assert_int_equal(scene.seen[0].rc, 0);
    assert_true(scene.seen[0].destroy_took < IN_TIME);
    assert_seen(&scene.seen[1],
                "comm/gloo: all_reduce(4 x f32): rank 0 on h0 has left in the "
                "middle of it");
}

/* Rank 0 fails by itself; the others wait for it in a reduction. */
static void act_abandon(struct dt_comm *comm, struct seen *seen, int odd)
{
    if (dt_comm_rank(comm) == odd)
        dt_error_set(&seen->first, EX_IOERR, "disk full");
    else
        reduce(comm, seen, 4);
}

static void the_failure_of_one_rank_reaches_the_others(void **state)
{
    struct scene scene = {act_abandon, 30000, 0, seen_create()};
    (void)state;
    world_threads(3, rank_main, &scene);
    for (int r = 1; r < 3; r++) {
        const struct seen *seen = &scene.seen[r];
        assert_int_equal(seen->rc, -1);
        assert_string_equal(seen->first.text,
                            "comm/gloo: all_reduce(4 x f32): rank 0 on h0 "
                            "failed: disk full");
        assert_int_equal(seen->first.status, EX_IOERR);
        assert_int_equal(seen->first.lost_rank, 0);
        assert_true(seen->failed_after < IN_TIME);
    }
    assert_true(scene.seen[0].destroy_took < IN_TIME);
}

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
    struct seen *seen = &((struct seen *)arg)[world->rank];
    if (world->rank == 1)
        own.get = failing_get;
    struct dt_comm *comm = dt_comm_create("gloo", &own, &options, &seen->first);
    if (comm)
        reduce(comm, seen, 4);
    else
        seen->rc = -1;
    dt_comm_destroy(comm);
    return 0;
}

static void a_rank_that_cannot_connect_is_named(void **state)
{
    struct seen *seen = seen_create();
    (void)state;
    world_threads(2, no_connection, seen);
    assert_string_equal(seen[1].first.text,
                        "comm/gloo: rank 1 on h1: no such thing");
    assert_seen(&seen[0], "rank 1 on h1");
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
                                      "has no dt.comm.doors");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named_at_once),
        cmocka_unit_test(a_rank_that_leaves_early_is_named),
        cmocka_unit_test(all_ranks_can_leave_at_the_same_time),
        cmocka_unit_test(a_late_rank_has_until_the_timeout),
        cmocka_unit_test(ranks_in_different_operations_never_mix_data),
        cmocka_unit_test(a_rank_that_leaves_mid_operation_is_named),
        cmocka_unit_test(a_rank_that_cannot_connect_is_named),
        cmocka_unit_test(unusable_backends_and_interfaces_are_refused),
        cmocka_unit_test(the_failure_of_one_rank_reaches_the_others),
        cmocka_unit_test(a_failed_world_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("comm_lost", tests, NULL, NULL);
}
