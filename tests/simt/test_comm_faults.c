/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_comm_faults.c - ranks with GPUs that die, hang, leave or do not fit
 * together; on the emulation, whose NCCL waits for ever as the real one does
 */
#include "config.h"

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

#include "backend/backend.h"
#include "base/clock.h"
#include "../unit/world.h"

/* Seconds that tell "at once" from a time-out, also on a busy machine. */
enum { IN_TIME = 15, PATIENCE_MS = 60000 };

/* What one rank has seen. */
struct seen {
    bool connected;
    int rc;
    struct dt_error first, later; /* of the failing call, and of the next */
    double failed_after, destroy_took;
};

struct rank {
    const struct dt_device *device;
    struct dt_stream *stream;
    struct dt_event *event;
    struct dt_comm *comm;
    struct seen *seen;
};

struct scene {
    void (*prepare)(int rank); /* the environment; NULL: nothing */
    void (*act)(struct rank *r);
    int timeout_ms;
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

/* Reduces `count` floats and waits for them; keeps what went wrong. */
static int reduce(struct rank *r, size_t count)
{
    struct dt_error *err = r->seen->rc < 0 ? &r->seen->later : &r->seen->first;
    struct dt_buffer *buf =
        dt_buffer_create(r->device, count * 4, "a test", err);
    double begun = dt_clock_now();
    dt_ticket_t ticket;
    int rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    if (rc == 0)
        rc = r->device->event_record(r->event, r->stream, err);
    if (rc == 0)
        rc = dt_comm_wait_event(r->comm, r->device, r->event, err);
    if (rc == 0)
        dt_buffer_destroy(buf);
    else if (r->seen->rc == 0) {
        r->seen->rc = rc;
        r->seen->failed_after = dt_clock_now() - begun;
    }
    return rc;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct scene *scene = arg;
    const struct dt_backend_options backend_options = {.local_rank = 0};
    struct dt_comm_options options = {.interface = "lo",
                                      .timeout_ms = scene->timeout_ms};
    struct seen *seen = &scene->seen[world->rank];
    struct rank r = {.seen = seen};
    const struct dt_backend *backend;
    double begun;
    signal(SIGPIPE, SIG_IGN); /* as disttrain train does */
    if (scene->prepare)
        scene->prepare(world->rank);
    backend = dt_backend_open("cuda", &backend_options, NULL, 0, &seen->first);
    if (!backend) {
        fprintf(stderr, "# %s\n", seen->first.text);
        return EX_SOFTWARE;
    }
    r.device = backend->device;
    if (r.device->stream_create(&r.stream, &seen->first) < 0 ||
        r.device->event_create(&r.event, &seen->first) < 0)
        return EX_SOFTWARE;
    options.stream = r.stream;
    begun = dt_clock_now();
    r.comm = dt_backend_connect(backend, world, &options, &seen->first);
    seen->connected = r.comm;
    seen->failed_after = dt_clock_now() - begun;
    if (!r.comm)
        return 0;
    if (scene->act)
        scene->act(&r);
    begun = dt_clock_now();
    if (seen->first.status == EX_IOERR && seen->rc == 0)
        dt_comm_abandon(r.comm, &seen->first);
    else
        dt_comm_destroy(r.comm);
    seen->destroy_took = dt_clock_now() - begun;
    return 0;
}

/* All ranks end by themselves, but for `killed` (-1: none). */
static void play(struct scene *scene, int size, int killed)
{
    int statuses[WORLD_MAX];
    scene->seen = seen_create();
    world_processes(size, rank_main, scene, statuses);
    for (int r = 0; r < size; r++)
        assert_int_equal(statuses[r], r == killed ? SIGKILL : 0);
}

static void assert_text(const struct dt_error *err, const char *text)
{
    if (!strstr(err->text, text))
        fail_msg("expected \"%s\", got \"%s\"", text, err->text);
}

static void assert_seen(const struct seen *seen, const char *text)
{
    assert_int_equal(seen->rc, -1);
    assert_text(&seen->first, text);
    assert_int_equal(seen->first.status, EX_UNAVAILABLE);
    assert_true(seen->failed_after < IN_TIME);
    assert_true(seen->destroy_took < IN_TIME);
}

/* --- lost --- */

/* Rank 2 is killed in the middle of a stream of operations. */
static void act_killed(struct rank *r)
{
    for (int i = 0; i < 1000000; i++) {
        if (i == 5 && dt_comm_rank(r->comm) == 2)
            raise(SIGKILL);
        if (reduce(r, 3000) < 0)
            break;
    }
    reduce(r, 3000);
}

static void test_killed(void **state)
{
    struct scene scene = {.act = act_killed, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 4, 2);
    for (int r = 0; r < 4; r++) {
        if (r == 2)
            continue;
        assert_seen(&scene.seen[r],
                    "comm/nccl: all_reduce(3000 x f32): lost rank 2 on h2: ");
        assert_int_equal(scene.seen[r].first.lost_rank, 2);
        assert_string_equal(scene.seen[r].later.text, scene.seen[r].first.text);
    }
}

/* Rank 2 is killed while rank 0 waits for scalars and rank 1 in a barrier. */
static void act_scalars(struct rank *r)
{
    double value = 1;
    int rank = dt_comm_rank(r->comm);
    reduce(r, 10);
    if (rank == 2) {
        dt_clock_sleep(1); /* the others are in the next operation */
        raise(SIGKILL);
    }
    if (rank == 0)
        r->seen->rc =
            dt_comm_reduce_scalars(r->comm, &value, 1, DT_SUM, &r->seen->first);
    else
        r->seen->rc = dt_comm_barrier(r->comm, &r->seen->first);
}

static void test_killed_in_scalars(void **state)
{
    struct scene scene = {.act = act_scalars, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, 2);
    assert_seen(&scene.seen[0],
                "comm/nccl: reduce_scalars(1 x f64): lost rank 2 on h2: ");
    assert_seen(&scene.seen[1], "comm/nccl: barrier: lost rank 2 on h2: ");
}

/* Rank 1 stops answering, for longer than the others wait. */
static void act_hung(struct rank *r)
{
    reduce(r, 100);
    if (dt_comm_rank(r->comm) == 1) {
        dt_clock_sleep(6);
        raise(SIGKILL);
    }
    reduce(r, 100);
}

static void test_hung(void **state)
{
    struct scene scene = {.act = act_hung, .timeout_ms = 2000};
    (void)state;
    play(&scene, 4, 1);
    for (int r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        assert_seen(&scene.seen[r],
                    "comm/nccl: all_reduce(100 x f32): rank 1 on h1 did not "
                    "answer within 2000 ms");
        assert_int_equal(scene.seen[r].first.lost_rank, 1);
        assert_true(scene.seen[r].failed_after > 1.5);
    }
}

/* Rank 1 is late, but not too late. */
static void act_late(struct rank *r)
{
    reduce(r, 100);
    if (dt_comm_rank(r->comm) == 1)
        dt_clock_sleep(3);
    reduce(r, 100);
}

static void test_late(void **state)
{
    struct scene scene = {.act = act_late, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++)
        assert_int_equal(scene.seen[r].rc, 0);
}

/* Two ranks do not do the same. */
static void act_mismatch(struct rank *r)
{
    reduce(r, dt_comm_rank(r->comm) == 1 ? 20 : 10);
}

static void test_mismatch(void **state)
{
    struct scene scene = {.act = act_mismatch, .timeout_ms = 2000};
    (void)state;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        char text[128];
        if (scene.seen[r].first.lost_rank == r)
            continue; /* the other one was faster */
        snprintf(text, sizeof(text),
                 "comm/nccl: all_reduce(%d x f32): rank %d on h%d does "
                 "all_reduce(%d x f32) instead",
                 r ? 20 : 10, 1 - r, 1 - r, r ? 10 : 20);
        assert_seen(&scene.seen[r], text);
    }
    assert_true(scene.seen[0].first.lost_rank == 1 ||
                scene.seen[1].first.lost_rank == 0);
}

/* --- leaving --- */

/* Rank 1 leaves before the others do. */
static void act_leave(struct rank *r)
{
    reduce(r, 10);
    if (dt_comm_rank(r->comm) != 1)
        reduce(r, 10);
}

static void test_left(void **state)
{
    struct scene scene = {.act = act_leave, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    assert_int_equal(scene.seen[1].rc, 0);
    for (int r = 0; r < 3; r += 2)
        assert_seen(&scene.seen[r],
                    "comm/nccl: all_reduce(10 x f32): rank 1 on h1 has left "
                    "in order: it started fewer operations than this rank");
}

/* Rank 0 leaves while its operation cannot end. */
static void act_give_up(struct rank *r)
{
    struct dt_buffer *buf =
        dt_buffer_create(r->device, 16, "a test", &r->seen->first);
    dt_ticket_t ticket;
    if (dt_comm_rank(r->comm) == 0) {
        r->seen->rc =
            dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM, DT_F32,
                               &ticket, &r->seen->first);
    } else {
        dt_clock_sleep(2);
        reduce(r, 4);
    }
}

static void test_give_up(void **state)
{
    struct scene scene = {.act = act_give_up, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    assert_int_equal(scene.seen[0].rc, 0);
    assert_true(scene.seen[0].destroy_took < IN_TIME);
    assert_int_equal(scene.seen[1].rc, -1);
    assert_text(&scene.seen[1].first,
                "rank 0 on h0 has left in the middle of it");
}

/* Rank 0 fails by itself; the others wait for it in a reduction. */
static void act_abandon(struct rank *r)
{
    if (dt_comm_rank(r->comm) == 0)
        dt_error_set(&r->seen->first, EX_IOERR, "disk full");
    else
        reduce(r, 4);
}

static void test_abandon(void **state)
{
    struct scene scene = {.act = act_abandon, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 1; r < 3; r++) {
        const struct seen *seen = &scene.seen[r];
        assert_int_equal(seen->rc, -1);
        assert_string_equal(seen->first.text,
                            "comm/nccl: all_reduce(4 x f32): rank 0 on h0 "
                            "failed: disk full");
        assert_int_equal(seen->first.status, EX_IOERR);
        assert_int_equal(seen->first.lost_rank, 0);
        assert_true(seen->failed_after < IN_TIME);
    }
    assert_true(scene.seen[0].destroy_took < IN_TIME);
}

/* --- NCCL's own errors --- */

static void break_rank_1(int rank)
{
    if (rank == 1)
        setenv("SIMT_NCCL_FAIL", "3", 1);
}

static void act_loop(struct rank *r)
{
    for (int i = 0; i < 10 && reduce(r, 50) == 0; i++)
        continue;
}

static void test_asynchronous_error(void **state)
{
    struct scene scene = {
        .prepare = break_rank_1, .act = act_loop, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(scene.seen[r].rc, -1);
        assert_int_equal(scene.seen[r].first.status, EX_OSERR);
        assert_text(&scene.seen[r].first,
                    r == 1 ? "comm/nccl: all_reduce(50 x f32): ncclAllReduce: "
                             "unhandled system error: SIMT_NCCL_FAIL"
                           : "comm/nccl: all_reduce(50 x f32): rank 1 on h1 "
                             "failed: ncclAllReduce: unhandled system error: "
                             "SIMT_NCCL_FAIL");
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

/* --- coming --- */

static void absent_rank_1(int rank)
{
    if (rank == 1)
        setenv("SIMT_NCCL_ABSENT", "1", 1);
}

static void test_absent(void **state)
{
    struct scene scene = {.prepare = absent_rank_1, .timeout_ms = 2000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_false(scene.seen[r].connected);
        assert_text(&scene.seen[r].first,
                    "comm/nccl: connecting 3 cards: all ranks have come to "
                    "it, but it did not end within 2000 ms: ");
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

static void same_host(int rank)
{
    (void)rank;
    setenv("NCCL_HOSTID", "one", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
}

static void test_same_gpu(void **state)
{
    struct scene scene = {.prepare = same_host, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "comm/nccl: rank %d on h%d: ranks 0 and 1 on h0 have the "
                 "same GPU, 0000:01:00.0 (SIMT): each rank needs one of its "
                 "own. Give each task a card (srun --gpus-per-task=1), or "
                 "start no more tasks on a node than it has cards; "
                 "CUDA_VISIBLE_DEVICES of rank 1 is \"0\"",
                 r, r);
        assert_false(scene.seen[r].connected);
        assert_string_equal(scene.seen[r].first.text, text);
        assert_int_equal(scene.seen[r].first.status, EX_CONFIG);
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

static void other_version(int rank)
{
    if (rank == 2)
        setenv("SIMT_NCCL_VERSION", "22703", 1);
}

static void test_versions(void **state)
{
    struct scene scene = {.prepare = other_version, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_false(scene.seen[r].connected);
        assert_text(&scene.seen[r].first,
                    "rank 0 on h0 has NCCL 2.28.9, rank 2 on h2 has 2.27.3: "
                    "all ranks need the same one; see LD_LIBRARY_PATH");
        assert_int_equal(scene.seen[r].first.status, EX_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_in_scalars),
        cmocka_unit_test(test_hung),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_abandon),
        cmocka_unit_test(test_asynchronous_error),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_same_gpu),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests_name("comm faults", tests, NULL, NULL);
}
