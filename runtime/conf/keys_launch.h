/* SPDX-License-Identifier: Apache-2.0 */
/* keys_launch.h - rows of the schema, for schema.c: launch */
/* clang-format off */

    /* launch */
    {"launch.nodes", DT_CONF_INT, AT(launch.nodes), .min = 1, .max = 1e6,
     .aliases = ALSO("nnodes", "num_nodes", "num_machines"),
     .help = "number of nodes (srun --nodes)"},
    {"launch.ntasks_per_node", DT_CONF_INT, AT(launch.ntasks_per_node),
     .min = 1, .max = 1e6, .unit = "ranks",
     .help = "ranks on each node (srun --ntasks-per-node); the default is "
             "gpus_per_node"},
    {"launch.gpus_per_node", DT_CONF_INT, AT(launch.gpus_per_node), .min = 1,
     .max = 1024, .aliases = ALSO("nproc_per_node", "num_gpus"),
     .help = "GPUs on each node (srun --gpus-per-node)"},
    {"launch.cpus_per_task", DT_CONF_INT, AT(launch.cpus_per_task), .min = 1,
     .max = 1e5, .help = "CPUs of each rank (srun --cpus-per-task)"},
    {"launch.num_processes", DT_CONF_INT, AT(launch.num_processes), .min = 1,
     .max = 1e9, .unit = "ranks", .aliases = ALSO("num_processes"),
     .help = "number of ranks on all nodes together, as accelerate counts "
             "them; an alternative to ntasks_per_node"},
    {"launch.partition", DT_CONF_STRING, AT(launch.partition),
     .help = "partition of the job (srun --partition)"},
    {"launch.account", DT_CONF_STRING, AT(launch.account),
     .help = "account of the job (srun --account)"},
    {"launch.qos", DT_CONF_STRING, AT(launch.qos),
     .help = "quality of service of the job (srun --qos)"},
    {"launch.time", DT_CONF_STRING, AT(launch.time),
     .aliases = ALSO("time_limit"),
     .help = "time limit (srun --time): minutes, HH:MM:SS, D-HH or "
             "D-HH:MM:SS"},
    {"launch.mem", DT_CONF_STRING, AT(launch.mem),
     .help = "memory of each node (srun --mem): a number and K, M, G or T"},
    {"launch.constraint", DT_CONF_STRING, AT(launch.constraint),
     .help = "features that nodes must have (srun --constraint)"},
    {"launch.exclude", DT_CONF_STRING, AT(launch.exclude),
     .help = "nodes to avoid, in batch scripts only: srun --exclude cannot "
             "be set from a file"},
    {"launch.container", DT_CONF_STRING, AT(launch.container),
     .help = "container image of the tasks (--container-image of the pyxis "
             "plugin)"},
    {"launch.signal", DT_CONF_STRING, AT(launch.signal),
     .help = "signal for every rank before the time limit: USR1, USR2, TERM "
             "or HUP, optionally with @ and how many seconds before; the "
             "default is USR1@120 with requeue, else none"},
    {"launch.requeue", DT_CONF_BOOL, AT(launch.requeue), .fallback = "false",
     .help = "put a batch job back into the queue when a run ends with status "
             "75 or after launch.signal"},
    {"launch.max_requeues", DT_CONF_INT, AT(launch.max_requeues),
     .fallback = "0", .max = 1000,
     .help = "put a batch job back into the queue also after a rank has "
             "crashed, until the job has been restarted this many times; "
             "needs requeue"},
    {"launch.max_restarts", DT_CONF_INT, AT(launch.max_restarts),
     .fallback = "0", .max = 1000, .aliases = ALSO("max_restarts"),
     .help = "number of times that the batch script of `disttrain sbatch` "
             "restarts a failed step on the same nodes"},
    {"launch.hang_timeout", DT_CONF_INT, AT(launch.hang_timeout_s),
     .fallback = "300", .max = 1e6, .unit = "seconds",
     .help = "after this long without output from any rank, srun reports "
             "what each rank is doing; 0 turns this off"},
    {"launch.hang_action", DT_CONF_ENUM, AT(launch.hang_ends),
     .fallback = "report",
     .words = WORDS({"report", 0, NULL}, {"end", 1, NULL}),
     .help = "what srun does when launch.hang_timeout has passed: report only "
             "reports, end reports and then ends the step as after a failure"},
    {"launch.command", DT_CONF_STRINGS, AT(launch.command),
     .help = "program and arguments that every rank runs instead of training"},
    {"launch.frameworks", DT_CONF_STRINGS, AT(launch.frameworks),
     .words = WORDS({"accelerate", 0, NULL}, {"composer", 0, NULL},
                    {"deepspeed", 0, NULL}, {"horovod", 0, NULL},
                    {"jax", 0, NULL}, {"lightning", 0, NULL},
                    {"megatron", 0, NULL}, {"python", 0, NULL},
                    {"tensorflow", 0, NULL}, {"torch", 0, NULL}),
     .help = "frameworks whose variables the ranks get; the default is all "
             "except horovod and megatron, whose variables disturb others"},
    {"launch.gpu_visibility", DT_CONF_ENUM, AT(launch.one_gpu),
     .fallback = "all",
     .words = WORDS({"all", 0, NULL}, {"one", 1, NULL}),
     .help = "GPUs that a rank sees: all of its node, with LOCAL_RANK as the "
             "index, or only its own"},
    {"launch.cpu_bind", DT_CONF_ENUM, AT(launch.no_cpu_bind),
     .fallback = "auto",
     .words = WORDS({"auto", 0, NULL}, {"none", 1, NULL}),
     .help = "bind each rank to CPUs near its GPU (auto), or leave the "
             "binding to Slurm (none)"},
    {"launch.job_comment", DT_CONF_BOOL, AT(launch.job_comment),
     .fallback = "true",
     .help = "make the first failure of a step the comment of its job, for "
             "squeue and sacct, unless the job has a comment"},
    {"launch.preflight", DT_CONF_BOOL, AT(launch.preflight),
     .fallback = "false",
     .help = "run `disttrain doctor` on all nodes before the ranks start"},
    {"launch.master_addr", DT_CONF_STRING, AT(launch.master_addr),
     .aliases = ALSO("main_process_ip", "master_addr"),
     .help = "value of MASTER_ADDR; the default is the host of rank 0"},
    {"launch.master_port", DT_CONF_INT, AT(launch.master_port), .min = 1024,
     .max = 65535, .aliases = ALSO("main_process_port", "master_port"),
     .help = "value of MASTER_PORT; the default is a port that no other step "
             "has"},
    {"launch.node_rank", DT_CONF_UNUSED,
     .aliases = ALSO("machine_rank", "node_rank", "rank", "local_rank",
                     "world_size"),
     .help = "not needed here: Slurm counts the ranks"},
    {"launch.rdzv_backend", DT_CONF_UNUSED,
     .aliases = ALSO("rdzv_backend", "use_torchrun", "same_network", "main_training_function"),
     .help = "not needed here: there is no launcher to set up"},
    {"launch.fsdp_devices", DT_CONF_UNUSED, .aliases = ALSO("fsdp_devices"),
     .help = "not needed here: the ranks are the devices"},
    {"launch.downcast_bf16", DT_CONF_UNUSED, .aliases = ALSO("downcast_bf16"),
     .help = "not needed here: it is about TPUs"},
    {"launch.mode", DT_CONF_UNUSED,
     .help = "not needed here: srun starts the ranks; without Slurm use "
             "mpirun -n N disttrain train FILE"},
