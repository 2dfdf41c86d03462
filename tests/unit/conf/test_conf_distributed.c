/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_distributed.c - strategy, shards, reduction, offload */
#include "config.h"

#include "tests/unit/conf.h"

static char *text_of(const struct dt_conf *conf)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    return text;
}

static void left_out_keys_let_the_engine_choose(void **state)
{
    struct dt_conf *conf = load_more("");
    (void)state;
    assert_int_equal(conf->distributed.strategy, DT_CONF_AUTO_STRATEGY);
    assert_true(conf->distributed.strategy_auto_memory);
    assert_true(conf->distributed.enabled);
    assert_int_equal(conf->distributed.shard_group, DT_CONF_GROUP_AUTO);
    assert_int_equal(conf->distributed.prefetch_units, 2);
    assert_int_equal(conf->distributed.reduce_each_micro_step,
                     DT_CONF_AUTO_CHOICE);
    assert_int_equal(conf->distributed.reduction, DT_CONF_AUTO_REDUCTION);
    assert_int_equal(conf->distributed.int8_between_nodes, 0);
    assert_int_equal(conf->distributed.offload_optimizer.device,
                     DT_CONF_OFFLOAD_NONE);
    assert_int_equal(conf->distributed.offload_optimizer.compute,
                     DT_CONF_COMPUTE_AUTO);
    assert_true(conf->distributed.offload_optimizer.ratio == 1);
    assert_int_equal(conf->distributed.offload_optimizer.buffer_count, 4);
    assert_int_equal(conf->distributed.offload_optimizer.tile_size, 32 << 20);
    assert_int_equal(conf->distributed.offload_param.device,
                     DT_CONF_OFFLOAD_NONE);
    assert_int_equal(conf->distributed.outage_s, 15);
    assert_int_equal(conf->distributed.aio.block_size, 1 << 20);
    assert_int_equal(conf->distributed.aio.queue_depth, 32);
    assert_int_equal(conf->distributed.aio.threads, 1);
    assert_int_equal(conf->model.gradient_checkpointing,
                     DT_CONF_CHECKPOINT_NONE);
    dt_conf_destroy(conf);
}

static void a_strategy_has_several_names(void **state)
{
    static const struct {
        const char *text;
        int strategy;
    } cases[] = {
        {"distributed: {strategy: ddp}\n", DT_CONF_DDP},
        {"distributed: {strategy: Zero1}\n", DT_CONF_ZERO1},
        {"training: {distributed_strategy: zero2}\n", DT_CONF_ZERO2},
        {"distributed_strategy: ZERO3\n", DT_CONF_ZERO3},
        {"zero_stage: 0\n", DT_CONF_DDP},
        {"training: {zero_stage: 1}\n", DT_CONF_ZERO1},
        {"distributed: {zero_stage: 2, strategy: zero2}\n", DT_CONF_ZERO2},
        {"zero_stage: 3\n", DT_CONF_ZERO3},
        {"training: {use_ddp: true, zero_stage: 0}\n", DT_CONF_DDP},
        {"training: {use_ddp: false, distributed: true}\n",
         DT_CONF_AUTO_STRATEGY},
        {"distributed: true\n", DT_CONF_AUTO_STRATEGY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_more(cases[i].text);
        assert_int_equal(conf->distributed.strategy, cases[i].strategy);
        dt_conf_destroy(conf);
    }
}

static void groups_of_shards_are_words_or_numbers_of_ranks(void **state)
{
    static const struct {
        const char *text;
        long group;
    } cases[] = {
        {"auto", DT_CONF_GROUP_AUTO},
        {"Node", DT_CONF_GROUP_NODE},
        {"world", DT_CONF_GROUP_WORLD},
        {"1", 1},
        {"8", 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char lines[64];
        snprintf(lines, sizeof(lines), "zero_stage: 2\nshard_group: %s\n",
                 cases[i].text);
        struct dt_conf *conf = load_more(lines);
        assert_int_equal(conf->distributed.shard_group, cases[i].group);
        dt_conf_destroy(conf);
    }
}

static void offload_arrives_with_its_path_and_buffers(void **state)
{
    struct dt_conf *conf = load_more(
        "distributed:\n"
        "  strategy: zero3\n"
        "  offload_optimizer: {device: nvme, path: /nvme, compute: host,\n"
        "                      ratio: 0.5, buffer_count: 3,\n"
        "                      tile_size: 1048576}\n"
        "  offload_param: {device: NVMe, nvme_path: swap}\n"
        "  aio: {block_size: 2MiB, queue_depth: 8, threads: 2}\n"
        "  reduction: two_level\n"
        "  reduce_between_nodes: int8\n"
        "  reduce_each_micro_step: false\n"
        "  prefetch_units: 4\n"
        "gradient_checkpointing: offload\n");
    char path[64];
    (void)state;
    snprintf(path, sizeof(path), "%s/swap", test_directory);
    assert_int_equal(conf->distributed.offload_optimizer.device,
                     DT_CONF_OFFLOAD_NVME);
    assert_int_equal(conf->distributed.offload_optimizer.compute,
                     DT_CONF_COMPUTE_HOST);
    assert_string_equal(conf->distributed.offload_optimizer.path, "/nvme");
    assert_true(conf->distributed.offload_optimizer.ratio == 0.5);
    assert_int_equal(conf->distributed.offload_optimizer.buffer_count, 3);
    assert_int_equal(conf->distributed.offload_optimizer.tile_size, 1 << 20);
    assert_int_equal(conf->distributed.offload_param.device,
                     DT_CONF_OFFLOAD_NVME);
    assert_string_equal(conf->distributed.offload_param.path, path);
    assert_int_equal(conf->distributed.aio.block_size, 2 << 20);
    assert_int_equal(conf->distributed.aio.queue_depth, 8);
    assert_int_equal(conf->distributed.aio.threads, 2);
    assert_int_equal(conf->distributed.reduction, DT_CONF_TWO_LEVEL);
    assert_int_equal(conf->distributed.int8_between_nodes, 1);
    assert_int_equal(conf->distributed.reduce_each_micro_step, DT_CONF_FALSE);
    assert_int_equal(conf->distributed.prefetch_units, 4);
    assert_int_equal(conf->model.gradient_checkpointing,
                     DT_CONF_CHECKPOINT_OFFLOAD);
    dt_conf_destroy(conf);
}

/* The dump of each of these, read again, says the same, without a warning. */
static void what_is_dumped_reads_back_as_the_same(void **state)
{
    static const char *const cases[] = {
        "",
        "distributed: {strategy: ddp, enabled: false}\n",
        "zero_stage: 3\nshard_group: 4\nreduce_each_micro_step: true\n"
        "gradient_checkpointing: true\n",
        "zero_stage: 2\nshard_group: node\ngradient_checkpointing: offload\n"
        "offload_optimizer: {device: nvme, path: /nvme, ratio: 0.25}\n"
        "distributed.aio.threads: 4\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_more(cases[i]);
        char *text = text_of(conf);
        struct dt_conf *again = load_good(text, "");
        for (size_t row = 0; row < dt_conf_key_count; row++)
            conf->place[row].line = again->place[row].line;
        char *first = text_of(conf), *second = text_of(again);
        assert_string_equal(first, second);
        free(text);
        free(first);
        free(second);
        dt_conf_destroy(conf);
        dt_conf_destroy(again);
    }
}

static const struct broken contradictions[] = {
    {LEAST "distributed: {strategy: zero4, zero_stage: 2}\n",
     "t.yaml:5:25: distributed.strategy: expected one of auto, ddp, zero1, "
     "zero2, zero3, deepspeed, got \"zero4\"\n"},
    {LEAST "zero_stage: 4\n",
     "t.yaml:5:13: distributed.zero_stage: expected an integer from 0 to 3, "
     "got 4\n"},
    {LEAST "use_ddp: true\nzero_stage: 2\n",
     "t.yaml:6:13: distributed.zero_stage: E105 2 means zero2, but "
     "distributed.strategy in line 5 says otherwise: remove one of them\n"},
    {LEAST "shard_group: 0\n",
     "t.yaml:5:14: distributed.shard_group: expected an integer from 1 to "
     "1000000 or one of auto, node, world (ranks), got 0\n"},
    {LEAST "gradient_checkpointing: often\n",
     "t.yaml:5:25: model.gradient_checkpointing: expected one of true, false, "
     "offload, got \"often\"\n"},
    {LEAST "distributed: {prefetch_units: 1}\n",
     "t.yaml:5:31: distributed.prefetch_units: expected an integer from 2 to "
     "10000 (blocks), got 1\n"},
    {LEAST "zero_stage: 1\noffload_param: {device: cpu}\n",
     "t.yaml:6:25: distributed.offload_param.device: E106 with zero1 each "
     "rank computes with all weights: set distributed.strategy to zero3\n"},
    {LEAST "distributed:\n"
           "  strategy: ddp\n"
           "  offload_optimizer: {device: cpu}\n"
           "  offload_param: {device: nvme}\n",
     "t.yaml:7:31: distributed.offload_optimizer.device: E106 with ddp each "
     "rank needs the whole state at once: set distributed.strategy to zero1, "
     "zero2 or zero3\n"
     "t.yaml:8:27: distributed.offload_param.device: E106 nvme needs "
     "distributed.offload_param.path: a directory on a local drive of each "
     "node\n"
     "t.yaml:8:27: distributed.offload_param.device: E106 with ddp each rank "
     "computes with all weights: set distributed.strategy to zero3\n"},
    {LEAST "offload_optimizer: {device: nvme, path: }\n",
     "t.yaml:5:35: distributed.offload_optimizer.path: no value: write null "
     "for the default\n"},
    {LEAST "distributed: {reduction: flat, reduce_between_nodes: int8}\n",
     "t.yaml:5:54: distributed.reduce_between_nodes: int8 is for sums between "
     "nodes, and distributed.reduction: flat has none of these: write "
     "two_level or auto\n"},
    {LEAST "distributed: {reduction: flat, shard_group: node}\n",
     "t.yaml:5:45: distributed.shard_group: E105 nodes sum gradients within "
     "each and then between them, but distributed.reduction is flat: remove "
     "one of them\n"},
    {LEAST "distributed: {offload_optimizer: {devise: cpu}, aoi: {}}\n",
     "t.yaml:5:35: distributed.offload_optimizer.devise: unknown key; did "
     "you mean distributed.offload_optimizer.device?\n"
     "t.yaml:5:49: distributed.aoi: unknown key; did you mean "
     "distributed.aio?\n"},
    {LEAST "distributed: {outage_s: 20, timeout_s: 20}\n",
     "t.yaml:5:25: distributed.outage_s: 20 must be less than "
     "distributed.timeout_s, which is 20\n"},
    {LEAST "distributed: [ddp]\n",
     "t.yaml:5:14: distributed: expected a section with keys\n"},
};

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    CHECK_ALL(contradictions);
}

static void keys_that_nothing_looks_at_are_told(void **state)
{
    static const struct {
        const char *lines, *warnings;
    } cases[] = {
        {"offload_param: {device: cpu}\nzero_stage: 3\n",
         "t.yaml:5:25: distributed.offload_param.device: no effect without "
         "distributed.offload_optimizer: weights are rounded from the fp32 "
         "weights, which are on the device\n"},
        {"zero_stage: 1\n"
         "distributed: {shard_group: 2, prefetch_units: 3, "
         "strategy_auto_memory: false}\n",
         "t.yaml:6:28: distributed.shard_group: no effect with strategy "
         "zero1\n"
         "t.yaml:6:47: distributed.prefetch_units: no effect with strategy "
         "zero1\n"
         "t.yaml:6:72: distributed.strategy_auto_memory: no effect with "
         "strategy zero1\n"},
        {"zero_stage: 2\n"
         "distributed: {prefetch_elements: 0, live_elements: 1}\n",
         "t.yaml:6:34: distributed.prefetch_elements: no effect with strategy "
         "zero2\n"
         "t.yaml:6:52: distributed.live_elements: no effect with strategy "
         "zero2\n"},
        {"zero_stage: 3\n"
         "distributed: {prefetch_elements: 0, prefetch_units: 3}\n",
         "t.yaml:6:34: distributed.prefetch_elements: no effect: "
         "distributed.prefetch_units is given\n"},
        {"offload_optimizer: {path: /x, ratio: 0.5, pin_memory: true}\n"
         "distributed.aio: {threads: 2, queue_depth: 32}\n",
         "t.yaml:5:27: distributed.offload_optimizer.path: no effect: "
         "distributed.offload_optimizer.device is not nvme\n"
         "t.yaml:5:38: distributed.offload_optimizer.ratio: no effect: "
         "distributed.offload_optimizer.device is none\n"
         "t.yaml:5:55: distributed.offload_optimizer.pin_memory: "
         "not needed here: host memory that a GPU copies from is always "
         "page-locked\n"
         "t.yaml:6:28: distributed.aio.threads: no effect: nothing is "
         "offloaded to nvme\n"},
        {"training: {find_unused_parameters: false, ddp_bucket_cap_mb: 25}\n",
         "t.yaml:5:36: distributed.find_unused_parameters: not "
         "needed here: every parameter is used in every step\n"},
        {"reduce_between_nodes: int8\nlaunch.nodes: 1\n",
         "t.yaml:5:23: distributed.reduce_between_nodes: no effect on one "
         "node (launch.nodes): gradients are rounded between nodes only\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), LEAST "%s", cases[i].lines);
        dt_conf_destroy(load_good(text, cases[i].warnings));
    }
}

static void the_world_must_fit_the_groups_and_the_switch(void **state)
{
    static const struct {
        const char *lines;
        int world;
        const char *problem;
    } cases[] = {
        {"zero_stage: 3\nshard_group: 4\n", 6,
         "/t.yaml:6:14: distributed.shard_group: E102 6 ranks cannot be "
         "divided into groups of 4"},
        {"distributed: false\n", 2,
         "/t.yaml:5:14: distributed.enabled: false, but the run has 2 ranks: "
         "start one, or remove the key"},
        {"zero_stage: 3\nshard_group: 4\n", 8, NULL},
        {"zero_stage: 3\nshard_group: node\n", 5, NULL},
        {"distributed: false\n", 1, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_more(cases[i].lines);
        struct dt_error err;
        int rc = dt_conf_resolve_batch(conf, cases[i].world, &err);
        assert_int_equal(rc, cases[i].problem ? -1 : 0);
        if (rc < 0) {
            assert_int_equal(err.status, EX_CONFIG);
            assert_string_equal(err.text + strlen(test_directory),
                                cases[i].problem);
        }
        dt_conf_destroy(conf);
    }
}

/* A run may be resumed with another strategy, as with another world; sums in 8
 * bits are not the same run.
 */
static void only_rounding_to_8_bits_changes_the_fingerprint(void **state)
{
    struct dt_conf *base = load_more("");
    struct dt_conf *zero = load_more("zero_stage: 3\nshard_group: 2\n"
                                     "reduction: flat\n"
                                     "offload_optimizer: {device: cpu}\n");
    struct dt_conf *int8 = load_more("reduce_between_nodes: int8\n");
    (void)state;
    assert_true(base->fingerprint == zero->fingerprint);
    assert_true(base->fingerprint != int8->fingerprint);
    dt_conf_destroy(base);
    dt_conf_destroy(zero);
    dt_conf_destroy(int8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_out_keys_let_the_engine_choose),
        cmocka_unit_test(a_strategy_has_several_names),
        cmocka_unit_test(groups_of_shards_are_words_or_numbers_of_ranks),
        cmocka_unit_test(offload_arrives_with_its_path_and_buffers),
        cmocka_unit_test(what_is_dumped_reads_back_as_the_same),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(keys_that_nothing_looks_at_are_told),
        cmocka_unit_test(the_world_must_fit_the_groups_and_the_switch),
        cmocka_unit_test(only_rounding_to_8_bits_changes_the_fingerprint),
    };
    return cmocka_run_group_tests_name("conf distributed", tests,
                                       enter_directory, leave_directory);
}
