/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.c - how ranks share weights, gradients and state, as the file says */
#include "config.h"

#include "run/sharing.h"

#include "run/offload.h"

/* `auto` counts as ddp until dt_plan_choose has settled it. */
static enum dt_strategy strategy_of(const struct dt_run *run)
{
    switch (run->conf.distributed.strategy) {
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
                              const struct dt_learner *learner)
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

struct dt_parallel_options dt_run_parallel_options(const struct dt_run *run,
                                                   enum dt_dtype compute)
{
    static const enum dt_when whens[] = {
        [DT_CONF_FALSE] = DT_WHEN_LAST,
        [DT_CONF_TRUE] = DT_WHEN_EACH,
        [DT_CONF_AUTO_CHOICE] = DT_WHEN_AUTO,
    };
    const struct dt_conf *conf = &run->conf;
    struct dt_parallel_options options = {
        .strategy = strategy_of(run),
        .compute = compute,
        .wire = conf->precision.reduce_bf16 ? DT_BF16 : DT_F32,
        .bucket_bytes = (size_t)conf->distributed.bucket_cap_mb << 20,
        .prefetch = slots_of_blocks(conf, &run->learner),
        .offload = dt_run_offload(run, strategy_of(run)),
        .when = whens[conf->distributed.reduce_each_micro_step],
    };
    dt_groups_apply(conf, &run->nodes, run->world, run->A, &options);
    return options;
}

struct dt_parallel_options dt_run_critic_sharing(
    const struct dt_run *run, const struct dt_parallel_options *parallel)
{
    struct dt_parallel_options options = *parallel;
    options.prefetch = slots_of_blocks(&run->conf, &run->critic);
    return options;
}

bool dt_run_needs_reference(const struct dt_run *run)
{
    return run->algo->needs_reference && run->algo->needs_reference(&run->conf);
}

struct dt_parallel_options dt_run_reference_options(const struct dt_run *run,
                                                    enum dt_dtype compute)
{
    const struct dt_parallel_options all =
        dt_run_parallel_options(run, compute);
    struct dt_parallel_options options =
        dt_learner_trained_options(&run->learner, &all);
    options.use =
        dt_run_sync_ref(&run->conf)->enabled ? DT_FOLLOWED : DT_FROZEN;
    return options;
}
