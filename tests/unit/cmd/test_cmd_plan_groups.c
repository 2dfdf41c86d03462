/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_plan_groups.c - what `disttrain plan` says of groups and int8 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/cmd/plan_run.h"

/* Half of what ddp sends out of a node are sums, which become 33/128 of it. */
static void int8_is_seen_in_traffic_and_time(void **state)
{
    static const char *const both[] = {"native", "int8"};
    double sent[2], seconds[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 SMALL "distributed: {strategy: ddp, "
                       "reduce_between_nodes: %s}\n",
                 both[i]);
        write_file("t.yaml", text);
        json_t *all = plan_json("--json --nodes 4 --ntasks-per-node 2 t.yaml");
        const json_t *one =
            json_array_get(json_object_get(all, "candidates"), 0);
        const json_t *between = json_object_get(one, "reduce_between_nodes");
        sent[i] =
            number(json_object_get(one, "wire_bytes"), "out_of_node_by_node");
        seconds[i] = number(json_object_get(one, "seconds"), "step");
        assert_string_equal(string(between, "choice"), both[i]);
        for (int j = 0; j <= i; j++) {
            const json_t *says = json_object_get(between, both[j]);
            assert_true(number(says, "out_of_node_by_node") == sent[j]);
            assert_true(number(says, "step") == seconds[j]);
        }
        json_decref(all);
    }
    assert_true(fabs(sent[1] / sent[0] - (1 + 33.0 / 128) / 2) < 1e-9);
    assert_true(seconds[1] < seconds[0]);
}

/* The ranks of a node, all, or pairs; one node has no sums between nodes. */
static void the_group_is_that_of_the_run(void **state)
{
    static const struct {
        const char *line, *size;
        int group;
        bool between;
    } cases[] = {
        {"", "--nodes 2 --ntasks-per-node 4", 4, true},
        {"distributed.shard_group: world\n", "--nodes 2 --ntasks-per-node 4", 8,
         true},
        {"distributed.shard_group: 2\n", "--nodes 2 --ntasks-per-node 4", 2,
         false},
        {"", "--ntasks-per-node 4", 4, false},
        {"distributed.reduction: flat\n", "--nodes 4", 4, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512], args[64];
        snprintf(text, sizeof(text), SMALL "distributed.strategy: zero3\n%s",
                 cases[i].line);
        write_file("t.yaml", text);
        snprintf(args, sizeof(args), "--json %s t.yaml", cases[i].size);
        json_t *all = plan_json(args);
        const json_t *list = json_object_get(all, "candidates");
        for (size_t j = 0; j < 4; j++) {
            const json_t *one = json_array_get(list, j);
            assert_true(number(one, "shard_group") ==
                        (j < 2 ? 1 : cases[i].group));
            if (j == 3)
                assert_int_equal(json_is_object(json_object_get(
                                     one, "reduce_between_nodes")),
                                 cases[i].between);
        }
        json_decref(all);
    }
}

/* Without sums after each micro-batch zero2 saves nothing that zero1 does not;
 * the plan has the bytes, and says it.
 */
static void gradients_that_stay_whole_are_told(void **state)
{
    static const char *const each[] = {"true", "false"};
    static const char told[] =
        "distributed.reduce_each_micro_step: false: each rank keeps all "
        "gradients, as with zero1\n";
    double zero1[2], zero2[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 SMALL "training.gradient_accumulation_steps: 2\n"
                       "distributed: {strategy: zero2, "
                       "reduce_each_micro_step: %s}\n",
                 each[i]);
        write_file("t.yaml", text);
        json_t *all = plan_json("--json --nodes 4 t.yaml");
        const json_t *list = json_object_get(all, "candidates");
        zero1[i] = number(json_object_get(json_array_get(list, 1), "bytes"),
                          "gradients");
        zero2[i] = number(json_object_get(json_array_get(list, 2), "bytes"),
                          "gradients");
        json_decref(all);
        assert_int_equal(plan("--nodes 4 t.yaml"), 0);
        assert_int_equal(strstr(out, told) != NULL, i == 1);
    }
    assert_true(zero2[0] < zero2[1]);
    assert_true(zero2[1] == zero1[1]);
}

/* Bytes of weights with zero3. */
static double zero3_weights(const char *lines)
{
    char text[512];
    snprintf(text, sizeof(text), SMALL "%s", lines);
    write_file("t.yaml", text);
    json_t *all = plan_json("--json --ntasks-per-node 2 t.yaml");
    const json_t *one = json_array_get(json_object_get(all, "candidates"), 3);
    assert_string_equal(string(one, "strategy"), "zero3");
    double bytes = number(json_object_get(one, "bytes"), "weights");
    json_decref(all);
    return bytes;
}

static double by_deepspeed(const char *keys)
{
    char text[256];
    snprintf(text, sizeof(text), "{\"zero_optimization\": {\"stage\": 3%s}}",
             keys);
    write_file("ds.json", text);
    double bytes = zero3_weights("distributed.deepspeed_config: ds.json\n");
    unlink("ds.json");
    return bytes;
}

/* A block has 12 x 128 x 128 + 13 x 128 parameters. */
static void deepspeed_says_how_many_blocks_are_gathered(void **state)
{
#define ZERO3 "distributed.strategy: zero3\n"
#define AHEAD ", \"stage3_prefetch_bucket_size\": "
    (void)state;
    double two = zero3_weights(ZERO3);
    double three = zero3_weights(ZERO3 "distributed.prefetch_units: 3\n");
    assert_true(three - two == 4 * 198400); /* a multiple of 256 */
    assert_true(by_deepspeed("") == two);
    assert_true(by_deepspeed(AHEAD "0") == two);
    assert_true(by_deepspeed(AHEAD "396543") == two);
    assert_true(by_deepspeed(AHEAD "396544") == three);
    assert_true(by_deepspeed(AHEAD
                             "396544,"
                             " \"stage3_max_live_parameters\": 594815") == two);
    assert_true(by_deepspeed(AHEAD "1e12,"
                                   " \"stage3_max_live_parameters\": 594816") ==
                three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_is_seen_in_traffic_and_time),
        cmocka_unit_test(the_group_is_that_of_the_run),
        cmocka_unit_test(gradients_that_stay_whole_are_told),
        cmocka_unit_test(deepspeed_says_how_many_blocks_are_gathered),
    };
    return cmocka_run_group_tests_name("groups of a plan", tests,
                                       enter_directory, leave_directory);
}
