/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deepspeed_keys.c - the table of DeepSpeed's keys
 *
 * Names, defaults and meanings are those of DeepSpeed 0.19 (deepspeed/runtime:
 * config.py, precision_config.py, zero/config.py, zero/offload_config.py).
 */
#include "config.h"

#include <string.h>

#include "base/str.h"
#include "conf/conf_impl.h"

/* clang-format off */
#define SECTION(path) {path, DT_DS_SECTION, NULL, NULL, NULL, 0}
#define SET(path, key) {path, DT_DS_SET, key, NULL, NULL, 0}
#define ON(path, key, value) {path, DT_DS_ON, key, value, NULL, 0}
#define LIMIT(path, key, scale, text) {path, DT_DS_LIMIT, key, NULL, text, scale}
#define NO_EFFECT(path, text) {path, DT_DS_NO_EFFECT, NULL, NULL, text, 0}
#define ALWAYS(path, value, text) {path, DT_DS_NO_EFFECT, NULL, value, text, 0}
#define MUST_BE(path, value, text) {path, DT_DS_MUST_BE, NULL, value, text, 0}
#define REFUSED(path, text) {path, DT_DS_REFUSED, NULL, NULL, text, 0}
/* clang-format on */

#define ZERO "zero_optimization."
#define OPTIMIZER ZERO "offload_optimizer."
#define PARAM ZERO "offload_param."

/* Why keys have no effect. */
#define OVERLAPS "every unit is reduced while the next one computes"
#define IN_PLACE "gradients are reduced where they are"
#define ALL_USED "every parameter is used in every step"
#define NORMS_INSIDE "small weights travel with their block"
#define IN_SLOTS "weights that are still in their slots are used again"
#define BY_UNITS "weights are gathered one block after another"
#define PINNED "host memory that a GPU copies from is always page-locked"
#define PIPELINED "reading, computing and writing always overlap"
#define WHOLE "a checkpoint always has whole weights"
#define METRICS "numbers of the run are in metrics.jsonl, see logging.report_to"
#define EVENTS "event files are in tb, in logging.dir"
#define ONE_DIVISION "sums over ranks are divided once, at the end, in fp32"
#define OURS_ONLY "disttrain's own optimizer is always used"
#define SWAPS_WEIGHTS "all weights are on the host, or all in the file"
#define CHECKPOINTS "blocks are recomputed by model.gradient_checkpointing"
#define SCALES_FP16 "losses are scaled in fp16 only"
#define PROFILES "the parts of a step are not measured"

/* Why keys are refused. */
#define NOT_SUPPORTED "not supported: remove it"
#define OTHER_STATE                                                            \
    "not supported: remove it; optimizer.state_dtype says in which type "      \
    "weights and moments are"
#define BF16_STATE                                                             \
    "not supported: remove it, and write optimizer.state_dtype: bf16 for "     \
    "weights and both moments, which are rounded at random"

const struct dt_deepspeed_key dt_deepspeed_keys[] = {
    /* Batch, clipping, reports */
    SET("train_batch_size", "training.train_batch_size"),
    SET("train_micro_batch_size_per_gpu", "training.per_device_batch_size"),
    SET("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SET("gradient_clipping", "training.max_grad_norm"),
    {"steps_per_print", DT_DS_PRINT, "logging.steps", NULL, NULL, 0},
    ALWAYS("wall_clock_breakdown", "true",
           "metrics.jsonl always has the times of the parts of a step"),
    ALWAYS("memory_breakdown", "false",
           "a run prints the memory of a rank before it starts"),
    ALWAYS("dump_state", "false",
           "`disttrain check --resolved` prints the configuration"),
    NO_EFFECT("log_level", "logging.level is for the messages of disttrain"),
    NO_EFFECT("timers", PROFILES),
    NO_EFFECT("comms_logger", PROFILES),
    NO_EFFECT("flops_profiler", PROFILES),
    SECTION("tensorboard"),
    {"tensorboard.enabled", DT_DS_REPORT, "logging.report_to", "tensorboard",
     NULL, 0},
    NO_EFFECT("tensorboard.output_path", EVENTS),
    NO_EFFECT("tensorboard.job_name", EVENTS),
    SECTION("wandb"),
    {"wandb.enabled", DT_DS_REPORT, "logging.report_to", "wandb", NULL, 0},
    SET("wandb.group", "logging.wandb.group"),
    SET("wandb.team", "logging.wandb.entity"),
    SET("wandb.project", "logging.wandb.project"),
    NO_EFFECT("csv_monitor",
              "disttrain-report(1) has the line of jq for a table of a run"),
    NO_EFFECT("comet", METRICS),
    NO_EFFECT("monitor_config", METRICS),

    /* Optimizer and schedule */
    SECTION("optimizer"),
    {"optimizer.type", DT_DS_OPTIMIZER, "optimizer.name", NULL, NULL, 0},
    ALWAYS("optimizer.legacy_fusion", "false", OURS_ONLY),
    SECTION("optimizer.params"),
    SET("optimizer.params.lr", "optimizer.lr"),
    SET("optimizer.params.betas", "optimizer.betas"),
    SET("optimizer.params.eps", "optimizer.eps"),
    SET("optimizer.params.weight_decay", "optimizer.weight_decay"),
    ALWAYS("optimizer.params.adam_w_mode", "true false",
           "it belongs to optimizer.type"),
    NO_EFFECT("optimizer.params.torch_adam", OURS_ONLY),
    NO_EFFECT("optimizer.params.fused", OURS_ONLY),
    NO_EFFECT("optimizer.params.foreach", OURS_ONLY),
    MUST_BE("optimizer.params.bias_correction", "true",
            "not supported: the moments are always corrected"),
    MUST_BE("optimizer.params.amsgrad", "false", NOT_SUPPORTED),
    {"optimizer.params.fp32_optimizer_states", DT_DS_ONLY_ON,
     "optimizer.state_dtype", "fp32", OTHER_STATE, 0},
    REFUSED("optimizer.params.max_grad_norm",
            "not here: write gradient_clipping at the top"),
    SECTION("scheduler"),
    SET("scheduler.type", "scheduler.name"),
    SECTION("scheduler.params"),
    SET("scheduler.params.warmup_min_lr", "scheduler.warmup_min_lr"),
    SET("scheduler.params.warmup_max_lr", "scheduler.warmup_max_lr"),
    SET("scheduler.params.warmup_num_steps", "scheduler.warmup_steps"),
    SET("scheduler.params.warmup_type", "scheduler.warmup_type"),
    SET("scheduler.params.total_num_steps", "scheduler.total_num_steps"),
    SET("scheduler.params.warmup_min_ratio", "scheduler.warmup_lr_rate"),
    SET("scheduler.params.cos_min_ratio", "scheduler.min_lr_rate"),
    ALWAYS("scheduler.params.last_batch_iteration", "-1",
           "training.resume continues the schedule where it was"),

    /* Precision */
    SECTION("fp16"),
    ON("fp16.enabled", "precision.compute", "fp16"),
    SET("fp16.loss_scale", "precision.loss_scale"),
    SET("fp16.loss_scale_window", "precision.loss_scale_window"),
    SET("fp16.initial_scale_power", "precision.initial_scale_power"),
    SET("fp16.hysteresis", "precision.hysteresis"),
    SET("fp16.consecutive_hysteresis", "precision.consecutive_hysteresis"),
    SET("fp16.min_loss_scale", "precision.min_loss_scale"),
    ALWAYS("fp16.auto_cast", "false", "inputs are token ids"),
    REFUSED("fp16.fp16_master_weights_and_grads", OTHER_STATE),
    SECTION("bf16"),
    ON("bf16.enabled", "precision.compute", "bf16"),
    NO_EFFECT("bf16.loss_scale", SCALES_FP16),
    NO_EFFECT("bf16.loss_scale_window", SCALES_FP16),
    NO_EFFECT("bf16.initial_scale_power", SCALES_FP16),
    NO_EFFECT("bf16.hysteresis", SCALES_FP16),
    NO_EFFECT("bf16.consecutive_hysteresis", SCALES_FP16),
    NO_EFFECT("bf16.min_loss_scale", SCALES_FP16),
    ALWAYS("bf16.auto_cast", "false", "inputs are token ids"),
    NO_EFFECT("bf16.immediate_grad_update", IN_PLACE),
    ALWAYS("bf16.check_grad_overflow", "true",
           "a step whose gradients are not finite is never taken"),
    REFUSED("bf16.bf16_master_weights_and_grads", BF16_STATE),
    REFUSED("bf16.bf16_optimizer_states", BF16_STATE),
    REFUSED("amp", "not supported: write bf16: {\"enabled\": true}"),
    REFUSED("torch_autocast", "not supported: write bf16: {\"enabled\": true}"),
    SET("communication_data_type", "precision.reduce_dtype"),
    NO_EFFECT("seq_parallel_communication_data_type",
              "rows are not divided over ranks"),
    SECTION("data_types"),
    SET("data_types.grad_accum_dtype", "precision.grad_accum_dtype"),
    NO_EFFECT("data_types.param_dtype", "weights are read in any type"),
    NO_EFFECT("data_types.buffer_dtype", "the models have no buffers"),
    ALWAYS("prescale_gradients", "false", ONE_DIVISION),
    ALWAYS("gradient_predivide_factor", "1 1.0", ONE_DIVISION),
    MUST_BE("gradient_allreduce_op", "mean",
            "not supported: gradients are averaged over all targets"),
    REFUSED("sparse_gradients", NOT_SUPPORTED),

    /* ZeRO */
    {"zero_optimization", DT_DS_SECTION, "distributed.strategy", NULL, NULL, 0},
    {ZERO "stage", DT_DS_STAGE, "distributed.strategy", NULL, NULL, 0},
    ALWAYS(ZERO "overlap_comm", "true", OVERLAPS),
    ALWAYS(ZERO "allgather_partitions", "true", "weights are always gathered"),
    ALWAYS(ZERO "reduce_scatter", "true",
           "each rank is always sent its part of the sums only"),
    ALWAYS(ZERO "contiguous_gradients", "true", IN_PLACE),
    ALWAYS(ZERO "round_robin_gradients", "false", IN_PLACE),
    ALWAYS(ZERO "use_multi_rank_bucket_allreduce", "true",
           "each rank owns a part of every unit"),
    ALWAYS(ZERO "ignore_unused_parameters", "true", ALL_USED),
    LIMIT(ZERO "reduce_bucket_size", "distributed.bucket_cap_mb",
          4.0 / (1 << 20), "buckets are always smaller than that"),
    NO_EFFECT(ZERO "allgather_bucket_size", BY_UNITS),
    SET(ZERO "stage3_prefetch_bucket_size", "distributed.prefetch_elements"),
    SET(ZERO "stage3_max_live_parameters", "distributed.live_elements"),
    NO_EFFECT(ZERO "stage3_max_reuse_distance", IN_SLOTS),
    NO_EFFECT(ZERO "stage3_param_persistence_threshold", NORMS_INSIDE),
    NO_EFFECT(ZERO "stage3_model_persistence_threshold", NORMS_INSIDE),
    ALWAYS(ZERO "stage3_module_granularity_threshold", "0", BY_UNITS),
    ALWAYS(ZERO "stage3_use_all_reduce_for_fetch_params", "false", BY_UNITS),
    ALWAYS(ZERO "stage3_allgather_sequential", "false", BY_UNITS),
    ALWAYS(ZERO "stage3_gather_16bit_weights_on_model_save", "true", WHOLE),
    ALWAYS(ZERO "stage3_gather_fp16_weights_on_model_save", "true", WHOLE),
    LIMIT(ZERO "sub_group_size", "distributed.offload_optimizer.tile_size", 1,
          "tiles are always smaller than that"),
    SECTION(ZERO "offload_optimizer"),
    SET(OPTIMIZER "device", "distributed.offload_optimizer.device"),
    SET(OPTIMIZER "nvme_path", "distributed.offload_optimizer.path"),
    SET(OPTIMIZER "buffer_count", "distributed.offload_optimizer.buffer_count"),
    SET(OPTIMIZER "ratio", "distributed.offload_optimizer.ratio"),
    ALWAYS(OPTIMIZER "pin_memory", "true", PINNED),
    ALWAYS(OPTIMIZER "pipeline", "true", PIPELINED),
    ALWAYS(OPTIMIZER "pipeline_read", "true", PIPELINED),
    ALWAYS(OPTIMIZER "pipeline_write", "true", PIPELINED),
    NO_EFFECT(OPTIMIZER "fast_init",
              "the state is written once, when the run starts"),
    NO_EFFECT(OPTIMIZER "cpuadam_cores_perc", "all CPUs of the rank compute"),
    REFUSED(OPTIMIZER "super_offload", NOT_SUPPORTED),
    SECTION(ZERO "offload_param"),
    SET(PARAM "device", "distributed.offload_param.device"),
    SET(PARAM "nvme_path", "distributed.offload_param.path"),
    ALWAYS(PARAM "pin_memory", "true", PINNED),
    NO_EFFECT(PARAM "buffer_count", BY_UNITS),
    NO_EFFECT(PARAM "buffer_size", BY_UNITS),
    NO_EFFECT(PARAM "max_in_cpu", SWAPS_WEIGHTS),
    {ZERO "cpu_offload", DT_DS_ON, "distributed.offload_optimizer.device",
     "cpu", "deprecated: write offload_optimizer: {\"device\": \"cpu\"}", 0},
    {ZERO "cpu_offload_param", DT_DS_ON, "distributed.offload_param.device",
     "cpu", "deprecated: write offload_param: {\"device\": \"cpu\"}", 0},
    {ZERO "cpu_offload_params", DT_DS_ON, "distributed.offload_param.device",
     "cpu", "deprecated: write offload_param: {\"device\": \"cpu\"}", 0},
    ALWAYS(ZERO "cpu_offload_use_pin_memory", "true", PINNED),
    {ZERO "zero_hpz_partition_size", DT_DS_GROUP, "distributed.shard_group",
     NULL, NULL, 0},
    {ZERO "mics_shard_size", DT_DS_GROUP, "distributed.shard_group", NULL, NULL,
     0},
    ALWAYS(ZERO "mics_hierarchical_params_gather", "false",
           "weights are gathered within a group only"),
    {ZERO "zero_quantized_gradients", DT_DS_ON,
     "distributed.reduce_between_nodes", "int8",
     "8 bits here, where DeepSpeed takes 4", 0},
    REFUSED(ZERO "zero_quantized_weights", NOT_SUPPORTED),
    REFUSED(ZERO "zero_quantized_nontrainable_weights", NOT_SUPPORTED),
    REFUSED(ZERO "zeropp_loco_param", NOT_SUPPORTED),
    REFUSED(ZERO "zenflow", "not supported: late gradients change the results"),
    NO_EFFECT(ZERO "leaf_module", BY_UNITS),
    ALWAYS(ZERO "memory_efficient_linear", "true",
           "no more than a block is ever kept"),
    ALWAYS(ZERO "override_module_apply", "true", "it is about PyTorch modules"),
    ALWAYS(ZERO "log_trace_cache_warnings", "false",
           "the order of units is fixed"),
    ALWAYS(ZERO "enable_sanity_checks", "true",
           "the order of units is always checked"),
    ALWAYS(ZERO "load_from_fp32_weights", "true",
           "a checkpoint always has the weights that AdamW updates"),
    ALWAYS(ZERO "elastic_checkpoint", "false",
           "a checkpoint loads on any number of ranks"),
    ALWAYS(ZERO "pipeline_loading_checkpoint", "false",
           "each rank reads its own part"),
    ALWAYS(ZERO "legacy_stage1", "false", "there is one stage 1"),
    ALWAYS(ZERO "save_muon_momentum_buffer_in_memory", "false",
           "there is no Muon"),
    NO_EFFECT("zero_allow_untested_optimizer", OURS_ONLY),
    NO_EFFECT("zero_force_ds_cpu_optimizer", OURS_ONLY),

    /* The drive */
    SECTION("aio"),
    SET("aio.block_size", "distributed.aio.block_size"),
    SET("aio.queue_depth", "distributed.aio.queue_depth"),
    SET("aio.intra_op_parallelism", "distributed.aio.threads"),
    SET("aio.thread_count", "distributed.aio.threads"),
    ALWAYS("aio.single_submit", "false", PIPELINED),
    ALWAYS("aio.overlap_events", "true", PIPELINED),
    REFUSED("aio.use_gds",
            "E106 not supported: files are read into host memory"),

    /* Activations */
    SECTION("activation_checkpointing"),
    ON("activation_checkpointing.cpu_checkpointing",
       "model.gradient_checkpointing", "offload"),
    ALWAYS("activation_checkpointing.partition_activations", "false",
           CHECKPOINTS),
    ALWAYS("activation_checkpointing.contiguous_memory_optimization", "false",
           CHECKPOINTS),
    NO_EFFECT("activation_checkpointing.number_checkpoints", CHECKPOINTS),
    ALWAYS("activation_checkpointing.synchronize_checkpoint_boundary", "false",
           CHECKPOINTS),
    ALWAYS("activation_checkpointing.profile", "false", PROFILES),

    /* Others */
    NO_EFFECT("checkpoint",
              "checkpoints are those of the section checkpoint in YAML"),
    NO_EFFECT("nebula",
              "checkpoints are those of the section checkpoint in YAML"),
    NO_EFFECT("compile", "nothing is compiled at run time"),
    ALWAYS("graph_harvesting", "false",
           "steps are recorded in CUDA graphs where possible"),
    ALWAYS("disable_allgather", "false", "weights are always gathered"),
    ALWAYS("dataloader_drop_last", "false",
           "an epoch continues into the next one"),
    ALWAYS("use_data_before_expert_parallelism", "false",
           "there are no experts"),
    NO_EFFECT("vocabulary_size", "the tokenizer and the model say it"),
    ALWAYS("managed_gradient_accumulation", "true",
           "gradients are always accumulated as configured"),
    REFUSED("elasticity",
            "not supported: training.resume takes any number of ranks"),
    REFUSED("autotuning",
            "not supported: remove it; distributed.strategy auto chooses"),
    REFUSED("sparse_attention", NOT_SUPPORTED),
    REFUSED("compression_training", NOT_SUPPORTED),
    REFUSED("weight_quantization", NOT_SUPPORTED),
    REFUSED("data_efficiency", NOT_SUPPORTED),
    REFUSED("curriculum_learning", NOT_SUPPORTED),
    REFUSED("progressive_layer_drop", NOT_SUPPORTED),
    REFUSED("eigenvalue", NOT_SUPPORTED),
    REFUSED("hybrid_engine", NOT_SUPPORTED),
    REFUSED("pipeline", NOT_SUPPORTED),
    REFUSED("moe", NOT_SUPPORTED),
    MUST_BE("sequence_parallel_size", "1", NOT_SUPPORTED),
    SECTION("tensor_parallel"),
    MUST_BE("tensor_parallel.autotp_size", "0 1", NOT_SUPPORTED),
    NO_EFFECT("tensor_parallel.tp_overlap_comm",
              "matrices are not divided over ranks"),
    NO_EFFECT("tensor_parallel.preset_model",
              "matrices are not divided over ranks"),

    /* A section of `deepspeed` in YAML */
    SET("yaml.config_path", "distributed.deepspeed_config"),

    /* The section deepspeed_config of accelerate's YAML */
    SET("accelerate.deepspeed_config_file", "distributed.deepspeed_config"),
    {"accelerate.zero_stage", DT_DS_STAGE, "distributed.strategy", NULL, NULL,
     0},
    SET("accelerate.gradient_accumulation_steps",
        "training.gradient_accumulation_steps"),
    SET("accelerate.gradient_clipping", "training.max_grad_norm"),
    SET("accelerate.offload_optimizer_device",
        "distributed.offload_optimizer.device"),
    SET("accelerate.offload_optimizer_nvme_path",
        "distributed.offload_optimizer.path"),
    SET("accelerate.offload_param_device", "distributed.offload_param.device"),
    SET("accelerate.offload_param_nvme_path", "distributed.offload_param.path"),
    NO_EFFECT("accelerate.zero3_init_flag", "each rank reads its own part"),
    NO_EFFECT("accelerate.zero3_save_16bit_model", WHOLE),
    NO_EFFECT("accelerate.deepspeed_multinode_launcher",
              "srun starts the ranks"),
    NO_EFFECT("accelerate.deepspeed_hostfile", "srun starts the ranks"),
    NO_EFFECT("accelerate.deepspeed_inclusion_filter", "srun starts the ranks"),
    NO_EFFECT("accelerate.deepspeed_exclusion_filter", "srun starts the ranks"),
    REFUSED("accelerate.deepspeed_moe_layer_cls_names", NOT_SUPPORTED),
    {0},
};

/* Other names of keys: as DeepSpeed once had them, or in another section. */
static const struct {
    const char *section, *name, *path;
} others[] = {
    {"", "bfloat16", "bf16"},
    {"zero_optimization", "aio", "aio"},
};

/* Whether `path` is the key `name` of `section`, also without stage3_. */
static bool is_key(const char *path, const char *section, const char *name)
{
    size_t n = strlen(section);
    if (n > 0 && (strncmp(path, section, n) != 0 || path[n++] != '.'))
        return false;
    path += n;
    return strcmp(path, name) == 0 ||
           (strncmp(path, "stage3_", 7) == 0 && strcmp(path + 7, name) == 0);
}

const struct dt_deepspeed_key *dt_deepspeed_find(const char *section,
                                                 const char *name)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(section, others[i].section) == 0 &&
            strcmp(name, others[i].name) == 0)
            return dt_deepspeed_find("", others[i].path);
    for (const struct dt_deepspeed_key *k = dt_deepspeed_keys; k->path; k++)
        if (is_key(k->path, section, name))
            return k;
    return NULL;
}

const char *dt_deepspeed_section(const char *path)
{
    static const struct {
        const char *path, *section;
    } sections[] = {
        {"deepspeed", ""},
        {"distributed.deepspeed", ""},
        {"deepspeed_config", "accelerate"},
        {"distributed.deepspeed_config", "accelerate"},
        {"zero_optimization", "zero_optimization"},
        {"distributed.zero", "zero_optimization"},
        {"fp16", "fp16"},
        {"bf16", "bf16"},
        {"bfloat16", "bf16"},
        {"aio", "aio"},
        {"activation_checkpointing", "activation_checkpointing"},
    };
    if (strncmp(path, "training.", 9) == 0)
        path += 9;
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (strcmp(path, sections[i].path) == 0)
            return sections[i].section;
    return NULL;
}

const char *dt_deepspeed_nearest(const char *section, const char *name)
{
    enum { NAMES_MAX = 128 };
    const char *names[NAMES_MAX];
    size_t n = strlen(section), count = 0;
    for (const struct dt_deepspeed_key *k = dt_deepspeed_keys; k->path; k++) {
        bool inside =
            n == 0 || (strncmp(k->path, section, n) == 0 && k->path[n] == '.');
        const char *rest = k->path + n + (n > 0);
        if (inside && !strchr(rest, '.') && count < NAMES_MAX)
            names[count++] = rest;
    }
    return dt_str_nearest(name, names, count);
}
