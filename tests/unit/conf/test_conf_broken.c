/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_broken.c - every mistake in a configuration has its exact message
 */
#include "config.h"

#include "tests/unit/conf.h"

#define MARK "\xef\xbb\xbf" /* of byte order */

static const struct broken structure[] = {
    {"", "t.yaml:1:1: the file is empty\n"},
    {"# nothing\n", "t.yaml:1:1: the file is empty\n"},
    {MARK, "t.yaml:1:1: the file is empty\n"},
    {MARK "a: @x\n", "t.yaml:1:4: YAML: found character that cannot start any "
                     "token while scanning for the next token in line 1\n"},
    {"sft\n", "t.yaml:1:1: expected `key: value` lines\n"},
    {"- a\n- b\n", "t.yaml:1:1: expected `key: value` lines\n"},
    {"algorithm: sft\n---\nalgorithm: sft\n",
     "t.yaml:1:1: data.train: required: a file or a list of files\n"
     "t.yaml:1:1: model.path: required, or the model's shape: n_embd, "
     "n_layer, n_head\n"
     "t.yaml:1:1: training.per_device_batch_size: required, or "
     "train_batch_size\n"
     "t.yaml:2:1: a second document begins here: one file holds one\n"},
    {"run:\n\tname: x\n",
     "t.yaml:2:1: YAML: a tab cannot indent, use spaces\n"},
    {"run: {name: x\nalgorithm: sft\n",
     "t.yaml:2:10: YAML: did not find expected ',' or '}' while parsing a "
     "flow mapping in line 1\n"},
    {"run:\n  name: \"x\n",
     "t.yaml:3:1: YAML: found unexpected end of stream while scanning a "
     "quoted scalar in line 2\n"},
    {"a: b: c\n",
     "t.yaml:1:5: YAML: mapping values are not allowed in this context\n"},
    {"run:\n  name: x\n seed: 1\n",
     "t.yaml:3:2: YAML: did not find expected key while parsing a block "
     "mapping in line 1\n"},
    {"a: @x\n", "t.yaml:1:4: YAML: found character that cannot start any "
                "token while scanning for the next token in line 1\n"},
    {"run:\n  name: caf\xe9\n",
     "t.yaml:2:12: not UTF-8: incomplete UTF-8 octet sequence\n"},
    {"run:\n  n\xc3\xa4me: \xff\n",
     "t.yaml:2:9: not UTF-8: invalid leading UTF-8 octet\n"},
    {"run: \x01\n", "t.yaml:1:6: control character 0x01 in the text\n"},
    {LEAST "run: &r {name: x}\n",
     "t.yaml:5:6: YAML anchors (&r) are not supported: write the value "
     "where it is used\n"},
    {LEAST "run: {name: *r, <<: *r}\n",
     "t.yaml:5:13: YAML aliases (*r) are not supported: write the value "
     "here\n"
     "t.yaml:5:17: YAML merge keys (<<) are not supported: write the keys "
     "here\n"
     "t.yaml:5:21: YAML aliases (*r) are not supported: write the value "
     "here\n"},
    {LEAST "run: {seed: !!int 3, name: !path x}\n",
     "t.yaml:5:13: YAML tags (tag:yaml.org,2002:int) are not supported: "
     "remove it\n"
     "t.yaml:5:28: YAML tags (!path) are not supported: remove it\n"},
    {LEAST "? [a, b]\n: c\n", "t.yaml:5:3: a key must be a name\n"},
    {LEAST "run: {seed: 1, seed: 2}\nrun: {name: x}\n",
     "t.yaml:5:16: seed: given twice in one section, first in line 5\n"
     "t.yaml:6:1: run: given twice in one section, first in line 5\n"},
    {LEAST "a: {{{{{{{{{{{{{{{{{{{{: 1\n",
     "t.yaml:5:19: nested deeper than 16 levels\n"},
};

static void broken_or_unsupported_yaml_is_refused(void **state)
{
    (void)state;
    CHECK_ALL(structure);
}

static const struct broken names[] = {
    {"algoritm: sft\n" LEAST,
     "t.yaml:1:1: algoritm: unknown key; did you mean algorithm?\n"},
    {LEAST "data: {max_lenght: 8}\n",
     "t.yaml:5:8: data.max_lenght: unknown key; did you mean "
     "data.max_length?\n"},
    {LEAST "optimiser: {lr: 1}\n",
     "t.yaml:5:1: optimiser: unknown key; did you mean optimizer?\n"},
    {LEAST "training: {epcohs: 1}\n",
     "t.yaml:5:12: training.epcohs: unknown key; did you mean "
     "training.epochs?\n"},
    {LEAST "learning_rat: 1\n",
     "t.yaml:5:1: learning_rat: unknown key; did you mean "
     "learning_rate?\n"},
    {LEAST "data: {betas: [0.9, 0.95]}\n",
     "t.yaml:5:8: data.betas: unknown key; did you mean "
     "optimizer.betas?\n"},
    {LEAST "frobnicate: {a: 1}\n", "t.yaml:5:1: frobnicate: unknown "
                                   "key\n"},
    {LEAST "\"\\e[31mred\": 1\n", "t.yaml:5:1: ?[31mred: unknown key\n"},
    {LEAST "optimizer: fast\n",
     "t.yaml:5:12: optimizer.name: expected one of adamw, adamw_torch, "
     "adamw_torch_fused, adamw_hf, adam, got \"fast\"\n"},
    {LEAST "optimizer: [lr, 1]\n",
     "t.yaml:5:12: optimizer: expected a section with keys\n"},
};

static void an_unknown_key_suggests_a_similar_one(void **state)
{
    (void)state;
    CHECK_ALL(names);
}

static const struct broken types[] = {
    {LEAST "optimizer:\n  lr: fast\n",
     "t.yaml:6:7: optimizer.lr: expected a number > 0, got \"fast\"\n"},
    {LEAST "optimizer: {lr: \"2e-5\"}\n",
     "t.yaml:5:17: optimizer.lr: expected a number > 0, got the string "
     "\"2e-5\": remove the quotes\n"},
    {LEAST "optimizer: {lr: 0, eps: .inf, weight_decay: -0.1}\n",
     "t.yaml:5:17: optimizer.lr: expected a number > 0, got 0\n"
     "t.yaml:5:25: optimizer.eps: expected a number in (0, 1], got "
     "\".inf\"\n"
     "t.yaml:5:45: optimizer.weight_decay: expected a number >= 0, got "
     "-0.1\n"},
    {LEAST "optimizer: {lr: , eps: [1], betas: 0.9}\n",
     "t.yaml:5:13: optimizer.lr: no value: write null for the default\n"
     "t.yaml:5:24: optimizer.eps: expected a number in (0, 1], got a "
     "list\n"
     "t.yaml:5:36: optimizer.betas: expected a list of two numbers in "
     "[0, 1), got 0.9\n"},
    {LEAST "optimizer: {betas: [0.9, 1]}\n",
     "t.yaml:5:26: optimizer.betas: expected a list of two numbers in "
     "[0, 1), got 1\n"},
    {LEAST "optimizer: {betas: [0.9, 0.95, 0.99]}\n",
     "t.yaml:5:20: optimizer.betas: expected a list of two numbers in "
     "[0, 1), got a list\n"},
    {LEAST "distributed: {bucket_cap_mb: 5000, timeout_s: 1.5}\n",
     "t.yaml:5:30: distributed.bucket_cap_mb: expected an integer from 1 "
     "to 4096 (MiB), got 5000\n"
     "t.yaml:5:47: distributed.timeout_s: expected an integer >= 1 "
     "(seconds), got 1.5\n"},
    {LEAST "run: {seed: 18446744073709551616, overwrite: 1}\n",
     "t.yaml:5:13: run.seed: expected an integer from 0 to 2^64 - 1, got "
     "18446744073709551616\n"
     "t.yaml:5:46: run.overwrite: expected true or false, got 1\n"},
    {LEAST "run: {overwrite: \"true\"}\n",
     "t.yaml:5:18: run.overwrite: expected true or false, got \"true\"\n"},
    {LEAST "run: {name: \"\", output_dir: [a]}\n",
     "t.yaml:5:13: run.name: expected a string, got \"\"\n"
     "t.yaml:5:29: run.output_dir: expected a path, got a list\n"},
    {LEAST "logging: {steps: 0, level: loud}\n",
     "t.yaml:5:18: logging.steps: expected an integer >= 1 or a ratio in "
     "(0, 1) (optimizer steps), got 0\n"
     "t.yaml:5:28: logging.level: expected one of error, warning, warn, "
     "info, debug, got \"loud\"\n"},
    {LEAST "logging: {report_to: [stdout, wandb, paper]}\n",
     "t.yaml:5:38: logging.report_to: expected a list of stdout, jsonl, "
     "html, tensorboard, wandb, all, got \"paper\"\n"},
    {LEAST "logging: {report_to: [wandb, None]}\n",
     "t.yaml:5:30: logging.report_to: none cannot be used with other words\n"},
    {LEAST "logging: {names: wandb, wandb: {projct: x}}\n",
     "t.yaml:5:18: logging.names: expected one of hf, deepspeed, got "
     "\"wandb\"\n"
     "t.yaml:5:33: logging.wandb.projct: unknown key; did you mean "
     "logging.wandb.project?\n"},
    {LEAST "data: {format: csv, validation_split: 1}\n",
     "t.yaml:5:16: data.format: expected one of auto, text, tokens_bin, "
     "prompt_completion, messages, tokenized, preference, prompt, "
     "tokenised, "
     "got \"csv\"\n"
     "t.yaml:5:39: data.validation_split: expected a number in [0, 1), "
     "got 1\n"},
    {LEAST "training: {max_steps: 1_000}\n",
     "t.yaml:5:23: training.max_steps: expected an integer >= -1 "
     "(optimizer "
     "steps), got \"1_000\"\n"},
    {LEAST "training: {max_steps: 0}\n",
     "t.yaml:5:23: training.max_steps: expected an integer >= 1, or -1 to "
     "go by epochs, got 0\n"},
    {LEAST "version: 2\n",
     "t.yaml:5:10: version: expected an integer from 1 to 1, got 2\n"},
    {LEAST "env: {1A: x, B: [c], C: , RANK: 3, SLURM_JOB_ID: 4}\n",
     "t.yaml:5:7: env.1A: not a name of a variable\n"
     "t.yaml:5:17: env.B: expected a string (\"\" for an empty one)\n"
     "t.yaml:5:25: env.C: expected a string (\"\" for an empty one)\n"
     "t.yaml:5:27: env.RANK: is different on each rank: the plugin sets "
     "it\n"
     "t.yaml:5:36: env.SLURM_JOB_ID: belongs to Slurm\n"},
};

static void values_of_wrong_type_or_range_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(types);
}

static void a_variable_that_is_too_long_is_refused(void **state)
{
    enum { MOST = 120 * 1024 };
    static char text[MOST + 256];
    const struct broken one = {
        text, "t.yaml:5:13: env.LONG: expected at most 120 KiB, name and value "
              "together, got 122881 bytes\n"};
    (void)state;
    snprintf(text, sizeof(text), LEAST "env: {LONG: %0*d}\n", MOST - 3, 0);
    check_all(&one, 1);
}

static const struct broken later[] = {
    {LEAST "data: {sampler: random, samplr: x}\n",
     "t.yaml:5:8: data.sampler: not supported yet: it needs more samplers\n"
     "t.yaml:5:25: data.samplr: unknown key; did you mean data.sampler?\n"},
    {LEAST "scheduler: {name: OneCycle}\n",
     "t.yaml:5:19: scheduler.name: OneCycle is not supported yet: it needs "
     "cyclic schedules\n"},
    {LEAST "mode: generate\nlora: {r: 8}\n",
     "t.yaml:5:7: mode: generate is not supported yet: it needs generation "
     "from a file (see `disttrain generate`)\n"
     "t.yaml:6:1: lora: not supported yet: it needs another name: write "
     "adapter: {type: lora, r: 8}\n"},
    {LEAST "adapter: {type: dora}\n",
     "t.yaml:5:17: adapter.type: dora is not supported yet: it needs other "
     "adapters than lora\n"},
    {LEAST "adapter: {use_dora: true, bias: all}\nload_in_4bit: true\n",
     "t.yaml:5:11: adapter.use_dora: not supported yet: it needs other "
     "adapters than plain LoRA\n"
     "t.yaml:5:33: adapter.bias: all is not supported yet: it needs biases "
     "that are trained\n"
     "t.yaml:6:1: load_in_4bit: not supported yet: it needs quantized "
     "weights\n"},
};

static void what_is_not_supported_yet_says_so(void **state)
{
    (void)state;
    CHECK_ALL(later);
}

static const struct broken aliases_that_disagree[] = {
    {LEAST "optimizer: {lr: 1e-3}\nlearning_rate: 2e-3\n",
     "t.yaml:6:16: optimizer.lr: 0.002 here (learning_rate), but 0.001 in "
     "line 5\n"},
    {LEAST "run: {seed: 1}\ntraining: {seed: 2}\nseed: 2\n",
     "t.yaml:6:18: run.seed: 2 here (seed), but 1 in line 5\n"},
    {LEAST "optimizer: {betas: [0.9, 0.95], adam_beta2: 0.99}\n",
     "t.yaml:5:45: optimizer.beta2: given twice: optimizer.betas is in "
     "line 5\n"},
    {LEAST "batch_size: 4\nbatch_size_is: per_device\n",
     "t.yaml:5:13: training.batch_size: 4 here, but "
     "training.per_device_batch_size is 2\n"},
};

static void aliases_that_disagree_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(aliases_that_disagree);
}

static void unusable_paths_are_refused_with_the_reason(void **state)
{
    unsetenv("DT_NOT_SET");
    char wanted[4096];
    snprintf(wanted, sizeof(wanted),
             "t.yaml:2:15: model.path: E129 %s/openai/gpt2: No such file or "
             "directory (names on a hub are not looked up)\n"
             "t.yaml:5:5: data.train: %s/missing.txt: No such file or "
             "directory\n"
             "t.yaml:6:5: data.train: %s: a directory without the state.json "
             "of datasets.save_to_disk: name its files, a pattern such as "
             "*.parquet is fine\n"
             "t.yaml:7:5: data.train: the environment variable DT_NOT_SET is "
             "not set: set it, or write ${DT_NOT_SET:-default}\n"
             "t.yaml:8:5: data.train: ${A-b}: expected ${NAME} or "
             "${NAME:-default}, or $${ for ${ itself\n"
             "t.yaml:9:5: data.train: ${ without }: write $${ for ${ "
             "itself\n"
             "t.yaml:10:5: data.train: ~root: only ~/ is expanded, not the "
             "home directories of others\n"
             "t.yaml:11:5: data.train: expected a path, got an empty string\n"
             "t.yaml:12:5: data.train: a section here needs the key path\n"
             "t.yaml:12:6: data.train: unknown key paht: a file has path and "
             "weight\n"
             "t.yaml:13:31: data.train: weight: expected a number above 0 "
             "and up to 1e6: how many times an epoch has the file\n"
             "t.yaml:14:9: data.eval: expected a file or a list of files, "
             "got a list\n"
             "t.yaml:15:46: training.resume: %s/latest.txt: No such file or "
             "directory\n",
             test_directory, test_directory, test_directory, test_directory);
    const struct broken one = {
        "algorithm: sft\n"
        "model: {path: openai/gpt2}\n"
        "data:\n"
        "  train:\n"
        "  - missing.txt\n"
        "  - ./.\n"
        "  - ${DT_NOT_SET}/x\n"
        "  - ${A-b}\n"
        "  - ${A\n"
        "  - ~root/x\n"
        "  - ''\n"
        "  - {paht: x}\n"
        "  - {path: train.txt, weight: 0}\n"
        "  eval: []\n"
        "training: {per_device_batch_size: 1, resume: latest.txt}\n",
        wanted};
    const struct broken variable = {"algorithm: sft\n"
                                    "model: {path: \"${DT_HUB}\"}\n"
                                    "data: {train: train.txt}\n"
                                    "training: {per_device_batch_size: 1}\n",
                                    wanted};
    (void)state;
    check_all(&one, 1);
    setenv("DT_HUB", "openai/gpt2", 1);
    *(strchr(wanted, '\n') + 1) = '\0'; /* the same */
    check_all(&variable, 1);
}

static const struct broken rules[] = {
    {"algorithm: sft\n",
     "t.yaml:1:1: data.train: required: a file or a list of files\n"
     "t.yaml:1:1: model.path: required, or the model's shape: n_embd, "
     "n_layer, n_head\n"
     "t.yaml:1:1: training.per_device_batch_size: required, or "
     "train_batch_size\n"},
    {"data.train: train.txt\nmodel.n_embd: 96\nbatch_size: 32\n"
     "grad_accum: 2\n",
     "t.yaml:1:1: algorithm: required: write algorithm: sft, rm, dpo, ppo "
     "or grpo\n"
     "t.yaml:3:13: training.batch_size: E101 32 is ambiguous: with "
     "accumulation 2 on W ranks set batch_size_is to per_device (64*W "
     "rows a step), global_micro (64) or train (32)\n"},
    {LEAST "training: {batch_size_is: train}\n",
     "t.yaml:5:27: training.batch_size_is: batch_size is missing: give both "
     "or neither\n"},
    {LEAST "training: {global_micro_batch_size: 5}\n",
     "t.yaml:5:37: training.global_micro_batch_size: E102 5 is not a "
     "multiple of per_device_batch_size 2\n"},
    {LEAST "training: {train_batch_size: 32, "
           "gradient_accumulation_steps: 3}\n",
     "t.yaml:5:30: training.train_batch_size: E102 32 is not a multiple "
     "of 2 (per device) * 3 (accumulation)\n"},
    {LEAST "training: {train_batch_size: 32, global_micro_batch_size: 4, "
           "gradient_accumulation_steps: 2}\n",
     "t.yaml:5:30: training.train_batch_size: E103 32 != 4 "
     "(global_micro) * 2 (accumulation) = 8\n"},
    {"algorithm: sft\ndata.train: train.txt\nmodel.n_embd: 96\n"
     "training: {train_batch_size: 7, grad_accum: 2}\n",
     "t.yaml:4:30: training.train_batch_size: E102 7 is not a multiple of "
     "gradient_accumulation_steps 2\n"},
    {LEAST "scheduler: {warmup_ratio: 0.1, warmup_steps: 5}\n",
     "t.yaml:5:27: scheduler.warmup_ratio: E107 warmup_steps is given "
     "too: remove one of them\n"},
    {LEAST "scheduler: {warmup_steps: 5.5}\n",
     "t.yaml:5:27: scheduler.warmup_steps: expected an integer or a ratio "
     "in [0, 1), got 5.5\n"},
    {LEAST "scheduler: {name: cosine_with_min_lr}\n",
     "t.yaml:5:19: scheduler.name: E108 cosine_with_min_lr needs exactly "
     "one of min_lr and min_lr_rate\n"},
    {LEAST "scheduler: {name: cosine_with_min_lr, min_lr: 1e-6, "
           "min_lr_rate: 0.1}\n",
     "t.yaml:5:19: scheduler.name: E108 cosine_with_min_lr needs exactly "
     "one of min_lr and min_lr_rate\n"},
    {LEAST "scheduler: {name: cosine_with_min_lr, min_lr: 1}\n",
     "t.yaml:5:47: scheduler.min_lr: 1 is above optimizer.lr 2e-05\n"},
    {LEAST "training.early_stopping_patience: 3\n",
     "t.yaml:5:35: training.early_stopping_patience: needs evaluations: set "
     "training.eval_strategy: steps\n"},
    {LEAST "data.validation_split: 0.5\n"
           "training: {eval_strategy: steps, eval_steps: 3}\n"
           "load_best_model_at_end: true\n",
     "t.yaml:7:25: training.load_best_model_at_end: checkpoint.steps 500 must "
     "be a multiple of training.eval_steps, 3: only an evaluated step that is "
     "saved can be the best\n"},
    {LEAST "data.validation_split: 0.5\n"
           "training: {eval_strategy: epoch}\n"
           "load_best_model_at_end: true\n",
     "t.yaml:7:25: training.load_best_model_at_end: needs "
     "training.eval_strategy: steps and checkpoint.strategy: steps\n"},
    {LEAST "training: {eval_strategy: steps}\n",
     "t.yaml:5:27: training.eval_strategy: E128 nothing to evaluate on: "
     "give data.eval or data.validation_split\n"},
    {LEAST "mode: eval\n",
     "t.yaml:5:7: training.eval_only: E128 nothing to evaluate on: give "
     "data.eval or data.validation_split\n"},
    {LEAST "checkpoint: {only_model: true}\ntraining: {resume: auto}\n",
     "t.yaml:5:26: checkpoint.only_model: E126 cannot be used with "
     "training.resume: a checkpoint without the optimizer state cannot be "
     "resumed\n"},
    {LEAST "data: {max_length: 4096}\nmodel: {vocab_size: 200, n_head: "
           "7}\n",
     "t.yaml:5:20: data.max_length: E119 4096 tokens do not fit into "
     "model.n_positions 1024\n"
     "t.yaml:6:21: model.vocab_size: E120 200 rows are too few for the "
     "byte tokenizer: at least 257\n"
     "t.yaml:6:34: model.n_head: n_embd 96 is not a multiple of n_head "
     "7\n"},
    {LEAST "model: {init: pretrained}\n",
     "t.yaml:5:15: model.init: pretrained needs model.path\n"},
    {LEAST "model: {path: .}\n",
     "t.yaml:3:15: model.n_embd: cannot be used with model.path: its "
     "config.json describes the model\n"},
};

static void missing_and_contradictory_keys_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(rules);
}

static void problems_come_in_the_order_of_the_file(void **state)
{
    static const struct broken one = {
        "algoritm: sft\n"
        "algorithm: sft\n"
        "run: {sed: 1, name: x}\n"
        "model: {n_embd: two, n_layer: 0}\n"
        "data: {train: train.txt}\n"
        "training:\n"
        "  batch_size: 4\n"
        "  lr: [1]\n"
        "scheduler: {warmup_steps: 3, warmup_ratio: 0.5}\n"
        "logging: {wandb: 1}\n",
        "t.yaml:1:1: algoritm: unknown key; did you mean algorithm?\n"
        "t.yaml:3:7: run.sed: unknown key; did you mean run.seed?\n"
        "t.yaml:4:17: model.n_embd: expected an integer from 1 to 1048576, "
        "got \"two\"\n"
        "t.yaml:4:31: model.n_layer: expected an integer from 1 to 10000, got "
        "0\n"
        "t.yaml:7:15: training.batch_size: E101 4 is ambiguous: with "
        "accumulation 1 on W ranks set batch_size_is to per_device (4*W rows "
        "a step), global_micro (4) or train (4)\n"
        "t.yaml:8:7: optimizer.lr: expected a number > 0, got a list\n"
        "t.yaml:9:44: scheduler.warmup_ratio: E107 warmup_steps is given too: "
        "remove one of them\n"
        "t.yaml:10:18: logging.wandb: expected a section with keys\n"};
    (void)state;
    check_all(&one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_or_unsupported_yaml_is_refused),
        cmocka_unit_test(an_unknown_key_suggests_a_similar_one),
        cmocka_unit_test(values_of_wrong_type_or_range_are_refused),
        cmocka_unit_test(a_variable_that_is_too_long_is_refused),
        cmocka_unit_test(what_is_not_supported_yet_says_so),
        cmocka_unit_test(aliases_that_disagree_are_refused),
        cmocka_unit_test(unusable_paths_are_refused_with_the_reason),
        cmocka_unit_test(missing_and_contradictory_keys_are_refused),
        cmocka_unit_test(problems_come_in_the_order_of_the_file),
    };
    return cmocka_run_group_tests_name("conf broken", tests, enter_directory,
                                       leave_directory);
}
