/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_layout.c - parameters, angles, memory */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model_impl.h"
#include "tests/unit/model.h"
#include "tests/families.h"

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12,"
    " \"n_layer\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}";

static const char qwen3[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 97,"
    " \"max_position_embeddings\": 24, \"hidden_size\": 32,"
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
    " \"intermediate_size\": 48, \"head_dim\": 16,"
    " \"num_key_value_heads\": 2, \"attention_bias\": true,"
    " \"initializer_range\": 0.05}";

static size_t find(const struct dt_layout *layout, const char *name)
{
    int i = dt_layout_find(layout, name);
    if (i < 0)
        fail_msg("no %s", name);
    return (size_t)i;
}

static void gpt2_has_its_published_parameters(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    parse(&c, gpt2);
    struct dt_layout *layout = dt_model_layout(&c, 8, &err);
    assert_non_null(layout);
    assert_int_equal(layout->param_total, 124439808);
    assert_int_equal(layout->unit_count, 14);
    assert_int_equal(layout->param_count, 2 + 12 * 12 + 2);
    size_t i = find(layout, "transformer.h.11.mlp.c_fc.weight");
    assert_int_equal(layout->params[i].unit, 12);
    assert_int_equal(layout->params[i].shape[0], 768);
    assert_int_equal(layout->params[i].shape[1], 3072);
    assert_true(layout->params[i].decay);
    i = find(layout, "transformer.ln_f.weight");
    assert_false(layout->params[i].decay);
    assert_int_equal(dt_layout_find(layout, "lm_head.weight"), -1);
    dt_layout_destroy(layout);

    c.tie_word_embeddings = false;
    layout = dt_model_layout(&c, 1, &err);
    i = find(layout, "lm_head.weight");
    assert_int_equal(layout->params[i].unit, 13);
    assert_int_equal(find(layout, "transformer.wte.weight"), 0);
    dt_layout_destroy(layout);
    dt_model_config_fini(&c);
}

static void qwen3_joins_projections_of_the_same_input(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    parse(&c, qwen3);
    struct dt_layout *layout = dt_model_layout(&c, 1, &err);
    assert_int_equal(layout->unit_count, 6);
    assert_int_equal(layout->param_count, 1 + 4 * 15 + 2);
    size_t q = find(layout, "model.layers.3.self_attn.q_proj.weight");
    assert_int_equal(layout->params[q].shape[0], 4 * 16);
    assert_int_equal(layout->params[q].shape[1], 32);
    assert_false(layout->params[q].joined);
    assert_int_equal(find(layout, "model.layers.3.self_attn.k_proj.weight"),
                     q + 1);
    assert_int_equal(layout->params[q + 1].shape[0], 2 * 16);
    assert_true(layout->params[q + 1].joined && layout->params[q + 2].joined);
    assert_true(layout->params[q].decay);
    size_t bias = find(layout, "model.layers.3.self_attn.v_proj.bias");
    assert_true(layout->params[bias].joined);
    assert_false(layout->params[bias].decay);
    size_t norm = find(layout, "model.layers.3.self_attn.k_norm.weight");
    assert_int_equal(layout->params[norm].shape[0], 16);
    assert_false(layout->params[norm].decay || layout->params[norm].joined);
    size_t up = find(layout, "model.layers.3.mlp.up_proj.weight");
    assert_true(layout->params[up].joined);
    assert_string_equal(layout->params[up - 1].name,
                        "model.layers.3.mlp.gate_proj.weight");
    assert_int_equal(layout->params[find(layout, "lm_head.weight")].unit, 5);
    dt_layout_destroy(layout);
    dt_model_config_fini(&c);
}

static void half_precision_and_checkpointing_need_less_memory(void **state)
{
    struct dt_model_options o = {.B = 4, .T = 64, .train = true};
    struct dt_model_config c;
    (void)state;
    parse(&c, gpt2);
    size_t train = dt_model_activation_bytes(&c, dt_ops_cpu(), &o);
    assert_in_range(train, 100e6, 170e6);
    o.compute = DT_BF16;
    size_t half = dt_model_activation_bytes(&c, dt_ops_cpu(), &o);
    assert_in_range(half, train / 2, train * 3 / 4);
    o.compute = DT_F32;
    o.train = false;
    assert_in_range(dt_model_activation_bytes(&c, dt_ops_cpu(), &o), 1,
                    train * 2 / 3);
    o = (struct dt_model_options){.B = 4, .T = 512, .train = true};
    assert_in_range(dt_model_activation_bytes(&c, dt_ops_cpu(), &o), 1, 95e7);
    o.recompute = true;
    assert_in_range(dt_model_activation_bytes(&c, dt_ops_cpu(), &o), 1, 3e8);
    o.B = o.T = (size_t)1 << 40;
    assert_true(dt_model_activation_bytes(&c, dt_ops_cpu(), &o) == SIZE_MAX);
    o.B = o.T = (size_t)1 << 30;
    assert_true(dt_model_activation_bytes(&c, dt_ops_cpu(), &o) == SIZE_MAX);
    dt_model_config_fini(&c);
}

/* Llama 3.2's frequencies: unchanged, between, and divided by 32. */
static void rope_frequencies_are_scaled_as_configured(void **state)
{
    static const struct {
        size_t j;
        double want;
    } cases[] = {
        {0, 1},
        {14, .003211445994752591},
        {15, .001290547928209264},
        {16, .000429556796559},
        {17, 9.70828780262767e-05},
        {18, 1.9461638184831e-05},
        {31, 9.41830672543e-08},
    };
    struct dt_model_config c = {
        .family = &dt_family_llama,
        .head_size = 64,
        .rope_theta = 5e5,
        .rope_scaling = DT_ROPE_LLAMA3,
        .rope_factor = 32,
        .rope_low = 1,
        .rope_high = 4,
        .rope_original = 8192,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double got = dt_rope_frequency(&c, 0, cases[i].j);
        assert_true(fabs(got - cases[i].want) < 1e-11 * cases[i].want);
    }
    c.rope_scaling = DT_ROPE_LINEAR;
    assert_true(dt_rope_frequency(&c, 0, 0) == 1.0 / 32);
    c.rope_scaling = DT_ROPE_DEFAULT;
    float table[3 * 64];
    dt_rope_table(&c, 0, table, 3);
    assert_true(table[0] == 1 && table[32] == 0);
    assert_true(fabsf(table[2 * 64] - cosf(2)) < 1e-6f);
    assert_true(fabsf(table[2 * 64 + 32] - sinf(2)) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_has_its_published_parameters),
        cmocka_unit_test(qwen3_joins_projections_of_the_same_input),
        cmocka_unit_test(half_precision_and_checkpointing_need_less_memory),
        cmocka_unit_test(rope_frequencies_are_scaled_as_configured),
    };
    return cmocka_run_group_tests_name("model_layout", tests, NULL, NULL);
}
