/* SPDX-License-Identifier: Apache-2.0 */
/*
 * critic.c - the critic, a second trained model
 *
 * It is a learner like the first: the trunk of model.value_path, or of the
 * model itself, with a head that gives one number to each position. It has the
 * strategy, the optimizer and the schedule of the first, and a learning rate,
 * a norm for clipping and a loss scale of its own. With
 * ppo.critic.share_backbone there is no second model: the first one has the
 * head (value_head in model.h).
 */
#include "config.h"

#include <string.h>

#include "run/numerics.h"
#include "run/run.h"
#include "run/sharing.h"

/* The directory of its config.json; NULL: it is a copy of the model's. */
static const char *config_dir(const struct dt_conf *conf)
{
    if (conf->model.value_path)
        return conf->model.value_path;
    return conf->model.path ? conf->model.path : conf->model.config_path;
}

/* Sets *critic to the config in model.value_path, or to the model's own. */
static int load_config(const struct dt_conf *conf,
                       const struct dt_model_config *model,
                       struct dt_model_config *critic, struct dt_error *err)
{
    const char *dir = config_dir(conf);
    int rc = 0;
    if (dir)
        rc = dt_model_config_load(critic, dir, err);
    else
        *critic = *model;
    if (conf->model.train_padding_row)
        critic->padding_row = -1;
    return rc;
}

int dt_critic_config(const struct dt_conf *conf,
                     const struct dt_model_config *model,
                     struct dt_model_config *critic, struct dt_error *err)
{
    if (load_config(conf, model, critic, err) < 0 ||
        dt_model_check_scores(critic, err) < 0)
        return dt_error_prefix(err, "the critic");
    critic->scores = true;
    if (critic->vocab_size != model->vocab_size)
        return dt_error_set(err, EX_CONFIG,
                            "%s: has %zu tokens, but the model has %zu: the "
                            "critic reads what the model writes",
                            config_dir(conf), critic->vocab_size,
                            model->vocab_size);
    if (critic->n_positions < (size_t)conf->data.max_length)
        return dt_error_set(
            err, EX_CONFIG, "%s: has %zu positions, but data.max_length is %ld",
            config_dir(conf), critic->n_positions, conf->data.max_length);
    return 0;
}

/* Checks that it sees the pictures of the model. Its parts are trained as those
 * of the model are.
 */
static int check_sight(struct dt_spec *spec, struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    struct dt_learner_spec *critic = &spec->critic;
    memcpy(critic->freezes, spec->learner.freezes, sizeof(critic->freezes));
    memcpy(critic->rates, spec->learner.rates, sizeof(critic->rates));
    return conf->model.value_path
               ? dt_run_images_same(&spec->images, conf, &critic->config,
                                    conf->model.value_path, err)
               : 0;
}

int dt_spec_critic_resolve(struct dt_spec *spec, struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    struct dt_learner_spec *critic = &spec->critic;
    struct dt_error own;
    if (!spec->algo->critic_loss || conf->ppo.critic_shares)
        return 0;
    critic->folder = "critic";
    critic->start =
        conf->model.value_path ? conf->model.value_path : spec->learner.start;
    if (dt_critic_config(conf, &spec->learner.config, &critic->config, &own) <
            0 ||
        check_sight(spec, &own) < 0) {
        dt_conf_error_set(
            conf, conf->model.value_path ? "model.value_path" : "algorithm",
            err, "%s", own.text);
        err->status = own.status;
        return -1;
    }
    critic->layout = dt_model_layout(&critic->config, spec->world, err);
    if (!critic->layout)
        return -1;
    return dt_spec_adapter_resolve(spec, critic, err) < 0 ||
                   dt_learner_divide(critic, spec->world, err) < 0
               ? dt_error_prefix(err, "the critic")
               : 0;
}

struct dt_model_options dt_spec_critic_options(
    const struct dt_spec *spec, const struct dt_model_options *options)
{
    struct dt_model_options own =
        dt_learner_model_options(&spec->critic, options);
    own.collisions = own.entropies = false;
    return own;
}

size_t dt_spec_critic_memory(const struct dt_spec *spec,
                             const struct dt_model_options *options)
{
    const struct dt_model_options own = dt_spec_critic_options(spec, options);
    return spec->critic.layout ? dt_model_memory_bytes(&spec->critic.config,
                                                       spec->exec.ops, &own)
                               : 0;
}

int dt_run_critic_init(struct dt_run *run,
                       const struct dt_model_options *options,
                       const struct dt_parallel_options *parallel,
                       const struct dt_optim_options *optim,
                       struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_model_options own = dt_spec_critic_options(spec, options);
    if (!spec->critic.layout)
        return 0;
    const struct dt_parallel_options sharing =
        dt_spec_critic_sharing(spec, parallel);
    run->critic.scaler = dt_run_scaler(&spec->conf);
    return dt_learner_init(&run->critic, &spec->critic, &spec->exec, run->comm,
                           &own, &sharing, optim, err);
}

bool dt_run_warms_up(const struct dt_run *run)
{
    return run->spec.algo->critic_loss &&
           run->samples.generation <=
               (uint64_t)run->spec.conf.ppo.critic_warmup;
}

int dt_run_schedules(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    const long alone = spec->algo->critic_loss
                           ? conf->ppo.critic_warmup * (long)spec->sampling.uses
                           : 0;
    struct dt_conf own = *conf;
    own.optimizer.lr = conf->ppo.critic_lr;
    if (alone > 0 && alone >= run->total_steps)
        return dt_conf_error_set(conf, "ppo.critic.warmup", err,
                                 "%ld generations of %zu steps leave none of "
                                 "%ld to the policy",
                                 conf->ppo.critic_warmup, spec->sampling.uses,
                                 run->total_steps);
    run->learner.schedule =
        dt_run_schedule(conf, spec->world, run->total_steps - alone);
    run->critic.schedule = dt_run_schedule(&own, spec->world, run->total_steps);
    return 0;
}
