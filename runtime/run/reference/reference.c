/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - the frozen reference model: its weights and its passes
 *
 * It is a second set of weights in the layout of the trained ones. The model
 * computes a forward pass with them, into the same activations, which the
 * model's own pass overwrites later. Ranks share these weights as they share
 * the model's: with zero3 a unit is gathered for its pass only. If an adapter
 * is trained, the reference is the adapter that the run starts from, or the
 * model without one. Frozen parts of the model are the reference's, too, unless
 * that is another model: what a frozen tower sees is then computed once.
 */
#include "config.h"

#include <stdlib.h>

#include "base/span.h"
#include "run/learner.h"
#include "run/reference/reference.h"
#include "run/run.h"
#include "run/sharing.h"
#include "weights/weights.h"

const char *dt_run_reference_dir(const struct dt_run *run)
{
    const struct dt_conf *conf = &run->spec.conf;
    if (dt_learner_adapts(&run->spec.learner))
        return run->spec.learner.adapter_start;
    if (conf->model.reference_path)
        return conf->model.reference_path;
    return dt_conf_starts_random(conf) ? NULL : conf->model.path;
}

/* Refuses another architecture: the same shapes with other math would be
 * another model.
 */
static int check_config(const struct dt_run *run, struct dt_error *err)
{
    struct dt_model_config config = {0};
    const char *dir = run->spec.conf.model.reference_path, *key;
    int result = 0;
    if (!dir)
        return 0;
    if (dt_model_config_load(&config, dir, err) < 0)
        result = dt_error_prefix(err, "model.reference_path");
    else if ((key = dt_model_config_differ(&config, &run->spec.learner.config)))
        result = dt_conf_error_set(&run->spec.conf, "model.reference_path", err,
                                   "%s: its %s is not that of the model: the "
                                   "reference has to be of the same shape",
                                   dir, key);
    dt_model_config_fini(&config);
    return result;
}

/* --- its weights --- */

int dt_run_reference_changed(struct dt_run *run, struct dt_error *err)
{
    for (size_t u = 0; u < run->spec.learner.layout->unit_count; u++)
        if (dt_parallel_loaded(run->reference.parallel, u, err) < 0)
            return -1;
    return 0;
}

/* Opens the weights. They need no value head, even if the model has one. With
 * frozen weights, they are those of the adapter that the run starts from.
 */
static struct dt_weights *open_weights(const struct dt_run *run,
                                       const char *dir, struct dt_error *err)
{
    const struct dt_learner_spec *model = &run->spec.learner;
    bool scores;
    const struct dt_layout *layout = dt_learner_model_layout(model);
    if (dt_learner_adapts(model))
        return dt_weights_open_adapter(dir, model->layout, err);
    return model->config.value_head
               ? dt_weights_open_trunk(dir, layout, &scores, err)
               : dt_weights_open(dir, layout, err);
}

int dt_run_reference_init(struct dt_run *run, struct dt_segment *segment,
                          struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_parallel_options options =
        dt_spec_reference_options(spec, run->learner.compute);
    const struct dt_layout *layout = dt_spec_reference_layout(spec);
    if (!dt_spec_needs_reference(spec))
        return 0;
    run->reference.bare =
        dt_learner_adapts(&spec->learner) && !dt_run_reference_dir(run);
    if (run->reference.bare)
        return 0;
    if (check_config(run, err) < 0)
        return -1;
    options.segment = options.use == DT_FOLLOWED ? segment : NULL;
    options.name = "reference";
    run->reference.parallel =
        dt_parallel_create(layout, run->comm, &spec->exec, &options, err);
    run->reference.graphs =
        dt_graphs_create(&spec->exec, layout->unit_count, err);
    run->reference.weights_at =
        calloc(layout->unit_count, sizeof(*run->reference.weights_at));
    if (!run->reference.parallel || !run->reference.graphs)
        return -1;
    if (!run->reference.weights_at)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

int dt_run_reference_read(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_layout *layout = dt_spec_reference_layout(spec);
    const char *dir = dt_run_reference_dir(run);
    struct dt_weights *weights = NULL;
    if (!run->reference.parallel)
        return 0;
    if (dir && !(weights = open_weights(run, dir, err)))
        return dt_error_prefix(err, "the reference");
    const struct dt_frozen from = {
        .config = &spec->learner.config,
        .layout = layout,
        .model = dt_learner_adapts(&spec->learner)
                     ? layout
                     : dt_learner_model_layout(&spec->learner),
        .weights = weights,
        .seed = spec->conf.run.seed,
    };
    int result = weights ? dt_weights_check_twins(weights, err) : 0;
    if (result == 0)
        result =
            dt_frozen_load(run->reference.parallel, &from, spec->world, err);
    dt_weights_close(weights);
    return result;
}

void dt_run_reference_fini(struct dt_run *run)
{
    dt_graphs_destroy(run->reference.graphs);
    dt_parallel_destroy(run->reference.parallel);
    dt_buffer_destroy(run->reference.moved);
    run->reference.moved = NULL;
    free(run->reference.weights_at);
    run->reference.weights_at = NULL;
    run->reference.graphs = NULL;
    run->reference.parallel = NULL;
    run->reference.bare = false;
}

bool dt_run_refers(const struct dt_run *run)
{
    return run->reference.parallel || run->reference.bare;
}

/* The work of one unit, as recorded in a graph. */
struct unit {
    struct dt_model *model;
    size_t u;
};

static void unit_forward(void *ctx)
{
    const struct unit *unit = ctx;
    dt_model_forward(unit->model, unit->u);
}

/* Makes the weights of unit u available: the reference's, and frozen ones. */
static int take_unit(struct dt_run *run, size_t u, struct dt_error *err)
{
    if (dt_spec_shares_frozen(&run->spec) &&
        dt_parallel_forward(run->learner.frozen, u, err) < 0)
        return -1;
    return run->reference.bare
               ? 0
               : dt_parallel_forward(run->reference.parallel, u, err);
}

/* Forward pass up to the last unit. The weights of that unit are available
 * afterwards. What pictures go through has another size in each batch, and is
 * never recorded.
 */
static int pass(struct dt_run *run, const struct dt_graph_shape *shape,
                struct dt_error *err)
{
    struct unit unit = {run->learner.model, 0};
    const size_t last = run->spec.learner.layout->unit_count - 1;
    const struct dt_model_config *config = &run->spec.learner.config;
    const size_t recorded = config->vision ? dt_model_last_fed(config) + 1 : 0;
    for (; unit.u < last; unit.u++) {
        if (take_unit(run, unit.u, err) < 0)
            return -1;
        if (!shape || !run->reference.graphs || unit.u < recorded)
            unit_forward(&unit);
        else if (dt_graphs_run(run->reference.graphs, shape, unit.u,
                               unit_forward, &unit, err) < 0)
            return -1;
    }
    return take_unit(run, last, err);
}

/* Lets the model compute with another adapter, or its own; NULL: with none. */
static void use_adapter(struct dt_run *run, const struct dt_parallel *parallel)
{
    struct dt_places places = {0};
    if (parallel)
        places = dt_parallel_weights(parallel);
    dt_model_use_adapter(run->learner.model, parallel ? &places : NULL);
}

/* Lets the model compute with the weights of the reference, or its own. */
static void use_weights(struct dt_run *run, bool reference)
{
    const struct dt_learner *learner = &run->learner;
    const struct dt_parallel *parallel = run->reference.parallel;
    if (dt_learner_adapts(learner->spec))
        use_adapter(run, reference ? parallel : learner->parallel);
    else if (!reference)
        dt_model_use(learner->model, dt_learner_weights(learner));
    else if (dt_spec_shares_frozen(&run->spec))
        dt_model_use(learner->model,
                     dt_learner_weights_with(learner, parallel,
                                             run->reference.weights_at));
    else
        dt_model_use(learner->model, dt_parallel_weights(parallel));
}

int dt_run_reference(struct dt_run *run, const struct dt_graph_shape *shape,
                     struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_VALUES, 0);
    use_weights(run, true);
    int result = pass(run, shape, err);
    if (result == 0) {
        dt_model_values_forward(run->learner.model);
        result = dt_learner_bring_values(&run->learner,
                                         run->learner.values.reference, err);
    }
    use_weights(run, false);
    dt_model_keep(run->learner.model, dt_spec_reference_shared(&run->spec));
    dt_span_end(&span);
    return result;
}
