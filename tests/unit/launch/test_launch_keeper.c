/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_keeper.c - the world of a worker, whose keeper is this test */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/inherited.h"
#include "launch/launch.h"
#include "launch/wire.h"

enum { TIMEOUT_MS = 10000 };

static const struct dt_wire_world rank_1_of_3 = {
    .rank = 1, .size = 3, .local_rank = 1, .local_size = 2, .restarts = 4};
static const char hosts[] = "n1\0n1\0n2";

/* The keeper's end; the other one is in the environment. */
static struct dt_wire start_keeper(void)
{
    struct dt_wire keeper;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    const struct dt_inherited inherited = {pair[1], -1, -1};
    assert_int_equal(dt_inherited_set(&inherited), 0);
    dt_wire_init(&keeper, pair[0]);
    return keeper;
}

static void say_world(struct dt_wire *keeper, const struct dt_wire_world *world)
{
    assert_int_equal(dt_wire_send(keeper, DT_WIRE_WORLD, 1, world,
                                  sizeof(*world), hosts, sizeof(hosts)),
                     0);
    assert_int_equal(
        dt_wire_send(keeper, DT_WIRE_LOSSES, 1, NULL, 0, NULL, 0), 0);
}

static struct dt_launch *join(struct dt_wire *keeper)
{
    struct dt_error err;
    *keeper = start_keeper();
    say_world(keeper, &rank_1_of_3);
    struct dt_launch *launch = dt_launch_create(TIMEOUT_MS, &err);
    assert_non_null(launch);
    return launch;
}

/* The next message of the worker. */
static struct dt_wire_message hear(struct dt_wire *keeper)
{
    struct dt_wire_message message;
    int found;
    while ((found = dt_wire_next(keeper, &message)) == 0) {
        assert_int_equal(dt_wire_wait(keeper, TIMEOUT_MS), 1);
        dt_wire_receive(keeper);
    }
    assert_int_equal(found, 1);
    return message;
}

/* Answers of three ranks to a fence. */
static void say_blobs(struct dt_wire *keeper, const void *const blobs[3],
                      const uint64_t bytes[3])
{
    uint8_t body[4096];
    size_t used = 0;
    for (int r = 0; r < 3; r++) {
        memcpy(body + used, &bytes[r], sizeof(bytes[r]));
        used += sizeof(bytes[r]);
        if (bytes[r] > 0)
            memcpy(body + used, blobs[r], bytes[r]);
        used += bytes[r];
    }
    assert_int_equal(
        dt_wire_send(keeper, DT_WIRE_BLOBS, 1, body, used, NULL, 0), 0);
}

static void a_keeper_says_the_world(void **state)
{
    struct dt_wire keeper;
    struct dt_launch *launch = join(&keeper);
    (void)state;
    assert_string_equal(dt_launch_backend(launch), "keeper");
    struct dt_inherited inherited; /* and by no program that it starts */
    assert_true(dt_inherited_find(&inherited));
    assert_int_equal(fcntl(inherited.socket, F_GETFD), FD_CLOEXEC);
    assert_true(dt_launch_is_kept(launch));
    assert_int_equal(dt_launch_rank(launch), 1);
    assert_int_equal(dt_launch_size(launch), 3);
    assert_int_equal(dt_launch_local_rank(launch), 1);
    assert_int_equal(dt_launch_local_size(launch), 2);
    assert_int_equal(dt_launch_restarts(launch), 4);
    assert_string_equal(dt_launch_host(launch, 0), "n1");
    assert_string_equal(dt_launch_host(launch, 2), "n2");
    dt_launch_note(launch, "lost rank 2");
    struct dt_wire_message m = hear(&keeper);
    assert_int_equal(m.type, DT_WIRE_NOTE);
    assert_int_equal(m.bytes, 11);
    assert_memory_equal(m.body, "lost rank 2", 11);
    dt_launch_destroy(launch);
    dt_wire_close(&keeper);
}

static void expect(struct dt_launch *launch, int rank, const char *key,
                   const char *want)
{
    struct dt_error err;
    void *data;
    size_t bytes;
    assert_int_equal(dt_launch_get(launch, rank, key, &data, &bytes, &err), 0);
    assert_int_equal(bytes, strlen(want));
    assert_memory_equal(data, want, bytes);
    free(data);
}

/* The items of this rank stand for those of the others. */
static void items_of_all_ranks_arrive_with_a_fence(void **state)
{
    struct dt_wire keeper;
    struct dt_launch *launch = join(&keeper);
    struct dt_error err;
    const char longest[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    uint8_t items[1024];
    void *data;
    size_t bytes;
    (void)state;
    assert_int_equal(dt_launch_put(launch, "a", "one", 3, &err), 0);
    assert_int_equal(dt_launch_put(launch, longest, NULL, 0, &err), 0);
    assert_int_equal(dt_launch_put(launch, "a", "newer", 5, &err), 0);
    /* so that the fence has its answer, ask for another one first */
    say_blobs(&keeper, (const void *[3]){NULL, NULL, NULL},
              (uint64_t[3]){0, 0, 0});
    assert_int_equal(dt_launch_fence(launch, TIMEOUT_MS, &err), 0);
    struct dt_wire_message m = hear(&keeper);
    assert_int_equal(m.type, DT_WIRE_FENCE);
    assert_true(m.bytes < sizeof(items));
    memcpy(items, m.body, m.bytes);
    say_blobs(&keeper, (const void *[3]){items, NULL, items},
              (uint64_t[3]){m.bytes, 0, m.bytes});
    assert_int_equal(dt_launch_fence(launch, TIMEOUT_MS, &err), 0);
    assert_int_equal(hear(&keeper).bytes, 0); /* nothing was put since */
    expect(launch, 0, "a", "newer");
    expect(launch, 2, longest, "");
    assert_int_equal(dt_launch_get(launch, 1, "a", &data, &bytes, &err), -1);
    assert_string_equal(err.text, "launch/keeper: rank 1 on n1 has not put a");
    assert_int_equal(dt_launch_get(launch, 2, "b", &data, &bytes, &err), -1);
    dt_launch_destroy(launch);
    dt_wire_close(&keeper);
}

/* Another process is the keeper: it answers the second question only. */
static void who_is_missing_at_a_fence_is_named(void **state)
{
    struct dt_wire keeper;
    struct dt_launch *launch = join(&keeper);
    struct dt_error err;
    const char missing[] = " rank 0 on n1, rank 2 on n2";
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(hear(&keeper).type != DT_WIRE_FENCE ||
              hear(&keeper).type != DT_WIRE_WHO ||
              dt_wire_send(&keeper, DT_WIRE_MISSING, 1, missing,
                           sizeof(missing) - 1, NULL, 0) < 0);
    }
    assert_int_equal(dt_launch_fence(launch, 20, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    assert_string_equal(err.text,
                        "launch/keeper: rank 1 on n1: not all ranks arrived "
                        "within 20 ms; missing: rank 0 on n1, rank 2 on n2");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    dt_launch_destroy(launch);
    dt_wire_close(&keeper);
}

static void fence_fails(struct dt_wire *keeper, struct dt_launch *launch,
                        const char *want)
{
    struct dt_error err;
    assert_int_equal(dt_launch_fence(launch, TIMEOUT_MS, &err), -1);
    assert_string_equal(err.text, want);
    dt_launch_destroy(launch);
    dt_wire_close(keeper);
}

static void answers_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        uint64_t lengths[3];
        size_t bytes;
        const char *says;
    } cases[] = {
        {{0, 0, 0},
         23,
         "launch/keeper: an answer of 23 bytes is not that of 3 "
         "ranks"},
        {{0, 0, 0},
         25,
         "launch/keeper: an answer of 25 bytes is not that of 3 "
         "ranks"},
        {{0, 9, 0},
         24,
         "launch/keeper: an answer of 24 bytes is not that of 3 "
         "ranks"},
        {{0, 0, UINT64_MAX},
         24,
         "launch/keeper: an answer of 24 bytes is not "
         "that of 3 ranks"},
        {{0, 0, 0},
         0,
         "launch/keeper: an answer of 0 bytes is not that of 3 "
         "ranks"},
    };
    struct dt_wire keeper;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_launch *launch = join(&keeper);
        uint8_t body[32] = {0};
        memcpy(body, cases[i].lengths, sizeof(cases[i].lengths));
        dt_wire_send(&keeper, DT_WIRE_BLOBS, 1, body, cases[i].bytes, NULL, 0);
        fence_fails(&keeper, launch, cases[i].says);
    }
    struct dt_launch *launch = join(&keeper);
    assert_int_equal(write(keeper.fd, "This is no message at all.", 26), 26);
    fence_fails(&keeper, launch,
                "launch/keeper: the keeper of this rank: Protocol error");
}

static void a_keeper_that_is_gone_is_noticed(void **state)
{
    struct dt_wire keeper;
    struct dt_launch *launch = join(&keeper);
    struct dt_error err;
    (void)state;
    shutdown(keeper.fd, SHUT_RDWR);
    assert_int_equal(dt_launch_fence(launch, TIMEOUT_MS, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    dt_launch_destroy(launch);
    dt_wire_close(&keeper);
}

static void create_fails(const char *want)
{
    struct dt_error err;
    assert_null(dt_launch_create(20, &err));
    assert_string_equal(err.text, want);
}

static void a_world_that_makes_no_sense_is_refused(void **state)
{
    static const struct {
        struct dt_wire_world world;
        size_t names;
        const char *says;
    } cases[] = {
        {{.rank = 3, .size = 3}, 9, "launch/keeper: rank 3 in a world of 3"},
        {{.rank = -1, .size = 3}, 9, "launch/keeper: rank -1 in a world of 3"},
        {{.rank = 0, .size = 0}, 9, "launch/keeper: rank 0 in a world of 0"},
        {{.rank = 1, .size = 3}, 8, "launch/keeper: no host of rank 2"},
        {{.rank = 1, .size = 4}, 9, "launch/keeper: no host of rank 3"},
        {{.rank = 0, .size = 1}, 0, "launch/keeper: no host of rank 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_wire keeper = start_keeper();
        dt_wire_send(&keeper, DT_WIRE_WORLD, 1, &cases[i].world,
                     sizeof(cases[i].world), hosts, cases[i].names);
        create_fails(cases[i].says);
        dt_wire_close(&keeper);
    }
    struct dt_wire keeper = start_keeper();
    dt_wire_send(&keeper, DT_WIRE_WORLD, 1, "short", 5, NULL, 0);
    create_fails("launch/keeper: no world");
    dt_wire_close(&keeper);
    keeper = start_keeper();
    create_fails("launch/keeper: the keeper of this rank said nothing within "
                 "20 ms");
    dt_wire_close(&keeper);
    setenv(DT_INHERITED, "3,x", 1);
    create_fails("launch/keeper: DISTTRAIN_KEEPER=3,x is not of a keeper: "
                 "unset it");
}

static int forget(void **state)
{
    (void)state;
    return unsetenv(DT_INHERITED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keeper_says_the_world),
        cmocka_unit_test(items_of_all_ranks_arrive_with_a_fence),
        cmocka_unit_test(who_is_missing_at_a_fence_is_named),
        cmocka_unit_test(answers_that_make_no_sense_are_refused),
        cmocka_unit_test(a_keeper_that_is_gone_is_noticed),
        cmocka_unit_test(a_world_that_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
