/* SPDX-License-Identifier: Apache-2.0 */
/* test_parallel_order.c - what the engine asks of a network, as a network sees
 * it that delivers nothing before it is waited for
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/comm_impl.h"
#include "parallel/parallel_impl.h"
#include "tests/unit/model.h"
#include "tests/unit/tower.h"

enum { RANKS = 4, GROUP = 2, MOST = 4096 };

static struct dt_error err;

/* The communicator of one of RANKS, and its groups. The parts of others are
 * not numbers until they are waited for.
 */
struct late_network {
    struct dt_comm comm;
    size_t started, arrived;
    struct dt_op ops[MOST];
};

static struct late_network *network_of(struct dt_comm *comm)
{
    return (struct late_network *)(comm->world ? comm->world : comm);
}

static void fill_parts_of_others(const struct dt_op *op, float value)
{
    size_t part = op->view.count / (size_t)op->on->size;
    for (size_t i = 0; i < op->view.count; i++)
        if (i / part != (size_t)op->on->rank)
            dt_view_f32(op->view)[i] = value;
}

static int late_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *e)
{
    struct late_network *network = network_of(comm);
    (void)e;
    assert_true(network->started < MOST);
    network->ops[network->started++] = *op;
    *ticket = network->started;
    if (op->kind == DT_OP_ALL_GATHER)
        fill_parts_of_others(op, NAN);
    return 0;
}

static int late_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *e)
{
    struct late_network *network = network_of(comm);
    (void)e;
    for (; network->arrived < ticket; network->arrived++)
        if (network->ops[network->arrived].kind == DT_OP_ALL_GATHER)
            fill_parts_of_others(&network->ops[network->arrived], 1);
    return 0;
}

static void late_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    (void)comm, (void)why;
}

static const struct dt_comm_backend late = {.name = "late",
                                            .start = late_start,
                                            .wait = late_wait,
                                            .destroy = late_destroy};

static void expect_weights(const struct dt_parallel *p, size_t u,
                           const char *pass)
{
    struct dt_view weights = dt_unit_weights(p, u);
    for (size_t i = 0; i < weights.count; i++)
        if (isnan(dt_view_f32(weights)[i]))
            fail_msg("%s: element %zu of unit %zu is still on its way", pass, i,
                     u);
}

static void run_micro_batch(struct dt_parallel *p)
{
    const struct dt_layout *layout = p->layout;
    size_t last = layout->unit_count - 1;
    dt_parallel_begin(p, 1, 0, 1);
    for (size_t u = 0; u < last; u++) {
        assert_int_equal(dt_parallel_forward(p, u, &err), 0);
        expect_weights(p, u, "forward");
    }
    for (size_t u = last + 1; u-- > p->options.lowest;) {
        assert_int_equal(dt_parallel_backward(p, u, &err), 0);
        if (layout->units[u].kind != DT_UNIT_EMBEDDING)
            expect_weights(p, u, "backward");
        if (u == last && layout->tied_unit != DT_NO_UNIT)
            expect_weights(p, layout->tied_unit, "the tied head");
        if (p->options.use == DT_TRAINED)
            assert_int_equal(dt_parallel_ready(p, u, &err), 0);
    }
    if (p->options.use == DT_TRAINED)
        assert_int_equal(dt_parallel_finish(p, &err), 0);
}

static void run_step(struct dt_parallel *p)
{
    struct dt_update update;
    int rc;
    run_micro_batch(p);
    if (p->options.use != DT_TRAINED)
        return;
    assert_int_equal(dt_parallel_update_begin(p, 1, (struct dt_view){0}, &err),
                     0);
    while ((rc = dt_parallel_update_next(p, &update, &err)) == 1)
        ;
    assert_int_equal(rc, 0);
}

/* Two steps of one rank; what it asked for is in *network. */
static void run_layout(struct late_network *network, int rank,
                       const struct dt_layout *layout,
                       const struct dt_parallel_options *options)
{
    *network = (struct late_network){
        .comm = {.backend = &late, .rank = rank, .size = RANKS}};
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_parallel *p =
        dt_parallel_create(layout, &network->comm, &exec, options, &err);
    assert_non_null(p);
    for (int step = 0; step < 2; step++)
        run_step(p);
    dt_parallel_destroy(p);
    dt_comm_destroy(&network->comm); /* and its groups */
}

/* The same of a model. */
static void run_rank(struct late_network *network, int rank, const char *model,
                     const struct dt_parallel_options *options)
{
    struct dt_model_config config = {0};
    parse(&config, model);
    struct dt_layout *layout = dt_model_layout(&config, RANKS, &err);
    assert_non_null(layout);
    run_layout(network, rank, layout, options);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

/* Options by number: strategies, groups and slots. */
enum { OPTIONS = 4 * 3 * 2 };

static struct dt_parallel_options options_of(int i)
{
    const int groups = i / 4 % 3;
    return (struct dt_parallel_options){
        .strategy = (enum dt_strategy)(i % 4),
        .compute = DT_F32,
        .wire = DT_F32,
        .prefetch = i / 12 ? 3 : 2,
        .bucket_bytes = 1,
        .group = groups > 0 ? GROUP : 0,
        .hybrid = groups == 2 && i % 4 != DT_DDP,
    };
}

static void weights_are_waited_for_before_they_are_read(void **state)
{
    static const char *const models[] = {
        "{" GPT2 "}", OTHER("llama", "\"tie_word_embeddings\": false")};
    static struct late_network network;
    (void)state;
    for (int i = 0; i < 2 * OPTIONS; i++) {
        const struct dt_parallel_options options = options_of(i / 2);
        run_rank(&network, 1, models[i % 2], &options);
    }
}

/* The frozen units that the backward pass comes to, too. What one engine lacks
 * is never moved.
 */
static void parts_of_a_model_are_waited_for_and_others_not_moved(void **state)
{
    static struct late_network network;
    (void)state;
    for (int i = 0; i < 2 * OPTIONS * TOWER_ALL; i++) {
        struct dt_parallel_options options = options_of(i / TOWER_ALL / 2);
        const int choice = i % TOWER_ALL + 1, rest = TOWER_ALL - choice;
        struct dt_layout *all = tower_layout(RANKS, i / TOWER_ALL % 2);
        struct dt_layout *trained = tower_share(all, RANKS, choice);
        struct dt_layout *frozen = tower_share(all, RANKS, rest);
        options.lowest = dt_layout_next(trained, 0);
        run_layout(&network, 1, trained, &options);
        for (size_t k = 0; k < network.started; k++)
            assert_true(network.ops[k].view.count > 0);
        options.use = DT_FROZEN;
        if (rest != TOWER_NONE)
            run_layout(&network, 1, frozen, &options);
        if (rest != TOWER_NONE && options.strategy != DT_ZERO3)
            assert_int_equal(network.started, 0);
        dt_layout_destroy(frozen);
        dt_layout_destroy(trained);
        dt_layout_destroy(all);
    }
}

/* Ranks of a node would otherwise make the same mistakes. */
static void ranks_of_a_group_round_with_noise_of_their_own(void **state)
{
    static struct late_network networks[GROUP];
    const struct dt_parallel_options options = {.strategy = DT_DDP,
                                                .compute = DT_F32,
                                                .wire = DT_F32,
                                                .bucket_bytes = 1,
                                                .group = GROUP,
                                                .int8 = true};
    size_t rounded = 0;
    (void)state;
    for (int rank = 0; rank < GROUP; rank++)
        run_rank(&networks[rank], rank, "{" GPT2 "}", &options);
    assert_int_equal(networks[0].started, networks[1].started);
    for (size_t i = 0; i < networks[0].started; i++) {
        const struct dt_op *a = &networks[0].ops[i], *b = &networks[1].ops[i];
        assert_int_equal(a->kind, b->kind);
        if (a->kind != DT_OP_REDUCE_SCATTER_INT8)
            continue;
        rounded++;
        assert_int_equal(a->noise.step, b->noise.step);
        assert_true(a->noise.first + a->view.count <= b->noise.first);
    }
    assert_true(rounded > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_waited_for_before_they_are_read),
        cmocka_unit_test(parts_of_a_model_are_waited_for_and_others_not_moved),
        cmocka_unit_test(ranks_of_a_group_round_with_noise_of_their_own),
    };
    return cmocka_run_group_tests_name("parallel order", tests, NULL, NULL);
}
