/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - a frozen model that computes beside the one that is trained
 *
 * It is one more buffer of weights in the layout of the model, which computes
 * with it for the time of a forward pass: its activations are those that the
 * model's own pass overwrites. The buffer is whole on every rank, also where
 * the weights of the model are shared.
 */
#include "config.h"

#include <string.h>

#include "algo/run.h"
#include "weights/weights.h"

size_t dt_run_reference_bytes(const struct dt_run *run, enum dt_dtype compute)
{
    return run->algo->needs_reference && run->algo->needs_reference(&run->conf)
               ? run->learner.layout->count * dt_dtype_bytes(compute)
               : 0;
}

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

/* Unit u into `to`, in host memory. `random`: room for its fp32 weights. */
static int read_unit(const struct dt_run *run, struct dt_weights *weights,
                     size_t u, struct dt_view random, struct dt_view to,
                     struct dt_error *err)
{
    const struct dt_learner *learner = &run->learner;
    const struct dt_unit *unit = &learner->layout->units[u];
    const struct dt_exec host = dt_exec_cpu();
    if (weights)
        return dt_weights_read(
            weights, (struct dt_range){unit->offset, unit->count}, to, err);
    memset(dt_view_data(random), 0, unit->count * sizeof(float));
    dt_model_init_unit(&learner->model_config, learner->layout, u, random,
                       run->conf.run.seed);
    if (to.dtype == DT_F32)
        memcpy(dt_view_data(to), dt_view_data(random),
               unit->count * sizeof(float));
    else
        host.ops->convert(host.stream, to, random);
    return 0;
}

/* All units, through host memory if the device is another. */
static int read_units(struct dt_run *run, struct dt_weights *weights,
                      struct dt_error *err)
{
    const struct dt_learner *learner = &run->learner;
    const struct dt_exec *exec = &run->exec;
    size_t most = dt_learner_unit_elements(learner);
    struct dt_places places =
        dt_places_flat(dt_view_of(run->reference.buf, learner->compute));
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, 2 * most * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = 0; u < learner->layout->unit_count && result == 0; u++) {
        struct dt_view there = dt_layout_unit(learner->layout, &places, u);
        struct dt_view random =
            dt_view_slice(dt_view_of(room, DT_F32), 0, there.count);
        size_t second = most * sizeof(float) / dt_dtype_bytes(there.dtype);
        struct dt_view here =
            dt_view_slice(dt_view_of(room, there.dtype), second, there.count);
        size_t bytes = there.count * dt_dtype_bytes(there.dtype);
        memset(dt_view_data(here), 0, bytes);
        result = read_unit(run, weights, u, random, here, err);
        if (result == 0)
            result = exec->device->copy(exec->stream, dt_view_data(there),
                                        dt_view_data(here), bytes, err);
    }
    dt_buffer_destroy(room);
    return result;
}

int dt_run_reference_init(struct dt_run *run, struct dt_error *err)
{
    size_t bytes = dt_run_reference_bytes(run, run->learner.compute);
    const char *dir = dt_run_reference_dir(run);
    struct dt_weights *weights = NULL;
    if (bytes == 0)
        return 0;
    if (check_config(run, err) < 0)
        return -1;
    run->reference.buf =
        dt_buffer_create(run->exec.device, bytes, "the reference", err);
    run->reference.graphs =
        dt_graphs_create(&run->exec, run->learner.layout->unit_count, err);
    if (!run->reference.buf || !run->reference.graphs)
        return -1;
    if (dir && !(weights = dt_weights_open(dir, run->learner.layout, err)))
        return dt_error_prefix(err, "the reference");
    int result = weights ? dt_weights_check_head(weights, err) : 0;
    if (result == 0)
        result = read_units(run, weights, err);
    dt_weights_close(weights);
    return result;
}

void dt_run_reference_fini(struct dt_run *run)
{
    dt_graphs_destroy(run->reference.graphs);
    dt_buffer_destroy(run->reference.buf);
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

int dt_run_reference(struct dt_run *run, const struct dt_graph_shape *shape,
                     struct dt_error *err)
{
    struct dt_learner *learner = &run->learner;
    struct unit unit = {learner->model, 0};
    int result = 0;
    dt_model_use(learner->model, dt_places_flat(dt_view_of(run->reference.buf,
                                                           learner->compute)));
    for (; unit.u + 1 < learner->layout->unit_count && result == 0; unit.u++) {
        if (shape)
            result = dt_graphs_run(run->reference.graphs, shape, unit.u,
                                   unit_forward, &unit, err);
        else
            unit_forward(&unit);
    }
    if (result == 0) {
        dt_model_values_forward(learner->model);
        result = dt_learner_bring_values(learner, learner->values.reference,
                                         learner->values.collision, err);
    }
    dt_model_use(learner->model, dt_parallel_weights(learner->parallel));
    return result;
}
