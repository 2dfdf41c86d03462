/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_check_model.c - what `disttrain check` finds in the models, and the
 * tokenizers, that a file names
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

static int check(const char *args)
{
    return run_words(dt_cmd_check, args);
}

#define MODEL_OF(vocab_size)                                                   \
    "{\"model_type\": \"gpt2\", \"vocab_size\": " vocab_size                   \
    ", \"n_positions\": 64, \"n_embd\": 32, \"n_layer\": 1, \"n_head\": 2}"

static void the_model_that_a_file_names_is_checked(void **state)
{
    static const char text[] = "algorithm: sft\n"
                               "model: {path: .}\n"
                               "data: {train: train.txt, max_length: 64}\n"
                               "training: {per_device_batch_size: 1}\n";
    static const char random[] = "algorithm: sft\n"
                                 "model: {path: ., init: random}\n"
                                 "data: {train: train.txt, max_length: 64}\n"
                                 "training: {per_device_batch_size: 1}\n";
    char wanted[512];
    (void)state;
    write_file("t.yaml", text);
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    snprintf(wanted, sizeof(wanted),
             "t.yaml:2:15: model.path: %s/config.json: cannot open: No such "
             "file or directory\n",
             test_directory);
    assert_string_equal(errors, wanted);
    write_file("config.json",
               "{\"model_type\": \"gpt2\", \"vocab_size\": 257, "
               "\"n_positions\": 32, \"n_embd\": 32, \"n_layer\": 1, "
               "\"n_head\": 2}");
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    assert_string_equal(errors,
                        "t.yaml:3:38: data.max_length: E119 64 tokens do not "
                        "fit into the 32 positions of the model\n");
    write_file("config.json", MODEL_OF("257"));
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    snprintf(wanted, sizeof(wanted),
             "t.yaml:2:15: model.path: %s: no weights here: expected "
             "model.safetensors, or model.safetensors.index.json and its "
             "shards\n",
             test_directory);
    assert_string_equal(errors, wanted);
    write_file("t.yaml", random);
    assert_int_equal(check("t.yaml"), EX_OK);
    write_file("config.json", MODEL_OF("300"));
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    snprintf(wanted, sizeof(wanted),
             "t.yaml:2:15: model.path: %s has no tokenizer.json or "
             "tokenizer.model: let transformers write one, AutoTokenizer."
             "from_pretrained(DIR).save_pretrained(DIR), or name a tokenizer's "
             "directory, or byte, as model.tokenizer; lines of token ids need "
             "data.format: tokenized\n",
             test_directory);
    assert_string_equal(errors, wanted);
    unlink("config.json");
}

static void a_path_is_printed_where_it_leads(void **state)
{
    char wanted[1024];
    (void)state;
    mkdir("sub", 0777);
    write_file("model.bin", "GGUF");
    write_file("sub/t.yaml", "algorithm: sft\n"
                             "model: {path: ../model.bin}\n"
                             "data: {train: ./../none.txt, max_length: 64}\n"
                             "training: {per_device_batch_size: 1}\n");
    assert_int_equal(check("sub/t.yaml"), EX_CONFIG);
    snprintf(wanted, sizeof(wanted),
             "sub/t.yaml:2:15: model.path: %s/model.bin: a model of llama.cpp: "
             "take the Hugging Face directory that it was made from\n"
             "sub/t.yaml:3:15: data.train: %s/none.txt: No such file or "
             "directory\n",
             test_directory, test_directory);
    assert_string_equal(errors, wanted);
    unlink("sub/t.yaml");
    rmdir("sub");
    unlink("model.bin");
}

#define RUN_OF(model, data)                                                    \
    "algorithm: sft\nmodel: {" model "}\ndata: {train: t.jsonl, "              \
    "max_length: 64" data "}\ntraining: {per_device_batch_size: 1}\n"

#define OF_BYTES "path: ., tokenizer: byte, init: random"

static void token_ids_need_no_matching_tokenizer(void **state)
{
    static const char size[] =
        "n_embd: 32, n_layer: 1, n_head: 2, n_positions: 64, vocab_size: 200, "
        "init: random";
    char text[512];
    (void)state;
    write_file("config.json", MODEL_OF("200"));
    write_file("t.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
    write_file("t.yaml", RUN_OF(OF_BYTES, ""));
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "2:29: model.tokenizer: E120 the tokenizer "
                                   "byte has 257 tokens, but the model's "));
    write_file("t.yaml", RUN_OF(OF_BYTES ", resize_embeddings: true", ""));
    assert_int_equal(check("t.yaml"), EX_OK);
    write_file("t.yaml", RUN_OF(OF_BYTES, ", format: tokenized"));
    assert_int_equal(check("t.yaml"), EX_OK);
    snprintf(text, sizeof(text), RUN_OF("%s", ", format: tokenized"), size);
    write_file("t.yaml", text);
    assert_int_equal(check("t.yaml"), EX_OK);
    unlink("config.json");
    unlink("t.jsonl");
}

/* What a run of ppo would refuse after it has waited for its nodes. */
static void the_critic_of_a_policy_is_checked(void **state)
{
    (void)state;
    write_file("config.json", MODEL_OF("257"));
    write_file("p.jsonl", "{\"prompt\": \"1\"}\n");
    write_file("t.yaml", "algorithm: ppo\n"
                         "model: {" OF_BYTES ", value_path: value}\n"
                         "data: {train: p.jsonl, max_length: 64}\n"
                         "rollout.max_completion_length: 32\n"
                         "reward.functions: [{type: length, shape: target, "
                         "tokens: 8}]\n"
                         "training: {train_batch_size: 8, max_steps: 9}\n");
    mkdir("value", 0777);
    write_file("value/config.json", MODEL_OF("300"));
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "t.yaml:2:61: model.value_path: "));
    assert_non_null(strstr(errors, "has 300 tokens, but the model has 257"));
    write_file("value/config.json", MODEL_OF("257"));
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "t.yaml:2:61: model.value_path: "));
    unlink("value/config.json");
    rmdir("value");
    unlink("config.json");
    unlink("p.jsonl");
}

/* That conversations cannot become text is known before a job is queued. */
static void conversations_without_a_chat_template_are_refused(void **state)
{
    static const char *const lines[] = {
        "{\"text\": \"a\"}\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"};
    (void)state;
    write_file("config.json", MODEL_OF("257"));
    write_file("t.yaml", RUN_OF("path: ., init: random", ""));
    for (int i = 0; i < 2; i++) {
        write_file("t.jsonl", lines[i]);
        assert_int_equal(check("t.yaml"), i ? EX_CONFIG : EX_OK);
    }
    assert_string_equal(
        errors, "t.yaml:2:15: model.path: messages need a chat template, and "
                "the tokenizer has none: name a file with one "
                "(data.chat_template, --chat-template), or one of chatml, "
                "qwen2.5, qwen3, llama2, llama3, "
                "llama3.1, mistral, llava, llava-plain\n");
    write_file("t.yaml",
               RUN_OF("path: ., init: random", ", chat_template: chatml"));
    assert_int_equal(check("t.yaml"), EX_OK);
    unlink("config.json");
    unlink("t.jsonl");
}

/* Not the model's directory, which is as it should be. */
static void mistakes_of_the_data_name_its_keys(void **state)
{
    static const char *const cases[][2] = {
        {"train: t.jsonl, chat_template: ./bad.jinja", "data.chat_template: "},
        {"train: t.jsonl, chat_template: chatml, chat_template_kwargs: "
         "{tools: 1}",
         "data.chat_template_kwargs: chat_template_kwargs: tools is set by "
         "each conversation"},
        {"train: [{path: t.txt, weight: 2}]", "data.train: "},
        {"train: t.txt, eval: [{path: t.txt, weight: 2}]", "data.eval: "},
        {"train: t.txt, loss_on: assistant", "data.loss_on: E112 "},
    };
    char text[512];
    (void)state;
    write_file("config.json", MODEL_OF("257"));
    write_file("bad.jinja", "{{ messages[ }}");
    write_file("t.txt", "a text");
    write_file("t.jsonl", "{\"messages\": [{\"role\": \"user\", "
                          "\"content\": \"a\"}]}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text),
                 "algorithm: sft\nmodel: {path: ., init: random}\n"
                 "data: {max_length: 64, %s}\n"
                 "training: {per_device_batch_size: 1}\n",
                 cases[i][0]);
        write_file("t.yaml", text);
        assert_int_equal(check("t.yaml"), EX_CONFIG);
        assert_memory_equal(errors, "t.yaml:3:", 9);
        char *key = strchr(errors, ' ') + 1;
        assert_memory_equal(key, cases[i][1], strlen(cases[i][1]));
    }
    unlink("config.json");
    unlink("bad.jinja");
    unlink("t.txt");
    unlink("t.jsonl");
}

/* A text model would be trained without images, and say nothing of it. */
static void keys_of_images_need_a_model_that_sees(void **state)
{
    static const struct {
        const char *line, *key;
    } cases[] = {
        {"model.stage: pretrain", "model.stage"},
        {"model.train_language: false", "model.train_language"},
        {"model.train_vision: true", "model.train_vision"},
        {"model.train_vision: true\nvision_learning_rate: 1e-6",
         "model.train_vision"},
        {"model.train_projector: true", "model.train_projector"},
        {"mm_projector_lr: 2e-5", "optimizer.projector_lr"},
        {"data.image_root: .", "data.image_root"},
        {"image_max_pixels: 1000", "data.image_max_pixels"},
        {"image_min_pixels: 1000", "data.image_min_pixels"},
        {"data.image_pad: true", "data.image_pad"},
        {"data.image_errors: drop", "data.image_errors"},
        {"data.image_backend: pillow", "data.image_backend"},
        {"data.train_on_image_tokens: true", "data.train_on_image_tokens"},
    };
    char text[512], wanted[256];
    (void)state;
    write_file("config.json", MODEL_OF("257"));
    write_file("t.jsonl", "{\"text\": \"a\"}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), RUN_OF(OF_BYTES, "") "%s\n",
                 cases[i].line);
        write_file("t.yaml", text);
        assert_int_equal(check("t.yaml"), EX_CONFIG);
        snprintf(wanted, sizeof(wanted),
                 ": %s: the model (gpt2) sees only text: remove it, or train a "
                 "model with a vision tower\n",
                 cases[i].key);
        assert_memory_equal(errors, "t.yaml:5:", 9);
        assert_string_equal(strstr(errors, ": "), wanted);
    }
    write_file(
        "t.yaml",
        RUN_OF(OF_BYTES,
               "") "freeze_vision_tower: true\nmodel.train_projector: false\n");
    assert_int_equal(check("t.yaml"), EX_OK);
    unlink("config.json");
    unlink("t.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_that_a_file_names_is_checked),
        cmocka_unit_test(a_path_is_printed_where_it_leads),
        cmocka_unit_test(token_ids_need_no_matching_tokenizer),
        cmocka_unit_test(the_critic_of_a_policy_is_checked),
        cmocka_unit_test(conversations_without_a_chat_template_are_refused),
        cmocka_unit_test(mistakes_of_the_data_name_its_keys),
        cmocka_unit_test(keys_of_images_need_a_model_that_sees),
    };
    return cmocka_run_group_tests_name("cmd check model", tests,
                                       enter_directory, leave_directory);
}
