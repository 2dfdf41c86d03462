/* SPDX-License-Identifier: Apache-2.0 */
/* test_roster.c - which keeper has which rank, who leads, and who goes on */
#include "config.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper/agree.h"
#include "keeper/roster.h"
#include "tests/unit/scratch.h"

static struct dt_roster roster;

/* Keepers on these nodes: a digit each, as "001122". */
static void open_roster(const char *nodes, int spares, int rc)
{
    dt_roster_fini(&roster);
    assert_int_equal(dt_roster_init(&roster, (int)strlen(nodes)), 0);
    for (int i = 0; i < roster.count; i++)
        roster.rows[i].hello.node = nodes[i] - '0';
    assert_int_equal(dt_roster_begin(&roster, spares), rc);
}

/* The ranks as digits, - for a spare, x for a lost keeper. */
static void expect(const char *ranks)
{
    char text[32] = "";
    for (int i = 0; i < roster.count; i++) {
        const int rank = roster.posts[i].rank;
        text[i] = (char)(rank == DT_WIRE_LOST    ? 'x'
                         : rank == DT_WIRE_SPARE ? '-'
                                                 : '0' + rank);
    }
    assert_string_equal(text, ranks);
}

static bool any(const void *context, int size)
{
    (void)context;
    (void)size;
    return true;
}

static bool is_even(const void *context, int size)
{
    (void)context;
    return size % 2 == 0;
}

static void assign(long least, dt_roster_fits_f *fits, int rc)
{
    assert_int_equal(dt_roster_assign(&roster, least, fits, NULL), rc);
}

static void the_last_nodes_are_spares(void **state)
{
    (void)state;
    open_roster("001122", 0, 0);
    expect("012345");
    open_roster("001122", 1, 0);
    expect("0123--");
    assert_int_equal(roster.size, 4);
    open_roster("012012", 2, 0); /* tasks dealt to nodes in turn */
    expect("0--1--");
    open_roster("00122", 1, 0);
    expect("012--");
    open_roster("0", 0, 0);
    expect("0");
    open_roster("01", 2, -1);
    open_roster("01", 3, -1);
}

static void a_spare_takes_the_ranks_of_a_lost_node(void **state)
{
    (void)state;
    open_roster("00112233", 2, 0);
    dt_roster_lose(&roster, 0);
    assert_true(dt_roster_was_lost(&roster, 0));
    assign(0, any, 0);
    expect("xx2301--");
    assert_false(dt_roster_was_lost(&roster, 0));
    assert_int_equal(dt_roster_nodes(&roster), 3);
    dt_roster_lose(&roster, 2);
    assign(0, any, 0);
    expect("xx23xx01");
    dt_roster_lose(&roster, 1);
    assign(0, any, -1);
    /* both at once, and a spare */
    open_roster("01234", 2, 0);
    dt_roster_lose(&roster, 0);
    dt_roster_lose(&roster, 2);
    assign(0, any, 0);
    expect("x1x02");
    open_roster("01234", 2, 0);
    dt_roster_lose(&roster, 3);
    dt_roster_lose(&roster, 1);
    assign(0, any, 0);
    expect("0x2x1");
    /* lost before the workers of its new ranks have started */
    open_roster("0123", 2, 0);
    dt_roster_lose(&roster, 0);
    assign(0, any, 0);
    dt_roster_lose(&roster, 2);
    assign(0, any, 0);
    expect("x1x0");
}

static void a_spare_has_to_have_enough_tasks(void **state)
{
    (void)state;
    open_roster("0011233", 2, 0);
    dt_roster_lose(&roster, 1);
    assign(0, any, 0);
    expect("01xx-23");
    open_roster("00112", 1, 0);
    dt_roster_lose(&roster, 0);
    assign(0, any, -1);
    /* with others, it is better than none */
    open_roster("00112", 1, 0);
    dt_roster_lose(&roster, 0);
    assign(1, any, 0);
    expect("xx012");
}

static void as_many_nodes_as_fit_go_on_without_spares(void **state)
{
    (void)state;
    open_roster("0123", 0, 0);
    dt_roster_lose(&roster, 1);
    assign(3, any, 0);
    expect("0x12");
    open_roster("0123", 0, 0);
    dt_roster_lose(&roster, 1);
    assign(4, any, -1);
    open_roster("0123", 0, 0);
    dt_roster_lose(&roster, 0);
    assign(1, is_even, 0);
    expect("x01-");
    assert_int_equal(roster.size, 2);
    assert_int_equal(roster.first, 4);
    /* who has had no rank is a spare now */
    dt_roster_lose(&roster, 2);
    assign(1, is_even, 0);
    expect("x0x1");
    open_roster("0123", 0, 0);
    dt_roster_lose(&roster, 0);
    assign(3, is_even, -1);
}

static void a_place_counts_nodes_by_their_lowest_rank(void **state)
{
    struct dt_place place;
    (void)state;
    open_roster("001122", 1, 0);
    dt_roster_place(&roster, 3, &place);
    assert_int_equal(place.rank, 3);
    assert_int_equal(place.size, 4);
    assert_int_equal(place.local_rank, 1);
    assert_int_equal(place.local_size, 2);
    assert_int_equal(place.node_rank, 1);
    assert_int_equal(place.nodes, 2);
    dt_roster_lose(&roster, 0);
    assign(0, any, 0);
    dt_roster_place(&roster, 4, &place);
    assert_int_equal(place.rank, 0);
    assert_int_equal(place.node_rank, 0);
    dt_roster_place(&roster, 3, &place);
    assert_int_equal(place.node_rank, 1);
    assert_int_equal(dt_roster_find(&roster, 0), 4);
}

static void the_lowest_keeper_that_is_left_leads(void **state)
{
    (void)state;
    open_roster("001123", 1, 0);
    assert_int_equal(dt_roster_next_leader(&roster, -1, -1), 0);
    dt_roster_lose(&roster, 0);
    assert_int_equal(dt_roster_next_leader(&roster, 0, 0), 2);
    /* the other keeper of its node is not asked, even if others are between */
    assert_int_equal(dt_roster_next_leader(&roster, 0, 2), 4);
    assert_int_equal(dt_roster_next_leader(&roster, 2, 2), 3);
    dt_roster_lose(&roster, 2);
    assert_int_equal(dt_roster_next_leader(&roster, 3, 3), 5);
    assert_int_equal(dt_roster_next_leader(&roster, 3, 5), 6);
    open_roster("012012", 0, 0);
    dt_roster_lose(&roster, 0);
    assert_int_equal(dt_roster_next_leader(&roster, 0, 1), 2);
    assert_int_equal(dt_roster_next_leader(&roster, 0, 2), 6);
}

static void a_lost_node_is_named_with_its_ranks(void **state)
{
    char text[64];
    (void)state;
    open_roster("00112", 1, 0);
    for (int i = 0; i < roster.count; i++)
        snprintf(roster.hosts[i], DT_KEEPER_HOST_BYTES, "h%d",
                 roster.rows[i].hello.node);
    dt_roster_lose(&roster, 1);
    dt_roster_print_lost(&roster, 1, text, sizeof(text));
    assert_string_equal(text, "node h1, rank 2, rank 3,");
    dt_roster_print_lost(&roster, 1, text, 12);
    assert_string_equal(text, "node h1, ra");
    dt_roster_lose(&roster, 2);
    dt_roster_print_lost(&roster, 2, text, sizeof(text));
    assert_string_equal(text, "node h2");
}

static void more_than_half_of_the_nodes_are_a_quorum(void **state)
{
    static const char *const want[] = {"L", "LM", "LHM", "LLMM", "LLHMM"};
    (void)state;
    for (int all = 1; all <= 4; all++)
        for (int live = 0; live <= all; live++)
            assert_int_equal(dt_quorum(live, all),
                             want[all][live] == 'L'   ? DT_QUORUM_LESS
                             : want[all][live] == 'H' ? DT_QUORUM_HALF
                                                      : DT_QUORUM_MORE);
}

static void one_side_has_an_epoch(void **state)
{
    char step[DT_EPOCH_STEP_BYTES], other[DT_EPOCH_STEP_BYTES], set[64];
    char dir[PATH_MAX];
    (void)state;
    snprintf(dir, sizeof(dir), "%s", scratch_path("out"));
    dt_epoch_step("5ec7e7", step);
    dt_epoch_step("5ec7e8", other);
    assert_string_not_equal(step, other);
    assert_int_equal(strlen(step), 16);
    unsetenv(DT_EPOCH_ENV);
    assert_false(dt_epoch_is_over(dir));
    snprintf(set, sizeof(set), "%s 1", step);
    setenv(DT_EPOCH_ENV, set, 1);
    assert_false(dt_epoch_is_over(dir));
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_OURS);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ac"), DT_CLAIM_LOST);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "a"), DT_CLAIM_LOST);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_OURS);
    assert_int_equal(dt_epoch_claim(dir, other, 2, "ac"), DT_CLAIM_OURS);
    assert_true(dt_epoch_is_over(dir));
    snprintf(set, sizeof(set), "%s 2", step);
    setenv(DT_EPOCH_ENV, set, 1);
    assert_false(dt_epoch_is_over(dir));
    assert_int_equal(dt_epoch_claim("/proc/none", step, 2, "ab"),
                     DT_CLAIM_FAILED);
    unsetenv(DT_EPOCH_ENV);
}

/* As where the disk is full. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_file_that_cannot_be_written_binds_nobody(void **state)
{
    char step[DT_EPOCH_STEP_BYTES], dir[PATH_MAX], path[PATH_MAX];
    struct rlimit before;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    snprintf(dir, sizeof(dir), "%s", scratch_path("full"));
    dt_epoch_step("5ec7e7", step);
    dt_epoch_path(path, dir, step, 2);
    limit_files(0);
    const enum dt_claim failed = dt_epoch_claim(dir, step, 2, "ab");
    limit_files(before.rlim_cur);
    assert_int_equal(failed, DT_CLAIM_FAILED);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ac"), DT_CLAIM_OURS);
    *strrchr(path, '/') = '\0';
    struct dirent **names;
    const int count = scandir(path, &names, NULL, NULL);
    assert_int_equal(count, 3); /* and "." and ".." */
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_nodes_are_spares),
        cmocka_unit_test(a_spare_takes_the_ranks_of_a_lost_node),
        cmocka_unit_test(a_spare_has_to_have_enough_tasks),
        cmocka_unit_test(as_many_nodes_as_fit_go_on_without_spares),
        cmocka_unit_test(a_place_counts_nodes_by_their_lowest_rank),
        cmocka_unit_test(the_lowest_keeper_that_is_left_leads),
        cmocka_unit_test(a_lost_node_is_named_with_its_ranks),
        cmocka_unit_test(more_than_half_of_the_nodes_are_a_quorum),
        cmocka_unit_test(one_side_has_an_epoch),
        cmocka_unit_test(a_file_that_cannot_be_written_binds_nobody),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dt_roster_fini(&roster);
    return failed;
}
