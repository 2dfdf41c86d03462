/* SPDX-License-Identifier: Apache-2.0 */
/* test_timeline.c - the virtual clock: times computed by hand, bytes of the
 * formulas, and the order of the engine itself
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "comm/impl.h"
#include "forecast/timeline.h"
#include "parallel/parallel.h"
#include "tests/unit/model.h"

enum { UNIT = 5120, UNIT_BYTES = 4 * UNIT, MOST_UNITS = 64 };

static struct dt_error err;

/* Units of UNIT elements, of one matrix each. */
static struct dt_layout *layout_of(size_t units, int world)
{
    const size_t shape = UNIT;
    struct dt_layout *layout = dt_layout_create(&err);
    for (size_t u = 0; u < units; u++) {
        assert_int_equal(dt_layout_add_unit(layout, &err), 0);
        assert_true(dt_layout_add_param(layout, "w", true, 1, &shape, &err) >=
                    0);
    }
    dt_layout_finish(layout, world);
    assert_int_equal(layout->count, units * UNIT);
    return layout;
}

/* Memory takes no time, calls neither; links as a test sets them. */
static struct dt_rates rates;

static struct dt_parallel_options parallel = {
    .compute = DT_F32, .wire = DT_F32, .bucket_bytes = 1, .prefetch = 2};

/* Every unit takes a second to go forward, and a second to go back. */
static struct dt_unit_seconds seconds[MOST_UNITS];

static struct dt_timeline_options options;

static int reset(void **state)
{
    (void)state;
    memset(&rates, 0, sizeof(rates));
    rates.of[DT_RATE_MEMORY] = INFINITY;
    rates.of[DT_RATE_NODE] = rates.of[DT_RATE_NETWORK] = UNIT_BYTES;
    rates.of[DT_RATE_HOST_MEMORY] = INFINITY;
    parallel = (struct dt_parallel_options){
        .compute = DT_F32, .wire = DT_F32, .bucket_bytes = 1, .prefetch = 2};
    for (size_t u = 0; u < MOST_UNITS; u++)
        seconds[u] = (struct dt_unit_seconds){1, 1};
    options = (struct dt_timeline_options){.parallel = &parallel,
                                           .rates = &rates,
                                           .units = seconds,
                                           .micro_batches = 1};
    return 0;
}

/* A step of `units` units in a world of nodes of `node_size` ranks. */
static struct dt_timeline step_of(enum dt_strategy strategy, size_t units,
                                  int world, int node_size)
{
    struct dt_timeline step;
    struct dt_layout *layout = layout_of(units, world);
    parallel.strategy = strategy;
    options.layout = layout;
    options.world = world;
    options.node_size = node_size;
    assert_int_equal(dt_timeline_make(&options, &step, &err), 0);
    dt_layout_destroy(layout);
    return step;
}

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * fabs(expected))
        fail_msg("%.12g, expected %.12g", value, expected);
}

/* --- times --- */

/* Forward 2 s, backward 3 s; sums of units of 1 s each go behind the backward
 * pass of the next unit, so that the last one is left.
 */
static void the_last_sum_of_ddp_is_exposed(void **state)
{
    (void)state;
    struct dt_timeline step = step_of(DT_DDP, 3, 2, 2);
    assert_near(step.seconds, 6);
    assert_near(step.busy[DT_ON_DEVICE], 5);
    assert_near(step.busy[DT_ON_NODE], 3);
    assert_near(step.in_node, 3 * UNIT_BYTES);
    assert_near(step.out_of_node, 0);
}

/* One bucket begins when the last unit is done: 5 + 3 s; of two, the first
 * takes 4 .. 6, and the second follows.
 */
static void a_bucket_is_sent_when_it_is_full(void **state)
{
    (void)state;
    parallel.bucket_bytes = (size_t)3 * UNIT_BYTES;
    assert_near(step_of(DT_DDP, 3, 2, 2).seconds, 8);
    parallel.bucket_bytes = (size_t)2 * UNIT_BYTES;
    assert_near(step_of(DT_DDP, 3, 2, 2).seconds, 7);
}

/* At a quarter of the rate a unit takes 4 s: 3 .. 15. zero1 sums until 9, the
 * next pass begins with the first gather at 11, and 22 is its 9.
 */
static void the_gathers_of_zero1_hide_behind_the_next_pass(void **state)
{
    (void)state;
    rates.of[DT_RATE_NODE] = UNIT_BYTES / 4;
    assert_near(step_of(DT_DDP, 3, 2, 2).seconds, 15);
    assert_near(step_of(DT_ZERO1, 3, 2, 2).seconds, 13);
    assert_near(step_of(DT_ZERO2, 3, 2, 2).seconds, 13);
}

/* Gathers of 0.5 s: only the first one of a step and the last sum show. */
static void zero3_gathers_the_next_unit_meanwhile(void **state)
{
    (void)state;
    struct dt_timeline step = step_of(DT_ZERO3, 3, 2, 2);
    assert_near(step.seconds, 6);
    assert_near(step.busy[DT_ON_DEVICE], 5);
    assert_near(step.in_node, 6 * UNIT_BYTES / 2);
}

static void a_fast_network_leaves_nothing_exposed(void **state)
{
    (void)state;
    rates.of[DT_RATE_NODE] = rates.of[DT_RATE_NETWORK] = 1e15;
    for (int s = DT_DDP; s <= DT_ZERO3; s++) {
        struct dt_timeline step = step_of((enum dt_strategy)s, 12, 8, 4);
        assert_true(step.seconds - step.busy[DT_ON_DEVICE] <
                    1e-9 * step.seconds);
    }
}

/* spec: t + max(0, t_RS - t_b) + max(0, t_AG - t_f), up to two units. */
static void a_slow_network_costs_what_the_passes_do_not_hide(void **state)
{
    (void)state;
    double forward = 59, backward = 60;
    for (int slower = 1; slower <= 8; slower *= 2) {
        rates.of[DT_RATE_NODE] = UNIT_BYTES / slower;
        double sum = 60 * slower / 2.0, gather = sum;
        double expected = forward + backward + fmax(0, sum - backward) +
                          fmax(0, gather - forward);
        double step = step_of(DT_ZERO1, 60, 2, 2).seconds;
        assert_true(step >= expected - 1e-6);
        assert_true(step <= expected + 2 + slower);
    }
}

static void every_call_costs_its_latency(void **state)
{
    (void)state;
    rates.of[DT_RATE_NODE] = rates.of[DT_RATE_NETWORK] = INFINITY;
    rates.of[DT_RATE_NODE_CALL] = 7;
    rates.of[DT_RATE_NETWORK_CALL] = 9;
    for (size_t u = 0; u < 3; u++)
        seconds[u] = (struct dt_unit_seconds){0, 0};
    assert_near(step_of(DT_DDP, 3, 2, 2).seconds, 4 * 7);
    assert_near(step_of(DT_DDP, 3, 2, 1).seconds, 4 * 9);
    assert_near(step_of(DT_ZERO1, 3, 2, 2).seconds, 7 * 7);
    assert_near(step_of(DT_DDP, 3, 1, 1).seconds, 0);
}

/* --- bytes out of a node --- */

/* Of the sums of ddp, by the bytes of all gradients, for 2 nodes of 4 ranks. */
static double out_of_node(void)
{
    return step_of(DT_DDP, 8, 8, 4).out_of_node / (8.0 * UNIT_BYTES);
}

static void bytes_out_of_a_node_are_those_of_the_algorithm(void **state)
{
    (void)state;
    assert_near(out_of_node(), 4); /* all ranks to all */
    options.rings = true;
    assert_near(out_of_node(), 1.75);
    options.rings = false;
    parallel.group = 4;
    assert_near(out_of_node(), 1);
    /* 33 bytes for 32 elements; sums are gathered in fp32 whatever is sent */
    parallel.int8 = true;
    assert_near(out_of_node(), (33.0 / 32 + 4) / 8);
    parallel.wire = DT_BF16;
    assert_near(out_of_node(), (33.0 / 32 + 4) / 8);
}

/* bf16, 4 nodes of 8, 8 micro-batches: hybrid sharding sends 3 psi a node. */
static void hybrid_sharding_leaves_a_node_once_a_step(void **state)
{
    (void)state;
    parallel.compute = parallel.wire = DT_BF16;
    options.micro_batches = 8;
    options.rings = true;
    parallel.group = 8;
    parallel.hybrid = true;
    rates.of[DT_RATE_NODE] = rates.of[DT_RATE_NETWORK] = INFINITY;
    /* 20 units of 32 x 128 elements */
    struct dt_layout *layout = dt_layout_create(&err);
    for (size_t u = 0; u < 20; u++) {
        const size_t shape = 4096;
        assert_int_equal(dt_layout_add_unit(layout, &err), 0);
        dt_layout_add_param(layout, "w", true, 1, &shape, &err);
    }
    dt_layout_finish(layout, 32);
    options.layout = layout;
    options.world = 32;
    options.node_size = 8;
    for (int s = DT_ZERO2; s <= DT_ZERO3; s++) {
        struct dt_timeline step;
        parallel.strategy = (enum dt_strategy)s;
        assert_int_equal(dt_timeline_make(&options, &step, &err), 0);
        assert_near(step.out_of_node, 3.0 * (double)layout->count);
    }
    parallel.group = 0;
    parallel.hybrid = false;
    struct dt_timeline flat;
    assert_int_equal(dt_timeline_make(&options, &flat, &err), 0);
    assert_true(flat.out_of_node > 40.0 * (double)layout->count);
    dt_layout_destroy(layout);
}

/* zero1 sums once a step, zero2 and zero3 each micro-batch. */
static void only_zero2_and_zero3_sum_each_micro_batch(void **state)
{
    (void)state;
    double whole = 3.0 * UNIT_BYTES / 2;
    options.micro_batches = 4;
    assert_near(step_of(DT_DDP, 3, 2, 2).in_node, 2 * whole);
    assert_near(step_of(DT_ZERO1, 3, 2, 2).in_node, 2 * whole);
    assert_near(step_of(DT_ZERO2, 3, 2, 2).in_node, (1 + 4) * whole);
}

/* --- offload --- */

/* A unit's m and v, 8 bytes an element, take 1 s up and 1 s down; of bf16 there
 * is a master too, 12 bytes. The device waits for all of it.
 */
static void streamed_state_stops_the_passes(void **state)
{
    (void)state;
    parallel.offload = (struct dt_offload){.state = DT_TIER_HOST,
                                           .compute = DT_OFFLOAD_STREAM,
                                           .ratio = 1,
                                           .tile = UNIT};
    rates.of[DT_RATE_PCIE_UP] = rates.of[DT_RATE_PCIE_DOWN] = 8.0 * UNIT;
    struct dt_timeline step = step_of(DT_ZERO1, 3, 1, 1);
    assert_near(step.seconds, 5 + 3 * 2);
    assert_near(step.busy[DT_ON_DEVICE], 5);
    assert_near(step.busy[DT_ON_PCIE_UP], 3);
    parallel.offload.tile = UNIT / 8;
    assert_near(step_of(DT_ZERO1, 3, 1, 1).seconds, 5 + 3 * 2);
    parallel.offload.ratio = 0.5;
    assert_near(step_of(DT_ZERO1, 3, 1, 1).seconds, 5 + 3);
    parallel.offload.ratio = 1;
    parallel.compute = DT_BF16;
    assert_near(step_of(DT_ZERO1, 3, 1, 1).seconds, 5 + 3 * 3);
}

/* Reads take 1 s each; with three buffers they overlap with writes. */
static void a_drive_reads_ahead_if_it_has_buffers(void **state)
{
    (void)state;
    parallel.offload = (struct dt_offload){
        .state = DT_TIER_FILE, .ratio = 1, .tile = UNIT, .buffers = 3};
    rates.of[DT_RATE_DRIVE_READ] = rates.of[DT_RATE_DRIVE_WRITE] = 8.0 * UNIT;
    struct dt_timeline step = step_of(DT_ZERO1, 3, 1, 1);
    assert_near(step.seconds, 5 + 3);
    assert_near(step.drive_read, 8.0 * 3 * UNIT);
    assert_near(step.drive_written, 8.0 * 3 * UNIT);
    parallel.offload.buffers = 1;
    assert_near(step_of(DT_ZERO1, 3, 1, 1).seconds, 5 + 5);
}

/* 36 bytes an element of host memory, which two ranks share. */
static void adamw_on_the_host_takes_the_memory_of_the_node(void **state)
{
    (void)state;
    parallel.offload = (struct dt_offload){.state = DT_TIER_HOST,
                                           .compute = DT_OFFLOAD_HOST,
                                           .ratio = 1,
                                           .tile = UNIT};
    rates.of[DT_RATE_PCIE_UP] = rates.of[DT_RATE_PCIE_DOWN] = INFINITY;
    rates.of[DT_RATE_HOST_MEMORY] = 36.0 * UNIT;
    rates.of[DT_RATE_NODE] = INFINITY;
    struct dt_timeline step = step_of(DT_ZERO1, 3, 2, 2);
    assert_near(step.busy[DT_ON_HOST], 3);
    assert_near(step.seconds, 5 + 3);
}

/* A unit's part takes 1 s up before its gather of 0.5 s, of which one is hidden
 * by the copy for the next one.
 */
static void weights_on_the_host_come_up_before_each_gather(void **state)
{
    (void)state;
    parallel.offload.weights = DT_TIER_HOST;
    rates.of[DT_RATE_PCIE_UP] = UNIT_BYTES / 2;
    struct dt_timeline step = step_of(DT_ZERO3, 3, 2, 2);
    assert_near(step.busy[DT_ON_PCIE_UP], 3);
    assert_near(step.seconds, 8.5);
}

/* --- the order of the engine --- */

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

enum { RANKS = 4, STEPS = 4 }; /* as many as the clock takes */

/* What algo/step.c does. */
static void engine_step(struct dt_parallel *p, struct dt_comm *comm,
                        size_t units, size_t micro_batches)
{
    double norm = 0;
    struct dt_update update;
    int rc;
    for (size_t a = 0; a < micro_batches; a++) {
        dt_parallel_begin(p, a, micro_batches);
        for (size_t u = 0; u + 1 < units; u++)
            assert_int_equal(dt_parallel_forward(p, u, &err), 0);
        for (size_t u = units; u-- > 0;) {
            assert_int_equal(dt_parallel_backward(p, u, &err), 0);
            assert_int_equal(dt_parallel_ready(p, u, &err), 0);
        }
    }
    assert_int_equal(dt_parallel_finish(p, &err), 0);
    assert_int_equal(dt_comm_reduce_scalars(comm, &norm, 1, DT_SUM, &err), 0);
    assert_int_equal(dt_parallel_update_begin(p, (struct dt_view){0}, &err), 0);
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
    struct dt_timeline step;
    options.layout = layout;
    options.micro_batches = micro_batches;
    options.world = options.node_size = RANKS;
    options.seen = add_move;
    options.ctx = moves;
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

/* Of a tied and an untied model, whose units have different sizes. */
static void collectives_are_those_of_the_engine_in_its_order(void **state)
{
    static const char *const models[] = {
        "{" GPT2 "}", OTHER("llama", "\"tie_word_embeddings\": false")};
    (void)state;
    for (int i = 0; i < 2 * 4 * 2 * 2 * 3; i++) {
        struct dt_model_config config = {0};
        parse(&config, models[i % 2]);
        struct dt_layout *layout = dt_model_layout(&config, RANKS, &err);
        assert_non_null(layout);
        parallel.group = i / 32 > 0 ? 2 : 0;
        parallel.hybrid = i / 32 == 2 && i / 2 % 4 != DT_DDP;
        parallel.strategy = (enum dt_strategy)(i / 2 % 4);
        parallel.prefetch = i / 8 % 2 ? 3 : 2;
        parallel.bucket_bytes = i / 8 % 2 ? 60000 : 1;
        compare_orders(layout, i / 16 % 2 ? 3 : 1);
        dt_layout_destroy(layout);
        dt_model_config_fini(&config);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_sum_of_ddp_is_exposed),
        TEST(a_bucket_is_sent_when_it_is_full),
        TEST(the_gathers_of_zero1_hide_behind_the_next_pass),
        TEST(zero3_gathers_the_next_unit_meanwhile),
        TEST(a_fast_network_leaves_nothing_exposed),
        TEST(a_slow_network_costs_what_the_passes_do_not_hide),
        TEST(every_call_costs_its_latency),
        TEST(bytes_out_of_a_node_are_those_of_the_algorithm),
        TEST(hybrid_sharding_leaves_a_node_once_a_step),
        TEST(only_zero2_and_zero3_sum_each_micro_batch),
        TEST(streamed_state_stops_the_passes),
        TEST(a_drive_reads_ahead_if_it_has_buffers),
        TEST(adamw_on_the_host_takes_the_memory_of_the_node),
        TEST(weights_on_the_host_come_up_before_each_gather),
        TEST(collectives_are_those_of_the_engine_in_its_order),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
