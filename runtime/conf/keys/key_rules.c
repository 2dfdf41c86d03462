/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_rules.c - derives defaults and checks rules, section by section
 *
 * The rules of sections run, model, logging and optimizer are here; others have
 * sources of their own.
 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/keys/draft.h"

enum {
    BYTE_VOCAB = 257,   /* tokens of the byte tokenizer */
    GPT2_VOCAB = 50257, /* tokens of GPT-2's, used for most token files */
};

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
    dt_conf_is_left(draft->conf, path);
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
    if (conf->run.output_dir && dt_conf_composes(conf))
        derive_dir(draft, "model.path", &conf->model.path, conf->run.output_dir,
                   "", "composed");
}

/* Stores beta1 and beta2, other names for the two values of betas. */
static void derive_betas(struct dt_conf_draft *draft)
{
    static const char *const names[] = {"optimizer.beta1", "optimizer.beta2"};
    struct dt_conf_place *pair =
        dt_conf_place_for(draft->conf, "optimizer.betas");
    bool pair_given = pair->line > 0;
    for (int i = 0; i < 2; i++) {
        struct dt_conf_place *one = dt_conf_place_for(draft->conf, names[i]);
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
    dt_conf_derive_pairs(draft);
    dt_conf_derive_sampled(draft);
    dt_conf_derive_data(draft);
    if (dt_conf_is_left(conf, "run.data_seed"))
        conf->run.data_seed = conf->run.seed;
    if (dt_conf_is_left(conf, "model.init"))
        conf->model.random_init =
            !dt_conf_given(conf, "model.path") && !dt_conf_composes(conf);
    if (dt_conf_is_left(conf, "model.vocab_size"))
        conf->model.vocab_size =
            conf->data.kind == DT_KIND_TOKENS ? GPT2_VOCAB : BYTE_VOCAB;
    if (dt_conf_is_left(conf, "model.n_inner"))
        conf->model.n_inner = 4 * conf->model.n_embd;
    if (dt_conf_is_left(conf, "training.eval_steps")) {
        conf->training.eval_steps = conf->logging.steps;
        conf->training.eval_steps_ratio = conf->logging.steps_ratio;
    }
    dt_conf_derive_distributed(draft);
    dt_conf_derive_precision(draft);
    dt_conf_derive_schedule(draft);
}

static void check_required(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (!dt_conf_given(conf, "algorithm"))
        PROBLEM(draft, "algorithm",
                "required: write algorithm: sft, rm, dpo, ppo or grpo");
    if (!dt_conf_given(conf, "data.train"))
        PROBLEM(draft, "data.train", "required: a file or a list of files");
}

/* The given key whose directory has the model's config.json, or NULL. */
static const char *described_elsewhere(const struct dt_conf *conf)
{
    return dt_conf_given(conf, "model.path")          ? "model.path"
           : dt_conf_given(conf, "model.config_path") ? "model.config_path"
           : dt_conf_given(conf, "model.vision")      ? "model.vision"
           : dt_conf_given(conf, "model.language")    ? "model.language"
                                                      : NULL;
}

/* Checks the keys that describe a model without a config.json. */
static void check_shape(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const char *elsewhere = described_elsewhere(conf);
    bool described = false;
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (!dt_conf_keys[i].shape || conf->place[i].line <= 0)
            continue;
        described = true;
        if (elsewhere)
            PROBLEM(draft, dt_conf_keys[i].path,
                    "cannot be used with %s: its config.json describes the "
                    "model",
                    elsewhere);
    }
    if (!described && !elsewhere)
        PROBLEM(draft, "model.path",
                "required, or the model's shape: n_embd, n_layer, n_head");
    if (elsewhere)
        return;
    if (conf->data.max_length > conf->model.n_positions)
        PROBLEM(draft, "data.max_length",
                "E119 %ld tokens do not fit into model.n_positions %ld",
                conf->data.max_length, conf->model.n_positions);
    if (conf->model.tokenizer != DT_CONF_TOKENIZER_PATH &&
        conf->data.kind != DT_KIND_TOKENS &&
        conf->data.format != DT_FORMAT_TOKENIZED &&
        conf->model.vocab_size < BYTE_VOCAB)
        PROBLEM(draft, "model.vocab_size",
                "E120 %ld rows are too few for the byte tokenizer: at least %d",
                conf->model.vocab_size, (int)BYTE_VOCAB);
}

/* Checks that the two halves of a model are given, and nothing else. */
static void check_halves(struct dt_conf_draft *draft)
{
    static const char *const halves[] = {"model.vision", "model.language"};
    static const char *const wholes[] = {"model.path", "model.config_path"};
    static const char *const choices[] = {
        "model.vision_feature_layer", "model.vision_feature_select_strategy"};
    const struct dt_conf *conf = draft->conf;
    const bool chosen[] = {
        conf->model.vision_feature_layer != -2,
        conf->model.vision_feature_select_strategy != DT_CONF_FEATURES_AUTO};
    for (int i = 0; i < 2; i++) {
        const char *half = halves[i], *other = halves[1 - i];
        if (dt_conf_given(conf, half) && !dt_conf_given(conf, other))
            PROBLEM(draft, half,
                    "needs %s: a model is made of the two directories", other);
        for (int k = 0; k < 2 && dt_conf_given(conf, half); k++)
            if (dt_conf_given(conf, wholes[k]) &&
                (i == 0 || !dt_conf_given(conf, other)))
                PROBLEM(draft, half,
                        "cannot be used with %s: write the directory of the "
                        "language model as model.language",
                        wholes[k]);
        if (chosen[i] && !dt_conf_given(conf, "model.vision"))
            PROBLEM(draft, choices[i],
                    "needs model.vision: the config.json of a whole model "
                    "says this");
    }
    if (dt_conf_composes(conf) &&
        conf->model.tokenizer != DT_CONF_TOKENIZER_AUTO)
        PROBLEM(draft, "model.tokenizer",
                "cannot be used with model.vision: the tokenizer is that of "
                "model.language, with a token for images");
    if (dt_conf_composes(conf) && conf->model.resize_embeddings)
        PROBLEM(draft, "model.resize_embeddings",
                "cannot be used with model.vision: the vocabulary grows by "
                "the tokens of images in any case");
}

static void check_model(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    check_shape(draft);
    check_halves(draft);
    if (!dt_conf_given(conf, "model.path") &&
        !dt_conf_given(conf, "model.vision") && !conf->model.random_init)
        PROBLEM(draft, "model.init", "pretrained needs model.path");
    if (strcasecmp(conf->model.type, "gpt2") != 0)
        PROBLEM(draft, "model.type",
                "%.60s: these keys describe only gpt2; write a config.json "
                "and name its directory in model.config_path",
                conf->model.type);
    if (dt_conf_given(conf, "model.path") &&
        dt_conf_given(conf, "model.config_path"))
        PROBLEM(draft, "model.config_path", "cannot be used with model.path");
    if (conf->model.n_embd % conf->model.n_head != 0 &&
        !dt_conf_has_failed(draft, "model.n_embd") &&
        !dt_conf_has_failed(draft, "model.n_head"))
        PROBLEM(draft,
                dt_conf_given(conf, "model.n_head") ? "model.n_head"
                                                    : "model.n_embd",
                "n_embd %ld is not a multiple of n_head %ld",
                conf->model.n_embd, conf->model.n_head);
}

/* Checks the name of a directory and of a job, in whose script it has a line.
 */
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

void dt_conf_check(struct dt_conf_draft *draft)
{
    dt_conf_check_launch(draft);
    check_name(draft);
    dt_conf_check_rewards(draft);
    if (!draft->conf->trains)
        return;
    check_required(draft);
    check_model(draft);
    dt_conf_check_adapter(draft);
    dt_conf_check_images(draft);
    dt_conf_check_data(draft);
    dt_conf_check_pairs(draft);
    dt_conf_check_sampled(draft);
    dt_conf_check_training(draft);
    dt_conf_check_precision(draft);
    dt_conf_check_schedule(draft);
    dt_conf_check_distributed(draft);
}
