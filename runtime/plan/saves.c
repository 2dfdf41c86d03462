/* SPDX-License-Identifier: Apache-2.0 */
/* saves.c - host memory for what a run saves: checkpoints that wait to be
 * written, and copies for its next processes
 */
#include "config.h"

#include "plan/plan.h"
#include "run/sharing.h"
#include "sampling/sampling.h"

/* The layout of the model's files: the model, or an adapter. */
static const struct dt_layout *saved_layout(const struct dt_learner_spec *spec)
{
    return dt_learner_adapts(spec) ? spec->layout
                                   : dt_learner_model_layout(spec);
}

/* Bytes of the model's files that `rank` writes: of the shards, which are as
 * large as `most` allows, those that are its turn.
 */
static size_t model_bytes(const struct dt_layout *layout, size_t element,
                          size_t most, int rank, int world)
{
    size_t shard = 0, number = 0, mine = 0;
    for (size_t i = 0; i < layout->param_count; i++) {
        const size_t more = layout->params[i].count * element;
        if (shard > 0 && shard + more > most) {
            number++;
            shard = 0;
        }
        shard += more;
        if (number % (size_t)world == (size_t)rank)
            mine += more;
    }
    return mine;
}

/* Whether a run of this configuration is to have saves that it need not wait
 * for. Small ones take less than a step, and would only be left out where they
 * are often due.
 */
static bool is_to_go_on(const struct dt_conf *conf, size_t bytes)
{
    static const size_t small = 64000000;
    return !conf->training.eval_only &&
           conf->checkpoint.strategy == DT_CONF_STEPS &&
           (conf->checkpoint.async == DT_CONF_ASYNC_ON ||
            (conf->checkpoint.async == DT_CONF_ASYNC_AUTO && bytes >= small));
}

/* Whether the optimizer's state is on a drive, of which no copy is taken. */
static bool is_on_drive(const struct dt_conf *conf)
{
    return conf->distributed.offload_optimizer.device == DT_CONF_OFFLOAD_NVME;
}

/* Whether the run moves a reference, whose weights are saved and copied. */
static bool reference_follows(const struct dt_spec *spec, enum dt_dtype compute)
{
    return dt_spec_needs_reference(spec) &&
           dt_spec_reference_options(spec, compute).use == DT_FOLLOWED;
}

/* Bytes of the files of `rank`, and *all: of those of all ranks. */
static size_t count_bytes(const struct dt_spec *spec, enum dt_dtype compute,
                          int rank, size_t *all)
{
    const struct dt_conf *conf = &spec->conf;
    const struct dt_learner_spec *const learners[] = {&spec->learner,
                                                      &spec->critic};
    const enum dt_dtype stored = dt_spec_stored_type(spec, compute);
    const size_t element = dt_dtype_bytes(stored);
    const size_t world = (size_t)spec->world;
    /* m, v, and the weights that are updated beside rounded ones */
    const size_t kinds = conf->checkpoint.only_model          ? 0
                         : dt_spec_rounds_saved(spec, stored) ? 3
                                                              : 2;
    const size_t each = dt_dtype_bytes(dt_spec_state_type(spec));
    /* what comes with tensors: texts, and lines of the headers of files */
    const size_t headers = 1 << 16, entry = 256;
    size_t mine = 0;
    *all = 0;
    for (size_t i = 0; i < 2 && learners[i]->layout; i++) {
        const struct dt_layout *model = saved_layout(learners[i]);
        const size_t state = learners[i]->layout->count * kinds * each;
        *all += model->param_total * element + state;
        mine += headers + model->param_count * (kinds + 1) * entry;
        mine +=
            state / world + model_bytes(model, element,
                                        (size_t)conf->checkpoint.max_shard_size,
                                        rank, spec->world);
    }
    if (kinds > 0 && reference_follows(spec, compute)) {
        const struct dt_layout *layout = dt_spec_reference_layout(spec);
        const size_t weights = layout->count * sizeof(float);
        *all += weights;
        mine += weights / world + layout->param_count * entry;
    }
    return mine;
}

size_t dt_plan_stage_bytes(const struct dt_spec *spec, enum dt_dtype compute,
                           int rank)
{
    size_t all;
    const size_t mine = count_bytes(spec, compute, rank, &all);
    return is_to_go_on(&spec->conf, all) && !is_on_drive(&spec->conf) ? mine
                                                                      : 0;
}

bool dt_plan_drive_holds_up(const struct dt_spec *spec, enum dt_dtype compute)
{
    size_t all;
    count_bytes(spec, compute, 0, &all);
    return is_to_go_on(&spec->conf, all) && is_on_drive(&spec->conf);
}

size_t dt_plan_copies_bytes(const struct dt_spec *spec, enum dt_dtype compute)
{
    enum { COPIES = 2 };
    const struct dt_parallel_options all =
        dt_spec_parallel_options(spec, compute);
    const struct dt_parallel_options reference =
        dt_spec_reference_options(spec, compute);
    const struct dt_learner_spec *const learners[] = {&spec->learner,
                                                      &spec->critic};
    size_t bytes = dt_samples_bytes(spec);
    for (size_t i = 0; i < 2 && learners[i]->layout; i++)
        bytes += dt_host_copy_plan(learners[i]->layout, spec->world, &all);
    if (reference_follows(spec, compute))
        bytes += dt_host_copy_plan(dt_spec_reference_layout(spec), spec->world,
                                   &reference);
    return COPIES * bytes;
}

bool dt_plan_copies(const struct dt_spec *spec)
{
    const struct dt_conf *conf = &spec->conf;
    return !spec->exec.device->is_host && !conf->training.eval_only &&
           !is_on_drive(conf) &&
           (conf->launch.keeper == DT_CONF_KEEPER_ON ||
            (conf->launch.keeper == DT_CONF_KEEPER_AUTO && spec->world > 1));
}
