/* SPDX-License-Identifier: Apache-2.0 */
/* composed.c - makes a run's model of model.vision and model.language */
#include "config.h"

#include <limits.h>
#include <stdio.h>

#include "base/log.h"
#include "base/str.h"
#include "run/composed.h"

struct dt_compose dt_run_compose(const struct dt_conf *conf)
{
    static const enum dt_compose_rows rows[] = {
        [DT_CONF_FEATURES_AUTO] = DT_COMPOSE_AUTO,
        [DT_CONF_FEATURES_DEFAULT] = DT_COMPOSE_DEFAULT,
        [DT_CONF_FEATURES_FULL] = DT_COMPOSE_FULL,
    };
    return (struct dt_compose){
        .vision = conf->model.vision,
        .language = conf->model.language,
        .layer = conf->model.vision_feature_layer,
        .rows = rows[conf->model.vision_feature_select_strategy],
        .random = conf->model.random_init,
        .seed = conf->run.seed,
        .max_shard_bytes = (size_t)conf->checkpoint.max_shard_size,
    };
}

int dt_run_needs_model(const struct dt_conf *conf, struct dt_error *err)
{
    if (!dt_conf_composes(conf))
        return 0;
    const struct dt_compose compose = dt_run_compose(conf);
    const int found = dt_compose_find(conf->model.path, &compose, err);
    if (found < 0)
        return conf->run.overwrite ? 1 : -1;
    return !found;
}

static void say(const struct dt_conf *conf, const struct dt_composed *composed)
{
    dt_log(DT_LOG_INFO, "compose",
           "%s: made of the tower of %s and the language model of %s; its "
           "projector is random",
           conf->model.path, conf->model.vision, conf->model.language);
    if (composed->new_rows > 0)
        dt_log(DT_LOG_INFO, "compose",
               "its vocabulary has %zu tokens, %zu more than the language "
               "model; their rows are the mean of the others",
               composed->vocab_size, composed->new_rows);
}

int dt_run_make_model(const struct dt_conf *conf, struct dt_error *err)
{
    const int needed = dt_run_needs_model(conf, err);
    if (needed <= 0)
        return needed;
    const struct dt_compose compose = dt_run_compose(conf);
    struct dt_composed composed;
    int rc = dt_compose_read(&composed, &compose, err);
    if (rc == 0)
        rc = dt_compose_write(&compose, &composed, conf->model.path,
                              conf->run.overwrite, err);
    if (rc == 0)
        say(conf, &composed);
    dt_composed_fini(&composed);
    return rc;
}

int dt_run_composed_config(const struct dt_conf *conf,
                           struct dt_model_config *config, struct dt_error *err)
{
    const struct dt_compose compose = dt_run_compose(conf);
    struct dt_composed composed;
    *config = (struct dt_model_config){0};
    int rc = dt_compose_read(&composed, &compose, err);
    if (rc == 0)
        rc = dt_model_config_parse(config, composed.config, conf->model.path,
                                   err);
    dt_composed_fini(&composed);
    return rc;
}

int dt_run_check_halves(const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_compose compose = dt_run_compose(conf);
    struct dt_composed composed;
    int rc = dt_compose_read(&composed, &compose, err);
    if (rc == 0)
        rc = dt_compose_check(&compose, &composed, err);
    dt_composed_fini(&composed);
    return rc;
}
