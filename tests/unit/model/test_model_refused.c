/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_refused.c - what config.json may not say, and the words for it */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/family/family.h"
#include "tests/unit/model.h"

#define FULL "\"full_attention\""
#define SLIDING "\"sliding_attention\""
#define OPTIONAL(key) "{" GPT2 ", " key "}"
#define LLAMA(key) HEADLESS("llama", key)
static const struct {
    const char *json, *text;
} refused[] = {
    {"[]", "c: expected a JSON object"},
#define FAMILIES                                                               \
    "gemma2, gemma3_text, gpt2, granite, llama, mistral, olmo2, phi3, qwen2, " \
    "qwen3, smollm3, gemma3, idefics3, llava, qwen2_5_vl, qwen2_vl, "          \
    "qwen3_vl, "                                                               \
    "smolvlm"
    {"{" SIZES "}", "c: model_type: expected one of " FAMILIES ", got nothing"},
    {"{\"model_type\": \"qwen2_moe\", " SIZES "}",
     "c: model_type: expected one of " FAMILIES ", got \"qwen2_moe\""},
    {OPTIONAL("\"architectures\": [\"GPT2ForTokenClassification\"]"),
     "c: architectures: expected GPT2LMHeadModel, got "
     "\"GPT2ForTokenClassification\""},
    {OPTIONAL("\"architectures\": [\"GPT2ForSequenceClassification\"]"),
     "c: id2label: expected one label, whose number is the score, got "
     "nothing"},
    {OPTIONAL("\"architectures\": [\"GPT2ForSequenceClassification\"], "
              "\"id2label\": {\"0\": \"a\", \"1\": \"b\"}"),
     "c: id2label: expected one label, whose number is the score, got "
     "{\"0\":\"a\",\"1\":\"b\"}"},
    {LLAMA("\"architectures\": [\"GPT2Model\"]"),
     "c: architectures: expected LlamaForCausalLM, got \"GPT2Model\""},
    {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 8,"
     " \"n_embd\": \"x\", \"n_layer\": 0}",
     "c: n_embd: expected an integer from 1 to 65536, got \"x\"; "
     "n_layer: expected an integer from 1 to 1024, got 0; "
     "n_head: expected an integer from 1 to 65536, got nothing"},
    {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 8,"
     " \"n_embd\": 30, \"n_layer\": 1, \"n_head\": 4}",
     "c: n_embd: 30 is not a multiple of n_head 4"},
    {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 8,"
     " \"n_embd\": 20, \"n_layer\": 1, \"n_head\": 4}",
     "c: n_head: expected heads of an even size up to 1024, got 5"},
    {OPTIONAL("\"n_inner\": 1000000000000000019884624838656"),
     "c: n_inner: expected an integer from 1 to 1048576, got 1e30"},
    {OPTIONAL("\"eos_token_id\": 99999999999999999999"),
     "c: eos_token_id: expected a token id, got 1e20"},
    {OPTIONAL("\"n_inner\": 1.5"),
     "c: n_inner: expected an integer from 1 to 1048576, got 1.5"},
    {OPTIONAL("\"layer_norm_epsilon\": 0"),
     "c: layer_norm_epsilon: expected a number from 1e-12 to 1, got 0"},
    {OPTIONAL("\"initializer_range\": [1, 2]"),
     "c: initializer_range: expected a number from 0 to 10, got [1,2]"},
    {OPTIONAL("\"tie_word_embeddings\": 1"),
     "c: tie_word_embeddings: expected true or false, got 1"},
    {OPTIONAL("\"activation_function\": \"relu\""),
     "c: activation_function: expected silu, gelu, gelu_pytorch_tanh or "
     "quick_gelu, got \"relu\""},
    {OPTIONAL("\"scale_attn_weights\": false"),
     "c: scale_attn_weights: expected true, got false"},
    {OPTIONAL("\"reorder_and_upcast_attn\": true"),
     "c: reorder_and_upcast_attn: expected false, got true"},
    {OPTIONAL("\"attn_pdrop\": 2"),
     "c: attn_pdrop: expected a number from 0 to 0.99, got 2"},
    {OPTIONAL("\"attn_pdrop\": \"0123456789012345678901234567890123456789"
              "012345678901234567890123456789\""),
     "c: attn_pdrop: expected a number from 0 to 0.99, got "
     "\"01234567890123456789012345678901234567890123456789012345..."},
    {OPTIONAL("\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]"),
     "c: eos_token_id: expected at most 8 ids, got 9"},
    {OPTIONAL("\"eos_token_id\": [\"x\"], \"bos_token_id\": 0.5"),
     "c: bos_token_id: expected a token id, got 0.5; "
     "eos_token_id: expected a token id, got \"x\""},
    {LLAMA("\"hidden_act\": \"relu2\""),
     "c: hidden_act: expected silu, gelu, gelu_pytorch_tanh or quick_gelu, "
     "got \"relu2\""},
    {LLAMA("\"quantization_config\": {\"bits\": 4}"),
     "c: quantization_config: expected null, got {\"bits\":4}"},
    {LLAMA("\"num_key_value_heads\": 3"),
     "c: num_key_value_heads: 3 does not divide num_attention_heads 4"},
    {LLAMA("\"head_dim\": 7"), "c: head_dim: expected heads of "
                               "an even size up to 1024, got 7"},
    {LLAMA("\"rope_scaling\": {\"type\": \"su\", \"factor\": 2}"),
     "c: rope_scaling.type: expected one of default, linear, llama3, dynamic, "
     "yarn, longrope, got \"su\""},
    {LLAMA("\"rope_parameters\": {\"rope_type\": \"proportional\"}"),
     "c: rope_parameters.rope_type: expected one of default, linear, "
     "llama3, dynamic, yarn, longrope, got \"proportional\""},
    {HEADLESS("phi3", "\"rope_scaling\": {\"type\": \"linear\"}"),
     "c: rope_scaling.type: expected one of default, longrope, got "
     "\"linear\""},
    {LLAMA("\"rope_scaling\": {\"type\": \"yarn\"}"),
     "c: rope_scaling.factor: expected a number from 1 to 1000000, got "
     "nothing"},
    {HEADLESS("phi3", "\"rope_scaling\": {\"type\": \"su\","
                      " \"short_factor\": [1, 1, 1], \"long_factor\":"
                      " [1, 1, 1, \"x\"]}"),
     "c: rope_scaling.short_factor: expected a list of 4 numbers from 1e-06 "
     "to 1e+06, got [1,1,1]; rope_scaling.long_factor: expected a list of 4 "
     "numbers from 1e-06 to 1e+06, got [1,1,1,\"x\"]"},
    {LLAMA("\"partial_rotary_factor\": 0.5"),
     "c: partial_rotary_factor: expected 1, got 0.5"},
    {HEADLESS("phi3", "\"partial_rotary_factor\": 0.375"),
     "c: partial_rotary_factor: expected an even part of a head, at most 1, "
     "got 0.375"},
    {HEADLESS("gemma3_text", "\"rope_parameters\": {\"sliding_attention\":"
                             " {\"rope_type\": \"linear\"}}"),
     "c: rope_parameters.sliding_attention.rope_type: expected default, got "
     "\"linear\""},
    {HEADLESS("gemma3_text", "\"rope_scaling\": {\"rope_type\": \"default\"},"
                             " \"rope_parameters\": {\"full_attention\": {}}"),
     "c: rope_scaling: expected an object, in place of rope_parameters, got "
     "{\"rope_type\":\"default\"}"},
    {HEADLESS("gemma3_text", "\"rope_scaling\": {\"type\": \"linear\"}"),
     "c: rope_scaling.rope_type: expected a kind of scaling, got nothing"},
    {HEADLESS("gemma3_text", "\"rope_parameters\": {\"full_attention\":"
                             " {\"rope_type\": \"longrope\"}}"),
     "c: rope_parameters.full_attention.rope_type: expected one of default, "
     "linear, llama3, dynamic, yarn, got \"longrope\""},
    {HEADLESS("gemma3_text", "\"attn_logit_softcapping\": 50"),
     "c: attn_logit_softcapping: expected null, got 50"},
    {HEADLESS("gemma2", "\"final_logit_softcapping\": 0"),
     "c: final_logit_softcapping: expected a number > 0, or null, got 0"},
    {HEADLESS("gemma2", "\"use_bidirectional_attention\": true"),
     "c: use_bidirectional_attention: expected false, got true"},
    {HEADLESS("gemma2", "\"sliding_window\": null"),
     "c: sliding_window: expected an integer > 0, got null"},
    {HEADLESS("smollm3", "\"no_rope_layers\": [1, 1, 0]"),
     "c: no_rope_layers: expected a list with a number for each layer, got "
     "[1,1,0]"},
    {HEADLESS("smollm3", "\"no_rope_layers\": [1, 1, 2, 0]"),
     "c: no_rope_layers: expected 0 or 1, got 2"},
    {HEADLESS("granite", "\"architectures\":"
                         " [\"GraniteForSequenceClassification\"]"),
     "c: architectures: expected GraniteForCausalLM, got "
     "\"GraniteForSequenceClassification\""},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"linear\"}"),
     "c: rope_scaling.factor: expected a number from 1 to 1000000, got "
     "nothing"},
    {LLAMA("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8,"
           " \"low_freq_factor\": 4, \"high_freq_factor\": 4}"),
     "c: high_freq_factor: expected more than low_freq_factor 4, got 4"},
    {LLAMA("\"rope_parameters\": {\"rope_theta\": \"x\"}"),
     "c: rope_parameters.rope_theta: expected a number from 1 to "
     "1000000000000, got \"x\""},
    {LLAMA("\"rope_scaling\": 2"),
     "c: rope_scaling: expected an object, got 2"},
    {OTHER("mistral", "\"sliding_window\": 0"),
     "c: sliding_window: expected an integer > 0, got 0"},
    {OTHER("qwen2", "\"use_sliding_window\": 1"),
     "c: use_sliding_window: expected true or false, got 1"},
    {OTHER("qwen2", "\"max_window_layers\": -1"),
     "c: max_window_layers: expected an integer >= 0, got -1"},
    {OTHER("qwen3", "\"layer_types\": [\"full_attention\"]"),
     "c: layer_types: expected a list of 4, got 1"},
    {OTHER("qwen3",
           "\"layer_types\": [" SLIDING ", " FULL ", " FULL ", " FULL "]"),
     "c: layer_types: sliding_attention needs use_sliding_window and "
     "sliding_window"},
    {OTHER("qwen3", "\"layer_types\": [" FULL ", \"linear_attention\", "
                    "1, 2]"),
     "c: layer_types: expected full_attention or sliding_attention, got "
     "\"linear_attention\""},
};

static void unsupported_or_invalid_values_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct dt_model_config c;
        struct dt_error err = {0};
        assert_int_equal(dt_model_config_parse(&c, refused[i].json, "c", &err),
                         -1);
        assert_string_equal(err.text, refused[i].text);
        assert_int_equal(err.status, EX_DATAERR);
        assert_null(c.text);
    }
}

/* A new one that forgets them: no window must be made up. */
static void a_family_must_say_which_of_its_layers_have_windows(void **state)
{
    const struct dt_family forgets = {.type = "new"};
    struct dt_model_config c = {.family = &forgets, .n_layer = 4};
    struct dt_error err = {0};
    json_t *root = json_object();
    (void)state;
    for (size_t i = 0; dt_families[i]; i++)
        if (dt_families[i]->windows == DT_WINDOWS_UNKNOWN)
            fail_msg("%s", dt_families[i]->type);
    dt_config_parse_layers(&c, root, &err);
    json_decref(root);
    assert_string_equal(err.text,
                        "model_type: which layers of new have sliding windows "
                        "is not known: runtime/model/family/text/new.c needs "
                        ".windows");
    assert_int_equal(c.window, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported_or_invalid_values_are_refused),
        cmocka_unit_test(a_family_must_say_which_of_its_layers_have_windows),
    };
    return cmocka_run_group_tests_name("model_refused", tests, NULL, NULL);
}
