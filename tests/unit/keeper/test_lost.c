/* SPDX-License-Identifier: Apache-2.0 */
/* test_lost.c - since when a rank is lost, of which its keepers learn later */
#include "config.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "keeper/leader.h"
#include "keeper/roster.h"
#include "tests/unit/turned_clock.h"

enum { RANKS = 3 };

static const struct dt_keeper_options options = {.replaces = true,
                                                 .least = 1,
                                                 .trains = true,
                                                 .max_restarts = 3,
                                                 .beat_ms = 1000,
                                                 .outage_s = 60,
                                                 .secret = "5ec7e7"};

static struct dt_leader *leader;
static double begun;

/* The leader of ranks that all run, on a node each. */
static int begin(void **state)
{
    struct dt_roster roster;
    struct dt_error err;
    (void)state;
    if (dt_roster_init(&roster, RANKS) < 0)
        return -1;
    for (int i = 0; i < RANKS; i++) {
        roster.rows[i].hello.node = i;
        snprintf(roster.hosts[i], sizeof(roster.hosts[i]), "n%d", i + 1);
    }
    if (dt_roster_begin(&roster, 0) < 0)
        return -1;
    roster.epoch = 1;
    leader = dt_leader_create(&options, &roster, 0, -1, -1, &err);
    dt_roster_fini(&roster);
    if (!leader)
        return -1;
    dt_life_start(leader);
    begun = dt_clock_now();
    return leader->phase == DT_RUNNING ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    turned_s = 0;
    dt_leader_destroy(leader);
    return 0;
}

/* Whether a loss has been noted, so many seconds after the beginning. */
static void assert_lost_after(double seconds)
{
    assert_int_equal(leader->phase, DT_STOPPING);
    if (!(fabs(leader->lost_at - begun - seconds) < 0.5))
        fail_msg("after %g s", leader->lost_at - begun);
}

static void who_hangs_is_lost_since_nobody_gets_on(void **state)
{
    (void)state;
    turned_s = 10;
    dt_pace_note(&leader->pace, 1, &(struct dt_wire_beat){.started = 9});
    turned_s = 45;
    dt_life_end_hang(leader, 1, "rank 1 hangs");
    assert_lost_after(10);
}

static void who_is_silent_is_lost_since_its_last_beat(void **state)
{
    (void)state;
    turned_s = 10;
    leader->members[2].heard = dt_clock_now();
    turned_s = 71;
    dt_life_lose(leader, 2, "it was not heard for 60 s");
    assert_lost_after(11);
}

static void who_is_killed_is_lost_then(void **state)
{
    const struct dt_wire_down down = {.step = 4, .status = 9};
    const struct dt_wire_message message = {.type = DT_WIRE_DOWN,
                                            .life = leader->roster.life,
                                            .bytes = sizeof(down),
                                            .body = &down};
    (void)state;
    turned_s = 10;
    dt_life_note_down(leader, 1, &message);
    assert_lost_after(10);
}

/* For as long as the network may be silent nobody else counts as lost. */
static void others_have_the_time_of_an_outage_to_end(void **state)
{
    (void)state;
    dt_life_end_hang(leader, 1, "rank 1 hangs");
    turned_s = 61;
    dt_life_look(leader);
    assert_int_equal(leader->phase, DT_STOPPING);
    turned_s = 71;
    dt_life_look(leader); /* its own worker has not ended either */
    assert_int_equal(leader->phase, DT_OVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
        CASE(who_hangs_is_lost_since_nobody_gets_on),
        CASE(who_is_silent_is_lost_since_its_last_beat),
        CASE(who_is_killed_is_lost_then),
        CASE(others_have_the_time_of_an_outage_to_end),
    };
    return cmocka_run_group_tests_name("lost", tests, NULL, NULL);
}
