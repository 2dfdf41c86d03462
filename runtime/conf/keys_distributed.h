/* SPDX-License-Identifier: Apache-2.0 */
/* keys_distributed.h - rows of the schema, for schema.c: distributed */
/* clang-format off */

    /* distributed */
    {"distributed.strategy", DT_CONF_ENUM, AT(distributed.strategy),
     .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_STRATEGY, NULL},
                    {"ddp", DT_CONF_DDP, NULL},
                    {"zero1", DT_CONF_ZERO1, NULL},
                    {"zero2", DT_CONF_ZERO2, NULL},
                    {"zero3", DT_CONF_ZERO3, NULL},
                    {"deepspeed", DT_CONF_BY_DEEPSPEED, NULL}),
     .clash = "E105 ", .aliases = ALSO("distributed_strategy"),
     .help = "what each rank holds a part of: nothing (ddp), the state of the "
             "optimizer (zero1), gradients too (zero2), weights too (zero3); "
             "auto takes what fits and is predicted to be fastest, deepspeed is "
             "the stage of deepspeed_config"},
    {"distributed.deepspeed_config", DT_CONF_DIR,
     AT(distributed.deepspeed_config),
     .aliases = ALSO("deepspeed", "deepspeed_config", "deepspeed_config_file",
                     "deepspeed.config_path"),
     .help = "DeepSpeed configuration (JSON) whose keys count as keys of this "
             "file; both may give a key if they agree or the JSON has "
             "\"auto\""},
    {"distributed.zero_stage", DT_CONF_INT, AT(distributed.zero_stage),
     .max = 3, .aliases = ALSO("zero_stage"),
     .help = "the strategy by the numbers of DeepSpeed: 0 is ddp, 1 to 3 are "
             "zero1 to zero3"},
    {"distributed.strategy_auto_memory", DT_CONF_BOOL,
     AT(distributed.strategy_auto_memory), .fallback = "true",
     .aliases = ALSO("strategy_auto_memory"),
     .help = "with strategy auto: of what fits into memory, take the fastest "
             "as disttrain plan predicts it, or the first in the order of "
             "strategies where no other is over 3 % faster or no rates are "
             "known; false: go by the number of parameters alone, ddp below "
             "1e9, zero2 up to 7e9, zero3 above. Offload as the file asks for "
             "it needs zero1 at least"},
    {"distributed.rates", DT_CONF_DIR, AT(distributed.rates),
     .help = "file of rates that disttrain doctor --rates has measured, by "
             "which strategy auto and disttrain plan predict; the default are "
             "the built-in rates of the device: H100, H200, A100 or a CPU"},
    {"distributed.enabled", DT_CONF_BOOL, AT(distributed.enabled),
     .fallback = "true", .aliases = ALSO("distributed"),
     .help = "whether more than one rank may train; false refuses such a run. "
             "How many there are is up to srun"},
    {"distributed.shard_group", DT_CONF_INT_OR_WORD,
     AT(distributed.shard_group), .fallback = "auto", .min = 1, .max = 1e6,
     .unit = "ranks",
     .words = WORDS({"auto", DT_CONF_GROUP_AUTO, NULL},
                    {"node", DT_CONF_GROUP_NODE, NULL},
                    {"world", DT_CONF_GROUP_WORLD, NULL}),
     .aliases = ALSO("shard_group"),
     .help = "ranks over which zero2 and zero3 divide gradients and weights: "
             "those of a node, all, or groups of neighbors; must divide the "
             "number of ranks. The state of the optimizer is divided over all. "
             "auto is a node, if there are several with equally many ranks and "
             "that fits into memory"},
    {"distributed.prefetch_units", DT_CONF_INT, AT(distributed.prefetch_units),
     .fallback = "2", .min = 2, .max = 10000, .unit = "blocks",
     .aliases = ALSO("prefetch_units"),
     .help = "with zero3, blocks whose whole weights a rank holds at once: "
             "one that is computed, the others gathered ahead"},
    {"distributed.prefetch_elements", DT_CONF_INT,
     AT(distributed.prefetch_elements), .max = 1e12, .unit = "elements",
     .help = "as prefetch_units, by size: weights to gather ahead, in whole "
             "blocks and at least one"},
    {"distributed.live_elements", DT_CONF_INT, AT(distributed.live_elements),
     .max = 1e12, .unit = "elements",
     .help = "with zero3, limit of the gathered weights of blocks at any time; "
             "two blocks are always allowed"},
    {"distributed.reduce_each_micro_step", DT_CONF_BOOL_OR_WORD,
     AT(distributed.reduce_each_micro_step), .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_CHOICE, NULL}),
     .aliases = ALSO("reduce_each_micro_step"),
     .help = "reduce gradients after each micro-batch instead of once a step; "
             "auto does with zero2 and zero3, which save memory only then"},
    {"distributed.reduction", DT_CONF_ENUM, AT(distributed.reduction),
     .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_REDUCTION, NULL},
                    {"flat", DT_CONF_FLAT, NULL},
                    {"two_level", DT_CONF_TWO_LEVEL, NULL}),
     .aliases = ALSO("reduction"),
     .help = "order of sums over ranks: flat over all at once, two_level "
             "within each node and then between nodes; auto is two_level if "
             "there are several nodes with equally many ranks"},
    {"distributed.reduce_between_nodes", DT_CONF_ENUM,
     AT(distributed.int8_between_nodes), .fallback = "native", .result = true,
     .words = WORDS({"native", 0, NULL}, {"int8", 1, NULL}),
     .aliases = ALSO("reduce_between_nodes"),
     .help = "how gradients travel between nodes: in precision.reduce_dtype, "
             "or rounded to 8 bits, which is faster on slow networks and adds "
             "noise; within a node always native"},
    {"distributed.offload_optimizer.device", DT_CONF_ENUM,
     AT(distributed.offload_optimizer.device), .fallback = "none",
     .words = offloads, .aliases = ALSO("offload_optimizer.device"),
     .help = "where the state of the optimizer is kept: on the device (none), "
             "in host memory (cpu), or in a file (nvme); needs zero1, zero2 "
             "or zero3"},
    {"distributed.offload_optimizer.path", DT_CONF_DIR,
     AT(distributed.offload_optimizer.path),
     .aliases = ALSO("offload_optimizer.path", "offload_optimizer.nvme_path",
                     "distributed.offload_optimizer.nvme_path"),
     .help = "directory for that file, on a local drive of each node; "
             "required with nvme"},
    {"distributed.offload_optimizer.compute", DT_CONF_ENUM,
     AT(distributed.offload_optimizer.compute), .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_COMPUTE_AUTO, NULL},
                    {"device", DT_CONF_COMPUTE_DEVICE, NULL},
                    {"host", DT_CONF_COMPUTE_HOST, NULL}),
     .aliases = ALSO("offload_optimizer.compute"),
     .help = "where the offloaded optimizer computes: on the device, to which "
             "its state is copied in tiles, or on the CPUs; auto is the one "
             "that is predicted to be faster"},
    {"distributed.offload_optimizer.ratio", DT_CONF_FLOAT,
     AT(distributed.offload_optimizer.ratio), .fallback = "1", .min = 0,
     .max = 1, .aliases = ALSO("offload_optimizer.ratio"),
     .help = "share of the optimizer's state that is offloaded; the rest "
             "stays on the device"},
    {"distributed.offload_optimizer.buffer_count", DT_CONF_INT,
     AT(distributed.offload_optimizer.buffer_count), .fallback = "4",
     .min = 1, .max = 1024, .unit = "tiles",
     .aliases = ALSO("offload_optimizer.buffer_count"),
     .help = "with nvme, tiles in host memory at once; from 3 on, reading, "
             "computing and writing overlap"},
    {"distributed.offload_optimizer.tile_size", DT_CONF_INT,
     AT(distributed.offload_optimizer.tile_size), .fallback = "33554432",
     .min = 1 << 16, .max = 1 << 30, .unit = "elements",
     .aliases = ALSO("offload_optimizer.tile_size"),
     .help = "elements of the optimizer's state that move at once, at 12 "
             "bytes each; not given, 1/32 of what a rank has, from 524288 on "
             "and up to the default"},
    {"distributed.offload_optimizer.pin_memory", DT_CONF_IGNORED,
     .aliases = ALSO("offload_optimizer.pin_memory"),
     .help = "not needed here: host memory that a GPU copies from is always "
             "page-locked"},
    {"distributed.offload_param.device", DT_CONF_ENUM,
     AT(distributed.offload_param.device), .fallback = "none",
     .words = offloads, .aliases = ALSO("offload_param.device"),
     .help = "where weights are kept while no rank computes with them: on "
             "the device (none), in host memory (cpu), or in a file (nvme); "
             "needs zero3 and an offloaded optimizer"},
    {"distributed.offload_param.path", DT_CONF_DIR,
     AT(distributed.offload_param.path),
     .aliases = ALSO("offload_param.path", "offload_param.nvme_path",
                     "distributed.offload_param.nvme_path"),
     .help = "directory for that file, on a local drive of each node; "
             "required with nvme"},
    {"distributed.offload_param.pin_memory", DT_CONF_IGNORED,
     .aliases = ALSO("offload_param.pin_memory"),
     .help = "not needed here: host memory that a GPU copies from is always "
             "page-locked"},
    {"distributed.aio.block_size", DT_CONF_SIZE,
     AT(distributed.aio.block_size), .fallback = "1048576",
     .help = "size of one request to the drive, with nvme"},
    {"distributed.aio.queue_depth", DT_CONF_INT,
     AT(distributed.aio.queue_depth), .fallback = "32", .min = 1, .max = 4096,
     .unit = "requests",
     .help = "requests to the drive that are under way at once, with nvme"},
    {"distributed.aio.threads", DT_CONF_INT, AT(distributed.aio.threads),
     .fallback = "1", .min = 1, .max = 64,
     .help = "threads of each rank that read and write, with nvme"},
    {"distributed.backend", DT_CONF_ENUM, AT(distributed.backend),
     .fallback = "auto",
     .words = WORDS({"auto", DT_CONF_AUTO_BACKEND, NULL},
                    {"gloo", DT_CONF_GLOO, NULL},
                    {"nccl", DT_CONF_NCCL, NULL}),
     .aliases = ALSO("distributed_backend", "ddp_backend"),
     .help = "library for collectives; auto is nccl on cuda and gloo on cpu, "
             "and no other combination works"},
    {"distributed.interface", DT_CONF_STRING, AT(distributed.interface),
     .help = "network interface; the default is the one towards rank 0: that "
             "of GLOO_SOCKET_IFNAME, which the plugin sets, then others, those "
             "with a link-local address last, until one answers"},
    {"distributed.timeout_s", DT_CONF_INT, AT(distributed.timeout_s),
     .fallback = "1800", .min = 1, .max = 1e6, .unit = "seconds",
     .endless = true, .aliases = ALSO("ddp_timeout"),
     .help = "longest wait for another rank"},
    {"distributed.outage_s", DT_CONF_INT, AT(distributed.outage_s),
     .fallback = "15", .min = 1, .max = 1e6, .unit = "seconds",
     .help = "how long the network may be silent before a rank counts as lost, "
             "less than timeout_s; TCP sends again 3, 6 and 12.5 s after it was "
             "cut, so that 15 survives an outage of about 12 s; connections "
             "of NCCL have limits of their own, and a node that Slurm declares "
             "down ends the step at once"},
    {"distributed.bucket_cap_mb", DT_CONF_INT, AT(distributed.bucket_cap_mb),
     .fallback = "25", .min = 1, .max = 4096, .unit = "MiB",
     .aliases = ALSO("ddp_bucket_cap_mb", "bucket_cap_mb"),
     .help = "size of the buckets in which gradients are reduced"},
    {"distributed.lr_scaling", DT_CONF_ENUM, AT(distributed.lr_scaling),
     .fallback = "none", .result = true,
     .words = WORDS({"none", DT_CONF_LR_AS_GIVEN, NULL},
                    {"linear", DT_CONF_LR_LINEAR, NULL},
                    {"sqrt", DT_CONF_LR_SQRT, NULL}),
     .aliases = ALSO("lr_scaling"),
     .help = "learning rates are multiplied by ranks / lr_scaling_ref_world "
             "(linear) or by its square root (sqrt)"},
    {"distributed.lr_scaling_ref_world", DT_CONF_INT,
     AT(distributed.lr_scaling_ref_world), .fallback = "1", .min = 1,
     .max = 1e6, .result = true, .unit = "ranks",
     .aliases = ALSO("lr_scaling_ref_world"),
     .help = "number of ranks that the learning rates are meant for"},
    {"distributed.find_unused_parameters", DT_CONF_IGNORED,
     .aliases = ALSO("ddp_find_unused_parameters", "find_unused_parameters"),
     .help = "not needed here: every parameter is used in every step"},
    {"distributed.broadcast_buffers", DT_CONF_IGNORED,
     .aliases = ALSO("ddp_broadcast_buffers"),
     .help = "not needed here: the models have no buffers"},
    {"distributed.gradient_as_bucket_view", DT_CONF_IGNORED,
     .help = "not needed here: gradients are always views of buckets"},
