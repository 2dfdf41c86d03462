/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - derives defaults from other keys and checks rules between keys */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/keys/draft.h"

enum {
    BYTE_VOCAB = 257,   /* tokens of the byte tokenizer */
    GPT2_VOCAB = 50257, /* tokens of GPT-2's, used for most token files */
};

static bool is_given(const struct dt_conf_draft *draft, const char *path)
{
    return dt_conf_given(draft->conf, path);
}

static bool has_failed(const struct dt_conf_draft *draft, const char *path)
{
    return draft->failed[dt_conf_key_find(path)];
}

static void mark_derived(struct dt_conf_draft *draft, const char *path)
{
    draft->conf->place[dt_conf_key_find(path)].line = -1;
}

/* Sets a path that is not given to directory/middle + name. */
static void derive_dir(struct dt_conf_draft *draft, const char *path,
                       char **slot, const char *directory, const char *middle,
                       const char *name)
{
    if (*slot)
        return;
    const char *top = strcmp(directory, "/") == 0 ? "" : directory;
    if (asprintf(slot, "%s/%s%s", top, middle, name) < 0) {
        *slot = NULL;
        draft->problems.out_of_memory = true;
    }
    mark_derived(draft, path);
}

static void derive_paths(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    if (conf->run.name)
        derive_dir(draft, "run.output_dir", &conf->run.output_dir,
                   draft->directory, "outputs/", conf->run.name);
    if (conf->run.output_dir)
        derive_dir(draft, "logging.dir", &conf->logging.dir,
                   conf->run.output_dir, "", "logs");
}

/* Stores beta1 and beta2, other names for the two values of betas. */
static void derive_betas(struct dt_conf_draft *draft)
{
    static const char *const names[] = {"optimizer.beta1", "optimizer.beta2"};
    struct dt_conf_place *pair =
        &draft->conf->place[dt_conf_key_find("optimizer.betas")];
    bool pair_given = pair->line > 0;
    for (int i = 0; i < 2; i++) {
        struct dt_conf_place *one =
            &draft->conf->place[dt_conf_key_find(names[i])];
        if (one->line > 0 && pair_given)
            dt_conf_note(&draft->problems, *one, names[i],
                         "given twice: optimizer.betas is in %s",
                         dt_conf_where(&draft->problems, *pair, *one));
        else if (one->line > 0)
            *pair = *one;
        one->line = 0;
    }
}

/* Trainer's report_to names what is written besides the console and its own
 * log, and a configuration of it must not turn these off.
 */
static void derive_reports(struct dt_conf *conf)
{
    if (conf->logging.to_all) {
        conf->logging.to_tensorboard = conf->logging.to_wandb = true;
        conf->logging.to_html = true;
        conf->logging.to_all = false;
    }
    if (conf->logging.to_stdout && conf->logging.to_wandb)
        conf->logging.to_jsonl = true;
    if (conf->logging.to_stdout || conf->logging.to_jsonl)
        return;
    conf->logging.to_stdout = conf->logging.to_jsonl = true;
    conf->logging.to_html = true;
}

void dt_conf_derive(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    derive_paths(draft);
    derive_reports(conf);
    derive_betas(draft);
    dt_conf_derive_adapter(draft);
    dt_conf_derive_preference(draft);
    dt_conf_derive_sampled(draft);
    dt_conf_derive_kind(draft);
    if (!is_given(draft, "run.data_seed")) {
        conf->run.data_seed = conf->run.seed;
        mark_derived(draft, "run.data_seed");
    }
    if (!is_given(draft, "model.init")) {
        conf->model.random_init = !is_given(draft, "model.path");
        mark_derived(draft, "model.init");
    }
    if (!is_given(draft, "model.vocab_size")) {
        conf->model.vocab_size =
            conf->data.kind == DT_KIND_TOKENS ? GPT2_VOCAB : BYTE_VOCAB;
        mark_derived(draft, "model.vocab_size");
    }
    if (!is_given(draft, "model.n_inner")) {
        conf->model.n_inner = 4 * conf->model.n_embd;
        mark_derived(draft, "model.n_inner");
    }
    if (!is_given(draft, "training.eval_steps")) {
        conf->training.eval_steps = conf->logging.steps;
        conf->training.eval_steps_ratio = conf->logging.steps_ratio;
        mark_derived(draft, "training.eval_steps");
    }
    dt_conf_derive_numerics(draft);
    dt_conf_derive_distributed(draft);
    dt_conf_derive_device(draft);
}

static void check_required(struct dt_conf_draft *draft)
{
    if (!is_given(draft, "algorithm"))
        PROBLEM(draft, "algorithm",
                "required: write algorithm: sft, rm, dpo, ppo or grpo");
    if (!is_given(draft, "data.train"))
        PROBLEM(draft, "data.train", "required: a file or a list of files");
}

/* The given key whose directory has the model's config.json, or NULL. */
static const char *described_elsewhere(const struct dt_conf_draft *draft)
{
    return is_given(draft, "model.path")          ? "model.path"
           : is_given(draft, "model.config_path") ? "model.config_path"
                                                  : NULL;
}

static void check_model(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    bool described = false;
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (!dt_conf_keys[i].shape || conf->place[i].line <= 0)
            continue;
        described = true;
        if (described_elsewhere(draft))
            PROBLEM(draft, dt_conf_keys[i].path,
                    "cannot be used with %s: its config.json describes the "
                    "model",
                    described_elsewhere(draft));
    }
    if (!described && !described_elsewhere(draft))
        PROBLEM(draft, "model.path",
                "required, or the model's shape: "
                "n_embd, n_layer, n_head");
    if (!is_given(draft, "model.path") && !conf->model.random_init)
        PROBLEM(draft, "model.init", "pretrained needs model.path");
    if (strcasecmp(conf->model.type, "gpt2") != 0)
        PROBLEM(draft, "model.type",
                "%.60s: these keys describe only gpt2; write a config.json "
                "and name its directory in model.config_path",
                conf->model.type);
    if (is_given(draft, "model.path") && is_given(draft, "model.config_path"))
        PROBLEM(draft, "model.config_path", "cannot be used with model.path");
    if (conf->model.n_embd % conf->model.n_head != 0 &&
        !has_failed(draft, "model.n_embd") &&
        !has_failed(draft, "model.n_head"))
        PROBLEM(draft,
                is_given(draft, "model.n_head") ? "model.n_head"
                                                : "model.n_embd",
                "n_embd %ld is not a multiple of n_head %ld",
                conf->model.n_embd, conf->model.n_head);
}

static void check_data(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    bool inline_model = !described_elsewhere(draft);
    bool bytes = conf->model.tokenizer != DT_CONF_TOKENIZER_PATH;
    if (inline_model && conf->data.max_length > conf->model.n_positions)
        PROBLEM(draft, "data.max_length",
                "E119 %ld tokens do not fit into "
                "model.n_positions %ld",
                conf->data.max_length, conf->model.n_positions);
    if (inline_model && bytes && conf->data.kind != DT_KIND_TOKENS &&
        conf->data.format != DT_FORMAT_TOKENIZED &&
        conf->model.vocab_size < BYTE_VOCAB)
        PROBLEM(draft, "model.vocab_size",
                "E120 %ld rows are too few for "
                "the byte tokenizer: at least %d",
                conf->model.vocab_size, (int)BYTE_VOCAB);
    if (is_given(draft, "data.eval") && conf->data.validation_split > 0)
        WARNING(draft, "data.validation_split",
                "no effect: data.eval is given");
    if ((conf->training.eval_strategy != DT_CONF_NO ||
         conf->training.eval_only) &&
        !is_given(draft, "data.eval") && conf->data.validation_split <= 0)
        PROBLEM(draft,
                conf->training.eval_only ? "training.eval_only"
                                         : "training.eval_strategy",
                "E128 nothing to evaluate "
                "on: give data.eval or data.validation_split");
}

/* Checks that the lines have the tokens that data.loss_on trains on. */
static void check_loss(struct dt_conf_draft *draft)
{
    static const char *const formats[] = {
        [DT_FORMAT_TEXT] = "text",
        [DT_FORMAT_TOKENS_BIN] = "tokens_bin",
        [DT_FORMAT_PROMPT_COMPLETION] = "prompt_completion",
        [DT_FORMAT_MESSAGES] = "messages",
        [DT_FORMAT_TOKENIZED] = "tokenized",
        [DT_FORMAT_PREFERENCE] = "preference",
        [DT_FORMAT_PROMPT] = "prompt",
    };
    const struct dt_conf *conf = draft->conf;
    int loss = conf->data.loss_on, format = conf->data.format;
    bool chat = format == DT_FORMAT_MESSAGES;
    bool prompt = format == DT_FORMAT_PROMPT_COMPLETION;
    if (format == DT_FORMAT_AUTO)
        return; /* known when the file is read */
    if (loss == DT_LOSS_ASSISTANT && !chat && !prompt)
        PROBLEM(draft, "data.loss_on",
                "E112 assistant: data.format %s has no conversations",
                formats[format]);
    if (loss == DT_LOSS_COMPLETION && !prompt)
        PROBLEM(draft, "data.loss_on",
                "E112 completion: data.format %s has no completions",
                formats[format]);
}

/* What is best is known of evaluations alone, and can be kept if its step is
 * saved.
 */
static void check_best(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool loads = conf->training.load_best_model_at_end;
    const char *key = loads ? "training.load_best_model_at_end"
                            : "training.early_stopping_patience";
    if (!loads && conf->training.early_stopping_patience == 0)
        return;
    if (conf->training.eval_strategy == DT_CONF_NO)
        PROBLEM(draft, key,
                "needs evaluations: set training.eval_strategy: steps");
    else if (loads && (conf->training.eval_strategy != DT_CONF_STEPS ||
                       conf->checkpoint.strategy != DT_CONF_STEPS))
        PROBLEM(draft, key,
                "needs training.eval_strategy: steps and checkpoint.strategy: "
                "steps");
    else if (loads && conf->training.eval_steps_ratio <= 0 &&
             conf->checkpoint.steps_ratio <= 0 &&
             conf->checkpoint.steps % conf->training.eval_steps != 0)
        PROBLEM(draft, key,
                "checkpoint.steps %ld must be a multiple of "
                "training.eval_steps, %ld: only an evaluated step that is "
                "saved can be the best",
                conf->checkpoint.steps, conf->training.eval_steps);
    if (!conf->training.metric_for_best_model &&
        (conf->algorithm == DT_CONF_PPO || conf->algorithm == DT_CONF_GRPO))
        PROBLEM(draft, key,
                "evaluations of this algorithm have no loss: set "
                "training.metric_for_best_model: reward");
}

/* It names a directory and a job of Slurm, whose file has a line for it. */
static void check_name(struct dt_conf_draft *draft)
{
    enum { NAME_BYTES = 200 }; /* a part of a path has at most 255 */
    const char *name = draft->conf->run.name;
    bool control = false;
    for (const char *p = name; *p; p++)
        control |= iscntrl((unsigned char)*p);
    if (control)
        PROBLEM(draft, "run.name",
                "expected a name without control characters, such as ends of "
                "lines");
    else if (strlen(name) > NAME_BYTES)
        PROBLEM(draft, "run.name",
                "expected a name of at most %d bytes, got %zu", NAME_BYTES,
                strlen(name));
}

static void check_training(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->training.max_steps == 0)
        PROBLEM(draft, "training.max_steps",
                "expected an integer >= 1, or "
                "-1 to go by epochs, got 0");
    if (conf->checkpoint.only_model &&
        conf->training.resume != DT_CONF_RESUME_NONE)
        PROBLEM(draft, "checkpoint.only_model",
                "E126 cannot be used with training.resume: a checkpoint "
                "without the optimizer state cannot be resumed");
    if (conf->training.max_grad_norm <= 0 &&
        !has_failed(draft, "training.max_grad_norm"))
        WARNING(draft, "training.max_grad_norm",
                "0: gradients are not clipped");
    if (!conf->model.random_init && conf->optimizer.lr > 1e-4 &&
        conf->scheduler.warmup_steps <= 0 && conf->scheduler.warmup_ratio <= 0)
        WARNING(draft, "optimizer.lr",
                "%g without warm-up is high for "
                "pretrained weights",
                conf->optimizer.lr);
}

void dt_conf_check(struct dt_conf_draft *draft)
{
    dt_conf_check_launch(draft);
    dt_conf_check_env(draft);
    check_name(draft);
    dt_conf_check_rewards(draft);
    if (!draft->conf->trains)
        return;
    check_required(draft);
    check_model(draft);
    dt_conf_check_adapter(draft);
    check_data(draft);
    check_loss(draft);
    dt_conf_check_preference(draft);
    dt_conf_check_sampled(draft);
    dt_conf_warn_of_stream(draft);
    check_training(draft);
    check_best(draft);
    dt_conf_check_device(draft);
    dt_conf_check_numerics(draft);
    dt_conf_check_distributed(draft);
    dt_conf_check_batch(draft);
}
