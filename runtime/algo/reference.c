/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - a frozen model that computes beside the one that is trained
 *
 * It is one more set of weights in the layout of the model, which computes with
 * them for the time of a forward pass: its activations are those that the
 * model's own pass overwrites. Ranks share its weights as they share the
 * model's: with zero3 a unit is gathered for the time of its pass.
 */
#include "config.h"

#include <string.h>

#include "algo/plan.h"
#include "algo/run.h"
#include "weights/weights.h"

const char *dt_run_reference_dir(const struct dt_run *run)
{
    const struct dt_conf *conf = &run->conf;
    if (conf->model.reference_path)
        return conf->model.reference_path;
    return conf->model.random_init ? NULL : conf->model.path;
}

/* The same shapes with other mathematics would be another model. */
static int check_config(const struct dt_run *run, struct dt_error *err)
{
    struct dt_model_config config = {0};
    const char *dir = run->conf.model.reference_path, *key;
    int result = 0;
    if (!dir)
        return 0;
    if (dt_model_config_load(&config, dir, err) < 0)
        result = dt_error_prefix(err, "model.reference_path");
    else if ((key =
                  dt_model_config_differ(&config, &run->learner.model_config)))
        result = dt_conf_error_set(&run->conf, "model.reference_path", err,
                                   "%s: its %s is not that of the model: the "
                                   "reference has to be of the same shape",
                                   dir, key);
    dt_model_config_fini(&config);
    return result;
}

/* --- its weights --- */

/* This rank's part of unit u into `to`, in host memory; of random weights,
 * those of the unit go to `unit` first.
 */
static int read_part(const struct dt_run *run, struct dt_weights *weights,
                     size_t u, struct dt_view unit, struct dt_view to,
                     struct dt_error *err)
{
    const struct dt_exec host = dt_exec_cpu();
    struct dt_range part =
        dt_layout_part(run->learner.layout, u,
                       dt_parallel_index(run->reference.parallel), run->world);
    memset(dt_view_data(to), 0, to.count * dt_dtype_bytes(to.dtype));
    if (weights)
        return dt_weights_read(weights, part, to, err);
    memset(dt_view_data(unit), 0, unit.count * sizeof(float));
    dt_model_init_unit(&run->learner.model_config, run->learner.layout, u, unit,
                       run->conf.run.seed);
    struct dt_view from = dt_view_slice(
        unit, part.first - run->learner.layout->units[u].offset, part.count);
    if (to.dtype == DT_F32)
        memcpy(dt_view_data(to), dt_view_data(from), to.count * sizeof(float));
    else
        host.ops->convert(host.stream, to, from);
    return 0;
}

/* All parts of this rank, through host memory. */
static int read_parts(struct dt_run *run, struct dt_weights *weights,
                      struct dt_error *err)
{
    struct dt_parallel *reference = run->reference.parallel;
    const size_t most = dt_learner_unit_elements(&run->learner);
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, 2 * most * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = 0; u < run->learner.layout->unit_count && result == 0;
         u++) {
        struct dt_view part = dt_parallel_part(reference, DT_OWNED_MASTER, u);
        struct dt_view unit = dt_view_slice(
            dt_view_of(room, DT_F32), 0, run->learner.layout->units[u].count);
        size_t second = most * sizeof(float) / dt_dtype_bytes(part.dtype);
        struct dt_view here =
            dt_view_slice(dt_view_of(room, part.dtype), second, part.count);
        result = read_part(run, weights, u, unit, here, err);
        if (result == 0)
            result = dt_parallel_put(reference, part, dt_view_data(here), err);
    }
    dt_buffer_destroy(room);
    return result;
}

int dt_run_reference_changed(struct dt_run *run, struct dt_error *err)
{
    for (size_t u = 0; u < run->learner.layout->unit_count; u++)
        if (dt_parallel_loaded(run->reference.parallel, u, err) < 0)
            return -1;
    return 0;
}

/* It needs no value head where the model has one. */
static struct dt_weights *open_weights(const struct dt_run *run,
                                       const char *dir, struct dt_error *err)
{
    const struct dt_learner *model = &run->learner;
    bool scores;
    return model->model_config.value_head
               ? dt_weights_open_trunk(dir, model->layout, &scores, err)
               : dt_weights_open(dir, model->layout, err);
}

int dt_run_reference_init(struct dt_run *run, struct dt_error *err)
{
    const struct dt_parallel_options options =
        dt_run_reference_options(run, run->learner.compute);
    const char *dir = dt_run_reference_dir(run);
    struct dt_weights *weights = NULL;
    if (!dt_run_needs_reference(run))
        return 0;
    if (check_config(run, err) < 0)
        return -1;
    run->reference.parallel = dt_parallel_create(run->learner.layout, run->comm,
                                                 &run->exec, &options, err);
    run->reference.graphs =
        dt_graphs_create(&run->exec, run->learner.layout->unit_count, err);
    if (!run->reference.parallel || !run->reference.graphs)
        return -1;
    if (dir && !(weights = open_weights(run, dir, err)))
        return dt_error_prefix(err, "the reference");
    int result = weights ? dt_weights_check_head(weights, err) : 0;
    if (result == 0)
        result = read_parts(run, weights, err);
    dt_weights_close(weights);
    return result < 0 ? -1 : dt_run_reference_changed(run, err);
}

void dt_run_reference_fini(struct dt_run *run)
{
    dt_graphs_destroy(run->reference.graphs);
    dt_parallel_destroy(run->reference.parallel);
    run->reference = (struct dt_reference){0};
}

/* The work of a unit, which is recorded. */
struct unit {
    struct dt_model *model;
    size_t u;
};

static void unit_forward(void *ctx)
{
    const struct unit *unit = ctx;
    dt_model_forward(unit->model, unit->u);
}

/* The forward pass up to the last unit, whose weights are there, too. */
static int pass(struct dt_run *run, const struct dt_graph_shape *shape,
                struct dt_error *err)
{
    struct unit unit = {run->learner.model, 0};
    const size_t last = run->learner.layout->unit_count - 1;
    for (; unit.u < last; unit.u++) {
        if (dt_parallel_forward(run->reference.parallel, unit.u, err) < 0)
            return -1;
        if (!shape)
            unit_forward(&unit);
        else if (dt_graphs_run(run->reference.graphs, shape, unit.u,
                               unit_forward, &unit, err) < 0)
            return -1;
    }
    return dt_parallel_forward(run->reference.parallel, last, err);
}

int dt_run_reference(struct dt_run *run, const struct dt_graph_shape *shape,
                     struct dt_error *err)
{
    dt_model_use(run->learner.model,
                 dt_parallel_weights(run->reference.parallel));
    int result = pass(run, shape, err);
    if (result == 0) {
        dt_model_values_forward(run->learner.model);
        result = dt_learner_bring_values(&run->learner,
                                         run->learner.values.reference,
                                         run->learner.values.collision, err);
    }
    dt_model_use(run->learner.model,
                 dt_parallel_weights(run->learner.parallel));
    return result;
}
