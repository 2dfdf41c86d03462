/* SPDX-License-Identifier: Apache-2.0 */
/* test_parallel.c - a strategy allocates what it plans, and what papers say */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "model/model.h"
#include "parallel/parallel.h"
#include "tests/unit/drive.h"
#include "tests/unit/tower.h"
#include "tests/unit/world.h"
#include "tests/families.h"

/* GPT-2 with 124M parameters, and a Llama whose head is not tied. */
static struct dt_model_config models[] = {
    {.family = &dt_family_gpt2,
     .padding_row = -1,
     .vocab_size = 50257,
     .n_positions = 1024,
     .n_embd = 768,
     .n_layer = 12,
     .n_head = 12,
     .n_kv_head = 12,
     .head_size = 64,
     .n_inner = 3072,
     .tie_word_embeddings = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true},
    {.family = &dt_family_llama,
     .padding_row = -1,
     .vocab_size = 32000,
     .n_positions = 2048,
     .n_embd = 512,
     .n_layer = 8,
     .n_head = 8,
     .n_kv_head = 4,
     .head_size = 64,
     .n_inner = 2048},
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

static struct dt_layout *layout_of(int model, int world)
{
    struct dt_error err;
    struct dt_layout *layout = dt_model_layout(&models[model], world, &err);
    if (!layout)
        fail_msg("%s", err.text);
    return layout;
}

/* --- what is allocated --- */

static _Thread_local size_t allocated;

static int count_bytes(size_t bytes, void **data, struct dt_error *err)
{
    allocated += bytes;
    return dt_cpu.allocate(bytes, data, err);
}

struct trial {
    const struct dt_layout *layout;
    struct dt_parallel_options options;
};

static size_t sum_of(const struct dt_parallel_bytes *bytes)
{
    return bytes->weights + bytes->master + bytes->gradients + bytes->moments +
           bytes->tiles;
}

static int create_rank(const struct dt_comm_world *world, void *arg)
{
    const struct trial *t = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct dt_device device = dt_cpu;
    const struct dt_exec exec = {&device, dt_ops_cpu(), NULL};
    struct dt_error err = {0};
    struct dt_comm *comm = dt_comm_create(world->size > 1 ? "gloo" : "self",
                                          world, &options, &err);
    device.allocate = count_bytes;
    allocated = 0;
    struct dt_parallel *parallel =
        comm ? dt_parallel_create(t->layout, comm, &exec, &t->options, &err)
             : NULL;
    struct dt_parallel_bytes plan =
        dt_parallel_plan(t->layout, world->size, &t->options);
    bool same = parallel && allocated == sum_of(&plan);
    if (!same)
        fprintf(stderr, "# rank %d of %d: %zu bytes planned, %zu taken; %s\n",
                world->rank, world->size, sum_of(&plan), allocated, err.text);
    dt_parallel_destroy(parallel);
    if (comm)
        dt_comm_barrier(comm, &err); /* all have connected */
    dt_comm_destroy(comm);
    return same ? 0 : -1;
}

/* The third has weights, moments and gradients in bf16. */
static const struct {
    enum dt_dtype compute, state, grads;
} precisions[] = {
    {DT_F32, DT_F32, DT_F32},
    {DT_BF16, DT_F32, DT_F32},
    {DT_BF16, DT_BF16, DT_BF16},
};
enum { TYPES = sizeof(precisions) / sizeof(precisions[0]) };

static void the_plan_is_what_create_allocates(void **state)
{
    static const int worlds[] = {1, 3};
    (void)state;
    for (int i = 0; i < 4 * TYPES * MODELS * 2; i++) {
        int type = i / 4 % TYPES;
        int model = i / 4 / TYPES / 2, world = worlds[i / 4 / TYPES % 2];
#ifndef HAVE_GLOO
        if (world > 1)
            continue;
#endif
        struct dt_layout *layout = layout_of(model, world);
        struct trial t = {layout,
                          {.strategy = (enum dt_strategy)(i % 4),
                           .compute = precisions[type].compute,
                           .state = precisions[type].state,
                           .grads = precisions[type].grads,
                           .wire = DT_F32,
                           .prefetch = 3}};
        world_threads(world, create_rank, &t);
        dt_layout_destroy(layout);
    }
}

/* Every choice of groups, and of when micro-batches are summed. */
static void the_plan_of_groups_is_what_create_allocates(void **state)
{
    enum { STRATEGIES = 4, GROUPS = 3, WHENS = 3 };
    (void)state;
#ifndef HAVE_GLOO
    skip();
#endif
    struct dt_layout *layout = layout_of(1, 4);
    for (int i = 0; i < STRATEGIES * TYPES * GROUPS * WHENS; i++) {
        int type = i / STRATEGIES % TYPES;
        int group = i / STRATEGIES / TYPES % GROUPS;
        struct trial t = {
            layout,
            {.strategy = (enum dt_strategy)(i % STRATEGIES),
             .compute = precisions[type].compute,
             .state = precisions[type].state,
             .grads = precisions[type].grads,
             .prefetch = 2,
             .group = group > 0 ? 2 : 0,
             .hybrid = group == 2,
             .when = (enum dt_when)(i / STRATEGIES / TYPES / GROUPS)}};
        world_threads(4, create_rank, &t);
    }
    dt_layout_destroy(layout);
}

/* --- weights that are not trained --- */

/* What a rank of 4 holds of psi parameters, in groups of 2: shares in a hybrid.
 */
static size_t frozen_bytes(const struct dt_layout *layout,
                           const struct dt_parallel_options *options)
{
    const size_t psi = layout->count,
                 compute = dt_dtype_bytes(options->compute);
    const struct dt_unit *units = layout->units;
    const size_t head = units[layout->unit_count - 1].count; /* > units[0] */
    const size_t slots = head + 2 * units[1].count;
    const bool precise = options->use == DT_FOLLOWED;
    if (options->strategy != DT_ZERO3)
        return psi * compute + (precise && compute < 4 ? psi / 4 * 4 : 0);
    if (!options->hybrid)
        return slots * compute + psi / 4 * (precise ? 4 : compute);
    return (slots + psi / 2) * compute + (precise ? psi / 4 * 4 : 0);
}

/* Nothing is there of gradients and moments, nor in tiles. */
static void frozen_weights_need_no_more_than_weights(void **state)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16};
    (void)state;
#ifndef HAVE_GLOO
    skip();
#endif
    struct dt_layout *layout = layout_of(1, 4);
    for (int i = 0; i < 4 * 2 * 2 * 3; i++) {
        const int group = i / 16;
        struct trial t = {layout,
                          {.strategy = (enum dt_strategy)(i % 4),
                           .use = i / 8 % 2 ? DT_FOLLOWED : DT_FROZEN,
                           .compute = types[i / 4 % 2],
                           .prefetch = 2,
                           .group = group > 0 ? 2 : 0,
                           .hybrid = group == 2,
                           .offload = {.state = DT_TIER_HOST,
                                       .weights = DT_TIER_HOST,
                                       .ratio = 1,
                                       .tile = 1 << 20}}};
        struct dt_parallel_bytes plan = dt_parallel_plan(layout, 4, &t.options);
        assert_int_equal(sum_of(&plan), frozen_bytes(layout, &t.options));
        assert_int_equal(plan.gradients + plan.moments + plan.tiles, 0);
        assert_int_equal(plan.host, 0);
        world_threads(4, create_rank, &t);
    }
    dt_layout_destroy(layout);
}

/* --- what is offloaded --- */

/* Bytes of the files that this process has for swaps; its threads share it. */
static size_t file_bytes(void)
{
    char link[64], path[512];
    struct stat st;
    size_t sum = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (strstr(path, "/disttrain-swap-") && fstat(fd, &st) == 0)
            sum += (size_t)st.st_size;
    }
    return sum;
}

/* Bytes of memory that is not copied at a fork: buffers of swaps. */
static size_t buffer_bytes(void)
{
    char line[512];
    size_t size = 0, sum = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "Size: %zu kB", &size) != 1 &&
            !strncmp(line, "VmFlags:", 8) && strstr(line, " dc "))
            sum += size << 10;
    }
    fclose(file);
    return sum;
}

static size_t staged;

static int count_staging(size_t bytes, void **data, struct dt_error *err)
{
    staged += bytes;
    return dt_cpu.allocate_staging(bytes, data, err);
}

static void check_offload(const struct trial *t)
{
    const struct dt_comm_world alone = {.rank = 0, .size = 1};
    const struct dt_comm_options none = {0};
    struct dt_device device = dt_cpu;
    const struct dt_exec exec = {&device, dt_ops_cpu(), NULL};
    struct dt_error err = {0};
    struct dt_comm *comm = dt_comm_create("self", &alone, &none, &err);
    size_t before = buffer_bytes();
    device.allocate = count_bytes;
    device.allocate_staging = count_staging;
    allocated = staged = 0;
    struct dt_parallel *parallel =
        dt_parallel_create(t->layout, comm, &exec, &t->options, &err);
    if (!parallel)
        fail_msg("%s", err.text);
    struct dt_parallel_bytes plan = dt_parallel_plan(t->layout, 1, &t->options);
    assert_int_equal(allocated, sum_of(&plan));
    assert_int_equal(staged + buffer_bytes() - before, plan.host);
    assert_int_equal(file_bytes(), plan.nvme);
    dt_parallel_destroy(parallel);
    dt_comm_destroy(comm);
}

static void host_memory_and_files_are_planned_too(void **state)
{
    (void)state;
    if (!has_uring())
        skip();
    for (int i = 0; i < 3 * TYPES * 2 * 2 * 3; i++) {
        const int type = i / 3 % TYPES, way = i / 3 / TYPES;
        struct dt_layout *layout = layout_of(1, 1);
        const enum dt_strategy strategy = (enum dt_strategy)(DT_ZERO1 + i % 3);
        const struct dt_offload offload = {
            .state = way % 2 ? DT_TIER_HOST : DT_TIER_FILE,
            .ratio = way / 2 % 2 ? 1 : 0.4,
            .tile = 3000000, /* no divisor of the 45 million */
            .weights = (enum dt_tier)(way / 4),
            .path = drive(),
            .weights_path = drive(),
            .buffers = 2,
        };
        const struct trial t = {layout,
                                {.strategy = strategy,
                                 .compute = precisions[type].compute,
                                 .state = precisions[type].state,
                                 .grads = precisions[type].grads,
                                 .prefetch = 2,
                                 .offload = offload}};
        check_offload(&t);
        dt_layout_destroy(layout);
    }
}

/* Of s elements that a rank has, 12 s or with fp32 weights 8 s leave, for which
 * zero3 keeps rounded weights.
 */
static void offloaded_bytes_are_those_of_the_formulas(void **state)
{
    static const enum dt_strategy strategies[] = {DT_ZERO1, DT_ZERO2, DT_ZERO3};
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct dt_layout *layout = layout_of(0, 4);
        size_t s = layout->count / 4;
        bool mixed = i / 3;
        struct dt_parallel_options options = {.strategy = strategies[i % 3],
                                              .compute =
                                                  mixed ? DT_BF16 : DT_F32,
                                              .prefetch = 2};
        struct dt_parallel_bytes none = dt_parallel_plan(layout, 4, &options);
        options.offload = (struct dt_offload){
            .state = DT_TIER_HOST, .ratio = 1, .tile = 1 << 20};
        struct dt_parallel_bytes bytes = dt_parallel_plan(layout, 4, &options);
        size_t gone = (mixed ? 12 : 8) * s;
        size_t kept = mixed && i % 3 == 2 ? 2 * s : 0;
        assert_int_equal(bytes.host, gone);
        assert_int_equal(sum_of(&bytes), sum_of(&none) - gone + kept);
        options.offload.compute = DT_OFFLOAD_STREAM;
        bytes = dt_parallel_plan(layout, 4, &options);
        assert_int_equal(bytes.tiles, (mixed ? 12u : 8u) << 20);
        dt_layout_destroy(layout);
    }
}

/* --- what it should be --- */

/* Bytes by the formulas of ZeRO (arXiv 1910.02054, sec. 3), with slots: psi
 * parameters, of which a rank owns s; c bytes of the compute type; the largest
 * outer unit E and block B.
 */
static double formula(enum dt_strategy strategy, double psi, double s, double c,
                      double E, double B, double k)
{
    double master = c < 4 ? 4 : 0, slots = 4 * (E + 2 * B);
    switch (strategy) {
    case DT_DDP:
        return (c + master + 12) * psi;
    case DT_ZERO1:
        return (c + 4) * psi + (master + 8) * s;
    case DT_ZERO2:
        return c * psi + (master + 12) * s + slots;
    default:
        return 16 * s + slots + c * (E + k * B);
    }
}

static void bytes_are_those_of_the_formulas(void **state)
{
    static const int worlds[] = {2, 4, 64};
    (void)state;
    for (int i = 0; i < 4 * 2 * 3 * MODELS; i++) {
        enum dt_strategy strategy = (enum dt_strategy)(i % 4);
        int world = worlds[i / 8 % 3];
        struct dt_layout *layout = layout_of(i / 24, world);
        const struct dt_parallel_options options = {
            .strategy = strategy,
            .compute = i / 4 % 2 ? DT_BF16 : DT_F32,
            .prefetch = 2};
        struct dt_parallel_bytes bytes =
            dt_parallel_plan(layout, world, &options);
        double psi = (double)layout->param_total, s = psi / world;
        double want = formula(
            strategy, psi, s, (double)dt_dtype_bytes(options.compute),
            (double)layout->units[0].count, (double)layout->units[1].count, 2);
        double off = (double)sum_of(&bytes) / want - 1;
        if (off > 0.05 || off < -0.05)
            fail_msg("strategy %d, %d ranks: %zu bytes, expected %.0f",
                     (int)strategy, world, sum_of(&bytes), want);
        dt_layout_destroy(layout);
    }
}

/* A hybrid has weights and gradients of the world in each group of S: 6 or 8
 * bytes a parameter, and 12 s for the state of the optimizer.
 */
/* Weights that are also what is updated, two moments and gradients, and slots
 * for the gradients of a few units in fp32.
 */
static void in_bf16_a_parameter_takes_eight_bytes(void **state)
{
    (void)state;
    for (int model = 0; model < MODELS; model++) {
        struct dt_layout *layout = layout_of(model, 1);
        const struct dt_parallel_options options = {
            .compute = DT_BF16, .state = DT_BF16, .grads = DT_BF16};
        const struct dt_parallel_bytes bytes =
            dt_parallel_plan(layout, 1, &options);
        const size_t psi = layout->count;
        struct dt_slots slots;
        assert_int_equal(dt_slots_init(&slots, layout, DT_GRADS_BLOCKS, NULL),
                         0);
        assert_int_equal(bytes.weights, 2 * psi);
        assert_int_equal(bytes.master, 0);
        assert_int_equal(bytes.moments, 4 * psi);
        assert_int_equal(bytes.gradients, 2 * psi + 4 * slots.elements);
        dt_slots_fini(&slots);
        dt_layout_destroy(layout);
    }
}

static void a_hybrid_needs_what_its_formula_says(void **state)
{
    enum { WORLD = 64, GROUP = 8 };
    (void)state;
    for (int i = 0; i < 2 * MODELS; i++) {
        struct dt_layout *layout = layout_of(i / 2, WORLD);
        struct dt_parallel_options options = {.strategy = DT_ZERO3,
                                              .compute =
                                                  i % 2 ? DT_BF16 : DT_F32,
                                              .prefetch = 2,
                                              .group = GROUP,
                                              .hybrid = true};
        double psi = (double)layout->param_total, c = i % 2 ? 2 : 4;
        double E = (double)layout->units[0].count;
        double B = (double)layout->units[1].count;
        double slots = 4 * (E + 2 * B) + c * (E + 2 * B);
        double want = (c + 4) * psi / GROUP + 12 * psi / WORLD + slots;
        struct dt_parallel_bytes bytes =
            dt_parallel_plan(layout, WORLD, &options);
        double off = (double)sum_of(&bytes) / want - 1;
        if (off > 0.05 || off < -0.05)
            fail_msg("%zu bytes, expected %.0f", sum_of(&bytes), want);
        dt_layout_destroy(layout);
    }
}

/* With two slots for blocks; the padded units of a tower, a projector and a
 * text, of which three sizes of edges share a slot.
 */
static void slots_are_shared_by_units_that_are_not_neighbors(void **state)
{
    (void)state;
    for (int choice = TOWER_NONE + 1; choice <= TOWER_ALL; choice++)
        for (int tied = 0; tied < 2; tied++) {
            const bool language = choice >> DT_PART_LANGUAGE & 1;
            const bool projector = choice >> DT_PART_PROJECTOR & 1;
            const bool vision = choice >> DT_PART_VISION & 1;
            struct dt_layout *all = tower_layout(2, tied);
            struct dt_layout *some = tower_share(all, 2, choice);
            const struct dt_unit *units = all->units;
            const size_t text = units[TOWER_TEXT].count;
            size_t most =
                projector ? units[TOWER_PROJECTOR].count : units[0].count;
            most = projector || vision ? most : 0;
            if (language)
                most += text + (tied ? units[TOWER_UNITS - 1].count : 0);
            most += 2 * (language ? units[TOWER_UNITS - 2].count
                         : vision ? units[1].count
                                  : 0);
            const struct dt_parallel_options options = {
                .strategy = DT_ZERO3, .compute = DT_F32, .prefetch = 2};
            assert_int_equal(dt_parallel_plan(some, 2, &options).weights,
                             most * sizeof(float));
            dt_layout_destroy(some);
            dt_layout_destroy(all);
        }
}

static void parts_tile_a_unit(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world++) {
        struct dt_layout *layout = layout_of(1, world);
        for (size_t u = 0; u < layout->unit_count; u++) {
            size_t next = layout->units[u].offset;
            for (int rank = 0; rank < world; rank++) {
                struct dt_range part = dt_layout_part(layout, u, rank, world);
                assert_int_equal(part.first, next);
                assert_int_equal(part.count % DT_LAYOUT_ALIGN, 0);
                next += part.count;
            }
            assert_int_equal(next,
                             layout->units[u].offset + layout->units[u].count);
        }
        dt_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_tile_a_unit),
        cmocka_unit_test(slots_are_shared_by_units_that_are_not_neighbors),
        cmocka_unit_test(the_plan_is_what_create_allocates),
        cmocka_unit_test(the_plan_of_groups_is_what_create_allocates),
        cmocka_unit_test(in_bf16_a_parameter_takes_eight_bytes),
        cmocka_unit_test(frozen_weights_need_no_more_than_weights),
        cmocka_unit_test(bytes_are_those_of_the_formulas),
        cmocka_unit_test(a_hybrid_needs_what_its_formula_says),
        cmocka_unit_test(host_memory_and_files_are_planned_too),
        cmocka_unit_test(offloaded_bytes_are_those_of_the_formulas),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
