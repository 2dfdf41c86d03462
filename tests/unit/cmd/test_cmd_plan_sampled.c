/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_plan_sampled.c - what `disttrain plan` says of sampled completions
 * and of pairs
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/cmd/plan_run.h"

#define SHAPE                                                                  \
    "model: {n_positions: 128, n_embd: 128, n_layer: 4, n_head: 4}\n"          \
    "training.per_device_batch_size: 8\n"

/* Two mini-batches of 16 completions, twice. */
static void a_generation_is_a_part_of_its_steps(void **state)
{
    static const char *const parts[] = {"gather", "prefill", "decode",
                                        "scoring", "before"};
    double sum = 0;
    (void)state;
    write_file("t.yaml", "algorithm: ppo\n"
                         "data: {train: train.jsonl, max_prompt_length: 64}\n"
                         "rollout.max_completion_length: 64\n"
                         "ppo: {epochs: 2, num_mini_batches: 2}\n"
                         "reward.functions: [{type: json_valid}]\n" SHAPE);
    json_t *all = plan_json("--json --nodes 2 t.yaml");
    const json_t *batch = json_object_get(all, "batch");
    assert_true(number(batch, "rows") == 4 && number(batch, "tokens") == 128);
    const json_t *ddp = json_array_get(json_object_get(all, "candidates"), 0);
    const json_t *zero3 = json_array_get(json_object_get(all, "candidates"), 3);
    assert_sums_up(ddp);
    const json_t *generation = json_object_get(ddp, "generation");
    assert_true(number(generation, "completions") == 16);
    assert_true(number(generation, "optimizer_steps") == 4);
    const json_t *seconds = json_object_get(generation, "seconds");
    for (size_t i = 0; i < 5; i++)
        sum += number(seconds, parts[i]);
    assert_true(number(seconds, "decode") > 0);
    assert_true(number(json_object_get(ddp, "seconds"), "step") > sum / 4);
    assert_true(number(seconds, "gather") == 0);
    generation = json_object_get(zero3, "generation");
    assert_true(number(json_object_get(generation, "seconds"), "gather") > 0);
    json_decref(all);
    assert_int_equal(plan("--nodes 2 t.yaml"), 0);
    assert_non_null(
        strstr(out, "\na generation: 16 completions for 4 optimizer steps, "));
    assert_non_null(strstr(out, "\nkeys and values of 8 slots of a rank: "));
}

/* Each side of a pair is a row. */
static void a_pair_is_two_rows(void **state)
{
    (void)state;
    write_file("t.yaml", "algorithm: dpo\n"
                         "data: {train: train.jsonl, max_length: 64}\n" SHAPE
                         "launch.mem: 500M\n");
    json_t *all = plan_json("--json t.yaml");
    const json_t *batch = json_object_get(all, "batch");
    assert_true(number(batch, "rows") == 16 && number(batch, "tokens") == 64);
    const json_t *one = json_array_get(json_object_get(all, "candidates"), 0);
    assert_sums_up(one);
    assert_true(json_is_null(json_object_get(one, "generation")));
    assert_true(number(json_object_get(one, "bytes"), "reference") > 0);
    json_decref(all);
    assert_int_equal(plan("t.yaml"), 0);
    assert_non_null(strstr(out, " pairs\n"));
}

#define DPO                                                                    \
    "algorithm: dpo\n"                                                         \
    "data: {train: train.jsonl, max_length: 64}\n" SHAPE

static double step_of(const char *text)
{
    write_file("t.yaml", text);
    json_t *all = plan_json("--json t.yaml");
    const json_t *one = json_array_get(json_object_get(all, "candidates"), 0);
    double step = number(json_object_get(one, "seconds"), "step");
    json_decref(all);
    return step;
}

/* One that computes before the first step does not either, if another model
 * has to be loaded for it.
 */
static void a_reference_in_every_step_takes_time(void **state)
{
    double live = step_of(DPO);
    double before = step_of(DPO "dpo.reference.mode: precompute\n");
    double other = step_of(DPO "dpo.reference.mode: precompute\n"
                               "model.reference_path: .\n");
    (void)state;
    assert_true(live > 1.2 * before && live < 1.34 * before);
    assert_true(other == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_is_a_part_of_its_steps),
        cmocka_unit_test(a_pair_is_two_rows),
        cmocka_unit_test(a_reference_in_every_step_takes_time),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
