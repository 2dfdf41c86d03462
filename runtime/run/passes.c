/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - forward and backward of a micro-batch */
#include "config.h"

#include "base/fault.h"
#include "base/span.h"
#include "run/run.h"

/* The work of a unit, which is recorded. */
struct unit {
    struct dt_learner *learner;
    size_t u;
    bool accumulate;
};

static void unit_forward(void *ctx)
{
    const struct unit *unit = ctx;
    dt_model_forward(unit->learner->model, unit->u);
}

static void unit_backward(void *ctx)
{
    const struct unit *unit = ctx;
    const struct dt_learner *learner = unit->learner;
    if (unit->u + 1 == learner->spec->layout->unit_count)
        dt_model_loss_and_backward(learner->model, learner->step,
                                   unit->accumulate);
    else
        dt_model_backward(learner->model, unit->u, unit->accumulate);
}

static int queue_forward(struct unit *unit, const struct dt_graph_shape *shape,
                         struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_FORWARD, unit->u);
    (void)dt_fault("train.forward");
    int rc = dt_graphs_run(unit->learner->graphs, shape, unit->u, unit_forward,
                           unit, err);
    dt_span_end(&span);
    return rc;
}

/* A last unit in which the host computes the loss cannot be recorded. */
static int queue_backward(struct dt_run *run, struct unit *unit,
                          const struct dt_graph_shape *shape,
                          const struct dt_batch *batch,
                          struct dt_metrics *metrics, struct dt_error *err)
{
    struct dt_learner *learner = unit->learner;
    size_t count = learner->spec->layout->unit_count;
    const bool last = unit->u + 1 == count;
    struct dt_span span;
    dt_span_begin_number(&span, last ? DT_SPAN_LOSS : DT_SPAN_BACKWARD,
                         unit->u);
    int rc = run->spec.algo->loss && last
                 ? dt_run_weigh(run, learner, batch, true, unit->accumulate,
                                metrics, err)
                 : dt_graphs_run(learner->graphs, shape, count + unit->u,
                                 unit_backward, unit, err);
    dt_span_end(&span);
    return rc;
}

int dt_run_queue_passes(struct dt_run *run, struct dt_learner *learner,
                        const struct dt_graph_shape *shape,
                        const struct dt_batch *batch,
                        struct dt_metrics *metrics, struct dt_error *err)
{
    size_t count = learner->spec->layout->unit_count;
    struct unit unit = {learner, 0, shape->accumulate};
    for (unit.u = 0; unit.u + 1 < count; unit.u++)
        if (dt_learner_forward(learner, unit.u, err) < 0 ||
            queue_forward(&unit, shape, err) < 0 ||
            dt_model_send_input(learner->model, unit.u, err) < 0)
            return -1;
    for (unit.u = count; unit.u-- > 0;)
        if (dt_learner_backward(learner, unit.u, err) < 0 ||
            dt_model_bring_input(learner->model, unit.u, err) < 0 ||
            queue_backward(run, &unit, shape, batch, metrics, err) < 0 ||
            dt_parallel_ready(learner->parallel, unit.u, err) < 0)
            return -1;
    return 0;
}

int dt_learner_forward_all(struct dt_learner *learner, struct dt_error *err)
{
    const size_t last = learner->spec->layout->unit_count - 1;
    for (size_t u = 0; u < last; u++) {
        if (dt_learner_forward(learner, u, err) < 0)
            return -1;
        dt_model_forward(learner->model, u);
    }
    return dt_learner_forward(learner, last, err);
}

int dt_learner_values(struct dt_learner *learner, float *value,
                      struct dt_error *err)
{
    if (dt_learner_forward_all(learner, err) < 0)
        return -1;
    dt_model_values_forward(learner->model);
    return dt_learner_bring_values(learner, value, err);
}
