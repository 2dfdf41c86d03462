/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_data.c - keys of data and model: values, aliases, mistakes */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"

static void test_defaults(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    (void)state;
    assert_int_equal(conf->model.tokenizer, DT_CONF_TOKENIZER_AUTO);
    assert_null(conf->model.tokenizer_path);
    assert_null(conf->model.config_path);
    assert_string_equal(conf->data.text_column, "text");
    assert_string_equal(conf->data.prompt_column, "prompt");
    assert_string_equal(conf->data.completion_column, "completion");
    assert_string_equal(conf->data.messages_column, "messages");
    assert_int_equal(conf->data.chat_template, DT_CONF_CHAT_AUTO);
    assert_true(conf->data.parse_special);
    assert_int_equal(conf->data.loss_on, DT_CONF_LOSS_AUTO);
    assert_int_equal(conf->data.packing, DT_CONF_PACK_NONE);
    assert_int_equal(conf->data.truncation, 0);
    assert_int_equal(conf->data.pad_to_multiple_of, 1);
    assert_true(conf->data.bad_lines == 0);
    assert_null(conf->data.cache_dir);
    assert_int_equal(conf->data.num_workers, 2);
    assert_true(conf->data.train.weight[0] == 1.0);
    dt_conf_destroy(conf);
}

/* Every spelling of the guides is the same key. */
static void test_spellings(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
        long value;
    } rows[] = {
#define DATA(field) offsetof(struct dt_conf, data.field)
        {"packing: true\n", DATA(packing), DT_CONF_PACK_BFD},
        {"packing: false\n", DATA(packing), DT_CONF_PACK_NONE},
        {"data: {packing: wrapped}\n", DATA(packing), DT_CONF_PACK_WRAPPED},
        {"packing_strategy: bfd_split\n", DATA(packing),
         DT_CONF_PACK_BFD_SPLIT},
        {"training: {packing: BFD}\n", DATA(packing), DT_CONF_PACK_BFD},
        {"completion_only_loss: true\n", DATA(loss_on),
         DT_CONF_LOSS_COMPLETION},
        {"completion_only_loss: false\n", DATA(loss_on), DT_CONF_LOSS_AUTO},
        {"assistant_only_loss: true\n", DATA(loss_on), DT_CONF_LOSS_ASSISTANT},
        {"training: {train_on_inputs: true}\n", DATA(loss_on),
         DT_CONF_LOSS_FULL},
        {"train_on_inputs: false\n", DATA(loss_on), DT_CONF_LOSS_AUTO},
        {"truncation_mode: keep_end\n", DATA(truncation), 1},
        {"chat_template_path: qwen2.5\n", DATA(chat_template),
         DT_CONF_CHAT_QWEN25},
        {"data: {chat_template: llama3.1}\n", DATA(chat_template),
         DT_CONF_CHAT_LLAMA31},
        {"data: {format: messages}\n", DATA(format), DT_CONF_FORMAT_MESSAGES},
        {"data: {format: prompt_completion}\n", DATA(format),
         DT_CONF_FORMAT_PROMPT},
        {"data: {format: tokenised}\n", DATA(format), DT_CONF_FORMAT_TOKENISED},
        {"model: {tokenizer: byte}\n",
         offsetof(struct dt_conf, model.tokenizer), DT_CONF_TOKENIZER_BYTE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "algorithm: sft\ndata.train: train.jsonl\nmodel.n_embd: 96\n"
                 "training.per_device_batch_size: 2\n%s",
                 rows[i].text);
        struct dt_conf *conf = load_good(text, "");
        if (*(int *)((char *)conf + rows[i].offset) != rows[i].value)
            fail_msg("%s", rows[i].text);
        dt_conf_destroy(conf);
    }
}

static void test_numbers(void **state)
{
    static const char *const spellings[] = {
        "dataloader_num_workers: 7\npad_to_multiple_of: 64\n",
        "training: {dataloader: {num_workers: 7}}\n"
        "data: {pad_to_multiple_of: 64}\n",
        "num_workers: 7\ndata: {pad_to_multiple_of: 64}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "%s%s", LEAST, spellings[i]);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->data.num_workers, 7);
        assert_int_equal(conf->data.pad_to_multiple_of, 64);
        dt_conf_destroy(conf);
    }
}

static void test_columns(void **state)
{
    struct dt_conf *conf =
        load_good(LEAST "data: {columns: {text: body, messages: chat},\n"
                        "       prompt_column: question}\n",
                  "");
    (void)state;
    assert_string_equal(conf->data.text_column, "body");
    assert_string_equal(conf->data.messages_column, "chat");
    assert_string_equal(conf->data.prompt_column, "question");
    dt_conf_destroy(conf);
    conf = load_good(LEAST "dataset_text_field: content\n", "");
    assert_string_equal(conf->data.text_column, "content");
    dt_conf_destroy(conf);
}

static void test_weights(void **state)
{
    struct dt_conf *conf =
        load_good("algorithm: sft\nmodel: {n_embd: 96}\n"
                  "training: {per_device_batch_size: 2}\n"
                  "data:\n  train:\n"
                  "  - {path: train.txt, weight: 2.5}\n  - train.txt\n",
                  "");
    (void)state;
    assert_int_equal(conf->data.train.count, 2);
    assert_true(conf->data.train.weight[0] == 2.5);
    assert_true(conf->data.train.weight[1] == 1.0);
    dt_conf_destroy(conf);
}

static void test_no_effect(void **state)
{
    (void)state;
    dt_conf_destroy(load_good(
        LEAST "torch_dtype: bfloat16\n",
        "t.yaml:5:14: model.storage_dtype: no effect: not needed here: "
        "weights are read in any type, precision.compute is what is computed "
        "with\n"));
    dt_conf_destroy(
        load_good(LEAST "use_cache: false\n",
                  "t.yaml:5:12: model.use_cache: no effect: not needed here: "
                  "training keeps no keys and values\n"));
    dt_conf_destroy(load_good(
        LEAST "dataloader_drop_last: true\n",
        "t.yaml:5:23: data.drop_last: no effect: not needed here: an epoch "
        "goes on into the next one, and no example is left out\n"));
    dt_conf_destroy(
        load_good(LEAST "data: {format: tokens_bin, packing: bfd}\n",
                  "t.yaml:5:37: data.packing: no effect: data.train is one "
                  "stream\n"));
    dt_conf_destroy(load_good(
        LEAST "data: {bad_lines: 0.5, packing: bfd, truncation: keep_end}\n",
        "t.yaml:5:19: data.bad_lines: no effect: data.train is one stream\n"
        "t.yaml:5:33: data.packing: no effect: data.train is one stream\n"
        "t.yaml:5:50: data.truncation: no effect: data.train is one "
        "stream\n"));
}

static const struct broken mistakes[] = {
    {LEAST "packing: maybe\n",
     "t.yaml:5:10: data.packing: expected one of none, false, bfd, true, "
     "bfd_split, wrapped, got \"maybe\"\n"},
    {LEAST "chat_template_path: template.jinja\n",
     "t.yaml:5:21: data.chat_template: expected one of auto, none, chatml, "
     "qwen2.5, qwen3, llama2, llama3, llama3.1, mistral, got "
     "\"template.jinja\"\n"},
    {LEAST "data: {loss_on: assistant, format: text}\n",
     "t.yaml:5:17: data.loss_on: E112 assistant: data.format text has no "
     "conversations\n"},
    {LEAST "data: {format: messages}\ncompletion_only_loss: true\n",
     "t.yaml:6:23: data.loss_on: E112 completion: data.format messages has no "
     "completions\n"},
    {LEAST "completion_only_loss: true\nassistant_only_loss: true\n",
     "t.yaml:6:22: data.loss_on: assistant here (assistant_only_loss), but "
     "completion in line 5\n"},
    {LEAST "data: {num_workers: 1000, bad_lines: 2, pad_to_multiple_of: 0}\n",
     "t.yaml:5:21: data.num_workers: expected an integer from 0 to 256 "
     "(threads), got 1000\n"
     "t.yaml:5:38: data.bad_lines: expected a number in [0, 1], got 2\n"
     "t.yaml:5:61: data.pad_to_multiple_of: expected an integer from 1 to "
     "65536 (tokens), got 0\n"},
    {LEAST "model: {type: llama}\n",
     "t.yaml:5:15: model.type: llama: only gpt2 is described by these keys; "
     "write a config.json and name its directory in model.config_path\n"},
    {LEAST "model: {config_path: .}\n",
     "t.yaml:3:15: model.n_embd: not with model.config_path: its config.json "
     "describes the model\n"},
    {"algorithm: sft\nmodel: {path: ., config_path: .}\n"
     "data.train: train.txt\ntraining.per_device_batch_size: 2\n",
     "t.yaml:2:31: model.config_path: not with model.path\n"},
};

static void test_mistakes(void **state)
{
    (void)state;
    CHECK_ALL(mistakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_columns),
        cmocka_unit_test(test_weights),  cmocka_unit_test(test_no_effect),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
