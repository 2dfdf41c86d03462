/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_data.c - keys of data and model: values, aliases, mistakes */
#include "config.h"

#include <limits.h>
#include <sys/stat.h>

#include "tests/unit/conf.h"

/* As LEAST, with lines of JSON. */
#define LINES                                                                  \
    "algorithm: sft\n"                                                         \
    "data.train: train.jsonl\n"                                                \
    "model.n_embd: 96\n"                                                       \
    "training.per_device_batch_size: 2\n"

static void keys_left_out_have_their_defaults(void **state)
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
    assert_int_equal(conf->data.loss_on, DT_LOSS_AUTO);
    assert_int_equal(conf->data.packing, DT_PACK_NONE);
    assert_int_equal(conf->data.truncation, 0);
    assert_int_equal(conf->data.pad_to_multiple_of, 1);
    assert_true(conf->data.bad_lines == 0);
    assert_null(conf->data.cache_dir);
    assert_int_equal(conf->data.num_workers, 2);
    assert_true(conf->data.train.weight[0] == 1.0);
    dt_conf_destroy(conf);
}

/* It says how, and not whether. */
static void a_strategy_alone_packs_nothing(void **state)
{
    static const char *const off[] = {"", "packing: false\n"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512], warned[128];
        snprintf(text, sizeof(text), LINES "%spacking_strategy: bfd\n", off[i]);
        snprintf(warned, sizeof(warned),
                 "t.yaml:%d:19: data.packing_strategy: no effect: only "
                 "data.packing: true uses it\n",
                 5 + i);
        struct dt_conf *conf = load_good(text, warned);
        assert_int_equal(conf->data.packing, DT_PACK_NONE);
        dt_conf_destroy(conf);
    }
}

static void every_spelling_of_the_guides_sets_its_key(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
        long value;
    } rows[] = {
#define DATA(field) offsetof(struct dt_conf, data.field)
        {"packing: true\n", DATA(packing), DT_PACK_BFD},
        {"packing: false\n", DATA(packing), DT_PACK_NONE},
        {"data: {packing: wrapped}\n", DATA(packing), DT_PACK_WRAPPED},
        {"packing: true\npacking_strategy: wrapped\n", DATA(packing),
         DT_PACK_WRAPPED},
        {"packing: true\ndata: {packing_strategy: bfd_split}\n", DATA(packing),
         DT_PACK_BFD_SPLIT},
        {"packing: bfd\npacking_strategy: bfd\n", DATA(packing), DT_PACK_BFD},
        {"training: {packing: BFD}\n", DATA(packing), DT_PACK_BFD},
        {"completion_only_loss: true\n", DATA(loss_on), DT_LOSS_COMPLETION},
        {"assistant_only_loss: true\n", DATA(loss_on), DT_LOSS_ASSISTANT},
        {"assistant_only_loss: true\ncompletion_only_loss: true\n",
         DATA(loss_on), DT_LOSS_ASSISTANT},
        {"completion_only_loss: true\ntraining.assistant_only_loss: true\n",
         DATA(loss_on), DT_LOSS_ASSISTANT},
        {"training: {train_on_inputs: true}\n", DATA(loss_on), DT_LOSS_FULL},
        {"truncation_mode: keep_end\n", DATA(truncation), 1},
        {"chat_template_path: qwen2.5\n", DATA(chat_template),
         DT_CONF_CHAT_QWEN25},
        {"data: {chat_template: llama3.1}\n", DATA(chat_template),
         DT_CONF_CHAT_LLAMA31},
        {"data: {format: messages}\n", DATA(format), DT_FORMAT_MESSAGES},
        {"data: {format: prompt_completion}\n", DATA(format),
         DT_FORMAT_PROMPT_COMPLETION},
        {"data: {format: tokenized}\n", DATA(format), DT_FORMAT_TOKENIZED},
        {"data: {format: tokenised}\n", DATA(format), DT_FORMAT_TOKENIZED},
        {"model: {tokenizer: byte}\n",
         offsetof(struct dt_conf, model.tokenizer), DT_CONF_TOKENIZER_BYTE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), LINES "%s", rows[i].text);
        struct dt_conf *conf = load_good(text, "");
        if (*(int *)((char *)conf + rows[i].offset) != rows[i].value)
            fail_msg("%s", rows[i].text);
        dt_conf_destroy(conf);
    }
}

static void workers_and_padding_have_several_spellings(void **state)
{
    static const char *const spellings[] = {
        "dataloader_num_workers: 7\npad_to_multiple_of: 64\n",
        ("training: {dataloader: {num_workers: 7}}\n"
         "data: {pad_to_multiple_of: 64}\n"),
        "num_workers: 7\ndata: {pad_to_multiple_of: 64}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        struct dt_conf *conf = load_more(spellings[i]);
        assert_int_equal(conf->data.num_workers, 7);
        assert_int_equal(conf->data.pad_to_multiple_of, 64);
        dt_conf_destroy(conf);
    }
}

static void columns_may_have_other_names(void **state)
{
    struct dt_conf *conf =
        load_good(LINES "data: {columns: {text: body, messages: chat},\n"
                        "       prompt_column: question}\n",
                  "");
    (void)state;
    assert_string_equal(conf->data.text_column, "body");
    assert_string_equal(conf->data.messages_column, "chat");
    assert_string_equal(conf->data.prompt_column, "question");
    dt_conf_destroy(conf);
    conf = load_good(LINES "dataset_text_field: content\n", "");
    assert_string_equal(conf->data.text_column, "content");
    dt_conf_destroy(conf);
}

static void a_file_counts_once_or_by_its_weight(void **state)
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

static void keys_without_effect_are_warned_of(void **state)
{
    (void)state;
    dt_conf_destroy(load_good(
        LEAST "torch_dtype: bfloat16\n",
        "t.yaml:5:14: torch_dtype: not needed here: "
        "weights are read in any type, and precision.compute is the type to "
        "compute in\n"));
    dt_conf_destroy(load_good(LEAST "use_cache: false\n",
                              "t.yaml:5:12: model.use_cache: not needed here: "
                              "training does not cache keys and values\n"));
    dt_conf_destroy(load_good(
        LEAST "dataloader_drop_last: true\n",
        "t.yaml:5:23: dataloader_drop_last: not needed here: an epoch "
        "continues into the next one, so that no example is left out\n"));
    dt_conf_destroy(
        load_good(LEAST "data: {format: tokens_bin, packing: bfd}\n",
                  "t.yaml:5:37: data.packing: no effect: data.train is one "
                  "stream of tokens\n"));
    dt_conf_destroy(load_good(
        LEAST "data: {bad_lines: 0.5, packing: bfd, truncation: keep_end}\n",
        "t.yaml:5:19: data.bad_lines: no effect: data.train is one text\n"
        "t.yaml:5:33: data.packing: no effect: data.train is one text\n"
        "t.yaml:5:50: data.truncation: no effect: data.train is one text\n"));
    dt_conf_destroy(load_good(
        LEAST "data: {columns: {text: a, prompt: b, completion: c, messages: "
              "d}, chat_template: chatml, parse_special: false}\n",
        "t.yaml:5:24: data.text_column: no effect: data.train is one text\n"
        "t.yaml:5:35: data.prompt_column: no effect: data.train is one text\n"
        "t.yaml:5:50: data.completion_column: no effect: data.train is one "
        "text\n"
        "t.yaml:5:63: data.messages_column: no effect: data.train is one "
        "text\n"
        "t.yaml:5:82: data.chat_template: no effect: data.train is one "
        "text\n"));
    dt_conf_destroy(load_good(
        "algorithm: sft\ndata: {train: tokens.bin, parse_special: false}\n"
        "model.n_embd: 96\ntraining.per_device_batch_size: 2\n",
        "t.yaml:2:42: data.parse_special: no effect: data.train is one stream "
        "of tokens\n"));
    dt_conf_destroy(load_good(LEAST "data.packing: wrapped\n", ""));
    dt_conf_destroy(load_good(
        LINES "data: {chat_template: chatml, packing: bfd, bad_lines: 0.1}\n",
        ""));
}

static enum dt_kind kind_of(const char *data)
{
    char text[512];
    snprintf(text, sizeof(text),
             "algorithm: sft\nmodel.n_embd: 96\n"
             "training.per_device_batch_size: 2\ndata: {%s}\n",
             data);
    struct dt_conf *conf = load_good(text, "");
    enum dt_kind kind = conf->data.kind;
    dt_conf_destroy(conf);
    return kind;
}

static void the_content_decides_what_a_file_holds(void **state)
{
    (void)state;
    write_file("lines.txt", "{\"text\": \"hello\"}\n");
    assert_int_equal(kind_of("train: train.txt"), DT_KIND_TEXT);
    assert_int_equal(kind_of("train: lines.txt"), DT_KIND_LINES);
    assert_int_equal(kind_of("train: lines.txt, format: text"), DT_KIND_LINES);
    assert_int_equal(kind_of("train: train.jsonl, eval: lines.txt"),
                     DT_KIND_LINES);
    assert_int_equal(kind_of("train: train.txt, format: messages"),
                     DT_KIND_LINES);
    assert_int_equal(kind_of("train: tokens.bin"), DT_KIND_TOKENS);
    assert_int_equal(kind_of("train: train.txt, format: tokens_bin"),
                     DT_KIND_TOKENS);
    /* both become parts of one text */
    assert_int_equal(kind_of("train: [train.txt, lines.txt], packing: wrapped"),
                     DT_KIND_LINES);
    unlink("lines.txt");
}

#define FILES(data)                                                            \
    "algorithm: sft\nmodel.n_embd: 96\n"                                       \
    "training.per_device_batch_size: 2\ndata: {" data "}\n"

static void files_of_mixed_or_unknown_kind_are_refused(void **state)
{
    char wanted[5][1024];
    const char *here = test_directory;
    (void)state;
    write_file("paper.pdf", "%PDF-1.7");
    write_file("rows", "PAR1");
    snprintf(wanted[0], sizeof(wanted[0]),
             "t.yaml:4:15: data.train: %s/train.txt holds text, but "
             "%s/train.jsonl holds lines of JSON: a run reads one kind of "
             "file; with data.packing: wrapped, both are one text\n",
             here, here);
    snprintf(wanted[1], sizeof(wanted[1]),
             "t.yaml:4:32: data.eval: %s/train.jsonl holds lines of JSON, but "
             "%s/train.txt holds text: a run reads one kind of file; with "
             "data.packing: wrapped, both are one text\n",
             here, here);
    snprintf(wanted[2], sizeof(wanted[2]),
             "t.yaml:4:15: data.train: %s/tokens.bin holds tokens, but "
             "%s/train.jsonl holds lines of JSON: a run reads one kind of "
             "file\n",
             here, here);
    snprintf(wanted[3], sizeof(wanted[3]),
             "t.yaml:4:15: data.train: %s/paper.pdf: this is PDF: `pdftotext` "
             "makes text of it\n",
             here);
    snprintf(wanted[4], sizeof(wanted[4]),
             "t.yaml:4:15: data.train: %s/rows holds Parquet, but "
             "%s/train.txt holds text: a run reads one kind of file; with "
             "data.packing: wrapped, both are one text\n",
             here, here);
    const struct broken cases[] = {
        {FILES("train: [train.jsonl, train.txt], packing: bfd"), wanted[0]},
        {FILES("train: train.txt, eval: train.jsonl"), wanted[1]},
        {FILES("train: [train.jsonl, tokens.bin], packing: wrapped"),
         wanted[2]},
        {FILES("train: paper.pdf"), wanted[3]},
        {FILES("train: [train.txt, rows], packing: bfd"), wanted[4]},
    };
    CHECK_ALL(cases);
    unlink("paper.pdf");
    unlink("rows");
}

/* Whether keys have an effect is not known of a file that is refused. */
static void a_file_that_is_refused_causes_no_warning(void **state)
{
    char *problems, *warnings;
    (void)state;
    write_file("paper.pdf", "%PDF-1.7");
    assert_null(load_text(FILES("train: paper.pdf, chat_template: chatml"),
                          &problems, &warnings));
    assert_string_equal(warnings, "");
    free(problems);
    free(warnings);
    unlink("paper.pdf");
}

/* Whether the files of data.train are these, in this order. */
static void check_files(const char *data, const char *const *names,
                        size_t count)
{
    char text[512];
    snprintf(text, sizeof(text), FILES("train: %s"), data);
    struct dt_conf *conf = load_good(text, "");
    assert_int_equal(conf->data.train.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(strrchr(conf->data.train.text[i], '/') + 1,
                            names[i]);
        assert_true(conf->data.train.weight[i] == 0.5);
    }
    dt_conf_destroy(conf);
}

static void a_pattern_or_a_saved_dataset_names_several_files(void **state)
{
    static const char *const matches[] = {"p-1.jsonl", "p-2.jsonl"};
    static const char *const listed[] = {"b.jsonl", "a.jsonl"};
    (void)state;
    write_file("p-2.jsonl", "{}");
    write_file("p-1.jsonl", "{}");
    check_files("[{path: \"p-*.jsonl\", weight: 0.5}]", matches, 2);
    mkdir("saved", 0777);
    write_file("saved/a.jsonl", "{}");
    write_file("saved/b.jsonl", "{}");
    write_file("saved/state.json", "{\"_data_files\": [{\"filename\": "
                                   "\"b.jsonl\"}, {\"filename\": "
                                   "\"a.jsonl\"}]}");
    check_files("[{path: saved, weight: 0.5}]", listed, 2);
    unlink("saved/a.jsonl");
    unlink("saved/b.jsonl");
    unlink("p-1.jsonl");
    unlink("p-2.jsonl");
}

static void a_pattern_or_directory_without_files_is_refused(void **state)
{
    char wanted[4][1024];
    const char *here = test_directory;
    (void)state;
    snprintf(wanted[0], sizeof(wanted[0]),
             "t.yaml:4:15: data.train: %s/q-*: no file has such a name\n",
             here);
    snprintf(wanted[1], sizeof(wanted[1]),
             "t.yaml:4:15: data.train: %s/saved: a directory without the "
             "state.json of datasets.save_to_disk: name its files, a pattern "
             "such as *.parquet is fine\n",
             here);
    snprintf(wanted[2], sizeof(wanted[2]),
             "t.yaml:4:15: data.train: %s/saved/state.json: _data_files: "
             "expected names of files in the same directory\n",
             here);
    snprintf(wanted[3], sizeof(wanted[3]),
             "t.yaml:4:15: data.train: %s/saved: a dataset of several splits: "
             "name the directory of one, such as train in it\n",
             here);
    const struct broken cases[] = {
        {FILES("train: \"q-*\""), wanted[0]},
        {FILES("train: saved"), wanted[1]},
        {FILES("train: saved"), wanted[2]},
        {FILES("train: saved"), wanted[3]},
    };
    mkdir("saved", 0777);
    unlink("saved/state.json");
    check_all(&cases[0], 2);
    write_file("saved/state.json",
               "{\"_data_files\": [{\"filename\": \"../b.jsonl\"}]}");
    check_all(&cases[2], 1);
    write_file("saved/dataset_dict.json", "{}");
    check_all(&cases[3], 1);
    unlink("saved/dataset_dict.json");
    unlink("saved/state.json");
    rmdir("saved");
}

/* False sets nothing, and is not always what other trainers do then. */
static void false_is_not_read_as_something_else(void **state)
{
    static const struct {
        const char *text, *warned;
    } rows[] = {
        {"completion_only_loss: false\n",
         "t.yaml:5:23: completion_only_loss: false, but data.loss_on is left "
         "out, and auto trains on completions alone: write full\n"},
        {"train_on_inputs: false\n",
         "t.yaml:5:18: train_on_inputs: false, but data.loss_on is left out, "
         "and auto trains on all tokens of conversations: write assistant\n"},
        {"completion_only_loss: false\nassistant_only_loss: true\n",
         "t.yaml:5:23: completion_only_loss: false, but with a prompt and a "
         "completion data.loss_on: assistant trains on turns of the completion "
         "alone: write messages for those of the prompt, too\n"},
        {"bf16: false\n",
         "t.yaml:5:7: bf16: false, but precision.compute is left out, and auto "
         "is bf16 on GPUs: write fp32 or bf16\n"},
        {"bf16: false\nfp16: true\n", ""},
        {"bf16: false\nrun.device: cpu\n", ""},
        {"assistant_only_loss: false\n", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), LINES "%s", rows[i].text);
        dt_conf_destroy(load_good(text, rows[i].warned));
    }
}

static const struct broken mistakes[] = {
    {LEAST "packing: maybe\n",
     "t.yaml:5:10: data.packing: expected one of none, false, bfd, true, "
     "bfd_split, wrapped, got \"maybe\"\n"},
    {LEAST "chat_template_path: vicuna\n",
     "t.yaml:5:21: data.chat_template: expected a file or one of auto, none, "
     "chatml, qwen2.5, qwen3, llama2, llama3, llama3.1, mistral, llava, "
     "llava-plain, got "
     "\"vicuna\"\n"},
    {LEAST "chat_template_kwargs: 1\n",
     "t.yaml:5:23: data.chat_template_kwargs: expected a section, got 1\n"},
    {LEAST "data: {loss_on: assistant, format: text}\n",
     "t.yaml:5:17: data.loss_on: E112 assistant: data.format text has no "
     "conversations\n"},
    {LEAST "data: {format: messages}\ncompletion_only_loss: true\n",
     "t.yaml:6:23: data.loss_on: E112 completion: data.format messages has no "
     "completions\n"},
    {LEAST "train_on_inputs: false\ndata.loss_on: full\n",
     "t.yaml:5:18: train_on_inputs: false here, but data.loss_on is full in "
     "line 6: remove one of them\n"},
    {LEAST "completion_only_loss: true\ndata.loss_on: full\n",
     "t.yaml:5:23: data.loss_on: completion here (completion_only_loss), but "
     "full in line 6\n"},
    {LEAST "assistant_only_loss: true\ntrain_on_inputs: true\n",
     "t.yaml:6:18: data.loss_on: full here (train_on_inputs), but assistant in "
     "line 5\n"},
    {LEAST "data: {num_workers: 1000, bad_lines: 2, pad_to_multiple_of: 0}\n",
     "t.yaml:5:21: data.num_workers: expected an integer from 0 to 256 "
     "(threads), got 1000\n"
     "t.yaml:5:38: data.bad_lines: expected a number in [0, 1], got 2\n"
     "t.yaml:5:61: data.pad_to_multiple_of: expected an integer from 1 to "
     "65536 (tokens), got 0\n"},
    {LEAST "model: {type: llama}\n",
     "t.yaml:5:15: model.type: llama: these keys describe only gpt2; write a "
     "config.json and name its directory in model.config_path\n"},
    {LEAST "model: {config_path: .}\n",
     "t.yaml:3:15: model.n_embd: cannot be used with model.config_path: its "
     "config.json describes the model\n"},
    {"algorithm: sft\nmodel: {path: ., config_path: .}\n"
     "data.train: train.txt\ntraining.per_device_batch_size: 2\n",
     "t.yaml:2:31: model.config_path: cannot be used with model.path\n"},
};

static void wrong_or_contradictory_values_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(mistakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_left_out_have_their_defaults),
        cmocka_unit_test(a_strategy_alone_packs_nothing),
        cmocka_unit_test(every_spelling_of_the_guides_sets_its_key),
        cmocka_unit_test(false_is_not_read_as_something_else),
        cmocka_unit_test(workers_and_padding_have_several_spellings),
        cmocka_unit_test(columns_may_have_other_names),
        cmocka_unit_test(a_file_counts_once_or_by_its_weight),
        cmocka_unit_test(keys_without_effect_are_warned_of),
        cmocka_unit_test(wrong_or_contradictory_values_are_refused),
        cmocka_unit_test(the_content_decides_what_a_file_holds),
        cmocka_unit_test(files_of_mixed_or_unknown_kind_are_refused),
        cmocka_unit_test(a_file_that_is_refused_causes_no_warning),
        cmocka_unit_test(a_pattern_or_a_saved_dataset_names_several_files),
        cmocka_unit_test(a_pattern_or_directory_without_files_is_refused),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
