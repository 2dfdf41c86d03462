/* SPDX-License-Identifier: Apache-2.0 */
/* test_links.c - who is connected to whom */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "comm/peers.h"

enum { MOST = 1024 };

static struct dt_links links[MOST];

static void connect_world(int size, bool all)
{
    for (int r = 0; r < size; r++)
        assert_int_equal(dt_links_init(&links[r], r, size, all, NULL), 0);
}

static void free_world(int size)
{
    for (int r = 0; r < size; r++)
        dt_links_fini(&links[r]);
}

/* Groups of `count` ranks, each `stride` after the one before it. */
static void connect_groups(int size, int count, int stride, bool all)
{
    int ranks[MOST], missing[MOST];
    for (int r = 0; r < size; r++) {
        int first = r / (count * stride) * (count * stride) + r % stride;
        for (int i = 0; i < count; i++)
            ranks[i] = first + i * stride;
        int n = dt_links_missing(&links[r], ranks, count, (r - first) / stride,
                                 all, missing);
        for (int i = 0; i < n; i++) {
            assert_false(dt_links_have(&links[r], missing[i]));
            assert_true(i == 0 || missing[i - 1] < missing[i]);
            dt_links_add(&links[r], missing[i]);
        }
    }
}

static void a_small_world_is_connected_completely(void **state)
{
    int size = DT_LINKS_ALL;
    (void)state;
    connect_world(size, false);
    for (int a = 0; a < size; a++) {
        assert_int_equal(links[a].count, size - 1);
        for (int b = 0; b < size; b++)
            assert_int_equal(dt_links_have(&links[a], b), a != b);
    }
    free_world(size);
}

static void a_large_world_is_connected_completely_on_request(void **state)
{
    (void)state;
    connect_world(40, true);
    for (int a = 0; a < 40; a++)
        assert_int_equal(links[a].count, 39);
    free_world(40);
}

/* Both ends agree, ranks ascend, and nobody has more than `most`. */
static void check(int size, int most)
{
    for (int a = 0; a < size; a++) {
        if (links[a].count > most)
            fail_msg("rank %d of %d: %d connections", a, size, links[a].count);
        assert_false(dt_links_have(&links[a], a));
        for (int i = 0; i < links[a].count; i++) {
            assert_true(i == 0 || links[a].peers[i - 1] < links[a].peers[i]);
            assert_true(dt_links_have(&links[links[a].peers[i]], a));
        }
        for (int s = 1; s < size; s *= 2)
            assert_true(dt_links_have(&links[a], (a + s) % size));
    }
}

static void connections_grow_with_the_logarithm_of_ranks(void **state)
{
    const int sizes[][2] = {{17, 10}, {128, 13}, {1000, 20}, {1024, 19}};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        connect_world(sizes[i][0], false);
        check(sizes[i][0], sizes[i][1]);
        free_world(sizes[i][0]);
    }
}

/* Nodes of 8 and their rails, as sums in two levels have them. */
static void a_group_adds_few_connections(void **state)
{
    (void)state;
    connect_world(1024, false);
    connect_groups(1024, 8, 1, false);
    check(1024, 19 + 4);
    connect_groups(1024, 128, 8, false);
    check(1024, 19 + 4 + 14);
    for (int r = 0; r < 8; r++)
        for (int q = 0; q < 8; q++)
            assert_int_equal(dt_links_have(&links[r], q), r != q);
    free_world(1024);
}

/* Groups that fit neither nodes nor powers of two. */
static void any_group_is_connected(void **state)
{
    (void)state;
    connect_world(60, false);
    connect_groups(60, 3, 20, false);
    connect_groups(60, 20, 3, false);
    check(60, 11 + 2 + 10);
    for (int r = 0; r < 20; r++)
        assert_true(dt_links_have(&links[r], r + 40));
    connect_groups(60, 20, 3, true);
    for (int r = 0; r < 60; r += 3)
        assert_true(r == 30 || dt_links_have(&links[30], r));
    free_world(60);
}

/* The news of a loss comes to everybody over few ranks. */
static void nobody_is_far_away(void **state)
{
    int far[MOST], queue[MOST], first = 0, end = 1, most = 0;
    (void)state;
    connect_world(1000, false);
    for (int r = 0; r < 1000; r++)
        far[r] = -1;
    far[0] = queue[0] = 0;
    for (; first < end; first++) {
        const struct dt_links *l = &links[queue[first]];
        for (int i = 0; i < l->count; i++)
            if (far[l->peers[i]] < 0) {
                far[l->peers[i]] = most = far[l->rank] + 1;
                queue[end++] = l->peers[i];
            }
    }
    assert_int_equal(end, 1000);
    assert_true(most <= 5);
    free_world(1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_world_is_connected_completely),
        cmocka_unit_test(a_large_world_is_connected_completely_on_request),
        cmocka_unit_test(connections_grow_with_the_logarithm_of_ranks),
        cmocka_unit_test(a_group_adds_few_connections),
        cmocka_unit_test(any_group_is_connected),
        cmocka_unit_test(nobody_is_far_away),
    };
    return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
