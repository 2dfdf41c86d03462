/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adapter.c - LoRA adapters: trained weights next to frozen ones
 *
 * The frozen weights are in an engine of their own, as a reference model's are.
 * The learner's own engine has only the adapter: gradients, sums, norms,
 * updates and checkpoints have its layout. A critic has an adapter of its own,
 * like the policy's, and a head that is trained as a whole.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "run/spec.h"
#include "weights/adapter_file.h"
#include "weights/weights.h"

static int add_names(struct dt_adapter_names *names,
                     const struct dt_conf_list *list, struct dt_error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (dt_adapter_add_name(names, list->text[i], err) < 0)
            return -1;
    return 0;
}

/* Takes the adapter from the keys of the configuration. */
static int take_keys(const struct dt_conf *conf, struct dt_adapter *adapter,
                     struct dt_error *err)
{
    const struct dt_conf_list *targets = &conf->adapter.target_modules;
    adapter->r = (size_t)conf->adapter.r;
    adapter->alpha = conf->adapter.alpha;
    adapter->dropout = conf->adapter.dropout;
    adapter->rslora = conf->adapter.use_rslora;
    adapter->vision = conf->model.train_vision;
    adapter->projector = conf->model.train_projector == DT_CONF_TRUE;
    adapter->all_linear =
        targets->count == 1 && !strcmp(targets->text[0], "all-linear");
    if (!adapter->all_linear && add_names(&adapter->targets, targets, err) < 0)
        return -1;
    return add_names(&adapter->saved, &conf->adapter.modules_to_save, err);
}

/* Makes the adapter of the keys or of adapter.path for a model of this config
 * in the directory `base`. Returns its layout; NULL: err. dt_adapter_fini in
 * any case.
 */
static struct dt_layout *resolve_adapter(const struct dt_conf *conf,
                                         const char *base,
                                         const struct dt_model_config *config,
                                         const struct dt_layout *model,
                                         int world, struct dt_adapter *adapter,
                                         struct dt_error *err)
{
    const bool critic = conf->algorithm == DT_CONF_PPO && config->scores;
    int rc = conf->adapter.path
                 ? dt_adapter_load(adapter, conf->adapter.path, err)
                 : take_keys(conf, adapter, err);
    if (critic) /* modules that the policy saves may not exist here */
        dt_adapter_clear_names(&adapter->saved);
    if (rc == 0 && config->scores)
        rc = dt_adapter_add_name(&adapter->saved, "score", err);
    if (rc < 0)
        return NULL;
    free(adapter->base);
    adapter->base = strdup(base);
    if (!adapter->base) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    struct dt_layout *layout =
        dt_adapter_layout(adapter, config, model, world, err);
    if (!layout)
        dt_error_prefix(err, "%s",
                        conf->adapter.path ? conf->adapter.path : "adapter");
    return layout;
}

int dt_adapter_check(const struct dt_conf *conf,
                     const struct dt_model_config *config, struct dt_error *err)
{
    struct dt_adapter adapter = {0};
    struct dt_layout *layout = NULL;
    struct dt_weights *weights = NULL;
    if (conf->adapter.type == DT_CONF_ADAPTER_NONE)
        return 0;
    struct dt_layout *model = dt_model_layout(config, 1, err);
    if (model)
        layout = resolve_adapter(conf, conf->model.path, config, model, 1,
                                 &adapter, err);
    int rc = layout ? 0 : -1;
    if (layout && conf->adapter.path) {
        weights = dt_weights_open_adapter(conf->adapter.path, layout, err);
        rc = weights ? 0 : -1;
    }
    dt_weights_close(weights);
    dt_layout_destroy(layout);
    dt_layout_destroy(model);
    dt_adapter_fini(&adapter);
    return rc;
}

int dt_spec_adapter_resolve(const struct dt_spec *spec,
                            struct dt_learner_spec *learner,
                            struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    if (conf->adapter.type == DT_CONF_ADAPTER_NONE)
        return 0;
    learner->frozen = learner->layout;
    learner->layout =
        resolve_adapter(conf, learner->start, &learner->config, learner->frozen,
                        spec->world, &learner->adapter, err);
    if (!learner->layout)
        return -1;
    if (learner != &spec->critic)
        learner->adapter_start = conf->adapter.path;
    return 0;
}
