/* SPDX-License-Identifier: Apache-2.0 */
/* distributed_rules.c - rules of section distributed: strategy, offload, world
 */
#include "config.h"

#include "conf/keys/draft.h"

#define OPTIMIZER "distributed.offload_optimizer."
#define PARAM "distributed.offload_param."

/* zero_stage is another spelling of strategy. */
static void settle_stage(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    struct dt_conf_place *stage =
        dt_conf_place_for(conf, "distributed.zero_stage");
    struct dt_conf_place *strategy =
        dt_conf_place_for(conf, "distributed.strategy");
    int meant = DT_CONF_DDP + (int)conf->distributed.zero_stage;
    if (stage->line <= 0 || dt_conf_has_failed(draft, "distributed.zero_stage"))
        return;
    if (strategy->line > 0 && conf->distributed.strategy != meant &&
        conf->distributed.strategy != DT_CONF_BY_DEEPSPEED &&
        !dt_conf_has_failed(draft, "distributed.strategy"))
        PROBLEM(draft, "distributed.zero_stage",
                "E105 %ld means %s, but distributed.strategy in %s says "
                "otherwise: remove one of them",
                conf->distributed.zero_stage, dt_conf_strategy_name(meant),
                dt_conf_where(&draft->problems, *strategy, *stage));
    conf->distributed.strategy = meant;
    *strategy = *stage;
    conf->distributed.zero_stage = 0;
    stage->line = 0;
}

/* DeepSpeed ignores an offload that its stage cannot have, so a file of its may
 * ask for one. `least` is the first strategy that can.
 */
static void drop_offload(struct dt_conf_draft *draft, const char *path,
                         int *device, int least)
{
    int strategy = draft->conf->distributed.strategy;
    if (*device == DT_CONF_OFFLOAD_NONE || strategy == DT_CONF_AUTO_STRATEGY ||
        strategy >= least ||
        dt_conf_place_of(draft->conf, path).source != DT_CONF_OF_DEEPSPEED)
        return;
    WARNING(draft, path, "no effect with %s, neither here nor in DeepSpeed",
            dt_conf_strategy_name(strategy));
    *device = DT_CONF_OFFLOAD_NONE;
}

void dt_conf_derive_distributed(struct dt_conf_draft *draft)
{
    int *strategy = &draft->conf->distributed.strategy;
    settle_stage(draft);
    if (*strategy == DT_CONF_BY_DEEPSPEED) {
        PROBLEM(draft, "distributed.strategy",
                "E105 deepspeed needs a stage: give zero_optimization.stage "
                "in the file of distributed.deepspeed_config, or zero_stage");
        *strategy = DT_CONF_AUTO_STRATEGY;
    }
    drop_offload(draft, OPTIMIZER "device",
                 &draft->conf->distributed.offload_optimizer.device,
                 DT_CONF_ZERO1);
    drop_offload(draft, PARAM "device",
                 &draft->conf->distributed.offload_param.device, DT_CONF_ZERO3);
}

const char *dt_conf_strategy_name(int strategy)
{
    static const char *const names[] = {"auto",  "ddp",   "zero1",
                                        "zero2", "zero3", "deepspeed"};
    return names[strategy];
}

/* --- offload --- */

/* A tier needs a path if it is a file, and only then. */
static void check_path(struct dt_conf_draft *draft, const char *device,
                       const char *path, int tier)
{
    bool given = dt_conf_given(draft->conf, path);
    if (tier == DT_CONF_OFFLOAD_NVME && !given &&
        !dt_conf_has_failed(draft, path))
        PROBLEM(draft, device,
                "E106 nvme needs %s: a directory on a local drive of each node",
                path);
    if (tier != DT_CONF_OFFLOAD_NVME && given)
        WARNING(draft, path, "no effect: %s is not nvme", device);
}

static void check_offload_optimizer(struct dt_conf_draft *draft)
{
    static const char *const others[] = {
        OPTIMIZER "compute",
        OPTIMIZER "ratio",
        OPTIMIZER "buffer_count",
        OPTIMIZER "tile_size",
    };
    const struct dt_conf *conf = draft->conf;
    int tier = conf->distributed.offload_optimizer.device;
    check_path(draft, OPTIMIZER "device", OPTIMIZER "path", tier);
    if (tier != DT_CONF_OFFLOAD_NONE &&
        conf->distributed.strategy == DT_CONF_DDP)
        PROBLEM(draft, OPTIMIZER "device",
                "E106 with ddp each rank needs the whole state at once: set "
                "distributed.strategy to zero1, zero2 or zero3");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (tier == DT_CONF_OFFLOAD_NONE && dt_conf_differs(draft, others[i]))
            WARNING(draft, others[i], "no effect: %sdevice is none", OPTIMIZER);
}

static void check_offload_param(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    int tier = conf->distributed.offload_param.device;
    int strategy = conf->distributed.strategy;
    check_path(draft, PARAM "device", PARAM "path", tier);
    if (tier == DT_CONF_OFFLOAD_NONE)
        return;
    if (strategy != DT_CONF_ZERO3 && strategy != DT_CONF_AUTO_STRATEGY)
        PROBLEM(draft, PARAM "device",
                "E106 with %s each rank computes with all weights: set "
                "distributed.strategy to zero3",
                dt_conf_strategy_name(strategy));
    else if (conf->distributed.offload_optimizer.device == DT_CONF_OFFLOAD_NONE)
        WARNING(draft, PARAM "device",
                "no effect without distributed.offload_optimizer: weights are "
                "rounded from the fp32 weights, which are on the device");
}

/* --- keys that not every strategy looks at --- */

static void warn_of_unused(struct dt_conf_draft *draft)
{
    enum { GATHERS = 1 << DT_CONF_AUTO_STRATEGY | 1 << DT_CONF_ZERO3 };
    static const struct {
        const char *path;
        unsigned strategies; /* bits of those that look at it */
    } used[] = {
        {"distributed.strategy_auto_memory", 1u << DT_CONF_AUTO_STRATEGY},
        {"distributed.shard_group", 1u << DT_CONF_AUTO_STRATEGY |
                                        1u << DT_CONF_ZERO2 |
                                        1u << DT_CONF_ZERO3},
        {"distributed.prefetch_units", GATHERS},
        {"distributed.prefetch_elements", GATHERS},
        {"distributed.live_elements", GATHERS},
    };
    static const char *const aio[] = {
        "distributed.aio.block_size",
        "distributed.aio.queue_depth",
        "distributed.aio.threads",
    };
    const struct dt_conf *conf = draft->conf;
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        if (!(used[i].strategies & 1u << conf->distributed.strategy) &&
            dt_conf_differs(draft, used[i].path))
            WARNING(draft, used[i].path, "no effect with strategy %s",
                    dt_conf_strategy_name(conf->distributed.strategy));
    if (conf->distributed.offload_optimizer.device == DT_CONF_OFFLOAD_NVME ||
        conf->distributed.offload_param.device == DT_CONF_OFFLOAD_NVME)
        return;
    for (size_t i = 0; i < sizeof(aio) / sizeof(aio[0]); i++)
        if (dt_conf_differs(draft, aio[i]))
            WARNING(draft, aio[i], "no effect: nothing is offloaded to nvme");
}

static void check_reduction(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    bool int8 = conf->distributed.int8_between_nodes;
    if (int8 && conf->distributed.reduction == DT_CONF_FLAT)
        PROBLEM(draft, "distributed.reduce_between_nodes",
                "int8 is for sums between nodes, and distributed.reduction: "
                "flat has none of these: write two_level or auto");
    else if (int8 && conf->launch.nodes == 1)
        WARNING(draft, "distributed.reduce_between_nodes",
                "no effect on one node (launch.nodes): gradients are rounded "
                "between nodes only");
    if (conf->distributed.shard_group == DT_CONF_GROUP_NODE &&
        conf->distributed.reduction == DT_CONF_FLAT)
        PROBLEM(draft, "distributed.shard_group",
                "E105 nodes sum gradients within each and then between them, "
                "but distributed.reduction is flat: remove one of them");
}

static void check_prefetch(struct dt_conf_draft *draft)
{
    if (dt_conf_given(draft->conf, "distributed.prefetch_units") &&
        dt_conf_given(draft->conf, "distributed.prefetch_elements"))
        WARNING(draft, "distributed.prefetch_elements",
                "no effect: distributed.prefetch_units is given");
}

static void check_outage(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (dt_conf_given(conf, "distributed.outage_s") &&
        !dt_conf_has_failed(draft, "distributed.outage_s") &&
        !dt_conf_has_failed(draft, "distributed.timeout_s") &&
        conf->distributed.outage_s >= conf->distributed.timeout_s)
        PROBLEM(draft, "distributed.outage_s",
                "%ld must be less than distributed.timeout_s, which is %ld",
                conf->distributed.outage_s, conf->distributed.timeout_s);
}

void dt_conf_check_distributed(struct dt_conf_draft *draft)
{
    check_outage(draft);
    check_offload_optimizer(draft);
    check_offload_param(draft);
    check_reduction(draft);
    check_prefetch(draft);
    warn_of_unused(draft);
}

int dt_conf_check_world(const struct dt_conf *conf, long world,
                        struct dt_error *err)
{
    long group = conf->distributed.shard_group;
    if (!conf->distributed.enabled && world > 1)
        return dt_conf_error_set(conf, "distributed.enabled", err,
                                 "false, but the run has %ld ranks: start "
                                 "one, or remove the key",
                                 world);
    if (group <= 0 || world % group == 0)
        return 0;
    return dt_conf_error_set(conf, "distributed.shard_group", err,
                             "E102 %ld ranks cannot be divided into groups of "
                             "%ld",
                             world, group);
}
