/* SPDX-License-Identifier: Apache-2.0 */
/* test_groups.c - which ranks of which nodes make a group */
#include "config.h"

#include "algo/algo.h"
#include "run/sharing.h"
#include "plan/strategy.h"
#include "comm/comm_impl.h"
#include "plan/plan.h"
#include "tests/unit/conf.h"
#include "tests/families.h"

/* --- worlds that are never connected --- */

static const char *hosts; /* a letter for each rank */

static const char *host_of(const struct dt_comm *comm, int rank)
{
    static const char *const names[] = {"a", "b", "c"};
    (void)comm;
    return names[hosts[rank] - 'a'];
}

static const struct dt_comm_backend backend = {.host = host_of};

static struct dt_comm world_of(const char *letters)
{
    hosts = letters;
    return (struct dt_comm){.backend = &backend, .size = (int)strlen(letters)};
}

static struct dt_nodes nodes_of(const char *letters)
{
    struct dt_comm world = world_of(letters);
    struct dt_nodes nodes;
    struct dt_error err;
    assert_int_equal(dt_nodes_find(&nodes, &world, &err), 0);
    return nodes;
}

static void check_nodes(const char *letters, int count, int least, int most,
                        const char *order)
{
    struct dt_nodes nodes = nodes_of(letters);
    assert_int_equal(nodes.count, count);
    assert_int_equal(nodes.least, least);
    assert_int_equal(nodes.most, most);
    for (size_t i = 0; order[i]; i++)
        assert_int_equal(nodes.order[i], order[i] - '0');
    dt_nodes_fini(&nodes);
}

static void ranks_of_a_host_are_a_node_whatever_their_numbers(void **state)
{
    (void)state;
    check_nodes("a", 1, 1, 1, "0");
    check_nodes("aaaa", 1, 4, 4, "0123");
    check_nodes("aabb", 2, 2, 2, "0123");
    check_nodes("abab", 2, 2, 2, "0213");
    check_nodes("bacabc", 3, 2, 2, "041325");
    check_nodes("abbbb", 2, 1, 4, "01234");
}

/* --- keys --- */

/* What options become with these lines on these nodes. */
static struct dt_parallel_options apply(const char *lines, const char *letters,
                                        enum dt_strategy strategy, size_t A)
{
    struct dt_conf *conf = load_more(lines);
    struct dt_nodes nodes = nodes_of(letters);
    struct dt_parallel_options options = {.strategy = strategy};
    if (conf->distributed.reduce_each_micro_step == DT_CONF_TRUE)
        options.when = DT_WHEN_EACH;
    dt_groups_apply(conf, &nodes, (int)strlen(letters), A, &options);
    dt_nodes_fini(&nodes);
    dt_conf_destroy(conf);
    return options;
}

static void sums_are_in_two_levels_where_nodes_are_even(void **state)
{
    static const struct {
        const char *letters, *lines;
        int group, node;
    } cases[] = {
        {"aabb", "", 2, 2},
        {"ababab", "", 3, 3},
        {"aaaa", "", 0, 4},
        {"abc", "", 0, 1},
        {"aab", "", 0, 0},
        {"aabb", "distributed.reduction: flat\n", 0, 2},
        {"aabb", "distributed.reduction: two_level\n", 2, 2},
        {"aaaa", "distributed.reduction: two_level\n", 0, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++) {
            struct dt_parallel_options options =
                apply(cases[i].lines, cases[i].letters, s, 1);
            assert_int_equal(options.group, cases[i].group);
            assert_int_equal(options.node, cases[i].node);
            assert_int_equal(options.hybrid, s == DT_ZERO1 && options.group);
            assert_int_equal(options.strategy, s);
        }
}

static void a_shard_group_is_for_zero2_and_zero3(void **state)
{
    struct dt_parallel_options options;
    (void)state;
    for (enum dt_strategy s = DT_DDP; s <= DT_ZERO3; s++) {
        options = apply("distributed.shard_group: node\n", "abab", s, 1);
        assert_int_equal(options.group, 2);
        assert_int_equal(options.hybrid, s >= DT_ZERO1);
        options = apply("distributed.shard_group: 2\n", "aaaa", s, 1);
        assert_int_equal(options.group, s >= DT_ZERO2 ? 2 : 0);
        options = apply("distributed.shard_group: 4\n", "aabb", s, 1);
        assert_int_equal(options.group, 2); /* of the sums */
        assert_int_equal(options.hybrid, s == DT_ZERO1);
    }
    options = apply("distributed.shard_group: 1\n", "aaa", DT_ZERO3, 1);
    assert_int_equal(options.strategy, DT_ZERO1);
    assert_int_equal(options.group, 0);
    options = apply("distributed.shard_group: node\n", "abc", DT_ZERO2, 1);
    assert_int_equal(options.strategy, DT_ZERO1);
}

static void int8_is_between_whole_nodes_only(void **state)
{
    static const struct {
        const char *letters, *lines;
        int group;
        bool int8;
    } cases[] = {
        {"aabb", "", 2, true},
        {"abc", "", 1, true},
        {"aaaa", "", 0, false},
        {"aaaabbbb", "distributed.shard_group: 2\n", 2, false},
        {"bbccaa", "distributed.shard_group: node\n", 2, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char lines[128];
        snprintf(lines, sizeof(lines),
                 "distributed.reduce_between_nodes: int8\n%s", cases[i].lines);
        struct dt_parallel_options options =
            apply(lines, cases[i].letters, DT_ZERO2, 1);
        assert_int_equal(options.group, cases[i].group);
        assert_int_equal(options.int8, cases[i].int8);
    }
}

static void one_micro_batch_needs_no_slots(void **state)
{
    const char *lines = "distributed.reduce_each_micro_step: true\n";
    (void)state;
    assert_int_equal(apply(lines, "aa", DT_DDP, 1).when, DT_WHEN_AUTO);
    assert_int_equal(apply(lines, "aa", DT_DDP, 2).when, DT_WHEN_EACH);
    assert_int_equal(apply(lines, "aa", DT_ZERO2, 1).when, DT_WHEN_EACH);
}

/* --- what cannot be --- */

static void check_refused(const char *lines, const char *letters,
                          const char *text)
{
    struct dt_conf *conf = load_more(lines);
    struct dt_nodes nodes = nodes_of(letters);
    struct dt_comm world = world_of(letters);
    struct dt_error err = {0};
    int rc = dt_groups_check(conf, &nodes, &world, &err);
    assert_int_equal(rc, text ? -1 : 0);
    if (text) {
        assert_int_equal(err.status, EX_CONFIG);
        assert_non_null(strstr(err.text, text));
    }
    dt_nodes_fini(&nodes);
    dt_conf_destroy(conf);
}

static void what_nodes_cannot_do_is_refused(void **state)
{
    (void)state;
    check_refused("", "abb", NULL);
    check_refused("distributed.reduction: flat\n", "abb", NULL);
    check_refused("distributed.reduction: two_level\n", "abb",
                  "distributed.reduction: E102 two_level needs equally many "
                  "ranks on every node, but a has 1 and b has 2: start the "
                  "run with --ntasks-per-node, or remove the key");
    check_refused("distributed.shard_group: node\n", "aaaab",
                  "distributed.shard_group: E102 node needs equally many "
                  "ranks on every node, but b has 1 and a has 4: ");
    check_refused("distributed.reduce_between_nodes: int8\n", "aab",
                  "distributed.reduce_between_nodes: E102 int8 needs equally "
                  "many ranks on every node, but b has 1 and a has 2: ");
    check_refused("distributed: {shard_group: 2, reduction: flat}\n", "aabb",
                  "distributed.shard_group: E105 groups of 2 ranks sum "
                  "gradients in the group and then over groups, but "
                  "distributed.reduction is flat: remove one of them");
    check_refused("distributed: {shard_group: 4, reduction: flat}\n", "aabb",
                  NULL);
}

/* --- what auto is --- */

static void auto_is_a_node_if_that_fits(void **state)
{
    struct dt_spec spec = {.world = 4,
                           .B = 4,
                           .eval_B = 4,
                           .T = 64,
                           .A = 1,
                           .exec = dt_exec_cpu(),
                           .nodes = nodes_of("aabb"),
                           .learner.config = {.family = &dt_family_gpt2,
                                              .vocab_size = 257,
                                              .n_positions = 64,
                                              .n_embd = 64,
                                              .n_layer = 4,
                                              .n_head = 2,
                                              .n_kv_head = 2,
                                              .head_size = 32,
                                              .n_inner = 256}};
    const struct dt_model_options options = {
        .B = 4, .T = 64, .compute = DT_F32, .train = true};
    struct dt_conf *conf = load_more("distributed.strategy: zero3\n");
    struct dt_error err;
    (void)state;
    spec.conf = *conf;
    spec.algo = dt_algo_of(conf);
    spec.learner.layout = dt_model_layout(&spec.learner.config, 4, &err);
    assert_non_null(spec.learner.layout);
    spec.conf.distributed.shard_group = DT_CONF_GROUP_NODE;
    struct dt_plan plan = dt_plan_make(&spec, &options);
    size_t need = dt_plan_total(&plan);
    spec.conf.distributed.shard_group = DT_CONF_GROUP_AUTO;
    plan = dt_plan_make(&spec, &options);
    assert_true(dt_plan_total(&plan) < need);
    assert_int_equal(dt_plan_choose_group(&spec, &options, 2 * need, 2),
                     DT_CONF_GROUP_NODE);
    assert_int_equal(dt_plan_choose_group(&spec, &options, 2 * need - 2, 2),
                     DT_CONF_GROUP_WORLD);
    spec.conf.distributed.reduction = DT_CONF_FLAT;
    assert_int_equal(dt_plan_choose_group(&spec, &options, 2 * need, 2),
                     DT_CONF_GROUP_WORLD);
    dt_layout_destroy(spec.learner.layout);
    dt_nodes_fini(&spec.nodes);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_host_are_a_node_whatever_their_numbers),
        cmocka_unit_test(sums_are_in_two_levels_where_nodes_are_even),
        cmocka_unit_test(a_shard_group_is_for_zero2_and_zero3),
        cmocka_unit_test(int8_is_between_whole_nodes_only),
        cmocka_unit_test(one_micro_batch_needs_no_slots),
        cmocka_unit_test(what_nodes_cannot_do_is_refused),
        cmocka_unit_test(auto_is_a_node_if_that_fits),
    };
    return cmocka_run_group_tests_name("groups", tests, enter_directory,
                                       leave_directory);
}
