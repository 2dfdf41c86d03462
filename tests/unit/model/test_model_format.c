/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_format.c - config.json as it is written */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/model.h"

/* What is not one key. */
static void assert_same(const struct dt_model_config *a,
                        const struct dt_model_config *b)
{
    assert_ptr_equal(a->family, b->family);
    assert_int_equal(a->head_size, b->head_size);
    assert_int_equal(a->n_inner, b->n_inner);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->out_bias, b->out_bias);
    assert_true(a->norm_epsilon == b->norm_epsilon);
    assert_int_equal(a->rope_scaling, b->rope_scaling);
    assert_true(a->rope_factor == b->rope_factor);
    assert_true(a->rope_low == b->rope_low && a->rope_high == b->rope_high);
    assert_int_equal(a->rope_original, b->rope_original);
    assert_int_equal(a->window, b->window);
    assert_null(dt_model_config_differ(a, b));
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->pad, b->pad);
    assert_int_equal(a->eos_count, b->eos_count);
    assert_memory_equal(a->eos, b->eos, sizeof(a->eos));
}

/* A config of our own: all keys of the family are written. */
static void a_written_configuration_reads_back_the_same(void **state)
{
    static const char *const files[] = {
        "{" GPT2 ", \"n_inner\": 80, \"layer_norm_epsilon\": 3e-06,"
        " \"initializer_range\": 0.1, \"tie_word_embeddings\": false,"
        " \"eos_token_id\": 96, \"resid_pdrop\": 0}",
        HEADLESS("llama",
                 "\"num_key_value_heads\": 2, \"attention_bias\": true,"
                 " \"eos_token_id\": [3, 4], \"pad_token_id\": 5,"
                 " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8,"
                 " \"low_freq_factor\": 1, \"high_freq_factor\": 4,"
                 " \"original_max_position_embeddings\": 12}"),
        OTHER("mistral", "\"sliding_window\": 8, \"bos_token_id\": 1"),
        OTHER("mistral", "\"sliding_window\": null"),
        OTHER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                       " \"max_window_layers\": 3"),
        HEADLESS(
            "qwen3",
            "\"num_key_value_heads\": 4, \"head_dim\": 16, \"rope_scaling\":"
            " {\"type\": \"linear\", \"factor\": 2.5}"),
        OTHER("qwen3", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                       " \"layer_types\": [\"sliding_attention\","
                       " \"full_attention\", \"sliding_attention\","
                       " \"full_attention\"]"),
        OTHER("llama", "\"hidden_act\": \"gelu_pytorch_tanh\","
                       " \"rope_scaling\": {\"rope_type\": \"yarn\","
                       " \"factor\": 4, \"beta_fast\": 16, \"mscale\": 0.7,"
                       " \"mscale_all_dim\": 1.1, \"truncate\": false}"),
        OTHER("olmo2", "\"rope_scaling\": {\"rope_type\": \"dynamic\","
                       " \"factor\": 4}"),
        OTHER("phi3", "\"partial_rotary_factor\": 0.5,"
                      " \"original_max_position_embeddings\": 12,"
                      " \"sliding_window\": 7, \"rope_scaling\": {\"type\":"
                      " \"su\", \"short_factor\": [1, 1.5], \"long_factor\":"
                      " [2, 4]}"),
        OTHER("gemma2", "\"attn_logit_softcapping\": null"),
        OTHER("gemma3_text", "\"rope_local_base_freq\": 100,"
                             " \"sliding_window_pattern\": 3,"
                             " \"final_logit_softcapping\": 20"),
        OTHER("granite", "\"embedding_multiplier\": 12,"
                         " \"residual_multiplier\": 0.22,"
                         " \"attention_multiplier\": 0.125,"
                         " \"logits_scaling\": 8"),
        OTHER("smollm3", "\"no_rope_layers\": [0, 1, 1, 0]"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct dt_model_config before, after;
        parse(&before, files[i]);
        dt_model_config_fini(&before);
        char *text = dt_model_config_format(&before, DT_BF16, NULL);
        assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
        assert_non_null(strstr(text, "\"architectures\": ["));
        parse(&after, text);
        dt_model_config_fini(&after);
        char *again = dt_model_config_format(&after, DT_BF16, NULL);
        assert_string_equal(text, again);
        assert_same(&before, &after);
        free(again);
        free(text);
    }
}

static void unknown_keys_and_spellings_are_kept(void **state)
{
    static const struct {
        const char *keys, *found;
    } cases[] = {
        {"\"torch_dtype\": \"bfloat16\"", "\"torch_dtype\": \"float32\""},
        {"\"dtype\": \"bfloat16\"", "\"dtype\": \"float32\""},
        {"\"rope_parameters\": {\"rope_type\": \"default\"}",
         "\"dtype\": \"float32\""},
        {"\"use_cache\": true", "\"torch_dtype\": \"float32\""},
        {"\"x\": {\"y\": [0.1, 1e-06, 12345678901]}",
         "\"y\": [\n      0.1,\n      1e-6,\n      12345678901\n    ]"},
        {"\"architectures\": [\"LlamaModel\"]",
         "\"architectures\": [\n    \"LlamaForCausalLM\"\n  ]"},
        {"\"x\": 0.30000000000000004", "\"x\": 0.30000000000000004"},
        {"\"x\": \"\\u0000\", \"y\": 1000000000000000019884624838656",
         "\"x\": \"\\u0000\",\n  \"y\": 1e30"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[1024];
        struct dt_model_config c;
        snprintf(json, sizeof(json),
                 "{\"model_type\": \"llama\", " LLAMA_SIZES ", %s}",
                 cases[i].keys);
        parse(&c, json);
        char *text = dt_model_config_format(&c, DT_F32, NULL);
        if (!strstr(text, cases[i].found))
            fail_msg("expected %s in %s", cases[i].found, text);
        const char *dtype = strstr(text, "dtype\"");
        assert_null(strstr(dtype + 1, "dtype\""));
        assert_memory_equal(text, "{\n  \"model_type\": \"llama\",\n", 27);
        free(text);
        dt_model_config_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_configuration_reads_back_the_same),
        cmocka_unit_test(unknown_keys_and_spellings_are_kept),
    };
    return cmocka_run_group_tests_name("model_format", tests, NULL, NULL);
}
