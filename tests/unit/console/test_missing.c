/* SPDX-License-Identifier: Apache-2.0 */
/* test_missing.c - ranks that do not start, and nodes that do not connect */
#include "config.h"

#include "console/console_impl.h"
#include "tests/unit/console/outcome.h"

static void expect_missing(struct dt_outcome *o, uint32_t count,
                           const char *want)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(dt_outcome_missing(o), count);
    dt_outcome_print_missing(o, out);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void ranks_not_yet_started_are_listed_by_node(void **state)
{
    struct dt_error err;
    char host[16];
    char rank[16];
    (void)state;
    struct dt_outcome *o = step();
    expect_missing(o, 8,
                   "ranks 0-1 on n1; ranks 2-3 on n2; ranks 4-5 on n3; "
                   "ranks 6-7 on n4");
    for (uint32_t i = 0; i < 7; i++)
        if (i != 4)
            record(o, 101000, "start", i, 101000, 0);
    expect_missing(o, 2, "rank 4 on n3; rank 7 on n4");
    dt_outcome_text(o, 4, false, "x", 1, 0); /* whoever writes has started */
    record(o, 101000, "start", 7, 101000, 0);
    expect_missing(o, 0, "");
    dt_outcome_destroy(o);

    /* the first and the last one */
    o = step();
    for (uint32_t i = 1; i < 7; i++)
        record(o, 101000, "start", i, 101000, 0);
    expect_missing(o, 2, "rank 0 on n1; rank 7 on n4");
    record(o, 101000, "start", 0, 101000, 0);
    expect_missing(o, 1, "rank 7 on n4");
    dt_outcome_destroy(o);

    o = dt_outcome_create(4, 0, &err);
    expect_missing(o, 4, "ranks 0-3");
    dt_outcome_destroy(o);

    o = dt_outcome_create(20, 0, &err);
    for (int i = 0; i < 20; i++) {
        snprintf(host, sizeof(host), "n%d", i);
        snprintf(rank, sizeof(rank), "%d", i);
        assert_int_equal(dt_outcome_add_node(o, host, rank, &err), 0);
    }
    expect_missing(o, 20,
                   "rank 0 on n0; rank 1 on n1; rank 2 on n2; rank 3 on "
                   "n3; rank 4 on n4; rank 5 on n5; rank 6 on n6; rank "
                   "7 on n7; and 12 more");
    assert_int_equal(dt_outcome_add_node(o, "n", "x", &err), -1);
    assert_string_equal(err.text, "expected ranks like 0,4-7, got \"x\"");
    dt_outcome_destroy(o);
}

static void expect_absent(const char *line, const char *want)
{
    char *text = NULL;
    size_t bytes;
    struct dt_outcome *o = step();
    struct dt_console_event event = parse(line);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(event.kind, DT_EVENT_NOTICE);
    dt_console_event_tell(&event, o, out);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
    dt_outcome_destroy(o);
}

static void nodes_that_have_not_connected_are_named(void **state)
{
    (void)state;
    expect_absent(RECORD "absent 0 n1 1.000 61234 30 n3\n",
                  "disttrain: rank 0 on n1 has listened on port 61234 for 30 "
                  "s, but nobody on n3 (ranks 4-5) has connected\n");
    expect_absent(RECORD "absent 0 n1 1.000 61234 330 n3,x,n4,...\n",
                  "disttrain: rank 0 on n1 has listened on port 61234 for 330 "
                  "s, but nobody on n3 (ranks 4-5), x, n4 (ranks 6-7), ... has "
                  "connected\n");
    expect_absent(RECORD "absent 0 n1 1.000 61234 41 -\n",
                  "disttrain: all nodes have connected to rank 0, after 41 "
                  "s\n");
    assert_int_equal(parse(RECORD "absent 0 n1 1.000 61234 41").kind,
                     DT_EVENT_BROKEN);
    assert_int_equal(parse(RECORD "absent 0 n1 1.000 61234 41 a b").kind,
                     DT_EVENT_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_not_yet_started_are_listed_by_node),
        cmocka_unit_test(nodes_that_have_not_connected_are_named),
    };
    return cmocka_run_group_tests_name("missing", tests, NULL, NULL);
}
