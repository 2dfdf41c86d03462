/* SPDX-License-Identifier: Apache-2.0 */
/* offload.c - applies distributed.offload_* to this device */
#include "config.h"

#include "base/log.h"
#include "run/offload.h"

/* Bytes a second of a GPU's link in each direction, and of a node's memory. */
static const double link_rate = 50e9, memory_rate = 200e9;

/* A tile that the file does not give: a small share of the state, but large
 * enough for a drive.
 */
enum { TILES = 32, LEAST_TILE = 1 << 19 };

static size_t choose_tile(const struct dt_spec *spec)
{
    static const char key[] = "distributed.offload_optimizer.tile_size";
    const struct dt_conf *conf = &spec->conf;
    size_t most = (size_t)conf->distributed.offload_optimizer.tile_size;
    size_t share = spec->learner.layout->count / (size_t)spec->world / TILES;
    /* sub_group_size of a DeepSpeed file is only a limit */
    if (dt_conf_given(conf, key) &&
        dt_conf_place_of(conf, key).source != DT_CONF_OF_DEEPSPEED)
        return most;
    share = share > LEAST_TILE ? share : LEAST_TILE;
    return share < most ? share : most;
}

/* Whether the CPUs are predicted to need less time per element. */
static bool host_is_faster(int node_size)
{
    double ranks = node_size > 0 ? node_size : 1;
    double host = 36 * ranks / memory_rate, device = 24 * ranks / memory_rate;
    if (host < 4 / link_rate)
        host = 4 / link_rate;
    if (device < 12 / link_rate)
        device = 12 / link_rate;
    return host < device;
}

static enum dt_offload_compute choose_compute(const struct dt_spec *spec,
                                              const struct dt_offload *offload)
{
    int wanted = spec->conf.distributed.offload_optimizer.compute;
    if (spec->exec.device->is_host)
        return DT_OFFLOAD_IN_PLACE;
    /* state that stays is updated on the device, and its weights leave from
     * there
     */
    if (offload->ratio < 1 && offload->weights != DT_TIER_DEVICE)
        return DT_OFFLOAD_STREAM;
    if (wanted == DT_CONF_COMPUTE_AUTO)
        return host_is_faster(spec->nodes.most) ? DT_OFFLOAD_HOST
                                                : DT_OFFLOAD_STREAM;
    return wanted == DT_CONF_COMPUTE_HOST ? DT_OFFLOAD_HOST : DT_OFFLOAD_STREAM;
}

static enum dt_tier tier_of(const struct dt_spec *spec, int device)
{
    if (device == DT_CONF_OFFLOAD_NVME)
        return DT_TIER_FILE;
    return device == DT_CONF_OFFLOAD_CPU && !spec->exec.device->is_host
               ? DT_TIER_HOST
               : DT_TIER_DEVICE;
}

struct dt_offload dt_spec_offload(const struct dt_spec *spec,
                                  enum dt_strategy strategy)
{
    const struct dt_conf *conf = &spec->conf;
    struct dt_offload offload = {
        .state = tier_of(spec, conf->distributed.offload_optimizer.device),
        .ratio = conf->distributed.offload_optimizer.ratio,
        .tile = choose_tile(spec),
        .path = conf->distributed.offload_optimizer.path,
        .weights_path = conf->distributed.offload_param.path,
        .buffers = (size_t)conf->distributed.offload_optimizer.buffer_count,
        .block_bytes = (size_t)conf->distributed.aio.block_size,
        .queue_depth = (unsigned)conf->distributed.aio.queue_depth,
    };
    if (strategy == DT_DDP || offload.state == DT_TIER_DEVICE)
        return (struct dt_offload){0};
    if (strategy == DT_ZERO3)
        offload.weights = tier_of(spec, conf->distributed.offload_param.device);
    offload.compute = choose_compute(spec, &offload);
    return offload;
}

static void note(const struct dt_spec *spec, const char *text)
{
    dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan", "%s", text);
}

/* Logs the bytes that move in each step, as writes wear drives. */
static void note_traffic(const struct dt_spec *spec, const struct dt_offload *o,
                         const struct dt_parallel_bytes *bytes)
{
    static const char *const where[] = {
        [DT_OFFLOAD_IN_PLACE] = "on the CPUs",
        [DT_OFFLOAD_STREAM] = "on the GPU",
        [DT_OFFLOAD_HOST] = "on the CPUs",
    };
    const char *from = o->state == DT_TIER_FILE ? o->path : "host memory";
    dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan",
           "offload: AdamW computes %s, in tiles of %zu elements from %s; in "
           "each step a rank reads and writes %.1f MB of files",
           where[o->compute], o->tile, from, (double)bytes->nvme / 1e6);
}

void dt_spec_offload_note(const struct dt_spec *spec,
                          const struct dt_parallel_options *options)
{
    const struct dt_conf *conf = &spec->conf;
    const struct dt_offload *o = &options->offload;
    const struct dt_parallel_bytes bytes =
        dt_parallel_plan(spec->learner.layout, spec->world, options);
    if (spec->exec.device->is_host &&
        conf->distributed.offload_optimizer.device == DT_CONF_OFFLOAD_CPU)
        note(spec, "distributed.offload_optimizer.device: cpu has no effect: "
                   "on the CPU all state is in host memory, and nothing moves");
    if (spec->exec.device->is_host &&
        conf->model.gradient_checkpointing == DT_CONF_CHECKPOINT_OFFLOAD)
        note(spec, "model.gradient_checkpointing: offload is true here: on the "
                   "CPU all activations are in host memory");
    if (conf->distributed.aio.threads > 1 && bytes.nvme > 0)
        note(spec, "distributed.aio.threads has no effect: io_uring keeps "
                   "distributed.aio.queue_depth requests under way from one");
    if (o->state != DT_TIER_DEVICE)
        note_traffic(spec, o, &bytes);
}
