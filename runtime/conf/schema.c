/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - the table of all keys, one row for each */
#include "config.h"

#include <math.h>

#include "base/log.h"
#include "conf/conf.h"
#include "conf/schema.h"

#define AT(field) .offset = offsetof(struct dt_conf, field)
#define AND(field) .second = offsetof(struct dt_conf, field)
#define WORDS(...) ((const struct dt_conf_word[]){__VA_ARGS__, {0}})
/* The words of a list in base/choices.h, alone or with others, and their help.
 */
#define WORD(VALUE, word, ...) {#word, VALUE, NULL},
#define CHOICES(list) ((const struct dt_conf_word[]){list(WORD){0}})
#define CHOICES_AND(list, ...) \
    ((const struct dt_conf_word[]){list(WORD) __VA_ARGS__, {0}})
#define HELP(VALUE, word, help) "; " #word ": " help
#define DPO_HELP(VALUE, word, traits, help) HELP(VALUE, word, help)
#define ALSO(...) ((const char *const[]){__VA_ARGS__, NULL})

/* clang-format off */
static const struct dt_conf_word whens[] = {
    {"no", DT_CONF_NO, NULL},
    {"steps", DT_CONF_STEPS, NULL},
    {"epoch", DT_CONF_EPOCH, NULL},
    {0},
};

static const struct dt_conf_word curves[] = {
    {"log", DT_CURVE_LOG, NULL}, /* not for decay_type */
    {"linear", DT_CURVE_LINEAR, NULL},
    {"cosine", DT_CURVE_COSINE, NULL},
    {"1-sqrt", DT_CURVE_SQRT, NULL},
    {0},
};

static const struct dt_conf_word offloads[] = {
    {"none", DT_CONF_OFFLOAD_NONE, NULL},
    {"cpu", DT_CONF_OFFLOAD_CPU, NULL},
    {"nvme", DT_CONF_OFFLOAD_NVME, NULL},
    {0},
};

const struct dt_conf_key dt_conf_keys[] = {
    /* Top level */
    {"version", DT_CONF_INT, AT(version), .fallback = "1", .min = 1, .max = 1,
     .help = "version of the file format"},
    {"algorithm", DT_CONF_ENUM, AT(algorithm), .result = true,
     .words = WORDS({"sft", DT_CONF_SFT, NULL},
                    {"rm", DT_CONF_RM, NULL},
                    {"dpo", DT_CONF_DPO, NULL},
                    {"ppo", DT_CONF_PPO, NULL},
                    {"grpo", DT_CONF_GRPO, NULL}),
     .help = "training algorithm: sft is supervised fine-tuning, rm a reward "
             "model and dpo direct preference optimization, both from "
             "preference pairs; ppo and grpo learn from rewards of "
             "completions that the model samples; required"},
    {"mode", DT_CONF_IGNORED,
     .words = WORDS({"train", 0, NULL}, {"eval", 0, NULL},
                    {"generate", 0, "generation from a file (see `disttrain generate`)"},
                    {"precompute_ref", 0, "algorithm dpo"},
                    {"create_slurm", 0, NULL}),
     .aliases = ALSO("training.mode"),
     .help = "the command decides: `disttrain train` trains, `disttrain "
             "sbatch` writes a batch script; only eval, which sets "
             "training.eval_only, has an effect"},

    /* run */
    {"run.name", DT_CONF_STRING, AT(run.name), .fallback = "run",
     .aliases = ALSO("experiment_name", "exp_name", "run_name"),
     .help = "name of the run, of its output directory and of the job that "
             "srun makes"},
    {"run.output_dir", DT_CONF_DIR, AT(run.output_dir),
     .aliases = ALSO("output_dir"),
     .help = "directory for everything that the run writes; the default is "
             "outputs/NAME next to the file"},
    {"run.overwrite", DT_CONF_BOOL, AT(run.overwrite), .fallback = "false",
     .aliases = ALSO("overwrite", "overwrite_output_dir"),
     .help = "start a new run in an output directory that is not empty; its "
             "checkpoints are removed, unless training.resume resumes one"},
    {"run.device", DT_CONF_ENUM, AT(run.device), .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_DEVICE, NULL},
                    {"cpu", DT_CONF_CPU, NULL},
                    {"cuda", DT_CONF_CUDA, NULL}),
     .help = "device to train on; auto is cuda if the rank sees a usable "
             "GPU, else cpu"},
    {"run.deterministic", DT_CONF_BOOL, AT(run.deterministic),
     .fallback = "false", .aliases = ALSO("full_determinism"),
     .help = "repeated runs give the same bits on GPUs too, at some cost in "
             "speed; on cpu they always do"},
    {"run.seed", DT_CONF_U64, AT(run.seed), .fallback = "42", .result = true,
     .aliases = ALSO("seed"), .help = "seed of all random streams"},
    {"run.data_seed", DT_CONF_U64, AT(run.data_seed), .result = true,
     .aliases = ALSO("data_seed"),
     .help = "seed of the order of the data; the default is run.seed"},

#include "conf/keys_data.h"
#include "conf/keys_adapter.h"

    /* training */
    {"training.per_device_batch_size", DT_CONF_INT,
     AT(training.per_device_batch_size), .min = 1, .max = 1e6, .unit = "rows",
     .clash = "E103 ",
     .aliases = ALSO("per_device_train_batch_size", "micro_batch_size_per_gpu",
                     "train_micro_batch_size_per_gpu", "micro_batch_size"),
     .help = "rows per rank and forward pass"},
    {"training.global_micro_batch_size", DT_CONF_INT,
     AT(training.global_micro_batch_size), .min = 1, .max = 1e6,
     .unit = "rows", .aliases = ALSO("global_micro_batch_size"),
     .help = "rows of all ranks together per forward pass"},
    {"training.train_batch_size", DT_CONF_INT, AT(training.train_batch_size),
     .min = 1, .max = 1e9, .result = true, .unit = "rows",
     .clash = "E103 ",
     .aliases = ALSO("train_batch_size", "effective_batch_size"),
     .help = "rows of all ranks together per optimizer step"},
    {"training.batch_size", DT_CONF_INT, AT(training.batch_size), .min = 1,
     .max = 1e9, .unit = "rows",
     .aliases = ALSO("batch_size", "dataloader.batch_size"),
     .help = "ambiguous size, which needs batch_size_is"},
    {"training.batch_size_is", DT_CONF_ENUM, AT(training.batch_size_is),
     .words = WORDS({"per_device", 1, NULL}, {"global_micro", 2, NULL},
                    {"train", 3, NULL}),
     .aliases = ALSO("batch_size_is", "dataloader.batch_size_is"),
     .help = "which size batch_size is: per_device_batch_size, "
             "global_micro_batch_size or train_batch_size"},
    {"training.per_device_eval_batch_size", DT_CONF_INT,
     AT(training.per_device_eval_batch_size), .min = 1, .max = 1e6,
     .unit = "rows", .aliases = ALSO("per_device_eval_batch_size", "eval_batch_size"),
     .help = "rows per rank and forward pass in an evaluation; the default "
             "is per_device_batch_size"},
    {"training.gradient_accumulation_steps", DT_CONF_INT,
     AT(training.gradient_accumulation_steps), .fallback = "1", .min = 1,
     .max = 1e6, .unit = "forward passes",
     .clash = "E103 ",
     .aliases = ALSO("gradient_accumulation_steps", "accumulation_steps",
                     "grad_accum"),
     .help = "forward passes per optimizer step"},
    {"training.micro_batch_tokens", DT_CONF_INT,
     AT(training.micro_batch_tokens), .min = 2, .max = 1 << 24,
     .unit = "tokens",
     .help = "most tokens of a forward pass over preference pairs or sampled "
             "completions, which follow each other in one row; the default is "
             "per_device_batch_size times the longest of them, which for "
             "pairs is 2 max_length"},
    {"training.epochs", DT_CONF_FLOAT, AT(training.epochs), .fallback = "3",
     .min = 0, .max = 1e6, .above_min = true, .result = true,
     .aliases = ALSO("epochs", "num_train_epochs", "num_epochs"),
     .help = "passes over the data; ignored if max_steps is set"},
    {"training.max_steps", DT_CONF_INT, AT(training.max_steps),
     .fallback = "-1", .min = -1, .max = 1e12, .result = true,
     .unit = "optimizer steps", .aliases = ALSO("max_steps", "total_steps"),
     .help = "length of the run; -1 means that epochs decides"},
    {"training.max_grad_norm", DT_CONF_FLOAT, AT(training.max_grad_norm),
     .fallback = "1", .min = 0, .max = INFINITY, .result = true,
     .aliases = ALSO("max_grad_norm", "gradient_clipping"),
     .help = "gradients with a larger L2 norm are scaled down to this one; 0 "
             "turns clipping off"},
    {"training.label_smoothing", DT_CONF_FLOAT, AT(training.label_smoothing),
     .fallback = "0", .min = 0, .max = 1, .below_max = true, .result = true,
     .aliases = ALSO("label_smoothing", "label_smoothing_factor"),
     .help = "share of each target that is spread over the vocabulary, in "
             "evaluations too, as in transformers"},
    {"training.eval_only", DT_CONF_BOOL, AT(training.eval_only),
     .fallback = "false", .aliases = ALSO("eval_only"),
     .help = "measure the held-out loss without training; mode: eval means "
             "the same"},
    {"training.eval_strategy", DT_CONF_ENUM, AT(training.eval_strategy),
     .fallback = "no", .words = whens,
     .aliases = ALSO("eval_strategy", "evaluation_strategy"),
     .help = "when to measure the held-out loss"},
    {"training.eval_steps", DT_CONF_COUNT, AT(training.eval_steps),
     AND(training.eval_steps_ratio), .min = 1, .max = 1e12,
     .unit = "optimizer steps", .aliases = ALSO("eval_steps"),
     .help = "interval between evaluations; a ratio is a share of the run; "
             "the default is logging.steps"},
    {"training.load_best_model_at_end", DT_CONF_BOOL,
     AT(training.load_best_model_at_end), .fallback = "false",
     .aliases = ALSO("load_best_model_at_end"),
     .help = "make checkpoints/best a link to the checkpoint with the best "
             "evaluation, which total_limit keeps: model.path with the output "
             "directory means that one, and training.resume the newest; "
             "evaluations and checkpoints must be due at the same "
             "steps"},
    {"training.metric_for_best_model", DT_CONF_STRING,
     AT(training.metric_for_best_model),
     .aliases = ALSO("metric_for_best_model"),
     .help = "which number of an evaluation says how good it is, as "
             "metrics.jsonl names it, with or without eval_: the default is "
             "loss; algorithms ppo and grpo have none and need another, such "
             "as reward"},
    {"training.greater_is_better", DT_CONF_BOOL_OR_WORD,
     AT(training.greater_is_better), .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_CHOICE, NULL}),
     .aliases = ALSO("greater_is_better"),
     .help = "whether a greater value of that is better; auto is false for "
             "what ends in loss, else true"},
    {"training.early_stopping_patience", DT_CONF_INT,
     AT(training.early_stopping_patience), .min = 1, .max = 1e6,
     .result = true, .unit = "evaluations",
     .aliases = ALSO("early_stopping_patience"),
     .help = "end the run after so many evaluations in a row that are not "
             "better than the best one before; the default is to go on"},
    {"training.early_stopping_threshold", DT_CONF_FLOAT,
     AT(training.early_stopping_threshold), .fallback = "0", .min = 0,
     .max = INFINITY, .aliases = ALSO("early_stopping_threshold"),
     .help = "an evaluation must be better by more than this to count for "
             "early_stopping_patience"},
    {"training.resume", DT_CONF_OLD_OR_WORD, AT(training.resume),
     AND(training.resume_path), .fallback = "none",
     .other = DT_CONF_RESUME_PATH,
     .words = WORDS({"none", DT_CONF_RESUME_NONE, NULL},
                    {"false", DT_CONF_RESUME_NONE, NULL},
                    {"auto", DT_CONF_RESUME_AUTO, NULL},
                    {"true", DT_CONF_RESUME_AUTO, NULL},
                    {"latest", DT_CONF_RESUME_AUTO, NULL}),
     .aliases = ALSO("resume", "resume_from_checkpoint"),
     .help = "where the run starts: none is the beginning, auto the newest "
             "whole checkpoint in output_dir if there is one; or give the "
             "directory of a checkpoint"},

#include "conf/keys_preference.h"
#include "conf/keys_reward.h"
#include "conf/keys_distributed.h"
#include "conf/keys_optim.h"
#include "conf/keys_sampled.h"

    /* checkpoint */
    {"checkpoint.strategy", DT_CONF_ENUM, AT(checkpoint.strategy),
     .fallback = "steps",
     .words = WORDS({"no", DT_CONF_NO, NULL}, {"steps", DT_CONF_STEPS, NULL},
                    {"epoch", 0, "checkpoints by epoch"},
                    {"best", 0, "checkpoints by held-out loss"}),
     .aliases = ALSO("save_strategy"), .help = "when to save a checkpoint, beside the end of the run; no saves "
             "the model alone there, without the state of the optimizer, and "
             "what can be resumed only if a signal ends the run"},
    {"checkpoint.steps", DT_CONF_COUNT, AT(checkpoint.steps),
     AND(checkpoint.steps_ratio), .fallback = "500", .min = 1, .max = 1e12,
     .unit = "optimizer steps", .aliases = ALSO("save_steps"),
     .help = "interval between checkpoints; a ratio is a share of the run"},
    {"checkpoint.total_limit", DT_CONF_INT, AT(checkpoint.total_limit),
     .fallback = "0", .min = 0, .max = 1e6, .unit = "checkpoints",
     .endless = true, .aliases = ALSO("save_total_limit"),
     .help = "number of checkpoints to keep; older ones are removed only after "
             "a step after the newest has had a finite loss; 0 keeps all"},
    {"checkpoint.max_failures", DT_CONF_INT, AT(checkpoint.max_failures),
     .fallback = "5", .min = 1, .max = 1e6,
     .help = "failed saves in a row that end the run; until then it "
             "continues, and tries again after half, a quarter, then an "
             "eighth of the interval"},
    {"checkpoint.only_model", DT_CONF_BOOL, AT(checkpoint.only_model),
     .fallback = "false", .aliases = ALSO("save_only_model"),
     .help = "save the weights without the state of the optimizer: "
             "checkpoints are smaller, and no run can be resumed from them"},
    {"checkpoint.save_dtype", DT_CONF_ENUM, AT(checkpoint.save_dtype),
     .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_DTYPE, NULL},
                    {"fp32", DT_CONF_FP32, NULL}, {"bf16", DT_CONF_BF16, NULL},
                    {"fp16", DT_CONF_FP16, NULL}),
     .aliases = ALSO("save_dtype"),
     .help = "type of the weights in model files; auto is that of "
             "precision.compute"},
    {"checkpoint.max_shard_size", DT_CONF_SIZE, AT(checkpoint.max_shard_size),
     .fallback = "5GB", .aliases = ALSO("max_shard_size"),
     .help = "largest size of one model file; larger models are written as "
             "several files"},

    /* logging */
    {"logging.steps", DT_CONF_COUNT, AT(logging.steps),
     AND(logging.steps_ratio), .fallback = "10", .min = 1, .max = 1e12,
     .unit = "optimizer steps",
     .aliases = ALSO("logging_steps", "steps_per_print"),
     .help = "interval between reports; a ratio is a share of the run"},
    {"logging.first_step", DT_CONF_BOOL, AT(logging.first_step),
     .fallback = "true", .aliases = ALSO("logging_first_step"),
     .help = "report step 1 too"},
    {"logging.logits", DT_CONF_BOOL, AT(logging.logits), .fallback = "false",
     .help = "report logits/chosen and logits/rejected, the mean logits where "
             "tokens of completions are predicted, their mean entropy, and "
             "mean_token_accuracy, the share of the preferred completions' "
             "tokens that are the most likely ones; takes one more pass over "
             "the logits"},
    {"logging.report_to", DT_CONF_SET, .fallback = "[stdout, jsonl, html]",
     .words = WORDS(
         {"stdout", offsetof(struct dt_conf, logging.to_stdout), NULL},
         {"jsonl", offsetof(struct dt_conf, logging.to_jsonl), NULL},
         {"html", offsetof(struct dt_conf, logging.to_html), NULL},
         {"tensorboard", offsetof(struct dt_conf, logging.to_tensorboard),
          NULL},
         {"wandb", offsetof(struct dt_conf, logging.to_wandb), NULL},
         {"all", offsetof(struct dt_conf, logging.to_all), NULL}),
     .aliases = ALSO("report_to"),
     .help = "where reports go: stdout is the console, jsonl is "
             "metrics.jsonl in logging.dir, html is report.html there, "
             "written from it when the run ends or fails, tensorboard are "
             "event files in its tb, wandb is jsonl and the command that "
             "sends it to Weights & Biases, contrib/wandb-follow, which the "
             "run prints; a list with neither stdout nor jsonl adds to the "
             "default, as in transformers, and none adds nothing"},
    {"logging.names", DT_CONF_ENUM, AT(logging.names), .fallback = "hf",
     .words = WORDS({"hf", 0, NULL}, {"deepspeed", 1, NULL}),
     .help = "names of values in TensorBoard and Weights & Biases: those of "
             "transformers and TRL, as train/loss, or those of DeepSpeed's "
             "monitor where it has one, as Train/Samples/train_loss, and then "
             "by samples in TensorBoard; times and memory are in perf/, sys/, "
             "ckpt/ and ranks/"},
    {"logging.wall_clock", DT_CONF_IGNORED,
     .aliases = ALSO("wall_clock_breakdown"),
     .help = "not needed here: metrics.jsonl always has the times of the parts "
             "of a step"},
    {"logging.dir", DT_CONF_DIR, AT(logging.dir),
     .aliases = ALSO("logging_dir"),
     .help = "directory for logs; the default is logs in run.output_dir"},
    {"logging.prometheus", DT_CONF_DIR, AT(logging.prometheus),
     .help = "directory of the textfile collector of node_exporter on the node "
             "of rank 0; a file there has step, loss, speed and energy of the "
             "run, and is removed at its end; by default that of the variable "
             "DISTTRAIN_PROMETHEUS, which a site may set"},
    {"logging.progress", DT_CONF_ENUM, AT(logging.progress),
     .fallback = "auto",
     .words = WORDS({"auto", 1, NULL}, {"off", 0, NULL}),
     .help = "auto draws a progress bar where stderr, of srun or of a run "
             "without it, is a terminal; off never does"},
    {"logging.level", DT_CONF_ENUM, AT(logging.level), .fallback = "info",
     .words = WORDS({"error", DT_LOG_ERROR, NULL},
                    {"warning", DT_LOG_WARN, NULL}, {"warn", DT_LOG_WARN, NULL},
                    {"info", DT_LOG_INFO, NULL}, {"debug", DT_LOG_DEBUG, NULL}),
     .aliases = ALSO("log_level"),
     .help = "least severe messages to print on stderr"},
    {"logging.rank_logs", DT_CONF_BOOL, AT(logging.rank_logs),
     .fallback = "false", .aliases = ALSO("enable_each_rank_log"),
     .help = "write a file with the output of each rank to logging.dir"},
    {"logging.console_ranks", DT_CONF_STRING, AT(logging.console_ranks),
     .help = "ranks whose output srun shows, such as 0,4-7; the default is "
             "all"},
    {"logging.trace.steps", DT_CONF_RANGE, AT(logging.trace.first),
     AND(logging.trace.last), .min = 1, .max = 1e12, .unit = "optimizer steps",
     .help = "take a trace of these steps over all ranks, for Perfetto; "
             "`disttrain trace` takes one of a run that is running"},
    {"logging.trace.ranks", DT_CONF_STRING, AT(logging.trace.ranks),
     .fallback = "all",
     .help = "ranks that traces show, such as 0,4-7, or all; rank 0 is always "
             "one of them"},

#include "conf/keys_wandb.h"
#include "conf/keys_launch.h"
};
/* clang-format on */

const size_t dt_conf_key_count = sizeof(dt_conf_keys) / sizeof(dt_conf_keys[0]);
