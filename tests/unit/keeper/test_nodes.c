/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - steps that outlive their nodes, of one or two tasks each */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/answer.h"
#include "keeper/agree.h"
#include "keeper/keeper_impl.h"
#include "keeper/reach.h"
#include "tests/unit/keeper/nodes_scene.h"

static void a_spare_node_takes_the_place_of_a_lost_one(void **state)
{
    (void)state;
    open_step(6, 2, 1, 0);
    start_step(4);
    lose(1);
    end_step();
    /* the other keeper of its node leaves, as the leader of the first epoch */
    expect((int[]){UNAVAILABLE, SIGKILL, 0, 0, 0, 0});
    has("life 0: 0 is 0 of 4, 0 of 2 on 0, ", 1);
    has("life 0: 3 is 3 of 4, 1 of 2 on 1, ", 1);
    has("life 1: ", 4);
    has("life 1: 4 is 0 of 4, 0 of 2 on 0, 127.0.0.1.", 1);
    has("life 1: 5 is 1 of 4, 1 of 2 on 0, 127.0.0.1. 2 1 4.", 1);
    has("life 1: 2 is 2 of 4, 0 of 2 on 1, 127.0.0.1.", 1);
    has("node n3 takes its place: all ranks start again (restart 1 of at most "
        "3)\n",
        1);
}

/* srun drops what it has not read when the last task ends, if any was killed.
 * A connection of the console, SIGTERM or time ends the wait, and nothing else.
 */
static void who_tells_the_end_without_a_node_waits_to_be_heard(void **state)
{
    enum { HEARD, TOLD, LATE, WAYS };
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        unsigned port = 0;
        open_step(3, 1, 0, 1);
        scene.options.token = "70ce4";
        scene.options.hear_s = way == LATE ? 0.1 : 3600;
        start_step(3);
        lose(2);
        scene_await(&scene, "record: 70ce4 verdict 0 1\n", 1);
        for (int task = 1; task < 3; task++)
            scene_join(&scene, task);
        const char *waits = strstr(scene_read(&scene), "70ce4 waits ");
        assert_non_null(waits);
        assert_int_equal(sscanf(waits, "70ce4 waits 127.0.0.1 %u", &port), 1);
        if (way != LATE) {
            assert_int_equal(kill(scene.pids[0], SIGUSR1), 0);
            dt_clock_sleep(0.3); /* it would end meanwhile */
            assert_int_equal(waitpid(scene.pids[0], NULL, WNOHANG), 0);
        }
        if (way == HEARD)
            assert_int_equal(dt_answer_get("127.0.0.1", port, 30000),
                             DT_ANSWER_OPEN);
        else if (way == TOLD)
            assert_int_equal(kill(scene.pids[0], SIGTERM), 0);
        scene_join(&scene, 0);
        expect((int[]){0, 0, SIGKILL});
    }
}

static void who_tells_the_end_of_all_nodes_ends(void **state)
{
    (void)state;
    setenv("LAST", "0", 1);
    open_step(3, 1, 0, 1);
    scene.options.token = "70ce4";
    scene.options.hear_s = 3600;
    start_step(3);
    end_step();
    unsetenv("LAST");
    has("record: 70ce4 verdict 0 0\n", 1);
    expect((int[]){0, 0, 0});
}

static void fewer_ranks_go_on_without_a_spare(void **state)
{
    (void)state;
    open_step(6, 2, 0, 2);
    start_step(6);
    lose(5);
    end_step();
    expect((int[]){0, 0, 0, 0, UNAVAILABLE, SIGKILL});
    has("disttrain: node n3, rank 4, rank 5, is lost: Connection reset by "
        "peer: 4 ranks are left of 6: all ranks start again (restart 1 of at "
        "most 3)\n",
        1);
    has("life 1: ", 4);
    has("life 1: 3 is 3 of 4, 1 of 2 on 1, ", 1);
}

static void the_next_keeper_leads_when_the_leader_is_lost(void **state)
{
    (void)state;
    setenv("LAST", "2", 1);
    open_step(5, 1, 2, 0);
    use_directory("next");
    start_step(3);
    lose(0);
    scene_await(&scene, "life 1: ", 3);
    lose(1);
    end_step();
    unsetenv("LAST");
    expect((int[]){SIGKILL, SIGKILL, 0, 0, 0});
    has("disttrain: node n1, rank 0, is lost: Connection reset by peer: node "
        "n4 takes its place: all ranks start again (restart 1 of at most 3)\n",
        1);
    has("disttrain: node n2, rank 1, is lost: Connection reset by peer: node "
        "n5 takes its place: all ranks start again (restart 2 of at most 3)\n",
        1);
    has("life 1: 3 is 0 of 3, 0 of 1 on 0, 127.0.0.1.", 1);
    has("life 2: 4 is 1 of 3, 0 of 1 on 1, 127.0.0.1.", 1);
}

static void a_new_leader_knows_how_much_was_lost(void **state)
{
    (void)state;
    setenv("LAST", "9", 1);
    open_step(5, 1, 2, 0);
    scene.options.max_restarts = 1;
    scene.options.token = "70ce4";
    start_step(3);
    lose(0);
    scene_await(&scene, "life 1: ", 3);
    lose(1);
    end_step();
    unsetenv("LAST");
    has("start again (restart 1 of at most 1)", 1);
    has("node n2, rank 1, is lost: Connection reset by peer: the allowed "
        "restarts are used up\n",
        1);
    has("disttrain: record: 70ce4 verdict 69 2\n", 1);
}

/* Its worker takes longer to end than a silence, for example. */
static void a_slow_keeper_leads_and_is_waited_for(void **state)
{
    (void)state;
    open_step(3, 1, 0, 1);
    scene.options.beat_ms = 300;
    scene.options.outage_s = 1.5;
    start_step(3);
    assert_int_equal(kill(scene.pids[1], SIGSTOP), 0);
    lose(0);
    dt_clock_sleep(2.4);
    assert_int_equal(kill(scene.pids[1], SIGCONT), 0);
    end_step();
    expect((int[]){SIGKILL, 0, 0});
    has("2 ranks are left of 3: ", 1);
    has("it has not come to the next leader", 0);
    has("life 1: 1 is 0 of 2, ", 1);
}

/* The leader is stopped, so that nobody hears of the keeper before it is lost,
 * too.
 */
static void a_next_leader_without_a_keeper_of_its_node_leaves(void **state)
{
    (void)state;
    for (int lost = 2; lost < 4; lost++) {
        open_step(8, 2, 0, 1);
        use_directory(lost == 2 ? "mate2" : "mate3");
        scene.options.beat_ms = 300;
        scene.options.outage_s = 1.5;
        start_step(8);
        assert_int_equal(kill(scene.pids[0], SIGSTOP), 0);
        lose(lost);
        lose(0);
        end_step();
        expect(lost == 2 ? (int[]){SIGKILL, UNAVAILABLE, SIGKILL, UNAVAILABLE,
                                   0, 0, 0, 0}
                         : (int[]){SIGKILL, UNAVAILABLE, UNAVAILABLE, SIGKILL,
                                   0, 0, 0, 0});
        has("n2: a keeper of this node is lost: the node leaves the step\n",
            lost == 3);
        has("disttrain: keeper: cannot reach n2 at ", lost == 2);
        has("4 ranks are left of 8: ", 1);
        has("life 1: 4 is 0 of 4, ", 1);
    }
}

static void half_of_the_nodes_go_on_with_the_file_of_the_epoch(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        open_step(2, 1, 0, 1);
        use_directory(lost ? "half1" : "half0");
        start_step(2);
        lose(lost);
        end_step();
        expect(lost ? (int[]){0, SIGKILL} : (int[]){SIGKILL, 0});
        has("1 ranks are left of 2: ", 1);
    }
}

/* As if a leader had written it, and was lost before it could tell. */
static void a_file_of_others_stops_half_and_no_majority(void **state)
{
    char step[DT_EPOCH_STEP_BYTES];
    (void)state;
    for (int size = 2; size < 4; size++) {
        open_step(size, 1, 0, 1);
        use_directory(size == 2 ? "taken2" : "taken3");
        dt_epoch_step(scene.options.secret, step);
        assert_int_equal(dt_epoch_claim(scene.options.dir, step, 2, "others"),
                         DT_CLAIM_OURS);
        start_step(size);
        lose(1);
        end_step();
        expect(size == 2 ? (int[]){UNAVAILABLE, SIGKILL}
                         : (int[]){0, SIGKILL, 0});
        has("n1: other nodes of the step have decided: this part of it ends\n",
            size == 2);
        has("2 ranks are left of 3: all ranks start again", size == 3);
    }
}

static void half_without_a_directory_ends(void **state)
{
    (void)state;
    open_step(2, 1, 0, 1);
    start_step(2);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL});
    has("disttrain: n1: 1 of 2 nodes hear each other here: this part of the "
        "step ends\n",
        1);
    has("life 1: ", 0);
    open_step(2, 1, 0, 1);
    scene.options.dir = "/proc/none";
    start_step(2);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL});
    has(", which has failed: this part of the step ends\n", 1);
}

static void less_than_half_ends_even_with_a_directory(void **state)
{
    (void)state;
    open_step(3, 1, 0, 1);
    use_directory("less");
    start_step(3);
    assert_int_equal(kill(scene.pids[0], SIGSTOP), 0); /* sees both at once */
    for (int task = 1; task < 3; task++) {
        lose(task);
        scene_join(&scene, task);
        scene.pids[task] = 0;
    }
    assert_int_equal(kill(scene.pids[0], SIGCONT), 0);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL, SIGKILL});
    has("1 of 3 nodes hear each other here", 1);
    has("life 1: ", 0);
}

static void a_step_ends_when_nothing_takes_a_place(void **state)
{
    (void)state;
    open_step(3, 1, 0, 3);
    start_step(3);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL, UNAVAILABLE});
    has("disttrain: node n2, rank 1, is lost: Connection reset by peer; no "
        "spare takes its place, and launch.min_ranks allows no smaller number: "
        "launch.max_restarts or launch.max_requeues starts another step\n",
        1);
    /* without ranks, there is no step */
    open_step(2, 1, 2, 0);
    scene_start(&scene);
    end_step();
    expect((int[]){78 << 8, 78 << 8});
    has("launch.spares: 2 of the 2 nodes of the step leave none for ranks\n",
        1);
}

/* As a host that does not answer, and later does. */
static void who_was_stopped_and_replaced_ends(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        open_step(3, 1, 1, 0);
        use_directory(lost ? "stop1" : "stop0");
        scene.options.beat_ms = 100;
        scene.options.outage_s = 0.5;
        start_step(2);
        assert_int_equal(kill(-scene.pids[lost], SIGSTOP), 0);
        scene_await(&scene, "life 1: ", 2);
        assert_int_equal(kill(-scene.pids[lost], SIGCONT), 0);
        end_step();
        expect(lost ? (int[]){0, UNAVAILABLE, 0} : (int[]){UNAVAILABLE, 0, 0});
        has(" is lost: it was not heard for 0.5 s: node n3 takes its place", 1);
        has("life 1: ", 2);
    }
}

/* Tasks 0 and 2 are on the first node, and the second one is a spare. */
static void a_lost_keeper_is_named_by_its_rank(void **state)
{
    (void)state;
    for (int lost = 1; lost < 3; lost++) {
        open_step(4, 1, 1, 0);
        scene.in_turn = 2;
        scene.options.replaces = false;
        start_step(2);
        lose(lost);
        end_step();
        has(lost == 1 ? "lost the keeper of a spare on n2: "
                      : "lost the keeper of rank 1 on n1: ",
            1);
    }
}

static void a_lost_spare_leaves_the_ranks_where_they_are(void **state)
{
    (void)state;
    open_step(3, 1, 1, 0);
    start_step(2);
    lose(2);
    end_step();
    expect((int[]){0, 0, SIGKILL});
    has("disttrain: node n3 is lost: Connection reset by peer: it was a "
        "spare: all ranks start again (restart 1 of at most 3)\n",
        1);
    has("life 1: 1 is 1 of 2, ", 1);
}

/* A step of `size` nodes loses the last ones, and the rest is told to end. The
 * leader is stopped, so that it sees both at once.
 */
static void lose_and_ask(int size, int left, const char *dir, bool others_go_on)
{
    char step[DT_EPOCH_STEP_BYTES];
    open_step(size, 1, 0, 1);
    if (dir)
        use_directory(dir);
    dt_epoch_step(scene.options.secret, step);
    if (others_go_on)
        assert_int_equal(dt_epoch_claim(scene.options.dir, step, 2, "others"),
                         DT_CLAIM_OURS);
    scene.options.trains = true;
    scene.options.token = "70ce4";
    scene_script(&scene, "trap 'exit 75' TERM\necho life 0: up\n"
                         "while :; do sleep 0.02; done");
    start_step(size);
    assert_int_equal(kill(scene.pids[0], SIGSTOP), 0);
    for (int task = left; task < size; task++) {
        lose(task);
        scene_join(&scene, task);
        scene.pids[task] = 0;
    }
    for (int task = 0; task < left; task++)
        assert_int_equal(kill(-scene.pids[task], SIGTERM), 0);
    assert_int_equal(kill(scene.pids[0], SIGCONT), 0);
    end_step();
}

/* Of two halves the one that is told to end takes care that the other does not
 * go on.
 */
static void who_is_told_to_end_without_a_node_asks_for_a_requeue(void **state)
{
    static const struct {
        int size, left, status;
        const char *dir;
        bool others_go_on;
    } cases[] = {
        {2, 1, EX_TEMPFAIL, NULL, false},
        {2, 1, EX_TEMPFAIL, "ends", false},
        {2, 1, EX_UNAVAILABLE, "ends on", true},
        {2, 1, EX_UNAVAILABLE, "/dev/null", false},
        {3, 2, EX_TEMPFAIL, NULL, false},
        {3, 2, EX_TEMPFAIL, "/dev/null", false},
        {3, 1, EX_UNAVAILABLE, NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int left = cases[i].left, lost = cases[i].size - left;
        const bool ends = cases[i].status == EX_TEMPFAIL;
        char verdict[64];
        lose_and_ask(cases[i].size, left, cases[i].dir, cases[i].others_go_on);
        for (int task = 0; task < left; task++)
            scene_expect(&scene, task, cases[i].status << 8);
        snprintf(verdict, sizeof(verdict), "record: 70ce4 verdict 75 %d\n",
                 lost);
        has(verdict, ends);
        has("disttrain: record: 70ce4 leaves 1 216000\n",
            ends ? 0 : (size_t)left);
        has("n1: other nodes of the step have decided", cases[i].others_go_on);
        has("is lost: Connection reset by peer: the step was told to end\n", 1);
    }
}

/* The other half, which was not told, finds the file. */
static void an_end_binds_the_other_half(void **state)
{
    char step[DT_EPOCH_STEP_BYTES];
    (void)state;
    lose_and_ask(2, 1, "bound", false);
    open_step(2, 1, 0, 1);
    use_directory("bound");
    dt_epoch_step(scene.options.secret, step);
    assert_int_equal(dt_epoch_claim(scene.options.dir, step, 2, "any"),
                     DT_CLAIM_LOST);
    start_step(2);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, UNAVAILABLE});
    has("n2: other nodes of the step have decided: this part of it ends\n", 1);
}

static void who_is_told_to_end_is_not_replaced(void **state)
{
    (void)state;
    open_step(3, 1, 1, 0);
    start_step(2);
    scene_signal(&scene, SIGTERM);
    end_step();
    has("life 1: ", 0);
    has("start again", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_node_takes_the_place_of_a_lost_one),
        cmocka_unit_test(who_tells_the_end_without_a_node_waits_to_be_heard),
        cmocka_unit_test(who_tells_the_end_of_all_nodes_ends),
        cmocka_unit_test(fewer_ranks_go_on_without_a_spare),
        cmocka_unit_test(the_next_keeper_leads_when_the_leader_is_lost),
        cmocka_unit_test(a_new_leader_knows_how_much_was_lost),
        cmocka_unit_test(a_slow_keeper_leads_and_is_waited_for),
        cmocka_unit_test(a_next_leader_without_a_keeper_of_its_node_leaves),
        cmocka_unit_test(half_of_the_nodes_go_on_with_the_file_of_the_epoch),
        cmocka_unit_test(a_file_of_others_stops_half_and_no_majority),
        cmocka_unit_test(half_without_a_directory_ends),
        cmocka_unit_test(less_than_half_ends_even_with_a_directory),
        cmocka_unit_test(a_step_ends_when_nothing_takes_a_place),
        cmocka_unit_test(who_was_stopped_and_replaced_ends),
        cmocka_unit_test(a_lost_keeper_is_named_by_its_rank),
        cmocka_unit_test(a_lost_spare_leaves_the_ranks_where_they_are),
        cmocka_unit_test(who_is_told_to_end_without_a_node_asks_for_a_requeue),
        cmocka_unit_test(an_end_binds_the_other_half),
        cmocka_unit_test(who_is_told_to_end_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
