/* SPDX-License-Identifier: Apache-2.0 */
/* test_graphs.c - which work is done, recorded and replayed */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device.h"
#include "model/graphs.h"

/* What a device with graphs was asked for. */
static int works, recorded, replays, destroyed;
static size_t each; /* bytes of a recording */
static char graph;

static int record_begin(struct dt_stream *stream, struct dt_error *err)
{
    (void)stream;
    (void)err;
    return 0;
}

static int record_end(struct dt_stream *stream, struct dt_graph **made,
                      size_t *bytes, struct dt_error *err)
{
    *bytes = each;
    (void)stream;
    (void)err;
    recorded++;
    *made = (struct dt_graph *)&graph;
    return 0;
}

static int replay(struct dt_stream *stream, struct dt_graph *made,
                  struct dt_error *err)
{
    (void)stream;
    (void)err;
    assert_ptr_equal(made, &graph);
    replays++;
    return 0;
}

static void graph_destroy(struct dt_graph *made)
{
    assert_ptr_equal(made, &graph);
    destroyed++;
}

static void work(void *ctx)
{
    (void)ctx;
    works++;
}

static const struct dt_device recorder = {.record_begin = record_begin,
                                          .record_end = record_end,
                                          .replay = replay,
                                          .graph_destroy = graph_destroy};

static struct dt_graphs *create(const struct dt_device *device)
{
    const struct dt_exec exec = {.device = device};
    struct dt_graphs *graphs = dt_graphs_create(&exec, 2, NULL);
    assert_non_null(graphs);
    works = recorded = replays = destroyed = 0;
    each = 0;
    return graphs;
}

static void run(struct dt_graphs *graphs, size_t T, size_t piece, int times)
{
    const struct dt_graph_shape shape = {.B = 1, .T = T, .doc_start = true};
    for (int i = 0; i < times; i++)
        assert_int_equal(dt_graphs_run(graphs, &shape, piece, work, NULL, NULL),
                         0);
    assert_int_equal(dt_graphs_seen(graphs, &shape), recorded > 0);
}

static void expect(int did, int made, int again)
{
    assert_int_equal(works, did);
    assert_int_equal(recorded, made);
    assert_int_equal(replays, again);
}

static void work_is_done_then_recorded_then_replayed(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    (void)state;
    run(graphs, 8, 0, 5);
    expect(2, 1, 4);
    run(graphs, 8, 1, 3); /* another piece */
    expect(4, 2, 6);
    run(graphs, 9, 0, 3); /* another shape */
    expect(6, 3, 8);
    run(graphs, 8, 0, 1);
    expect(6, 3, 9);
    dt_graphs_destroy(graphs);
    assert_int_equal(destroyed, 3);
}

/* Runs of a piece after which another shape is idle, of two pieces */
enum { IDLE = 2 * 64 };

/* The largest recordings, and how many fit */
enum { LARGE = 8 << 20, FIT = 16 };

/* Shapes that take turns keep their recordings, and one that is idle loses
 * them, but needs no preparation.
 */
static void recordings_take_only_so_much_memory(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    const int since = 2 * FIT - 1; /* runs of others after the last one of 1 */
    (void)state;
    each = LARGE;
    for (size_t T = 1; T <= FIT + 1; T++)
        run(graphs, T, 0, 2);
    for (size_t T = 1; T <= FIT + 1; T++)
        run(graphs, T, 0, 1);
    int works_done = 2 * (FIT + 1) + 1;
    expect(works_done, FIT, 2 * FIT);
    for (size_t T = 2; T <= FIT; T++)
        run(graphs, T, 0, 1);
    run(graphs, FIT + 1, 0, IDLE - since);
    works_done += IDLE - since;
    expect(works_done, FIT, 3 * FIT - 1);
    run(graphs, FIT + 1, 0, 1); /* instead of 1 */
    expect(works_done + 1, FIT + 1, 3 * FIT);
    assert_int_equal(destroyed, 1);
    run(graphs, 2, 0, 1);
    run(graphs, 1, 0, 1);
    expect(works_done + 2, FIT + 1, 3 * FIT + 1);
    dt_graphs_destroy(graphs);
    assert_int_equal(destroyed, FIT + 1);
}

/* The device measures nothing for a recording in the place of another one. */
static void memory_that_is_used_again_counts(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    (void)state;
    each = LARGE;
    for (size_t T = 1; T <= FIT; T++)
        run(graphs, T, 0, 2);
    each = 0;
    run(graphs, FIT + 1, 0, 2 * IDLE); /* instead of 1; all others are idle */
    assert_int_equal(destroyed, 1);
    for (size_t T = 2; T <= FIT; T++)
        run(graphs, T, 0, 1);
    run(graphs, FIT + 2, 0, 2);
    assert_int_equal(recorded, FIT + 1);
    dt_graphs_destroy(graphs);
}

/* One takes memory while a piece is recorded, and frees it during the next. */
static void other_programs_take_none_of_the_room(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    (void)state;
    for (size_t T = 1; T <= 60; T++) {
        each = T == 5 ? (size_t)40 << 30 : T == 6 ? SIZE_MAX : 1 << 20;
        run(graphs, T, 0, 2);
    }
    assert_int_equal(recorded, 60);
    dt_graphs_destroy(graphs);
}

/* Two recordings in a chunk of 2 MiB are two of 1 MiB. */
static void chunks_count_for_several_recordings(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    (void)state;
    for (size_t T = 1; T <= 63; T++)
        for (size_t piece = 0; piece < 2; piece++) {
            each = piece == 0 ? 2 << 20 : 0;
            run(graphs, T, piece, 2);
        }
    assert_int_equal(recorded, 126);
    assert_int_equal(destroyed, 0);
    dt_graphs_destroy(graphs);
}

/* Batches of equal sizes whose documents take other numbers of runs. */
static void runs_of_documents_are_part_of_a_shape(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    struct dt_graph_shape shape = {.B = 1, .T = 8, .doc_start = true};
    (void)state;
    run(graphs, 8, 0, 2);
    shape.runs[DT_DOCUMENT_CLASSES - 1] = 1;
    assert_false(dt_graphs_seen(graphs, &shape));
    for (int i = 0; i < 2; i++)
        assert_int_equal(dt_graphs_run(graphs, &shape, 0, work, NULL, NULL), 0);
    expect(4, 2, 2);
    run(graphs, 8, 0, 1);
    expect(4, 2, 3);
    dt_graphs_destroy(graphs);
}

/* Its recordings are destroyed, and made again when it comes back. */
static void shape_65_takes_the_place_of_the_one_unused_longest(void **state)
{
    struct dt_graphs *graphs = create(&recorder);
    const struct dt_graph_shape second = {.B = 1, .T = 2, .doc_start = true};
    (void)state;
    for (size_t T = 1; T <= 64; T++)
        run(graphs, T, T % 2, 2);
    expect(128, 64, 64);
    run(graphs, 1, 1, 1);
    run(graphs, 65, 0, 3);
    expect(130, 65, 67);
    assert_int_equal(destroyed, 1);
    assert_false(dt_graphs_seen(graphs, &second));
    run(graphs, 1, 1, 1); /* is still there */
    expect(130, 65, 68);
    run(graphs, 2, 0, 2); /* instead of 3 */
    expect(132, 66, 69);
    assert_int_equal(destroyed, 2);
    run(graphs, 64, 0, 1); /* kept, and its other piece never ran */
    expect(132, 66, 70);
    dt_graphs_destroy(graphs);
    assert_int_equal(destroyed, 66);
}

static void a_device_without_graphs_does_all_work(void **state)
{
    static const struct dt_device plain = {0};
    struct dt_graphs *graphs = create(&plain);
    (void)state;
    run(graphs, 8, 0, 3);
    expect(3, 0, 0);
    dt_graphs_destroy(graphs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_done_then_recorded_then_replayed),
        cmocka_unit_test(recordings_take_only_so_much_memory),
        cmocka_unit_test(memory_that_is_used_again_counts),
        cmocka_unit_test(other_programs_take_none_of_the_room),
        cmocka_unit_test(chunks_count_for_several_recordings),
        cmocka_unit_test(runs_of_documents_are_part_of_a_shape),
        cmocka_unit_test(shape_65_takes_the_place_of_the_one_unused_longest),
        cmocka_unit_test(a_device_without_graphs_does_all_work),
    };
    return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}
