/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_comm_faults.c - ranks with GPUs that die, hang, leave or do not fit
 * together; on the emulation, whose NCCL waits for ever as the real one does
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scene.h"

/* --- lost --- */

/* The odd rank is killed in the middle of a stream of operations. */
static void act_killed(struct rank *r)
{
    for (int i = 0; i < 1000000; i++) {
        if (i == 5 && dt_comm_rank(r->comm) == r->odd)
            raise(SIGKILL);
        if (reduce(r, 3000) < 0)
            break;
    }
    reduce(r, 3000);
}

static void check_killed(int odd)
{
    struct scene scene = {
        .act = act_killed, .timeout_ms = PATIENCE_MS, .odd = odd};
    char text[96];
    snprintf(text, sizeof(text),
             "comm/nccl: all_reduce(3000 x f32): lost rank %d on h%d: ", odd,
             odd);
    play(&scene, 4, odd);
    for (int r = 0; r < 4; r++) {
        if (r == odd)
            continue;
        assert_seen(&scene.seen[r], text);
        assert_int_equal(scene.seen[r].first.lost_rank, odd);
        assert_string_equal(scene.seen[r].later.text, scene.seen[r].first.text);
    }
}

static void test_killed(void **state)
{
    (void)state;
    check_killed(0);
    check_killed(2);
    check_killed(3);
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

/* The odd rank stops answering until all the others have given up. */
static void act_hung(struct rank *r)
{
    reduce(r, 100);
    if (dt_comm_rank(r->comm) != r->odd) {
        reduce(r, 100);
        return;
    }
    for (int i = 0; i < dt_comm_size(r->comm); i++)
        while (i != r->odd && *(volatile int *)&r->all[i].rc == 0)
            dt_clock_sleep(0.05);
    raise(SIGKILL);
}

static void check_hung(int odd)
{
    struct scene scene = {.act = act_hung, .timeout_ms = 2000, .odd = odd};
    char text[128];
    snprintf(text, sizeof(text),
             "comm/nccl: all_reduce(100 x f32): rank %d on h%d did not answer "
             "within 2000 ms",
             odd, odd);
    play(&scene, 4, odd);
    for (int r = 0; r < 4; r++) {
        if (r == odd)
            continue;
        assert_seen(&scene.seen[r], text);
        assert_int_equal(scene.seen[r].first.lost_rank, odd);
        assert_true(scene.seen[r].failed_after > 1.5);
    }
}

static void test_hung(void **state)
{
    (void)state;
    check_hung(0);
    check_hung(1);
    check_hung(3);
}

/* The odd rank does another operation, or the same of another size. */
static void act_other_size(struct rank *r)
{
    reduce(r, dt_comm_rank(r->comm) == r->odd ? 20 : 10);
}

static void act_other_kind(struct rank *r)
{
    struct dt_error *err = &r->seen->first;
    dt_ticket_t ticket;
    struct dt_buffer *buf;
    if (dt_comm_rank(r->comm) != r->odd) {
        reduce(r, 10);
        return;
    }
    buf = dt_buffer_create(r->device, 40, "a test", err);
    r->seen->rc =
        dt_comm_all_gather(r->comm, dt_view_of(buf, DT_F32), &ticket, err);
    if (r->seen->rc == 0)
        r->seen->rc = dt_comm_wait(r->comm, ticket, err);
    if (r->seen->rc == 0)
        r->seen->rc = r->device->event_record(r->event, r->stream, err);
    if (r->seen->rc == 0)
        r->seen->rc = dt_comm_wait_event(r->comm, r->device, r->event, err);
}

/* Who is faster names the other, with what both do. */
static void check_mismatch(void (*act)(struct rank *), int odd,
                           const char *usual, const char *other)
{
    struct scene scene = {.act = act, .timeout_ms = 2000, .odd = odd};
    bool named = false;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        char text[128];
        if (scene.seen[r].first.lost_rank == r)
            continue; /* the other one was faster */
        named = true;
        snprintf(
            text, sizeof(text), "comm/nccl: %s: rank %d on h%d does %s instead",
            r == odd ? other : usual, 1 - r, 1 - r, r == odd ? usual : other);
        assert_seen(&scene.seen[r], text);
    }
    assert_true(named);
}

static void test_mismatch(void **state)
{
    (void)state;
    check_mismatch(act_other_size, 1, "all_reduce(10 x f32)",
                   "all_reduce(20 x f32)");
    check_mismatch(act_other_kind, 0, "all_reduce(10 x f32)",
                   "all_gather(10 x f32)");
}

/* --- leaving --- */

/* The odd rank leaves before the others do. */
static void act_leave(struct rank *r)
{
    reduce(r, 10);
    if (dt_comm_rank(r->comm) != r->odd)
        reduce(r, 10);
}

static void test_left(void **state)
{
    (void)state;
    for (int odd = 0; odd < 3; odd++) {
        struct scene scene = {
            .act = act_leave, .timeout_ms = PATIENCE_MS, .odd = odd};
        char text[128];
        snprintf(text, sizeof(text),
                 "comm/nccl: all_reduce(10 x f32): rank %d on h%d has left in "
                 "order: it started fewer operations than this rank",
                 odd, odd);
        play(&scene, 3, -1);
        assert_int_equal(scene.seen[odd].rc, 0);
        for (int r = 0; r < 3; r++)
            if (r != odd)
                assert_seen(&scene.seen[r], text);
    }
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

/* Rank 0 fails by itself, once all are connected; the others wait for it in a
 * reduction.
 */
static void act_abandon(struct rank *r)
{
    if (reduce(r, 4) < 0)
        return;
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
