/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_config.c - config.json: what is read, refused and written back */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

#define SIZES                                                                  \
    "\"vocab_size\": 97, \"n_positions\": 24, \"n_embd\": 32,"                 \
    "\"n_layer\": 2, \"n_head\": 4"
#define GPT2 "\"model_type\": \"gpt2\", " SIZES

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

static void test_read(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_parse(&c, hub_file, "c", &err), 0);
    assert_string_equal(c.model_type, "gpt2");
    assert_int_equal(c.vocab_size, 50257);
    assert_int_equal(c.n_positions, 1024);
    assert_int_equal(c.n_embd, 768);
    assert_int_equal(c.n_layer, 12);
    assert_int_equal(c.n_head, 12);
    assert_int_equal(c.n_inner, 4 * 768);
    assert_true(c.layer_norm_epsilon == 1e-5);
    assert_true(c.initializer_range == 0.02);
    assert_true(c.tie_word_embeddings);
    assert_true(c.has_dropout);
    assert_int_equal(dt_model_config_check(&c, &err), 0);
}

static void test_round_trip(void **state)
{
    static const char json[] =
        "{" GPT2 ", \"n_inner\": 80, \"layer_norm_epsilon\": 3e-06,"
        " \"initializer_range\": 0.1, \"tie_word_embeddings\": false}";
    struct dt_model_config before, after;
    struct dt_error err;
    (void)state;
    memset(&before, 0, sizeof(before));
    memset(&after, 0, sizeof(after));
    assert_int_equal(dt_model_config_parse(&before, json, "c", &err), 0);
    char *text = dt_model_config_format(&before, 96, &err);
    assert_non_null(text);
    assert_int_equal(dt_model_config_parse(&after, text, "c", &err), 0);
    assert_int_equal(after.n_inner, 80);
    assert_true(before.layer_norm_epsilon == after.layer_norm_epsilon);
    assert_true(before.initializer_range == after.initializer_range);
    assert_false(after.tie_word_embeddings);
    assert_non_null(strstr(text, "\"layer_norm_epsilon\": 3e-6"));
    assert_non_null(strstr(text, "\"architectures\": ["));
    assert_non_null(strstr(text, "\"eos_token_id\": 96"));
    free(text);
    text = dt_model_config_format(&before, -1, &err);
    assert_null(strstr(text, "eos_token_id"));
    free(text);
}

static void test_refused(void **state)
{
#define OPTIONAL(key) "{" GPT2 ", " key "}"
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "c: expected a JSON object"},
        {"{" SIZES "}", "c: model_type: missing, expected one of gpt2"},
        {"{\"model_type\": \"llama\", " SIZES "}",
         "c: model_type: expected one of gpt2, got \"llama\""},
        {OPTIONAL("\"architectures\": [\"GPT2ForSequenceClassification\"]"),
         "c: architectures: expected GPT2LMHeadModel, got "
         "\"GPT2ForSequenceClassification\""},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 8,"
         " \"n_embd\": \"x\", \"n_layer\": 0}",
         "c: n_embd: expected an integer from 1 to 65536, got \"x\"; "
         "n_layer: expected an integer from 1 to 1024, got 0; "
         "n_head: expected an integer from 1 to 65536, got nothing"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 8,"
         " \"n_embd\": 30, \"n_layer\": 1, \"n_head\": 4}",
         "c: n_embd: 30 is not a multiple of n_head 4"},
        {OPTIONAL("\"n_inner\": 1.5"),
         "c: n_inner: expected an integer from 1 to 1048576, got 1.5"},
        {OPTIONAL("\"layer_norm_epsilon\": 0"),
         "c: layer_norm_epsilon: expected a number from 1e-12 to 1, got 0"},
        {OPTIONAL("\"initializer_range\": [1, 2]"),
         "c: initializer_range: expected a number from 0 to 10, got [1,2]"},
        {OPTIONAL("\"tie_word_embeddings\": 1"),
         "c: tie_word_embeddings: expected true or false, got 1"},
        {OPTIONAL("\"activation_function\": \"relu\""),
         "c: activation_function: only gelu_new is supported, got \"relu\""},
        {OPTIONAL("\"scale_attn_weights\": false"),
         "c: scale_attn_weights: only true is supported, got false"},
        {OPTIONAL("\"reorder_and_upcast_attn\": true"),
         "c: reorder_and_upcast_attn: only false is supported, got true"},
        {OPTIONAL("\"attn_pdrop\": 2"),
         "c: attn_pdrop: expected a number in [0, 1), got 2"},
        {OPTIONAL("\"attn_pdrop\": \"0123456789012345678901234567890123456789"
                  "012345678901234567890123456789\""),
         "c: attn_pdrop: expected a number in [0, 1), got "
         "\"01234567890123456789012345678901234567890123456789012345..."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_model_config c = {.n_head = 7};
        struct dt_error err = {0};
        assert_int_equal(dt_model_config_parse(&c, cases[i].json, "c", &err),
                         -1);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(err.status, EX_DATAERR);
        assert_int_equal(c.n_head, 7);
    }
}

/* The words behind the position are jansson's. */
static void test_not_json(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_parse(&c, "{\n 1}", "c", &err), -1);
    assert_memory_equal(err.text, "c:2:2: not JSON: ", 17);
    assert_int_equal(err.status, EX_DATAERR);
    assert_int_equal(
        dt_model_config_parse(&c, "{\"n_head\": 1, \"n_head\": 2}", "c", &err),
        -1);
    assert_memory_equal(err.text, "c:1:22: not JSON: duplicate", 27);
}

/* More problems than a message holds: it is cut, and nothing else happens. */
static void test_many_problems(void **state)
{
    char json[4096] = "{";
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
                                       "model_type"};
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        sprintf(json + strlen(json), "%s\"%s\": {\"%060d\": 1}", i ? ", " : "",
                keys[i], 0);
    strcat(json, "}");
    assert_int_equal(dt_model_config_parse(&c, json, "c", &err), -1);
    assert_int_equal(strlen(err.text), DT_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(err.text, "c: model_type: expected one of gpt2", 35);
}

static void test_check(void **state)
{
    struct dt_model_config c = {"gpt2", 97,   24,   30,   0,    4,
                                120,    1e-5, 0.02, true, false};
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_check(&c, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text,
                        "n_layer: expected an integer from 1 to 1024, got 0; "
                        "n_embd: 30 is not a multiple of n_head 4");
    strcpy(c.model_type, "bert");
    c.n_layer = 1;
    c.n_embd = 32;
    assert_int_equal(dt_model_config_check(&c, &err), -1);
    assert_string_equal(err.text,
                        "model_type: expected one of gpt2, got \"bert\"");
}

static void test_layout(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_parse(&c, hub_file, "c", &err), 0);
    struct dt_layout *layout = dt_model_layout(&c, 8, &err);
    assert_non_null(layout);
    assert_int_equal(layout->param_total, 124439808);
    assert_int_equal(layout->unit_count, 14);
    assert_int_equal(layout->param_count, 2 + 12 * 12 + 2);
    int i = dt_layout_find(layout, "transformer.h.11.mlp.c_fc.weight");
    assert_true(i >= 0);
    assert_int_equal(layout->params[i].unit, 12);
    assert_int_equal(layout->params[i].shape[0], 768);
    assert_int_equal(layout->params[i].shape[1], 3072);
    assert_true(layout->params[i].decay);
    i = dt_layout_find(layout, "transformer.ln_f.weight");
    assert_false(layout->params[i].decay);
    assert_int_equal(dt_layout_find(layout, "lm_head.weight"), -1);
    dt_layout_destroy(layout);

    c.tie_word_embeddings = false;
    layout = dt_model_layout(&c, 1, &err);
    i = dt_layout_find(layout, "lm_head.weight");
    assert_int_equal(layout->params[i].unit, 13);
    dt_layout_destroy(layout);
}

static void test_activation_bytes(void **state)
{
    struct dt_model_config c;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_model_config_parse(&c, hub_file, "c", &err), 0);
    size_t train = dt_model_activation_bytes(&c, 4, 64, true);
    assert_in_range(train, 150e6, 220e6);
    assert_in_range(dt_model_activation_bytes(&c, 4, 64, false), 1, train / 2);
    assert_in_range(dt_model_activation_bytes(&c, 4, 512, true), 1, 1.4e9);
    assert_true(dt_model_activation_bytes(&c, (size_t)1 << 40, (size_t)1 << 40,
                                          true) == SIZE_MAX);
    assert_true(dt_model_activation_bytes(&c, (size_t)1 << 30, (size_t)1 << 30,
                                          true) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_many_problems),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_activation_bytes),
    };
    return cmocka_run_group_tests_name("model_config", tests, NULL, NULL);
}
