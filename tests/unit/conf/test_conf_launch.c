/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_launch.c - `launch:`: values, mistakes, and lint, by their text */
#include "config.h"

#include <signal.h>

#include "tests/unit/conf.h"
#include "conf/keys/schema.h"
#include "contract/contract.h"
#include "contract/variables.h"

static void each_launch_key_sets_its_value(void **state)
{
    struct dt_conf *conf =
        load_good("launch:\n"
                  "  nodes: 4\n  gpus_per_node: 8\n  time: 1-12\n"
                  "  mem: 64G\n  signal: SIGUSR2@300\n  requeue: true\n"
                  "  max_requeues: 3\n"
                  "  command: [python3, train.py, 1]\n"
                  "  frameworks: [torch, jax]\n  gpu_visibility: one\n"
                  "  cpu_bind: none\n  master_port: 2345\n"
                  "logging: {console_ranks: \"0,4-7\", rank_logs: true}\n"
                  "logging.trace: {steps: [100, 103], ranks: \"0,4\"}\n",
                  "");
    (void)state;
    assert_false(conf->trains);
    assert_int_equal(conf->launch.nodes, 4);
    assert_int_equal(conf->launch.ntasks_per_node, 8); /* one for each GPU */
    assert_int_equal(conf->launch.cpus_per_task, 0);
    assert_int_equal(conf->launch.signal_number, SIGUSR2);
    assert_int_equal(conf->launch.signal_s, 300);
    assert_true(conf->launch.requeue);
    assert_int_equal(conf->launch.max_requeues, 3);
    assert_false(conf->launch.preflight);
    assert_int_equal(conf->launch.command.count, 3);
    assert_string_equal(conf->launch.command.text[2], "1");
    assert_int_equal(conf->launch.frameworks.count, 2);
    assert_string_equal(conf->launch.frameworks.text[1], "jax");
    assert_true(conf->launch.one_gpu);
    assert_true(conf->launch.no_cpu_bind);
    assert_int_equal(conf->launch.master_port, 2345);
    assert_true(conf->logging.rank_logs);
    assert_int_equal(conf->logging.trace.first, 100);
    assert_int_equal(conf->logging.trace.last, 103);
    assert_string_equal(conf->logging.trace.ranks, "0,4");
    dt_conf_destroy(conf);
}

static void names_of_other_launchers_are_understood(void **state)
{
    struct dt_conf *conf = load_good("num_machines: 2\nnproc_per_node: 8\n"
                                     "num_processes: 16\n"
                                     "main_process_port: 29500\n"
                                     "main_process_ip: n1\n",
                                     "");
    (void)state;
    assert_int_equal(conf->launch.nodes, 2);
    assert_int_equal(conf->launch.gpus_per_node, 8);
    assert_int_equal(conf->launch.ntasks_per_node, 8);
    assert_int_equal(conf->launch.master_port, 29500);
    assert_string_equal(conf->launch.master_addr, "n1");
    dt_conf_destroy(conf);
}

static void every_framework_of_the_plugin_may_be_named(void **state)
{
    char text[512] = "launch: {frameworks: [";
    size_t count = 0;
    (void)state;
    for (; dt_variables_frameworks[count]; count++) {
        strcat(text, count ? ", " : "");
        strcat(text, dt_variables_frameworks[count]);
    }
    strcat(text, "]}\n");
    struct dt_conf *conf = load_good(text, "");
    assert_int_equal(conf->launch.frameworks.count, count);
    dt_conf_destroy(conf);
}

static void a_job_that_requeues_is_signalled_in_time(void **state)
{
    struct dt_conf *conf = load_good("launch: {requeue: true}\n", "");
    (void)state;
    assert_int_equal(conf->launch.signal_number, SIGUSR1);
    assert_int_equal(conf->launch.signal_s, 120);
    dt_conf_destroy(conf);
    conf = load_good("launch: {signal: term}\n", "");
    assert_int_equal(conf->launch.signal_number, SIGTERM);
    assert_int_equal(conf->launch.signal_s, 120);
    assert_false(conf->launch.signal_measured);
    dt_conf_destroy(conf);
    conf = load_good("launch: {nodes: 1}\n", "");
    assert_int_equal(conf->launch.signal_number, 0);
    dt_conf_destroy(conf);
}

/* Seconds that nobody has written are refused by no limit. */
static void seconds_of_our_own_fit_a_short_job(void **state)
{
    static const struct {
        const char *launch;
        int seconds;
    } cases[] = {
        {"launch: {requeue: true, time: 2}\n", 60},
        {"launch: {requeue: true, time: 3}\n", 120},
        {"launch: {signal: USR1, time: 1, command: [prog]}\n", 30},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_good(cases[i].launch, "");
        assert_int_equal(conf->launch.signal_s, cases[i].seconds);
        assert_false(conf->launch.signal_measured);
        dt_conf_destroy(conf);
    }
}

/* As late as the last save allows, unless the file says how early. */
static void training_is_signalled_when_a_save_needs_it(void **state)
{
    static const struct {
        const char *launch;
        int seconds;
        bool measured;
    } cases[] = {
        {"training.resume: auto\nlaunch: {requeue: true}\n", 120, true},
        {"launch: {signal: USR1}\n", 120, true},
        {"launch: {signal: USR1, time: 2}\n", 60, true},
        {"launch: {signal: USR1@30}\n", 30, false},
        {"launch: {signal: USR1, command: [prog]}\n", 120, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "%s%s", LEAST, cases[i].launch);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->launch.signal_s, cases[i].seconds);
        assert_int_equal(conf->launch.signal_measured, cases[i].measured);
        dt_conf_destroy(conf);
    }
}

/* The console says when it looks by default, and so does the table of keys. */
static void the_console_knows_the_default_hang_timeout(void **state)
{
    struct dt_conf *conf = load_good("launch: {nodes: 1}\n", "");
    (void)state;
    assert_int_equal(conf->launch.hang_timeout_s, atoi(DT_HANG_DEFAULT));
    assert_false(dt_conf_given(conf, "launch.hang_timeout"));
    dt_conf_destroy(conf);
}

static void only_times_as_slurm_writes_them_are_read(void **state)
{
    static const struct {
        const char *text;
        long seconds;
    } good[] = {{"5", 300},     {"90:30", 5430},    {"01:00:00", 3600},
                {"1-2", 93600}, {"1-02:30", 95400}, {"1-00:00:01", 86401},
                {"0-0", 0}};
    static const char *const bad[] = {
        "",   "x",     "1:",  "1:2:3:4", "1-",         "1-2-3",
        "-1", "1:2-3", "1 h", "1:-2",    "9999999999", "1-2:3:4:5"};
    long seconds;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(dt_conf_parse_time(good[i].text, &seconds));
        assert_int_equal(seconds, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(dt_conf_parse_time(bad[i], &seconds));
}

static const struct {
    const char *text, *problems;
} broken[] = {
    {"launch: {time: soon}\n",
     "t.yaml:1:16: launch.time: expected minutes, HH:MM:SS, D-HH or "
     "D-HH:MM:SS, got \"soon\"\n"},
    {"launch: {hang_action: end}\n",
     "t.yaml:1:23: launch.hang_action: end needs launch.hang_timeout: after "
     "how many seconds?\n"},
    {"launch: {hang_action: end, hang_timeout: 0}\n",
     "t.yaml:1:23: launch.hang_action: end needs launch.hang_timeout: after "
     "how many seconds?\n"},
    {"launch: {max_requeues: 3}\n",
     "t.yaml:1:24: launch.max_requeues: needs launch.requeue: true\n"},
    {"launch: {requeue: true, max_requeues: 3, max_restarts: 1}\n",
     "t.yaml:1:39: launch.max_requeues: launch.max_restarts is set as well: "
     "choose whether a crash puts the job back into the queue or restarts "
     "the step in the same job\n"},
    {"launch: {nodes: 2, spares: 1}\n",
     "t.yaml:1:28: launch.spares: needs launch.max_restarts, or "
     "launch.keeper\n"},
    {"launch: {spares: 1, max_restarts: 1}\n",
     "t.yaml:1:18: launch.spares: needs launch.nodes: how many does a step "
     "use?\n"},
    {"launch: {min_ranks: 1}\n", "t.yaml:1:21: launch.min_ranks: needs "
                                 "launch.max_restarts, or launch.keeper\n"},
    {"launch: {nodes: 2, ntasks_per_node: 2, min_ranks: 5, max_restarts: 1}\n",
     "t.yaml:1:51: launch.min_ranks: 5 ranks are more than a step has: 2 nodes "
     "with 2 each\n"},
    {"launch: {mem: 3X}\n",
     "t.yaml:1:15: launch.mem: expected a number and K, M, G or T, such as "
     "64G, got \"3X\"\n"},
    {"launch: {signal: INT@30}\n",
     "t.yaml:1:18: launch.signal: expected USR1, USR2, TERM or HUP, and "
     "seconds after @, such as USR1@300, got \"INT@30\"\n"},
    {"launch: {signal: USR1@}\n",
     "t.yaml:1:18: launch.signal: expected USR1, USR2, TERM or HUP, and "
     "seconds after @, such as USR1@300, got \"USR1@\"\n"},
    {"launch: {signal: USR1@600, time: 10}\n",
     "t.yaml:1:18: launch.signal: 600 s before the limit is before the start: "
     "launch.time is 600 s\n"},
    {"launch: {command: python3 train.py}\n",
     "t.yaml:1:19: launch.command: expected a list of words, got \"python3 "
     "train.py\"\n"},
    {"launch: {command: []}\n",
     "t.yaml:1:19: launch.command: expected a list of words, got a list\n"},
    {"launch: {command: [a, [b]]}\n",
     "t.yaml:1:23: launch.command: expected a list of words, got a list\n"},
    {"launch: {frameworks: [torch, caffe]}\n",
     "t.yaml:1:30: launch.frameworks: expected a list of accelerate, composer, "
     "deepspeed, horovod, jax, lightning, megatron, python, tensorflow, torch, "
     "got \"caffe\"\n"},
    {"logging: {console_ranks: 7-4}\n",
     "t.yaml:1:26: logging.console_ranks: expected ranks such as 0,4-7, got "
     "\"7-4\"\n"},
    {"logging: {console_ranks: \"1,\"}\n",
     "t.yaml:1:26: logging.console_ranks: expected ranks such as 0,4-7, got "
     "\"1,\"\n"},
    {"logging.trace: {steps: [4, 3], ranks: a}\n",
     "t.yaml:1:28: logging.trace.steps: expected a list of two integers, first "
     "and last, >= 1 (optimizer steps), got 3\n"
     "t.yaml:1:39: logging.trace.ranks: expected all, or ranks such as 0,4-7, "
     "got \"a\"\n"},
    {"logging.trace: {steps: 3}\n",
     "t.yaml:1:24: logging.trace.steps: expected a list of two integers, first "
     "and last, >= 1 (optimizer steps), got 3\n"},
    {"logging.trace: {steps: [0, 3]}\n",
     "t.yaml:1:25: logging.trace.steps: expected a list of two integers, first "
     "and last, >= 1 (optimizer steps), got 0\n"},
    {"launch: {nodes: 3, num_processes: 8}\n",
     "t.yaml:1:35: launch.num_processes: 8 ranks cannot be spread evenly "
     "over 3 nodes\n"},
    {"launch: {nodes: 2, ntasks_per_node: 8, num_processes: 8}\n",
     "t.yaml:1:55: launch.num_processes: the total of all nodes: 2 x 8 is 16, "
     "not 8\n"},
    {"num_processes: 8\nnum_machines: 2\nlaunch.gpus_per_node: 8\n",
     "t.yaml:1:16: launch.num_processes: the total of all nodes: 8 would be 4 "
     "on each of 2 nodes with 8 GPUs; write 16\n"},
    {"launch: {master_port: 80}\n",
     "t.yaml:1:23: launch.master_port: expected an integer from 1024 to "
     "65535, got 80\n"},
    {"env: {RANK: 0}\n", "t.yaml:1:7: env.RANK: is different on each rank: "
                         "the plugin sets it\n"},
};

static void mistakes_in_launch_are_refused_at_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        char *problems, *warnings;
        struct dt_conf *conf = load_text(broken[i].text, &problems, &warnings);
        assert_string_equal(problems, broken[i].problems);
        assert_null(conf);
        free(problems);
        free(warnings);
    }
}

#define TOO_MANY "starts ranks of its own in every task"
#define ALONE                                                                  \
    "; srun has started them already: write the program alone, such as "       \
    "[python3, train.py]\n"

static const struct {
    const char *text, *warnings;
} doubtful[] = {
    {"launch: {command: [torchrun, t.py]}\n",
     "t.yaml:1:19: launch.command: torchrun " TOO_MANY ALONE},
    {"launch: {command: [accelerate, launch, --num_processes, 8, t.py]}\n",
     "t.yaml:1:19: launch.command: accelerate " TOO_MANY
     ", and its --num_processes is the total of all machines" ALONE},
    {"launch: {command: [deepspeed, --num_nodes=2, --node_rank=0, t.py]}\n",
     "t.yaml:1:19: launch.command: deepspeed " TOO_MANY
     ", and with --num_nodes but no hostfile takes 127.0.0.1 for the "
     "master" ALONE},
    {"launch: {command: [python, -m, torch.distributed.launch, t.py]}\n",
     "t.yaml:1:19: launch.command: torch.distributed.launch " TOO_MANY
     ", and appends --local-rank, which scripts that know --local_rank "
     "refuse: read LOCAL_RANK" ALONE},
    {"launch: {command: [python, torchrun.py, torch.distributed.launch]}\n",
     ""},
    {"launch: {command: [python3, -u, -m, torch.distributed.run, t.py]}\n",
     "t.yaml:1:19: launch.command: torchrun " TOO_MANY ALONE},
    {"launch: {command: [/opt/mpi/bin/mpiexec, -n, 4, t]}\n",
     "t.yaml:1:19: launch.command: mpiexec " TOO_MANY ALONE},
    {"launch: {command: [composer, t.py]}\n",
     "t.yaml:1:19: launch.command: composer " TOO_MANY ALONE},
    {"launch: {command: [horovodrun, t.py]}\n",
     "t.yaml:1:19: launch.command: horovodrun " TOO_MANY ALONE},
    {"launch: {command: [env, A=1, colossalai, run, t.py]}\n",
     "t.yaml:1:19: launch.command: colossalai " TOO_MANY ALONE},
    {"launch: {command: [accelerate, config]}\n", ""},
    {"launch: {command: [torchrun, t.py], ntasks_per_node: 1}\n", ""},
    {"env: {DEEPSPEED_LOG_LEVEL: info}\n",
     "t.yaml:1:7: env.DEEPSPEED_LOG_LEVEL: nothing reads it: give DeepSpeed "
     "programs --log_level, or set logging.level\n"},
    {"env: {NCCL_BLOCKING_WAIT: 1}\n",
     "t.yaml:1:7: env.NCCL_BLOCKING_WAIT: an old name: PyTorch reads "
     "TORCH_NCCL_BLOCKING_WAIT\n"},
    {"env: {CUDA_VISIBLE_DEVICES: \"0,1\"}\n",
     "t.yaml:1:7: env.CUDA_VISIBLE_DEVICES: overrides what Slurm has given to "
     "the job: leave it out, or use launch.gpu_visibility\n"},
    {"env: {NCCL_IB_DISABLE: 1}\n",
     "t.yaml:1:7: env.NCCL_IB_DISABLE: switches InfiniBand off\n"},
    {"env: {NCCL_IB_DISABLE: 0, JAX_FLAG: 1, MASTER_ADDR: localhost}\n", ""},
    {"env: {MASTER_ADDR: 127.0.0.1}\nnum_nodes: 2\n",
     "t.yaml:1:7: env.MASTER_ADDR: is a different host on each node: leave "
     "it out to use rank 0's host\n"},
    {"env: {XLA_PYTHON_CLIENT_MEM_FRACTION: 0.9}\n",
     "t.yaml:1:7: env.XLA_PYTHON_CLIENT_MEM_FRACTION: an old name: JAX reads "
     "XLA_CLIENT_MEM_FRACTION, which needs preallocation\n"},
    {LEAST "launch: {requeue: true}\n",
     "t.yaml:5:19: launch.requeue: the run would start from the beginning "
     "each time: set training.resume: auto\n"},
    {"launch: {nodes: 2, ntasks_per_node: 2, min_ranks: 4, max_restarts: 1}\n",
     ""},
    {LEAST "launch: {max_restarts: 2}\nresume: auto\n", ""},
    {LEAST "launch: {max_restarts: 2}\n",
     "t.yaml:5:24: launch.max_restarts: the run would start from the "
     "beginning each time: set training.resume: auto\n"},
    {"machine_rank: 1\nrdzv_backend: c10d\nlaunch.mode: manual\n",
     "t.yaml:1:15: machine_rank: not needed here: Slurm numbers the "
     "ranks\n"
     "t.yaml:2:15: launch.rdzv_backend: not needed here: there is no "
     "launcher to set up\n"
     "t.yaml:3:14: launch.mode: not needed here: srun starts the "
     "ranks; without Slurm, use mpirun -n N disttrain train FILE\n"},
};

/* Whoever reads of one of them chooses before a refusal says so. */
static void keys_that_exclude_each_other_say_so(void **state)
{
    static const char *const keys[] = {"max_requeues", "max_restarts"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[64], want[64];
        snprintf(path, sizeof(path), "launch.%s", keys[i]);
        snprintf(want, sizeof(want), "It excludes %s: take this where ",
                 keys[1 - i]);
        assert_non_null(
            strstr(dt_conf_keys[dt_conf_key_find(path)].help, want));
    }
}

static void what_works_badly_under_srun_is_warned_of(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(doubtful) / sizeof(doubtful[0]); i++)
        dt_conf_destroy(load_good(doubtful[i].text, doubtful[i].warnings));
}

static void only_a_file_that_trains_needs_an_algorithm(void **state)
{
    char *problems, *warnings;
    struct dt_conf *conf = load_good(LEAST "launch: {nodes: 2}\n", "");
    (void)state;
    assert_true(conf->trains);
    dt_conf_destroy(conf);
    conf = load_good("run: {name: x}\n", "");
    assert_false(conf->trains);
    dt_conf_destroy(conf);
    assert_null(load_text("lr: 1\n", &problems, &warnings));
    assert_non_null(strstr(problems, "algorithm: required"));
    free(problems);
    free(warnings);
}

/* --- variables --- */

/* NULL: nothing is said. */
static const char *lint(const char *name, const char *value, bool trains,
                        long nodes, bool *refused)
{
    *refused = false;
    return dt_conf_lint_variable(name, value, trains, nodes, refused);
}

/* What is said of a name, and of nothing that only begins like it. */
static const struct {
    const char *name, *value, *begins;
    bool refused;
} variables[] = {
    {"RANK", "1", "is different on each rank", true},
    {"LOCAL_RANK", "1", "is different on each rank", true},
    {"NODE_RANK", "1", "is different on each rank", true},
    {"GROUP_RANK", "1", "is different on each rank", true},
    {"WORLD_SIZE", "1", "follows from the job", true},
    {"LOCAL_WORLD_SIZE", "1", "follows from the job", true},
    {"NCCL_TIMEOUT", "1", "nothing reads it: the limit", false},
    {"DEEPSPEED_LOG_LEVEL", "1", "nothing reads it: give", false},
    {"NCCL_ASYNC_ERROR_HANDLING", "1",
     "an old name: PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING", false},
    {"NCCL_BLOCKING_WAIT", "1",
     "an old name: PyTorch reads TORCH_NCCL_BLOCKING_WAIT", false},
    {"NCCL_DESYNC_DEBUG", "1",
     "an old name: PyTorch reads TORCH_NCCL_DESYNC_DEBUG", false},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", "1",
     "an old name: JAX reads XLA_CLIENT_MEM_FRACTION", false},
    {"JAX_PLATFORM_NAME", "1", "an old name: JAX reads JAX_PLATFORMS", false},
    {"CUDA_VISIBLE_DEVICES", "1", "overrides what Slurm has given", false},
    {"MASTER_PORT", "1", "is the same for every step", false},
    {"NCCL_IB_DISABLE", "1", "switches InfiniBand off", false},
    {"NCCL_P2P_DISABLE", "1", "switches copies between GPUs off", false},
    {"NCCL_SHM_DISABLE", "1", "switches shared memory off", false},
    {"CUDA_LAUNCH_BLOCKING", "1", "makes every kernel launch synchronous",
     false},
    {"MASTER_ADDR", "localhost", "is a different host on each node", false},
};

static void the_lint_knows_variables_by_their_exact_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        bool refused;
        char other[64];
        const char *text =
            lint(variables[i].name, variables[i].value, false, 2, &refused);
        assert_non_null(text);
        assert_memory_equal(text, variables[i].begins,
                            strlen(variables[i].begins));
        assert_int_equal(refused, variables[i].refused);
        snprintf(other, sizeof(other), "%sS", variables[i].name);
        assert_null(lint(other, variables[i].value, false, 2, &refused));
        snprintf(other, sizeof(other), "X%s", variables[i].name);
        assert_null(lint(other, variables[i].value, false, 2, &refused));
        snprintf(other, sizeof(other), "%.*s",
                 (int)strlen(variables[i].name) - 1, variables[i].name);
        assert_null(lint(other, variables[i].value, false, 2, &refused));
    }
}

/* All that begins so; of JAX only where disttrain itself trains. */
static void the_prefix_tells_whose_variable_it_is(void **state)
{
    bool refused;
    (void)state;
    assert_string_equal(lint("SLURM_X", "", false, 1, &refused),
                        "belongs to Slurm");
    assert_true(refused);
    assert_string_equal(lint("PMIX_X", "", false, 1, &refused),
                        "belongs to PMIx");
    assert_true(refused);
    assert_null(lint("SLURMX", "", false, 1, &refused));
    assert_null(lint("PMIXX", "", false, 1, &refused));
    assert_string_equal(lint("XLA_FLAGS", "", true, 1, &refused),
                        "read by JAX only");
    assert_false(refused);
    assert_string_equal(lint("JAX_X", "", true, 1, &refused),
                        "read by JAX only");
    assert_null(lint("XLA_FLAGS", "", false, 1, &refused));
    assert_null(lint("JAX_X", "", false, 1, &refused));
}

static void harmless_values_are_not_reported(void **state)
{
    static const char *const debugging[] = {
        "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
        "CUDA_LAUNCH_BLOCKING"};
    static const char *const local[] = {"localhost", "127.0.0.1", "127.9.9.9",
                                        "::1"};
    static const char *const others[] = {
        "n1", "localhost.n1", "10.127.0.1", "128.0.0.1", "::11", ""};
    bool refused;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_null(lint(debugging[i], "0", false, 1, &refused));
        assert_null(lint(debugging[i], "", false, 1, &refused));
        assert_non_null(lint(debugging[i], "00", false, 1, &refused));
        assert_non_null(lint("MASTER_ADDR", local[i], false, 2, &refused));
        assert_null(lint("MASTER_ADDR", local[i], false, 1, &refused));
        assert_null(lint("MASTER_ADDR", local[i], false, 0, &refused));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(lint("MASTER_ADDR", others[i], false, 2, &refused));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launch_key_sets_its_value),
        cmocka_unit_test(names_of_other_launchers_are_understood),
        cmocka_unit_test(every_framework_of_the_plugin_may_be_named),
        cmocka_unit_test(a_job_that_requeues_is_signalled_in_time),
        cmocka_unit_test(seconds_of_our_own_fit_a_short_job),
        cmocka_unit_test(training_is_signalled_when_a_save_needs_it),
        cmocka_unit_test(the_console_knows_the_default_hang_timeout),
        cmocka_unit_test(only_times_as_slurm_writes_them_are_read),
        cmocka_unit_test(mistakes_in_launch_are_refused_at_their_place),
        cmocka_unit_test(keys_that_exclude_each_other_say_so),
        cmocka_unit_test(what_works_badly_under_srun_is_warned_of),
        cmocka_unit_test(only_a_file_that_trains_needs_an_algorithm),
        cmocka_unit_test(the_lint_knows_variables_by_their_exact_names),
        cmocka_unit_test(the_prefix_tells_whose_variable_it_is),
        cmocka_unit_test(harmless_values_are_not_reported),
    };
    return cmocka_run_group_tests_name("conf_launch", tests, enter_directory,
                                       leave_directory);
}
