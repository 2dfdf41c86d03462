/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.c - how ranks share weights, gradients and state, as the file says */
#include "config.h"

#include "run/sharing.h"

#include "run/offload.h"

/* `auto` counts as ddp until dt_plan_choose has settled it. */
static enum dt_strategy strategy_of(const struct dt_spec *spec)
{
    switch (spec->conf.distributed.strategy) {
    case DT_CONF_ZERO1:
        return DT_ZERO1;
    case DT_CONF_ZERO2:
        return DT_ZERO2;
    case DT_CONF_ZERO3:
        return DT_ZERO3;
    default:
        return DT_DDP;
    }
}

/* Blocks of a learner's model that have a slot at once with zero3: one that is
 * computed, and those that prefetch_units or, by size, prefetch_elements lets
 * ranks gather ahead; live_elements limits all of them, down to two. Elements
 * are those of parameters, as DeepSpeed counts them: padding, which grows with
 * the world, changes nothing.
 */
static size_t slots_of_blocks(const struct dt_conf *conf,
                              const struct dt_learner_spec *learner)
{
    const size_t most =
        dt_layout_largest_block(dt_learner_model_layout(learner));
    const size_t block = most > 0 ? most : 1;
    size_t slots = (size_t)conf->distributed.prefetch_units;
    if (dt_conf_given(conf, "distributed.prefetch_elements") &&
        !dt_conf_given(conf, "distributed.prefetch_units"))
        slots = 1 + (size_t)conf->distributed.prefetch_elements / block;
    if (dt_conf_given(conf, "distributed.live_elements") &&
        slots > (size_t)conf->distributed.live_elements / block)
        slots = (size_t)conf->distributed.live_elements / block;
    return slots > 2 ? slots : 2;
}

struct dt_parallel_options dt_spec_parallel_options(const struct dt_spec *spec,
                                                    enum dt_dtype compute)
{
    static const enum dt_when whens[] = {
        [DT_CONF_FALSE] = DT_WHEN_LAST,
        [DT_CONF_TRUE] = DT_WHEN_EACH,
        [DT_CONF_AUTO_CHOICE] = DT_WHEN_AUTO,
    };
    const struct dt_conf *conf = &spec->conf;
    struct dt_parallel_options options = {
        .strategy = strategy_of(spec),
        .compute = compute,
        .wire = conf->precision.reduce_bf16 ? DT_BF16 : DT_F32,
        .bucket_bytes = (size_t)conf->distributed.bucket_cap_mb << 20,
        .prefetch = slots_of_blocks(conf, &spec->learner),
        .offload = dt_spec_offload(spec, strategy_of(spec)),
        .when = whens[conf->distributed.reduce_each_micro_step],
    };
    dt_groups_apply(conf, &spec->nodes, spec->world, spec->A, &options);
    return options;
}

struct dt_parallel_options dt_spec_critic_sharing(
    const struct dt_spec *spec, const struct dt_parallel_options *parallel)
{
    struct dt_parallel_options options = *parallel;
    options.prefetch = slots_of_blocks(&spec->conf, &spec->critic);
    return options;
}

bool dt_spec_needs_reference(const struct dt_spec *spec)
{
    return spec->algo->needs_reference &&
           spec->algo->needs_reference(&spec->conf);
}

struct dt_parallel_options dt_spec_reference_options(const struct dt_spec *spec,
                                                     enum dt_dtype compute)
{
    const struct dt_parallel_options all =
        dt_spec_parallel_options(spec, compute);
    struct dt_parallel_options options =
        dt_learner_trained_options(&spec->learner, &all);
    options.use =
        dt_run_sync_ref(&spec->conf)->enabled ? DT_FOLLOWED : DT_FROZEN;
    return options;
}
