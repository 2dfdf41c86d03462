/* SPDX-License-Identifier: Apache-2.0 */
/* test_timeline.c - the virtual clock: times computed by hand, and bytes of the
 * formulas
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

#include "forecast/timeline.h"

enum { UNIT = 5120, UNIT_BYTES = 4 * UNIT, MOST_UNITS = 64 };

static struct dt_error err;

/* Opens unit u of so many: an embedding, blocks, and a head. */
static void add_unit(struct dt_layout *layout, size_t u, size_t units)
{
    const enum dt_unit_kind kind = u == 0           ? DT_UNIT_EMBEDDING
                                   : u + 1 == units ? DT_UNIT_EDGE
                                                    : DT_UNIT_BLOCK;
    assert_int_equal(dt_layout_add_unit(layout, kind, DT_PART_LANGUAGE, &err),
                     0);
}

/* Units of UNIT elements, of one matrix each. */
static struct dt_layout *layout_of(size_t units, int world)
{
    const size_t shape = UNIT;
    struct dt_layout *layout = dt_layout_create(&err);
    for (size_t u = 0; u < units; u++) {
        add_unit(layout, u, units);
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

/* An update of a unit takes 1 s: the first gather of the next step, 0.5 s,
 * hides behind the second one, and only the last sum shows.
 */
static void zero3_gathers_the_first_unit_behind_the_update(void **state)
{
    (void)state;
    rates.of[DT_RATE_MEMORY] = 14.0 * UNIT;
    struct dt_timeline step = step_of(DT_ZERO3, 3, 2, 2);
    assert_near(step.seconds - step.busy[DT_ON_DEVICE], 0.5);
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

/* A sum takes half of the CPUs for its second: the pass of 3 s ends at 4.5 s,
 * that of 4.5 at 6, and the last sum at 7.
 */
static void cpus_that_send_compute_less(void **state)
{
    (void)state;
    rates.of[DT_RATE_SENDING] = 2 * UNIT_BYTES;
    struct dt_timeline step = step_of(DT_DDP, 3, 2, 2);
    assert_near(step.seconds, 7);
    assert_near(step.busy[DT_ON_DEVICE], 5);
    /* all of the CPUs for half a second, but for a tenth: 3, 4.45, 5.9, 6.4 */
    rates.of[DT_RATE_NODE] *= 2;
    rates.of[DT_RATE_SENDING] = 1.6 * UNIT_BYTES;
    assert_near(step_of(DT_DDP, 3, 2, 2).seconds, 6.4);
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
        add_unit(layout, u, 20);
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

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_sum_of_ddp_is_exposed),
        TEST(a_bucket_is_sent_when_it_is_full),
        TEST(the_gathers_of_zero1_hide_behind_the_next_pass),
        TEST(zero3_gathers_the_next_unit_meanwhile),
        TEST(zero3_gathers_the_first_unit_behind_the_update),
        TEST(a_fast_network_leaves_nothing_exposed),
        TEST(a_slow_network_costs_what_the_passes_do_not_hide),
        TEST(cpus_that_send_compute_less),
        TEST(every_call_costs_its_latency),
        TEST(bytes_out_of_a_node_are_those_of_the_algorithm),
        TEST(hybrid_sharding_leaves_a_node_once_a_step),
        TEST(only_zero2_and_zero3_sum_each_micro_batch),
        TEST(streamed_state_stops_the_passes),
        TEST(a_drive_reads_ahead_if_it_has_buffers),
        TEST(adamw_on_the_host_takes_the_memory_of_the_node),
        TEST(weights_on_the_host_come_up_before_each_gather),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
