/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c - resolves a configuration for so many ranks: batch and model */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/log.h"
#include "ckpt/ckpt.h"
#include "plan/plan.h"
#include "run/composed.h"
#include "run/numerics.h"
#include "plan/reward_models.h"
#include "run/run.h"
#include "sampling/sampling.h"
#include "weights/weights.h"

/* --- checkpoints that are models --- */

/* Whether a checkpoint is the one that the link `best` in its directory names.
 */
static bool is_best(const char *path)
{
    char root[PATH_MAX];
    snprintf(root, sizeof(root), "%.*s", (int)(strrchr(path, '/') - path),
             path);
    return dt_ckpt_best(root) == dt_ckpt_step(path);
}

/* Replaces a path by the directory of the checkpoint that it names: `latest`
 * may soon be another one. A path without a model stays; whoever reads it
 * reports the error.
 */
static void find_model(const char *key, char **path, bool says)
{
    char found[PATH_MAX];
    struct dt_error err;
    if (!*path || dt_weights_find(*path, found, &err) < 0 ||
        dt_ckpt_step(found) < 0)
        return;
    char *copy = strdup(found);
    if (!copy)
        return;
    const char *name = strrchr(copy, '/') + 1, *slash = strrchr(*path, '/');
    if (says && strcmp(slash ? slash + 1 : *path, name) != 0)
        dt_log(DT_LOG_INFO, "algo", "%s: %s: its %s checkpoint is %s", key,
               *path, is_best(copy) ? "best" : "newest", name);
    free(*path);
    *path = copy;
}

void dt_models_find(struct dt_conf *conf, bool says)
{
    const struct {
        const char *key;
        char **path;
    } models[] = {
        {"model.path", &conf->model.path},
        {"model.vision", &conf->model.vision},
        {"model.language", &conf->model.language},
        {"model.reference_path", &conf->model.reference_path},
        {"model.value_path", &conf->model.value_path},
        {"adapter.path", &conf->adapter.path},
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        find_model(models[i].key, models[i].path, says);
    for (size_t i = 0; i < conf->reward.count; i++)
        if (conf->reward.functions[i].type == DT_CONF_REWARD_MODEL)
            find_model("reward.functions.path", &conf->reward.functions[i].path,
                       says);
}

/* --- batch, model and layout --- */

/* Gives the model an embedding row for each token of the tokenizer. */
static int resize_embeddings(const struct dt_conf *conf,
                             struct dt_model_config *config,
                             struct dt_error *err)
{
    if (!conf->model.resize_embeddings)
        return 0;
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(dt_run_tokenizer_path(conf), err);
    if (!tokenizer)
        return dt_error_prefix(err, "model.resize_embeddings");
    const size_t tokens = dt_tokenizer_vocab_size(tokenizer);
    dt_tokenizer_destroy(tokenizer);
    if (tokens <= config->vocab_size)
        return 0;
    if (conf->adapter.type != DT_CONF_ADAPTER_NONE)
        return dt_error_set(err, EX_CONFIG,
                            "model.resize_embeddings: an adapter is saved "
                            "without the embedding, so its new rows would be "
                            "lost: train the model itself, or remove the "
                            "tokens the model does not have");
    dt_model_config_grow(config, tokens);
    return 0;
}

/* A model that is still to be made has a config of its halves. */
static int load_config(const struct dt_conf *conf, const char *dir,
                       struct dt_model_config *config, struct dt_error *err)
{
    const int needed = dt_run_needs_model(conf, err);
    *config = (struct dt_model_config){0};
    if (needed < 0)
        return -1;
    return needed ? dt_run_composed_config(conf, config, err)
                  : dt_model_config_load(config, dir, err);
}

/* Lets the config have the spelling of its files, or of those of the run, which
 * may need its first ones no longer.
 */
static void spell_model(const struct dt_conf *conf, const char *dir,
                        struct dt_model_config *config)
{
    const bool named = conf->training.resume == DT_CONF_RESUME_PATH;
    const char *own = named ? conf->training.resume_path : conf->run.output_dir;
    char found[PATH_MAX];
    if (!dt_weights_spell(dir, config) && own &&
        dt_weights_find(own, found, NULL) == 0)
        dt_weights_spell(found, config);
}

int dt_run_model_config(const struct dt_conf *conf,
                        struct dt_model_config *config, struct dt_error *err)
{
    const char *dir =
        conf->model.path ? conf->model.path : conf->model.config_path;
    if (dir) {
        if (load_config(conf, dir, config, err) < 0)
            return -1;
        spell_model(conf, dir, config);
        if (conf->model.train_padding_row)
            config->padding_row = -1;
        return resize_embeddings(conf, config, err);
    }
    *config = (struct dt_model_config){
        .family = dt_model_family_find("gpt2"),
        .gate = DT_GELU_TANH,
        .vocab_size = (size_t)conf->model.vocab_size,
        .n_positions = (size_t)conf->model.n_positions,
        .n_embd = (size_t)conf->model.n_embd,
        .n_layer = (size_t)conf->model.n_layer,
        .n_head = (size_t)conf->model.n_head,
        .n_kv_head = (size_t)conf->model.n_head,
        .head_size = (size_t)(conf->model.n_embd / conf->model.n_head),
        .n_inner = (size_t)conf->model.n_inner,
        .norm_epsilon = conf->model.layer_norm_epsilon,
        .initializer_range = conf->model.initializer_range,
        .tie_word_embeddings = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bos = -1,
        .pad = -1,
        .padding_row = -1,
    };
    if (dt_model_config_check(config, err) < 0)
        return dt_error_prefix(err, "%s: model", conf->file);
    return 0;
}

static bool trains_language(const struct dt_conf *conf)
{
    return conf->model.train_language == DT_CONF_AUTO_CHOICE
               ? conf->model.stage != DT_CONF_STAGE_PRETRAIN
               : conf->model.train_language;
}

/* Which parts of a model with a tower are trained, and at which rates. The
 * configuration then has an answer in place of auto, which a run that resumes
 * is compared with.
 */
static void choose_parts(struct dt_spec *spec)
{
    struct dt_conf *conf = &spec->conf;
    struct dt_learner_spec *learner = &spec->learner;
    const bool adapts = conf->adapter.type != DT_CONF_ADAPTER_NONE;
    const bool language = trains_language(conf);
    if (!learner->config.vision)
        return;
    conf->model.train_language = language;
    if (conf->model.train_projector == DT_CONF_AUTO_CHOICE)
        conf->model.train_projector = !adapts;
    if (adapts)
        return;
    learner->freezes[DT_PART_LANGUAGE] = !language;
    learner->freezes[DT_PART_PROJECTOR] = !conf->model.train_projector;
    learner->freezes[DT_PART_VISION] = !conf->model.train_vision;
    for (int part = 0; part < DT_PARTS; part++)
        learner->rates[part] = 1;
    if (conf->optimizer.projector_lr > 0)
        learner->rates[DT_PART_PROJECTOR] =
            conf->optimizer.projector_lr / conf->optimizer.lr;
    if (conf->optimizer.vision_lr > 0)
        learner->rates[DT_PART_VISION] =
            conf->optimizer.vision_lr / conf->optimizer.lr;
}

static int choose_model(struct dt_spec *spec, struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    struct dt_model_config *config = &spec->learner.config;
    const char *dir =
        conf->model.path ? conf->model.path : conf->model.config_path;
    if (dt_run_model_config(conf, config, err) < 0)
        return -1;
    const size_t most = dt_algo_positions(spec->algo, config);
    if (spec->T > most)
        return dt_error_set(err, EX_CONFIG,
                            "%s: data.max_length: %zu is more "
                            "than the %zu positions of the model",
                            conf->file, spec->T, most);
    if (config->stored_vocab > 0)
        dt_log(DT_LOG_INFO, "algo",
               "model.resize_embeddings: %zu tokens, %zu more than the model "
               "has; their rows are the mean of the others",
               config->vocab_size, config->vocab_size - config->stored_vocab);
    if (dt_run_images_init(&spec->images, conf, config, err) < 0)
        return -1;
    choose_parts(spec);
    return dt_algo_adapt(spec->algo, config, dir ? dir : conf->file, err);
}

/* --- all of it --- */

/* The most pictures of a prompt, until the data are known. */
static void bound_prompts(struct dt_spec *spec)
{
    if (spec->images.there && spec->algo->advantages)
        dt_run_images_bound(&spec->learner.config,
                            (size_t)spec->conf.data.max_prompt_length,
                            &spec->sampling.patches, &spec->sampling.pictures);
}

/* Batches of so many tokens, and not rows, are one row of documents. */
static struct dt_model_options model_options(const struct dt_spec *spec)
{
    const struct dt_conf *conf = &spec->conf;
    size_t B = spec->eval_B > spec->B ? spec->eval_B : spec->B, T = spec->T;
    if (spec->tokens > 0) {
        size_t step = dt_spec_length_step(spec);
        B = 1;
        T = (spec->tokens + step - 1) / step * step;
    }
    struct dt_model_options options = {
        .B = B,
        .T = T,
        .compute = dt_run_dtype(conf->precision.compute),
        .train = true,
        .documents = spec->tokens > 0 || dt_run_packs(conf),
        .document = spec->T,
        .recompute = conf->model.gradient_checkpointing,
        .offload =
            conf->model.gradient_checkpointing == DT_CONF_CHECKPOINT_OFFLOAD &&
            !spec->exec.device->is_host,
        .dropout = !conf->model.disable_dropout,
        .seed = conf->run.seed,
        .label_smoothing = (float)conf->training.label_smoothing,
        .values = spec->algo->pick,
        .collisions = conf->dpo.use_weighting,
        .logits = conf->logging.logits,
        .entropies = spec->algo->advantages,
        .temperature =
            spec->algo->advantages ? (float)conf->rollout.temperature : 1.0f,
    };
    if (spec->images.there) {
        dt_run_images_bound(&spec->learner.config, B * T, &options.patches,
                            &options.pictures);
        options.places = spec->algo->advantages ? spec->sampling.step_rows
                         : conf->data.format == DT_FORMAT_PREFERENCE ? DT_SIDES
                                                                     : 1;
        options.colors = &spec->images.colors.of[0][0];
    }
    return dt_learner_model_options(&spec->learner, &options);
}

/* Resolves batch, model and layout: everything that does not depend on data. */
static int resolve_conf(struct dt_spec *spec, struct dt_error *err)
{
    struct dt_conf *conf = &spec->conf;
    spec->algo = dt_algo_of(conf);
    if (dt_conf_resolve_device(
            conf, spec->exec.device->is_host ? DT_CONF_CPU : DT_CONF_CUDA,
            err) < 0 ||
        dt_conf_resolve_batch(conf, spec->world, err) < 0 ||
        dt_algo_check(conf, err) < 0)
        return -1;
    spec->B = (size_t)conf->training.per_device_batch_size;
    spec->eval_B = conf->training.per_device_eval_batch_size > 0
                       ? (size_t)conf->training.per_device_eval_batch_size
                       : spec->B;
    spec->T = (size_t)conf->data.max_length;
    spec->A = (size_t)conf->training.gradient_accumulation_steps;
    if (spec->algo->pick)
        spec->tokens =
            conf->training.micro_batch_tokens > 0
                ? (size_t)conf->training.micro_batch_tokens
                : (spec->algo->advantages ? 1 : 2) * spec->B * spec->T;
    dt_sampling_resolve(spec);
    if (snprintf(spec->ckpt_root, sizeof(spec->ckpt_root), "%s/checkpoints",
                 conf->run.output_dir) >= (int)sizeof(spec->ckpt_root))
        return dt_error_set(err, EX_CONFIG, "%s: run.output_dir is too long",
                            conf->file);
    spec->learner.folder = "";
    spec->learner.start = dt_conf_starts_random(conf) ? NULL : conf->model.path;
    if (choose_model(spec, err) < 0)
        return -1;
    spec->learner.config.value_head =
        spec->algo->critic_loss && conf->ppo.critic_shares;
    spec->learner.layout =
        dt_model_layout(&spec->learner.config, spec->world, err);
    if (!spec->learner.layout ||
        dt_spec_adapter_resolve(spec, &spec->learner, err) < 0 ||
        dt_learner_divide(&spec->learner, spec->world, err) < 0)
        return -1;
    return dt_spec_critic_resolve(spec, err);
}

int dt_plan_resolve(struct dt_spec *spec, struct dt_model_options *options,
                    struct dt_error *err)
{
    if (resolve_conf(spec, err) < 0)
        return -1;
    bound_prompts(spec);
    *options = model_options(spec);
    return dt_plan_rewards(spec, NULL, options->compute, err);
}
