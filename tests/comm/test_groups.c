/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_groups.c - collectives of some ranks of a world
 *
 * Ranks are dealt to nodes in turn, so that no group is a run of neighbors. The
 * ranks of a node are one group, and those with the same place in their nodes
 * another: the rail.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scene.h"
#include "tensor.h"

enum { LARGE = 140000 /* elements: several chunks */ };

/* The ranks of a world on `nodes` nodes, as one of them sees it. */
struct place {
    int nodes, per_node, node, local;
};

static struct place place_of(const struct rank *r, int nodes)
{
    return (struct place){nodes, r->size / nodes, r->rank % nodes,
                          r->rank / nodes};
}

static struct dt_comm *node_group(const struct rank *r, struct place at,
                                  struct dt_error *err)
{
    int ranks[WORLD_MAX];
    for (int l = 0; l < at.per_node; l++)
        ranks[l] = l * at.nodes + at.node;
    return dt_comm_group(r->comm, ranks, at.per_node, err);
}

static struct dt_comm *rail_group(const struct rank *r, struct place at,
                                  struct dt_error *err)
{
    int ranks[WORLD_MAX];
    for (int n = 0; n < at.nodes; n++)
        ranks[n] = at.local * at.nodes + n;
    return dt_comm_group(r->comm, ranks, at.nodes, err);
}

/* The rank in the world of rank i of a group. */
static int member(struct place at, bool rail, int i)
{
    return rail ? at.local * at.nodes + i : i * at.nodes + at.node;
}

/* --- bits --- */

/* Sums of these depend on the order in which they are made. */
static float value(int rank, size_t i)
{
    uint32_t h = ((uint32_t)i + 1) * 2654435761u ^ (uint32_t)rank * 40503u;
    h ^= h >> 15;
    return hardware()->own_sums ? ((float)(h & 0xffff) - 32768) * 1.1e-3f
                                : (float)(h & 0xff) - 128;
}

static float narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

static float sum_over(struct place at, bool rail, size_t i, bool half)
{
    float sum = 0;
    int size = rail ? at.nodes : at.per_node;
    for (int r = 0; r < size; r++) {
        float x = value(member(at, rail, r), i);
        half &= size > 1;
        sum = r == 0 ? (half ? narrow(x) : x) : sum + (half ? narrow(x) : x);
    }
    return half ? narrow(sum) : sum;
}

/* All elements with the values of this rank. */
static int begin(struct ctx *c, size_t count)
{
    if (open_case(c, count, DT_F32, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        ((float *)before(c))[i] = value(c->rank.rank, i);
    return upload(c);
}

static int check(struct ctx *c, size_t first, size_t count, struct place at,
                 bool rail, bool half)
{
    if (download(c) < 0)
        return -1;
    for (size_t i = first; i < first + count; i++) {
        float want = sum_over(at, rail, i, half);
        TRY(memcmp((float *)after(c) + i, &want, 4) == 0);
    }
    return close_case(c);
}

static int reduce_in(struct ctx *c, struct dt_comm *group, struct place at,
                     bool rail, enum dt_dtype wire)
{
    size_t size = (size_t)dt_comm_size(group), n = (size_t)dt_comm_rank(group);
    static const size_t parts[] = {3, 1000, LARGE};
    for (size_t k = 0; k < (hardware()->large ? 3 : 2); k++) {
        if (begin(c, parts[k] * size) < 0)
            return -1;
        TRY(dt_comm_reduce_scatter(group, c->v, DT_SUM, wire, &c->ticket,
                                   &c->err) == 0);
        if (check(c, parts[k] * n, parts[k], at, rail, wire == DT_BF16) < 0)
            return -1;
        if (begin(c, parts[k] * size) < 0)
            return -1;
        TRY(dt_comm_all_reduce(group, c->v, DT_SUM, wire, &c->ticket,
                               &c->err) == 0);
        if (check(c, 0, parts[k] * size, at, rail, wire == DT_BF16) < 0)
            return -1;
    }
    return 0;
}

static int gather_in(struct ctx *c, struct dt_comm *group, struct place at,
                     bool rail)
{
    size_t size = (size_t)dt_comm_size(group), part = 777;
    if (begin(c, part * size) < 0)
        return -1;
    TRY(dt_comm_all_gather(group, c->v, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < part * size; i++)
        TRY(((float *)after(c))[i] ==
            value(member(at, rail, (int)(i / part)), i));
    return close_case(c);
}

/* Of what was rounded before, through bf16. */
static int gather_rounded_in(struct ctx *c, struct dt_comm *group,
                             struct place at, bool rail, size_t part)
{
    size_t size = (size_t)dt_comm_size(group);
    if (open_case(c, part * size, DT_F32, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < c->v.count; i++)
        ((float *)before(c))[i] = narrow(value(c->rank.rank, i));
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_gather_bf16(group, c->v, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < part * size; i++)
        TRY(((float *)after(c))[i] ==
            narrow(value(member(at, rail, (int)(i / part)), i)));
    return close_case(c);
}

/* What the ranks of a group have, in both groups of a rank. */
static int act(struct ctx *c, int nodes)
{
    struct place at = place_of(&c->rank, nodes);
    struct dt_comm *groups[2];
    groups[0] = node_group(&c->rank, at, &c->err);
    TRY(groups[0]);
    groups[1] = rail_group(&c->rank, at, &c->err);
    TRY(groups[1]);
    TRY(dt_comm_rank(groups[0]) == at.local &&
        dt_comm_rank(groups[1]) == at.node);
    for (int i = 0; i < at.per_node; i++) {
        char host[8];
        snprintf(host, sizeof(host), "h%d", member(at, false, i));
        TRY(c->rank.size == 1 || !strcmp(dt_comm_host(groups[0], i), host));
    }
    for (int rail = 0; rail < 2; rail++)
        if (reduce_in(c, groups[rail], at, rail, DT_F32) < 0 ||
            reduce_in(c, groups[rail], at, rail, DT_BF16) < 0 ||
            gather_in(c, groups[rail], at, rail) < 0 ||
            gather_rounded_in(c, groups[rail], at, rail, 776) < 0 ||
            (hardware()->large && c->rank.size == 4 &&
             gather_rounded_in(c, groups[rail], at, rail, 1500008) < 0))
            return -1;
    TRY(dt_comm_barrier(c->rank.comm, &c->err) == 0);
    return 0;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const int *nodes = arg;
    struct ctx c = {.rank.rank = world->rank, .rank.size = world->size};
    int rc = rank_open(&c.rank, world, PATIENCE_MS, &c.err);
    if (rc < 0)
        fprintf(stderr, "# %s\n", c.err.text);
    else
        rc = act(&c, *nodes);
    rank_close(&c.rank, rc < 0 ? &c.err : NULL);
    return rc == 0 ? 0 : 1;
}

static void sums_are_made_in_the_order_of_the_group(void **state)
{
    static const int worlds[][2] = {{1, 1}, {4, 2}, {4, 4}, {6, 2}, {6, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        int size = worlds[i][0], nodes = worlds[i][1];
        if (size <= (hardware()->most_ranks > 1 ? 6 : 1))
            ranks_run(size, rank_main, &nodes, -1);
    }
}

/* --- operations of the world and of groups in one order --- */

/* Nothing waits until all are started: the first ones are still under way. */
static int queue_mixed(struct ctx *c)
{
    enum { TIMES = 50, COUNT = 1200 };
    struct place at = place_of(&c->rank, 2);
    struct dt_comm *node = node_group(&c->rank, at, &c->err);
    TRY(node);
    struct dt_comm *rail = rail_group(&c->rank, at, &c->err);
    TRY(rail);
    if (open_case(c, COUNT, DT_F32, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < COUNT; i++)
        ((float *)before(c))[i] = c->rank.rank == 0;
    if (upload(c) < 0)
        return -1;
    for (int k = 0; k < TIMES; k++) {
        struct dt_comm *all = k % 10 == 9 ? c->rank.comm : NULL;
        TRY(dt_comm_all_reduce(all     ? all
                               : k % 2 ? node
                                       : rail,
                               c->v, DT_MAX, DT_F32, &c->ticket, &c->err) == 0);
    }
    TRY(dt_comm_wait(node, c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < COUNT; i++)
        TRY(((float *)after(c))[i] == 1);
    return close_case(c);
}

static int mixed_main(const struct dt_comm_world *world, void *arg)
{
    struct ctx c = {.rank.rank = world->rank, .rank.size = world->size};
    int rc = rank_open(&c.rank, world, PATIENCE_MS, &c.err);
    (void)arg;
    if (rc == 0)
        rc = queue_mixed(&c);
    rank_close(&c.rank, rc < 0 ? &c.err : NULL);
    return rc == 0 ? 0 : 1;
}

static void groups_and_the_world_share_one_order(void **state)
{
    (void)state;
    if (hardware()->most_ranks < 4)
        skip();
    ranks_run(4, mixed_main, NULL, -1);
}

/* --- lost ranks --- */

static int reduce_once(struct actor *a, struct dt_comm *comm)
{
    struct dt_error *err = &a->seen->first;
    struct dt_buffer *buf =
        dt_buffer_create(a->rank.device, 4000, "a test", err);
    dt_ticket_t ticket;
    int rc = dt_comm_all_reduce(comm, dt_view_of(buf, DT_F32), DT_SUM, DT_F32,
                                &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(comm, ticket, err);
    if (rc == 0)
        rc = rank_finish(&a->rank, err);
    if (rc == 0 || a->rank.device->is_host)
        dt_buffer_destroy(buf);
    return rc;
}

/* The odd rank is killed. One rank has no group in common with it. */
static void act_lost(struct actor *a)
{
    struct rank *r = &a->rank;
    struct place at = place_of(r, 2);
    struct dt_comm *node = node_group(r, at, &a->seen->first);
    struct dt_comm *rail = node ? rail_group(r, at, &a->seen->first) : NULL;
    a->seen->rc = rail ? 0 : -1;
    for (int k = 0; k < 100000 && a->seen->rc == 0; k++) {
        if (k == 20 && r->rank == a->odd)
            raise(SIGKILL);
        a->seen->rc = reduce_once(a, k % 2 ? rail : node);
    }
}

static void check_lost(int odd)
{
    struct scene scene = {
        .act = act_lost, .timeout_ms = PATIENCE_MS, .odd = odd};
    char text[64];
    snprintf(text, sizeof(text), "lost rank %d on h%d: ", odd, odd);
    play(&scene, 4, odd);
    for (int r = 0; r < 4; r++) {
        const struct seen *seen = &scene.seen[r];
        if (r == odd)
            continue;
        assert_int_equal(seen->rc, -1);
        assert_text(&seen->first, text);
        assert_text(&seen->first, "all_reduce(1000 x f32) in a group of 2: ");
        assert_int_equal(seen->first.lost_rank, odd);
    }
}

static void a_lost_rank_is_named_by_its_place_in_the_world(void **state)
{
    (void)state;
    if (hardware()->most_ranks < 4)
        skip();
    for (int odd = 0; odd < 4; odd++)
        check_lost(odd);
}

/* The odd rank does not answer until the others have given up; they wait for
 * each other, too.
 */
static void act_hung_in_groups(struct actor *a)
{
    struct rank *r = &a->rank;
    struct place at = place_of(r, 2);
    struct dt_comm *node = node_group(r, at, &a->seen->first);
    struct dt_comm *rail = node ? rail_group(r, at, &a->seen->first) : NULL;
    a->seen->rc = rail ? 0 : -1;
    for (int k = 0; k < 20 && a->seen->rc == 0; k++) {
        for (int i = 0; k == 11 && r->rank == a->odd && i < r->size; i++)
            while (i != a->odd && *(volatile int *)&a->all[i].rc == 0)
                dt_clock_sleep(0.05);
        /* the one who waits for it starts late, so those who wait for him have
         * waited longer
         */
        if (r->rank == (a->odd ^ 1) && k == 11)
            dt_clock_sleep(1);
        a->seen->rc = reduce_once(a, k % 2 ? rail : node);
    }
}

static void a_rank_for_which_others_wait_is_named(void **state)
{
    struct scene scene = {.act = act_hung_in_groups, .timeout_ms = 3000};
    (void)state;
    if (hardware()->most_ranks < 4)
        skip();
    for (int odd = 0; odd < 4; odd++) {
        char text[64];
        snprintf(text, sizeof(text),
                 ": rank %d on h%d did not answer within 3000 ms", odd, odd);
        scene.odd = odd;
        play(&scene, 4, -1);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(scene.seen[r].rc, -1);
            assert_text(&scene.seen[r].first, text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_made_in_the_order_of_the_group),
        cmocka_unit_test(groups_and_the_world_share_one_order),
        cmocka_unit_test(a_lost_rank_is_named_by_its_place_in_the_world),
        cmocka_unit_test(a_rank_for_which_others_wait_is_named),
    };
    return cmocka_run_group_tests_name("comm groups", tests, NULL, NULL);
}
