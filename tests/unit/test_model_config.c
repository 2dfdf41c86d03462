/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_config.c - config.json: what is read and what is refused */
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

/* The file of the smallest published GPT-2, keys in its order. */
static const char hub_file[] =
    "{\"activation_function\": \"gelu_new\","
    " \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1,"
    " \"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": 50256,"
    " \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05,"
    " \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 768,"
    " \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024,"
    " \"resid_pdrop\": 0.1, \"summary_activation\": null,"
    " \"summary_type\": \"cls_index\","
    " \"task_specific_params\": {\"text-generation\": {\"max_length\": 50}},"
    " \"vocab_size\": 50257}";

/* A Llama 3.2 in the spelling of transformers 4. */
static const char llama_file[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false,"
    " \"attention_dropout\": 0.0, \"bos_token_id\": 128000,"
    " \"eos_token_id\": [128001, 128008, 128009], \"head_dim\": 64,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048,"
    " \"initializer_range\": 0.02, \"intermediate_size\": 8192,"
    " \"max_position_embeddings\": 131072, \"mlp_bias\": false,"
    " \"model_type\": \"llama\", \"num_attention_heads\": 32,"
    " \"num_hidden_layers\": 16, \"num_key_value_heads\": 8,"
    " \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05,"
    " \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0,"
    "  \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192,"
    "  \"rope_type\": \"llama3\"}, \"rope_theta\": 500000.0,"
    " \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\","
    " \"max_length\": 1000000000000000019884624838656,"
    " \"transformers_version\": \"4.45.0.dev0\", \"use_cache\": true,"
    " \"vocab_size\": 128256}";

static void a_published_gpt2_configuration_is_read(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    parse(&c, hub_file);
    assert_string_equal(dt_model_family_name(c.family), "gpt2");
    assert_int_equal(c.vocab_size, 50257);
    assert_int_equal(c.n_positions, 1024);
    assert_int_equal(c.n_embd, 768);
    assert_int_equal(c.n_layer, 12);
    assert_int_equal(c.n_head, 12);
    assert_int_equal(c.n_kv_head, 12);
    assert_int_equal(c.head_size, 64);
    assert_int_equal(c.n_inner, 4 * 768);
    assert_true(c.norm_epsilon == 1e-5);
    assert_true(c.initializer_range == 0.02);
    assert_true(c.tie_word_embeddings);
    assert_true(c.qkv_bias && c.out_bias && c.mlp_bias);
    assert_true(c.embd_dropout == 0.1 && c.attn_dropout == 0.1);
    assert_true(c.resid_dropout == 0.1);
    assert_int_equal(c.bos, 50256);
    assert_int_equal(c.pad, -1);
    assert_int_equal(c.eos_count, 1);
    assert_int_equal(c.eos[0], 50256);
    assert_int_equal(dt_model_config_check(&c, &err), 0);
    dt_model_config_fini(&c);
}

static void a_published_llama_configuration_is_read(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    parse(&c, llama_file);
    assert_string_equal(dt_model_family_name(c.family), "llama");
    assert_int_equal(c.n_positions, 131072);
    assert_int_equal(c.n_embd, 2048);
    assert_int_equal(c.n_layer, 16);
    assert_int_equal(c.n_head, 32);
    assert_int_equal(c.n_kv_head, 8);
    assert_int_equal(c.head_size, 64);
    assert_int_equal(c.n_inner, 8192);
    assert_true(c.norm_epsilon == 1e-5);
    assert_true(c.tie_word_embeddings);
    assert_false(c.qkv_bias || c.out_bias || c.mlp_bias);
    assert_true(c.rope_theta == 5e5);
    assert_int_equal(c.rope_scaling, DT_ROPE_LLAMA3);
    assert_true(c.rope_factor == 32 && c.rope_low == 1 && c.rope_high == 4);
    assert_int_equal(c.rope_original, 8192);
    assert_int_equal(c.window, 0);
    assert_int_equal(c.eos_count, 3);
    assert_int_equal(c.eos[2], 128009);
    assert_int_equal(dt_model_config_check(&c, &err), 0);
    dt_model_config_fini(&c);
}

static void missing_keys_take_the_defaults_of_the_family(void **state)
{
    static const struct {
        const char *json;
        bool qkv_bias, out_bias;
        size_t window;
    } cases[] = {
        {OTHER("llama", "\"sliding_window\": 3"), false, false, 0},
        {OTHER("llama", "\"attention_bias\": true"), true, true, 0},
        {OTHER("mistral", "\"use_cache\": true"), false, false, 4096},
        {OTHER("qwen2", "\"sliding_window\": 7"), true, false, 0},
        {HEADLESS("qwen3", "\"num_key_value_heads\": null, \"head_dim\": null"),
         false, false, 0},
        {OTHER("qwen3", "\"attention_bias\": true"), true, true, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_model_config c;
        parse(&c, cases[i].json);
        assert_int_equal(c.n_kv_head, 4);
        assert_int_equal(c.head_size, 8);
        assert_true(c.norm_epsilon == 1e-6);
        assert_true(c.rope_theta == 1e4);
        assert_int_equal(c.rope_scaling, DT_ROPE_DEFAULT);
        assert_false(c.tie_word_embeddings);
        assert_true(c.attn_dropout == 0);
        assert_int_equal(c.qkv_bias, cases[i].qkv_bias);
        assert_int_equal(c.out_bias, cases[i].out_bias);
        assert_int_equal(c.window, cases[i].window);
        assert_int_equal(c.eos_count, 0);
        dt_model_config_fini(&c);
    }
    struct dt_model_config gpt2;
    parse(&gpt2, "{" GPT2 "}");
    assert_true(gpt2.embd_dropout == 0.1 && gpt2.attn_dropout == 0.1);
    dt_model_config_fini(&gpt2);
}

static void ids_beyond_the_vocabulary_count_as_none(void **state)
{
    struct dt_model_config c;
    (void)state;
    parse(&c, "{" GPT2 ", \"bos_token_id\": 97, \"eos_token_id\": [97, 96]}");
    assert_true(c.bos == -1 && c.eos_count == 1 && c.eos[0] == 96);
    dt_model_config_fini(&c);
}

/* Heads that a file does not name at all are those of the family's first
 * model; transformers has them from there.
 */
static void missing_head_keys_default_to_the_first_model(void **state)
{
    static const struct {
        const char *json;
        size_t n_kv_head, head_size;
    } cases[] = {
#define SIXTY_FOUR                                                             \
    "\"vocab_size\": 9, \"max_position_embeddings\": 24, "                     \
    "\"hidden_size\": 512, \"num_hidden_layers\": 1, "                         \
    "\"num_attention_heads\": 64, \"intermediate_size\": 8}"
        {"{\"model_type\": \"llama\", " SIXTY_FOUR, 64, 8},
        {"{\"model_type\": \"mistral\", " SIXTY_FOUR, 8, 8},
        {"{\"model_type\": \"qwen2\", " SIXTY_FOUR, 32, 8},
        {"{\"model_type\": \"qwen3\", " SIXTY_FOUR, 32, 128},
        {"{\"model_type\": \"qwen3\", \"head_dim\": 4, " SIXTY_FOUR, 32, 4},
        {"{\"model_type\": \"qwen2\", \"num_key_value_heads\": "
         "null, " SIXTY_FOUR,
         64, 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_model_config c;
        parse(&c, cases[i].json);
        assert_int_equal(c.n_kv_head, cases[i].n_kv_head);
        assert_int_equal(c.head_size, cases[i].head_size);
        dt_model_config_fini(&c);
    }
}

static void a_sliding_window_starts_at_the_configured_layer(void **state)
{
#define FULL "\"full_attention\""
#define SLIDING "\"sliding_attention\""
    static const struct {
        const char *json;
        size_t window, from;
    } cases[] = {
        {OTHER("mistral", "\"sliding_window\": 8"), 8, 0},
        {OTHER("mistral", "\"sliding_window\": null"), 0, 0},
        {OTHER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                        " \"max_window_layers\": 3"),
         8, 3},
        {OTHER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8"),
         0, 28},
        {OTHER("qwen3", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                        " \"layer_types\": [" FULL ", " FULL ", " SLIDING
                        ", " SLIDING "]"),
         8, 2},
        {OTHER("qwen3",
               "\"use_sliding_window\": true, \"sliding_window\": 8,"
               " \"layer_types\": [" FULL ", " FULL ", " FULL ", " FULL "]"),
         0, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_model_config c;
        parse(&c, cases[i].json);
        assert_int_equal(c.window, cases[i].window);
        assert_int_equal(c.window_from, cases[i].from);
        dt_model_config_fini(&c);
    }
}

static void all_spellings_of_rope_scaling_are_read(void **state)
{
    static const char *const files[] = {
        OTHER("llama", "\"rope_theta\": 1e6, \"rope_scaling\":"
                       " {\"type\": \"linear\", \"factor\": 2.5}"),
        OTHER("llama", "\"rope_theta\": 1e6, \"rope_scaling\":"
                       " {\"rope_type\": \"linear\", \"factor\": 2.5}"),
        OTHER("llama", "\"rope_parameters\": {\"rope_type\": \"linear\","
                       " \"factor\": 2.5, \"rope_theta\": 1e6}"),
    };
    struct dt_model_config c;
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        parse(&c, files[i]);
        assert_int_equal(c.rope_scaling, DT_ROPE_LINEAR);
        assert_true(c.rope_factor == 2.5);
        assert_true(c.rope_theta == 1e6);
        dt_model_config_fini(&c);
    }
    parse(&c, OTHER("qwen2", "\"rope_scaling\": null, \"rope_theta\": 1e6"));
    assert_int_equal(c.rope_scaling, DT_ROPE_DEFAULT);
    dt_model_config_fini(&c);
    parse(&c, OTHER("llama", "\"rope_scaling\": {\"rope_type\": \"llama3\","
                             " \"factor\": 8, \"low_freq_factor\": 1,"
                             " \"high_freq_factor\": 4}"));
    assert_int_equal(c.rope_original, 24);
    dt_model_config_fini(&c);
}

#define OPTIONAL(key) "{" GPT2 ", " key "}"
#define LLAMA(key) HEADLESS("llama", key)
static const struct {
    const char *json, *text;
} refused[] = {
    {"[]", "c: expected a JSON object"},
    {"{" SIZES "}", "c: model_type: expected one of gpt2, llama, mistral, "
                    "qwen2, qwen3, got nothing"},
    {"{\"model_type\": \"qwen2_moe\", " SIZES "}",
     "c: model_type: expected one of gpt2, llama, mistral, qwen2, qwen3, "
     "got \"qwen2_moe\""},
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
     "c: activation_function: expected gelu_new, got \"relu\""},
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
    {LLAMA("\"hidden_act\": \"gelu\""),
     "c: hidden_act: expected silu, got \"gelu\""},
    {LLAMA("\"quantization_config\": {\"bits\": 4}"),
     "c: quantization_config: expected null, got {\"bits\":4}"},
    {LLAMA("\"num_key_value_heads\": 3"),
     "c: num_key_value_heads: 3 does not divide num_attention_heads 4"},
    {LLAMA("\"head_dim\": 7"), "c: head_dim: expected heads of "
                               "an even size up to 1024, got 7"},
    {LLAMA("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}"),
     "c: rope_scaling.type: expected one of default, linear, llama3, got "
     "\"dynamic\""},
    {LLAMA("\"rope_parameters\": {\"rope_type\": \"yarn\"}"),
     "c: rope_parameters.rope_type: expected one of default, linear, "
     "llama3, got \"yarn\""},
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
     "c: layer_types: expected full_attention, then sliding_attention, got "
     "\"full_attention\""},
    {OTHER("qwen3", "\"layer_types\": [" FULL ", \"linear_attention\", "
                    "1, 2]"),
     "c: layer_types: expected full_attention, then sliding_attention, got "
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

/* The words behind the position are jansson's. */
static void malformed_json_is_refused_with_its_position(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_parse(&c, "{\n 1}", "c", &err), -1);
    assert_memory_equal(err.text, "c:2:2: ", 7);
    assert_int_equal(err.status, EX_DATAERR);
    assert_int_equal(
        dt_model_config_parse(&c, "{\"n_head\": 1, \"n_head\": 2}", "c", &err),
        -1);
    assert_memory_equal(err.text, "c:1:22: duplicate", 17);
}

/* More problems than a message holds: it is cut, and nothing else happens. */
static void a_message_of_too_many_problems_is_cut(void **state)
{
    char json[4096] = "{\"model_type\": \"gpt2\"";
    static const char *const keys[] = {"vocab_size",
                                       "n_positions",
                                       "n_embd",
                                       "n_layer",
                                       "n_head",
                                       "n_inner",
                                       "layer_norm_epsilon",
                                       "initializer_range",
                                       "tie_word_embeddings",
                                       "scale_attn_weights",
                                       "activation_function",
                                       "embd_pdrop",
                                       "attn_pdrop",
                                       "resid_pdrop",
                                       "eos_token_id"};
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        sprintf(json + strlen(json), ", \"%s\": {\"%060d\": 1}", keys[i], 0);
    strcat(json, "}");
    assert_int_equal(dt_model_config_parse(&c, json, "c", &err), -1);
    assert_int_equal(strlen(err.text), DT_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(err.text, "c: vocab_size: expected an integer", 34);
}

static void the_check_names_every_invalid_field(void **state)
{
    struct dt_model_config c = {.family = DT_GPT2,
                                .vocab_size = 97,
                                .n_positions = 24,
                                .n_embd = 30,
                                .n_head = 4,
                                .n_kv_head = 4,
                                .head_size = 7,
                                .n_inner = 120,
                                .norm_epsilon = 1e-5,
                                .initializer_range = 0.02};
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_check(&c, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text,
                        "n_layer: expected an integer from 1 to 1024, got 0; "
                        "n_embd: 30 is not a multiple of n_head 4");
    c.family = DT_QWEN3;
    c.n_layer = 1;
    assert_int_equal(dt_model_config_check(&c, &err), -1);
    assert_string_equal(err.text, "rope_theta: expected a number from 1 to "
                                  "1000000000000, got 0; head_dim: expected "
                                  "heads of an even size up to 1024, got 7");
}

/* Compares with a copy that has another value of a member. */
#define CHECK(member, value, other)                                            \
    do {                                                                       \
        b = a;                                                                 \
        b.member = (value);                                                    \
        if (!dt_model_config_differ(&a, &b) != !(other))                       \
            fail_msg("%s: told apart or not", #member);                        \
        if ((dt_model_config_hash(&a) != dt_model_config_hash(&b)) != (other)) \
            fail_msg("%s: the hash", #member);                                 \
    } while (0)
#define TELLS(member, value) CHECK(member, value, true)
#define ALIKE(member, value) CHECK(member, value, false)

static void models_that_compute_differently_are_told_apart(void **state)
{
    struct dt_model_config a, b;
    (void)state;
    parse(&a, llama_file);
    TELLS(family, DT_MISTRAL);
    TELLS(scores, true);
    TELLS(n_layer, 8);
    TELLS(n_kv_head, 4);
    TELLS(head_size, 128);
    TELLS(norm_epsilon, 1e-6);
    TELLS(rope_theta, 1e4);
    TELLS(rope_scaling, DT_ROPE_LINEAR);
    TELLS(rope_factor, 8.0);
    TELLS(rope_low, 2.0);
    TELLS(rope_high, 8.0);
    TELLS(rope_original, 4096);
    TELLS(qkv_bias, true);
    TELLS(tie_word_embeddings, false);
    TELLS(window, 100);
    ALIKE(n_positions, 2048);
    ALIKE(initializer_range, 0.5);
    ALIKE(attn_dropout, 0.1);
    ALIKE(window_from, 3); /* without a window */
    a.window = 100;
    TELLS(window_from, 3);
    dt_model_config_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_gpt2_configuration_is_read),
        cmocka_unit_test(a_published_llama_configuration_is_read),
        cmocka_unit_test(missing_keys_take_the_defaults_of_the_family),
        cmocka_unit_test(ids_beyond_the_vocabulary_count_as_none),
        cmocka_unit_test(missing_head_keys_default_to_the_first_model),
        cmocka_unit_test(a_sliding_window_starts_at_the_configured_layer),
        cmocka_unit_test(all_spellings_of_rope_scaling_are_read),
        cmocka_unit_test(unsupported_or_invalid_values_are_refused),
        cmocka_unit_test(malformed_json_is_refused_with_its_position),
        cmocka_unit_test(a_message_of_too_many_problems_is_cut),
        cmocka_unit_test(the_check_names_every_invalid_field),
        cmocka_unit_test(models_that_compute_differently_are_told_apart),
    };
    return cmocka_run_group_tests_name("model_config", tests, NULL, NULL);
}
