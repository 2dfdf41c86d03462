/* SPDX-License-Identifier: Apache-2.0 */
/* test_timeline_order.c - the virtual clock starts the collectives that the
 * engine starts
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm_impl.h"
#include "forecast/timeline.h"
#include "parallel/parallel.h"
#include "tests/unit/model.h"
#include "tests/unit/tower.h"

static struct dt_error err;

static struct dt_parallel_options parallel = {.compute = DT_F32,
                                              .wire = DT_F32};

struct moves {
    size_t count;
    struct dt_timeline_move all[4096];
};

static void add_move(void *ctx, const struct dt_timeline_move *move)
{
    struct moves *moves = ctx;
    assert_true(moves->count < 4096);
    moves->all[moves->count++] = *move;
}

/* A communicator of rank 0 of RANKS, and its groups, that notes what is
 * started.
 */
struct recorder {
    struct dt_comm comm;
    struct moves *moves;
};

static int record_start(struct dt_comm *comm, const struct dt_op *op,
                        dt_ticket_t *ticket, struct dt_error *e)
{
    struct recorder *recorder =
        (struct recorder *)(comm->world ? comm->world : comm);
    struct dt_timeline_move move = {.count = op->view.count};
    (void)e;
    switch (op->kind) {
    case DT_OP_ALL_GATHER:
        move.kind = DT_MOVE_GATHER;
        break;
    case DT_OP_REDUCE_SCATTER:
        move.kind = DT_MOVE_SCATTER;
        break;
    case DT_OP_ALL_REDUCE:
        move.kind = DT_MOVE_ALL;
        break;
    default:
        move = (struct dt_timeline_move){.kind = DT_MOVE_SCALARS};
    }
    add_move(recorder->moves, &move);
    *ticket = recorder->moves->count;
    return 0;
}

static int record_wait(struct dt_comm *comm, dt_ticket_t ticket,
                       struct dt_error *e)
{
    (void)comm, (void)ticket, (void)e;
    return 0;
}

enum { MOST_UNITS = 64, RANKS = 4, STEPS = 4 }; /* as many as the clock takes */

/* What train/step.c does, or with frozen weights its passes. */
static void engine_step(struct dt_parallel *p, struct dt_comm *comm,
                        size_t units, size_t micro_batches)
{
    double norm = 0;
    struct dt_update update;
    int rc;
    for (size_t a = 0; a < micro_batches; a++) {
        dt_parallel_begin(p, 1, a, micro_batches);
        for (size_t u = 0; u + 1 < units; u++)
            assert_int_equal(dt_parallel_forward(p, u, &err), 0);
        for (size_t u = units; u-- > parallel.lowest;) {
            assert_int_equal(dt_parallel_backward(p, u, &err), 0);
            if (parallel.use == DT_TRAINED)
                assert_int_equal(dt_parallel_ready(p, u, &err), 0);
        }
    }
    if (parallel.use != DT_TRAINED)
        return;
    assert_int_equal(dt_parallel_finish(p, &err), 0);
    assert_int_equal(dt_comm_reduce_scalars(comm, &norm, 1, DT_SUM, &err), 0);
    assert_int_equal(dt_parallel_update_begin(p, 1, (struct dt_view){0}, &err),
                     0);
    while ((rc = dt_parallel_update_next(p, &update, &err)) == 1)
        ;
    assert_int_equal(rc, 0);
}

/* It is on the stack. */
static void record_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    (void)comm, (void)why;
}

static void engine_moves(const struct dt_layout *layout, size_t micro_batches,
                         struct moves *moves)
{
    static const struct dt_comm_backend backend = {.name = "recorder",
                                                   .start = record_start,
                                                   .wait = record_wait,
                                                   .destroy = record_destroy};
    struct recorder recorder = {{.backend = &backend, .size = RANKS}, moves};
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_parallel *p =
        dt_parallel_create(layout, &recorder.comm, &exec, &parallel, &err);
    assert_non_null(p);
    moves->count = 0;
    for (int i = 0; i < STEPS; i++)
        engine_step(p, &recorder.comm, layout->unit_count, micro_batches);
    dt_parallel_destroy(p);
    dt_comm_destroy(&recorder.comm); /* and its groups */
}

static void clock_moves(const struct dt_layout *layout, size_t micro_batches,
                        struct moves *moves)
{
    static const struct dt_rates rates = {
        .of = {[DT_RATE_MEMORY] = 1, [DT_RATE_NODE] = 1}};
    static const struct dt_unit_seconds seconds[MOST_UNITS];
    const struct dt_timeline_options options = {
        .layout = layout,
        .parallel = &parallel,
        .rates = &rates,
        .units = seconds,
        .micro_batches = micro_batches,
        .world = RANKS,
        .node_size = RANKS,
        .seen = add_move,
        .ctx = moves,
    };
    struct dt_timeline step;
    assert_true(layout->unit_count <= MOST_UNITS);
    moves->count = 0;
    assert_int_equal(dt_timeline_make(&options, &step, &err), 0);
}

static void compare_orders(const struct dt_layout *layout, size_t micro_batches)
{
    static struct moves engine, clock;
    engine_moves(layout, micro_batches, &engine);
    clock_moves(layout, micro_batches, &clock);
    for (size_t i = 0; i < engine.count && i < clock.count; i++)
        if (engine.all[i].kind != clock.all[i].kind ||
            engine.all[i].count != clock.all[i].count)
            fail_msg("strategy %d, group %d, hybrid %d, %zu micro-batches: "
                     "operation %zu is %d of %zu, expected %d of %zu",
                     parallel.strategy, parallel.group, parallel.hybrid,
                     micro_batches, i, clock.all[i].kind, clock.all[i].count,
                     engine.all[i].kind, engine.all[i].count);
    assert_int_equal(clock.count, engine.count);
}

/* Settings by number: strategies, slots, buckets, micro-batches, groups, and
 * types of gradients.
 */
enum { SETTINGS = 4 * 2 * 2 * 3 * 2 };

static size_t choose_settings(int i)
{
    parallel.group = i / 16 % 3 > 0 ? 2 : 0;
    parallel.hybrid = i / 16 % 3 == 2 && i % 4 != DT_DDP;
    parallel.grads = i / 48 ? DT_BF16 : DT_F32;
    parallel.strategy = (enum dt_strategy)(i % 4);
    parallel.prefetch = i / 4 % 2 ? 3 : 2;
    parallel.bucket_bytes = i / 4 % 2 ? 60000 : 1;
    return i / 8 % 2 ? 3 : 1;
}

/* Of a tied and an untied model, whose units have different sizes. */
static void collectives_are_those_of_the_engine_in_its_order(void **state)
{
    static const char *const models[] = {
        "{" GPT2 "}", OTHER("llama", "\"tie_word_embeddings\": false")};
    (void)state;
    for (int i = 0; i < 2 * SETTINGS; i++) {
        struct dt_model_config config = {0};
        parse(&config, models[i % 2]);
        struct dt_layout *layout = dt_model_layout(&config, RANKS, &err);
        assert_non_null(layout);
        compare_orders(layout, choose_settings(i / 2));
        dt_layout_destroy(layout);
        dt_model_config_fini(&config);
    }
}

/* Of a model with a tower, whatever is trained, and of what is not. */
static void parts_of_a_model_move_as_the_clock_says(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SETTINGS * TOWER_ALL; i++) {
        const int choice = i % TOWER_ALL + 1, rest = TOWER_ALL - choice;
        struct dt_layout *layout = tower_layout(RANKS, i / TOWER_ALL % 2);
        struct dt_layout *trained = tower_share(layout, RANKS, choice);
        struct dt_layout *frozen = tower_share(layout, RANKS, rest);
        const size_t micro_batches = choose_settings(i / TOWER_ALL / 2);
        parallel.lowest = dt_layout_next(trained, 0);
        compare_orders(trained, micro_batches);
        parallel.use = DT_FROZEN;
        if (rest != TOWER_NONE)
            compare_orders(frozen, micro_batches);
        parallel.use = DT_TRAINED;
        parallel.lowest = 0;
        dt_layout_destroy(frozen);
        dt_layout_destroy(trained);
        dt_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_model_move_as_the_clock_says),
        cmocka_unit_test(collectives_are_those_of_the_engine_in_its_order),
    };
    return cmocka_run_group_tests_name("timeline_order", tests, NULL, NULL);
}
