/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - the operations of a model's passes */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forecast/cost.h"
#include "tests/parity/stored.h"
#include "tests/unit/model.h"

/* Of 16 tokens each sees 8.5 on average, or 3.625 through a window of 4. */
static void windowed_layers_cost_less(void **state)
{
    struct dt_model_config config;
    struct dt_error err;
    (void)state;
    parse(&config, OTHER("gemma2", "\"sliding_window\": 4"));
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    double cost[4];
    assert_non_null(layout);
    for (size_t u = 1; u <= 4; u++)
        cost[u - 1] = dt_cost_block(&config, layout, u, 3, 16);
    assert_true(cost[0] == cost[2] && cost[1] == cost[3]);
    assert_true(cost[1] - cost[2] == 3 * 16 * 4 * 32 * (8.5 - 3.625));
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

/* Seconds of a pass of each unit, if the parts of `freezes` are frozen, of a
 * model whose second block is another part.
 */
static void cost_parts(const bool freezes[DT_PARTS],
                       struct dt_unit_seconds seconds[6])
{
    static const struct dt_rates rates = {.of = {[DT_RATE_MEMORY] = 1,
                                                 [DT_RATE_BLOCKS_FP32] = 1,
                                                 [DT_RATE_HEAD_FP32] = 1}};
    struct dt_model_config config;
    struct dt_error err;
    bool trains[DT_PARTS];
    parse(&config, OTHER("llama", "\"tie_word_embeddings\": false"));
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    assert_non_null(layout);
    assert_int_equal(layout->unit_count, 6);
    layout->units[2].part = DT_PART_PROJECTOR;
    for (int part = 0; part < DT_PARTS; part++)
        trains[part] = !freezes[part];
    struct dt_layout *trained = dt_layout_of_parts(layout, trains, 1, &err);
    assert_non_null(trained);
    const struct dt_model_options options = {
        .B = 2, .T = 16, .lowest = dt_layout_next(trained, 0)};
    dt_cost_units(&config, layout, trained, &options, &rates, seconds);
    dt_layout_destroy(trained);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

static void frozen_units_cost_no_gradients(void **state)
{
    const bool none[DT_PARTS] = {false};
    bool frozen[DT_PARTS] = {[DT_PART_PROJECTOR] = true};
    struct dt_unit_seconds all[6], some[6];
    (void)state;
    cost_parts(none, all);
    cost_parts(frozen, some);
    for (size_t u = 0; u < 6; u++) {
        assert_true(some[u].forward == all[u].forward);
        if (u != 2)
            assert_true(some[u].backward == all[u].backward);
    }
    assert_true(some[2].backward < all[2].backward &&
                some[2].backward > all[2].forward);
    frozen[DT_PART_PROJECTOR] = false;
    frozen[DT_PART_LANGUAGE] = true;
    cost_parts(frozen, some);
    assert_true(some[0].backward == 0 && some[1].backward == 0);
    assert_true(some[2].backward == all[2].backward);
    assert_true(some[3].backward > 0 && some[3].backward < all[3].backward);
    assert_true(some[5].backward > 0 && some[5].backward < all[5].backward);
}

/* --- towers --- */

/* Costs with so many pictures of 16 patches, if the tower is trained or not. */
static void cost_pictures(const struct dt_model_config *config, size_t pictures,
                          bool frozen, struct dt_unit_seconds *seconds)
{
    static const struct dt_rates rates = {.of = {[DT_RATE_MEMORY] = 1,
                                                 [DT_RATE_BLOCKS_FP32] = 1,
                                                 [DT_RATE_HEAD_FP32] = 1}};
    const bool parts[DT_PARTS] = {true, true, !frozen};
    struct dt_error err;
    struct dt_layout *layout = dt_model_layout(config, 1, &err);
    assert_non_null(layout);
    struct dt_layout *trained = dt_layout_of_parts(layout, parts, 1, &err);
    assert_non_null(trained);
    const struct dt_model_options options = {.B = 2,
                                             .T = 16,
                                             .patches = 16 * pictures,
                                             .pictures = pictures,
                                             .lowest =
                                                 dt_layout_next(trained, 0)};
    dt_cost_units(config, layout, trained, &options, &rates, seconds);
    dt_layout_destroy(trained);
    dt_layout_destroy(layout);
}

/* A prompt's pictures cost their pass through the units from `first` on, in
 * seconds of a rate of 1, and a rollout sees each prompt's once.
 */
static void check_pass(const struct dt_model_config *config, double tower,
                       double last)
{
    static const struct dt_rates rates = {.of = {[DT_RATE_MEMORY] = 1e30,
                                                 [DT_RATE_BLOCKS_FP32] = 1,
                                                 [DT_RATE_HEAD_FP32] = 1}};
    struct dt_rollout_work work = {.prompts = 3,
                                   .copies = 4,
                                   .prompt = 8,
                                   .tokens = 2,
                                   .padded = 8,
                                   .slots = 12,
                                   .rows = 12,
                                   .compute = DT_F32};
    struct dt_error err;
    struct dt_layout *layout = dt_model_layout(config, 1, &err);
    const size_t text = dt_model_first_unit(config);
    assert_non_null(layout);
    assert_true(dt_cost_tower(config, layout, 0, 32, 2) == tower);
    assert_true(dt_cost_tower(config, layout, text - 1, 32, 2) == last);
    assert_true(dt_cost_tower(config, layout, text, 32, 2) == 0);
    const double blind = dt_rollout_cost(config, layout, &rates, &work).prefill;
    work.patches = 32;
    work.pictures = 2;
    assert_true(dt_rollout_cost(config, layout, &rates, &work).prefill ==
                blind + 3 * tower);
    dt_layout_destroy(layout);
}

/* The units in front of the text cost as much as there are pictures, and go
 * back unless nothing of them is trained.
 */
static void check_tower(const struct dt_model_config *config)
{
    enum { MOST = 32 };
    struct dt_unit_seconds one[MOST], two[MOST], frozen[MOST];
    const size_t text = dt_model_first_unit(config);
    const size_t projector = text - 1 - config->vision->deep_count;
    assert_true(text + config->n_layer + 2 <= MOST);
    cost_pictures(config, 1, false, one);
    cost_pictures(config, 2, false, two);
    cost_pictures(config, 2, true, frozen);
    double tower = 0;
    for (size_t u = 0; u < text; u++) {
        tower += two[u].forward;
        const bool block = u > 0 && u <= config->vision->tower.n_layer;
        assert_true(one[u].forward > 0 || (u > 0 && !block));
        assert_true(two[u].forward == 2 * one[u].forward);
        assert_true(two[u].backward == 2 * one[u].backward);
        assert_true(frozen[u].forward == two[u].forward);
        assert_true(frozen[u].backward ==
                    (u < projector ? 0 : two[u].backward));
    }
    for (size_t u = text; u < text + config->n_layer + 2; u++)
        assert_true(one[u].forward == two[u].forward &&
                    one[u].backward == frozen[u].backward);
    check_pass(config, tower, two[text - 1].forward);
}

static void towers_cost_as_much_as_there_are_patches(void **state)
{
    json_t *file = stored_load("vision.json"), *stored;
    const char *name;
    (void)state;
    json_object_foreach(json_object_get(file, "variants"), name, stored)
    {
        struct dt_model_config config;
        char *text = json_dumps(json_object_get(stored, "config"), 0);
        assert_non_null(text);
        parse(&config, text);
        check_tower(&config);
        dt_model_config_fini(&config);
        free(text);
    }
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_cost_as_much_as_there_are_patches),
        cmocka_unit_test(frozen_units_cost_no_gradients),
        cmocka_unit_test(windowed_layers_cost_less),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
