/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_config.c - config.json as it is read */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/model.h"
#include "tests/families.h"

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
    assert_string_equal(dt_model_type(&c), "gpt2");
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
    assert_string_equal(dt_model_type(&c), "llama");
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
    parse(&gpt2, "{" GPT2 ", \"architectures\": [\"GPT2Model\"]}");
    assert_false(gpt2.scores); /* a language model without its head */
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
/* PyTorch counts negative rows from the end, and old files have -1 for none.
 */
static void the_padding_row_is_the_one_of_transformers(void **state)
{
    static const struct {
        const char *json;
        int32_t pad, row;
    } cases[] = {
        {OTHER("llama", "\"pad_token_id\": 2"), 2, 2},
        {OTHER("llama", "\"pad_token_id\": 96"), 96, 96},
        {OTHER("llama", "\"pad_token_id\": 97"), -1, -1},
        {OTHER("llama", "\"pad_token_id\": null"), -1, -1},
        {OTHER("llama", "\"rms_norm_eps\": 1e-5"), -1, -1},
        {OTHER("llama", "\"pad_token_id\": -1"), -1, 96},
        {OTHER("llama", "\"pad_token_id\": -97"), -1, 0},
        {OTHER("llama", "\"pad_token_id\": -98"), -1, -1},
        {OTHER("mistral", "\"pad_token_id\": 3"), 3, 3},
        {OTHER("qwen2", "\"pad_token_id\": 3"), 3, 3},
        {OTHER("qwen3", "\"pad_token_id\": 3"), 3, 3},
        {OTHER("granite", "\"pad_token_id\": 3"), 3, 3},
        {OTHER("gemma2", "\"rms_norm_eps\": 1e-5"), 0, 0},
        {OTHER("gemma3_text", "\"pad_token_id\": null"), -1, -1},
        {OTHER("olmo2", "\"rms_norm_eps\": 1e-5"), 1, 1},
        {OTHER("olmo2", "\"pad_token_id\": 3"), 3, 3},
        {OTHER("smollm3", "\"rms_norm_eps\": 1e-5"), -1, -1},
        {"{" GPT2 ", \"pad_token_id\": 3}", 3, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_model_config c;
        parse(&c, cases[i].json);
        if (c.pad != cases[i].pad || c.padding_row != cases[i].row)
            fail_msg("%s: %d, row %d", cases[i].json, c.pad, c.padding_row);
        dt_model_config_fini(&c);
    }
}

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
        {"{\"model_type\": \"gemma2\", " SIXTY_FOUR, 4, 256},
        {"{\"model_type\": \"gemma3_text\", " SIXTY_FOUR, 4, 256},
        {"{\"model_type\": \"smollm3\", " SIXTY_FOUR, 4, 8},
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

static void sliding_windows_are_of_the_configured_layers(void **state)
{
#define FULL "\"full_attention\""
#define SLIDING "\"sliding_attention\""
    /* windows: of the four layers */
    static const struct {
        const char *json;
        size_t windows[4];
    } cases[] = {
        {OTHER("mistral", "\"sliding_window\": 8"), {8, 8, 8, 8}},
        {OTHER("mistral", "\"sliding_window\": null"), {0}},
        {OTHER("phi3", "\"use_cache\": true"), {0}},
        {OTHER("phi3", "\"sliding_window\": 5"), {5, 5, 5, 5}},
        {OTHER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                        " \"max_window_layers\": 3"),
         {0, 0, 0, 8}},
        {OTHER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8"),
         {0}},
        {OTHER("qwen3", "\"use_sliding_window\": true, \"sliding_window\": 8,"
                        " \"layer_types\": [" SLIDING ", " FULL ", " SLIDING
                        ", " FULL "]"),
         {8, 0, 8, 0}},
        {OTHER("qwen3",
               "\"use_sliding_window\": true, \"sliding_window\": 8,"
               " \"layer_types\": [" FULL ", " FULL ", " FULL ", " FULL "]"),
         {0}},
        {OTHER("gemma2", "\"use_cache\": true"), {4096, 0, 4096, 0}},
        {OTHER("gemma3_text", "\"sliding_window\": 7"), {7, 7, 7, 7}},
        {OTHER("gemma3_text", "\"sliding_window\": 7,"
                              " \"sliding_window_pattern\": 2"),
         {7, 0, 7, 0}},
        {OTHER("smollm3", "\"sliding_window\": 7"), {0}},
        {OTHER("smollm3", "\"sliding_window\": 7, \"use_sliding_window\": true,"
                          " \"no_rope_layers\": [1, 0, 1, 0, 0]"),
         {0, 7, 0, 7}},
        {OTHER("smollm3", "\"sliding_window\": 7, \"layer_types\":"
                          " [" FULL ", " FULL ", " SLIDING ", " FULL "]"),
         {0, 0, 7, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_model_config c;
        parse(&c, cases[i].json);
        for (size_t u = 1; u <= 4; u++)
            assert_int_equal(dt_model_window(&c, u), cases[i].windows[u - 1]);
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
    /* transformers 5 reads the old key first */
    parse(&c, OTHER("llama", "\"rope_scaling\": {\"type\": \"linear\","
                             " \"factor\": 3}, \"rope_parameters\":"
                             " {\"rope_type\": \"default\"}"));
    assert_true(c.rope_scaling == DT_ROPE_LINEAR && c.rope_factor == 3);
    dt_model_config_fini(&c);
    parse(&c, OTHER("qwen2", "\"rope_scaling\": null, \"rope_theta\": 1e6"));
    assert_int_equal(c.rope_scaling, DT_ROPE_DEFAULT);
    dt_model_config_fini(&c);
    parse(&c, OTHER("llama", "\"rope_scaling\": {\"rope_type\": \"llama3\","
                             " \"factor\": 8, \"low_freq_factor\": 1,"
                             " \"high_freq_factor\": 4}"));
    assert_int_equal(c.rope_original, 24);
    dt_model_config_fini(&c);
}

/* Beyond its original positions longrope changes the angles of all. */
static void longrope_leaves_less_room_to_decode(void **state)
{
    struct dt_model_config c;
    (void)state;
    parse(&c, OTHER("phi3", "\"original_max_position_embeddings\": 12,"
                            " \"rope_scaling\": {\"type\": \"su\","
                            " \"short_factor\": [1, 1, 1, 1],"
                            " \"long_factor\": [2, 2, 2, 2]}"));
    assert_int_equal(dt_model_room(&c), 12);
    assert_true(c.rope_factor == 2);
    assert_true(fabs(c.rope_attention - sqrt(1 + log(2) / log(12))) < 1e-12);
    dt_model_config_fini(&c);
    parse(&c, OTHER("phi3", "\"original_max_position_embeddings\": 12"));
    assert_int_equal(dt_model_room(&c), 24);
    dt_model_config_fini(&c);
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
    struct dt_model_config c = {.family = &dt_family_gpt2,
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
    c.family = &dt_family_qwen3;
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
    TELLS(family, &dt_family_mistral);
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
    ALIKE(full.bits[0], 3); /* without a window */
    TELLS(unrotated.bits[0], 3);
    TELLS(rotary_factor, 0.5);
    TELLS(gate, DT_GELU_TANH);
    a.window = 100;
    TELLS(full.bits[0], 3);
    a.rope_scaling = DT_ROPE_LONGROPE;
    TELLS(rope_attention, 2);
    TELLS(rope_long[3], 2);
    dt_model_config_fini(&a);
}

/* What follows from another key is not what the user has changed. */
static void a_change_has_the_key_that_was_changed(void **state)
{
    struct dt_model_config a = {.family = &dt_family_phi3,
                                .rope_scaling = DT_ROPE_LONGROPE,
                                .n_positions = 8192,
                                .rope_original = 4096,
                                .rope_factor = 2};
    struct dt_model_config b = a;
    struct dt_model_change change;
    (void)state;
    b.n_positions = 16384;
    b.rope_factor = 4;
    assert_true(dt_model_config_change(&a, &b, &change));
    assert_string_equal(change.key, "max_position_embeddings");
    assert_string_equal(change.was, "8192");
    assert_string_equal(change.is, "16384");
    b = a;
    b.rope_original = 2048;
    b.rope_factor = 4;
    assert_true(dt_model_config_change(&a, &b, &change));
    assert_string_equal(change.key,
                        "rope_scaling.original_max_position_embeddings");
    b = a;
    b.rope_factor = 4;
    assert_true(dt_model_config_change(&a, &b, &change));
    assert_string_equal(change.key, "rope_scaling.factor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_gpt2_configuration_is_read),
        cmocka_unit_test(a_published_llama_configuration_is_read),
        cmocka_unit_test(missing_keys_take_the_defaults_of_the_family),
        cmocka_unit_test(ids_beyond_the_vocabulary_count_as_none),
        cmocka_unit_test(the_padding_row_is_the_one_of_transformers),
        cmocka_unit_test(missing_head_keys_default_to_the_first_model),
        cmocka_unit_test(sliding_windows_are_of_the_configured_layers),
        cmocka_unit_test(all_spellings_of_rope_scaling_are_read),
        cmocka_unit_test(longrope_leaves_less_room_to_decode),
        cmocka_unit_test(malformed_json_is_refused_with_its_position),
        cmocka_unit_test(a_message_of_too_many_problems_is_cut),
        cmocka_unit_test(the_check_names_every_invalid_field),
        cmocka_unit_test(models_that_compute_differently_are_told_apart),
        cmocka_unit_test(a_change_has_the_key_that_was_changed),
    };
    return cmocka_run_group_tests_name("model_config", tests, NULL, NULL);
}
