/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_plan.c - what `disttrain plan` prints and its exit status */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "plan/candidates.h"
#include "cmd/cmd.h"
#include "cmd/cmd_impl.h"
#include "ops/workspace.h"
#include "tests/unit/cmd/plan_run.h"

#define HINT " (see disttrain plan --help)\n"
/* Every number is a round one. */
#define RATES                                                                  \
    "device: cpu          # a comment\n"                                       \
    "ranks_per_node: 2\n"                                                      \
    "blocks_fp32: 100 GFLOP/s\n"                                               \
    "head_fp32: 0.1 TFLOP/s\n"                                                 \
    "memory: 20 GB/s\n"                                                        \
    "node: 1000 MB/s\n"                                                        \
    "node_call: 100 us\n"                                                      \
    "network: 8 Gb/s\n"                                                        \
    "network_call: 0.2 ms\n"

static void wrong_arguments_point_to_the_help(void **state)
{
    static const char *const cases[][2] = {
        {"", "disttrain plan: expected one FILE" HINT},
        {"a b", "disttrain plan: expected one FILE" HINT},
        {"--foo a", "disttrain plan: unknown option '--foo'" HINT},
        {"a --nodes", "disttrain plan: '--nodes' needs a value" HINT},
        {"--nodes 0 a", "disttrain plan: --nodes: expected an integer from "
                        "1 to 1000000, got '0'" HINT},
        {"--ntasks-per-node x a", "disttrain plan: --ntasks-per-node: "
                                  "expected an integer from 1 to 1000000, got "
                                  "'x'" HINT},
        {"--gpu-memory -1 a",
         "disttrain plan: --gpu-memory -1: expected GiB above 0, or a number "
         "with a unit such as 80GB" HINT},
        {"--gpu-memory much a",
         "disttrain plan: --gpu-memory much: expected GiB above 0, or a number "
         "with a unit such as 80GB" HINT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(plan(cases[i][0]), EX_USAGE);
        assert_string_equal(errors, cases[i][1]);
        assert_string_equal(out, "");
    }
    assert_int_equal(plan("--help"), 0);
    assert_memory_equal(out, "usage: disttrain plan [OPTIONS] FILE", 36);
}

/* The memory of a rank, which the CPU here has a say in: its workspaces hold
 * vectors and are for each thread.
 */
static void find_memory(const char *args, char memory[4][24])
{
    json_t *all = plan_json(args);
    for (size_t i = 0; i < 4; i++) {
        const json_t *list = json_object_get(all, "candidates");
        const json_t *bytes = json_object_get(json_array_get(list, i), "bytes");
        dt_plan_out_bytes(number(bytes, "total"), memory[i]);
    }
    json_decref(all);
}

/* The whole table of a tiny model, with one thread in each rank. */
static void the_table_is_that_of_the_manual(void **state)
{
    char memory[4][24], table[2048];
    (void)state;
    setenv("OMP_NUM_THREADS", "1", 1);
    write_file("t.yaml", SMALL "launch.mem: 100M\n");
    write_file("rates", RATES);
    find_memory("--json --nodes 2 --ntasks-per-node 2 --rates rates t.yaml",
                memory);
    assert_int_equal(plan("--nodes 2 --ntasks-per-node 2 --rates rates t.yaml"),
                     0);
    assert_string_equal(errors, "");
    snprintf(
        table, sizeof(table),
        "t.yaml: gpt2, 842624 parameters\n"
        "2 nodes x 2 ranks on CPUs; 4 rows of 128 tokens x 1 micro-batch a "
        "rank: 2048 tokens a step\n"
        "rates: rates\n"
        "memory: 104.9 MB a node, 52.4 MB for a rank\n"
        "\n"
        "strategy  group  memory/rank    in node  out of node        step  "
        "tokens/s  waits  fits\n"
        "ddp           -  %11s    3.38 MB      3.38 MB       36 ms     "
        "56814    21 %%  yes\n"
        "zero1         -  %11s    3.38 MB      3.38 MB     30.6 ms     "
        "66830    10 %%  yes  <- auto\n"
        "zero2         2  %11s    3.38 MB      3.38 MB     31.5 ms     "
        "64949    12 %%  yes\n"
        "zero3         2  %11s    4.17 MB      3.38 MB     32.3 ms     "
        "63427    13 %%  yes\n"
        "\n"
        "strategy: zero1 (auto: fits, predicted 18 %% faster than ddp)\n"
        "by the number of parameters alone: ddp (fewer than 1e9 parameters)\n"
        "distributed.reduce_between_nodes: native sends 3.38 MB out of a node, "
        "30.6 ms a step; int8 2.13 MB, 30.3 ms, and adds noise\n"
        "the whole run depends on the data: 1000 samples take 1.92 s, without "
        "evaluations and saves\n"
        "largest micro-batch that fits with zero1: 13 rows\n",
        memory[0], memory[1], memory[2], memory[3]);
    assert_string_equal(out, table);
    write_file("t.yaml", SMALL "launch.mem: 100M\ndistributed: {strategy: ddp, "
                               "rates: rates}\n");
    assert_int_equal(plan("--nodes 2 --ntasks-per-node 2 t.yaml"), 0);
    assert_non_null(strstr(out, "56814    21 %  yes  <- the file\n"));
    assert_non_null(strstr(out, "\nrates: /tmp/disttrain-conf-"));
    assert_non_null(strstr(out, "\ndistributed.strategy: zero1 is predicted to "
                                "be 18 % faster\n"));
    assert_null(strstr(out, "\nstrategy: "));
    write_file("rates", "like: h200\n"); /* they decide what auto is */
    assert_int_equal(plan("--ntasks-per-node 8 t.yaml"), 0);
    assert_non_null(strstr(out, "x 8 ranks with a GPU each"));
    write_file("t.yaml", SMALL "run.device: cpu\ndistributed.rates: rates\n");
    assert_int_equal(plan("t.yaml"), EX_USAGE);
    assert_non_null(strstr(errors, "distributed.rates: /tmp/disttrain-conf-"));
    assert_non_null(
        strstr(errors, "/rates is of GPUs, and the run is on CPUs\n"));
    unlink("rates");
}

static void the_whole_run_is_timed_where_its_steps_are_known(void **state)
{
    (void)state;
    setenv("OMP_NUM_THREADS", "1", 1);
    write_file("rates", RATES);
    write_file("t.yaml", SMALL "training.max_steps: 123456\n");
    assert_int_equal(plan("--nodes 2 --ntasks-per-node 2 --rates rates t.yaml"),
                     0);
    assert_non_null(strstr(out, "\nthe whole run: 123456 steps, 1 h 03 min, "
                                "without evaluations and saves\n"));
    json_t *all = plan_json("--json --nodes 2 --ntasks-per-node 2 --rates "
                            "rates t.yaml");
    const json_t *whole = json_object_get(all, "whole_run");
    assert_true(number(whole, "steps") == 123456);
    assert_in_range(number(whole, "seconds"), 3750, 3810);
    json_decref(all);
    write_file("t.yaml", SMALL);
    all = plan_json("--json t.yaml");
    assert_true(json_is_null(json_object_get(all, "whole_run")));
    json_decref(all);
    unlink("rates");
}

/* --- JSON --- */

static void json_has_all_numbers_and_they_add_up(void **state)
{
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    (void)state;
    write_file("t.yaml", SMALL);
    json_t *all = plan_json("--json --nodes 2 --ntasks-per-node 2 t.yaml");
    assert_string_equal(string(all, "file"), "t.yaml");
    assert_string_equal(string(all, "device"), "cpu");
    assert_true(number(all, "parameters") == 842624);
    assert_true(json_is_null(json_object_get(all, "memory_for_rank")));
    const json_t *list = json_object_get(all, "candidates");
    assert_int_equal(json_array_size(list), 5); /* and a drive */
    double all_of_it = 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_array_get(list, i);
        assert_string_equal(string(one, "strategy"), names[i]);
        assert_int_equal(json_is_true(json_object_get(one, "taken")), i == 1);
        assert_sums_up(one);
        double optimizer = number(json_object_get(one, "bytes"), "optimizer");
        assert_true(i == 0 || 4 * optimizer == all_of_it);
        all_of_it = i == 0 ? optimizer : all_of_it;
    }
    assert_memory_equal(string(all, "strategy_why"),
                        "zero1 (auto: fits, predicted ", 29);
    json_decref(all);
    all = plan_json("--json --set distributed.strategy=zero2 t.yaml");
    assert_true(json_is_null(json_object_get(all, "strategy_why")));
    json_decref(all);
}

/* --- sizes --- */

static void launch_gives_the_size_unless_an_option_does(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL "launch: {nodes: 3, ntasks_per_node: 4}\n");
    json_t *all = plan_json("--json t.yaml");
    assert_true(number(all, "nodes") == 3);
    assert_true(number(all, "ranks_per_node") == 4);
    json_decref(all);
    all = plan_json("--json --nodes 5 t.yaml");
    assert_true(number(all, "nodes") == 5);
    json_decref(all);
    write_file("t.yaml", SMALL "launch: {gpus_per_node: 8}\n");
    all = plan_json("--json t.yaml");
    assert_string_equal(string(all, "device"), "cuda");
    assert_true(number(all, "nodes") == 1);
    assert_true(number(all, "ranks_per_node") == 8);
    json_decref(all);
    write_file("t.yaml", SMALL);
    assert_int_equal(plan("--nodes 1000 --ntasks-per-node 10000 t.yaml"),
                     EX_USAGE);
    assert_string_equal(errors, "disttrain plan: 1000 nodes of 10000 ranks are "
                                "more than 1000000 ranks\n");
}

static void a_world_of_one_has_no_other_strategies(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL);
    json_t *all = plan_json("--json t.yaml");
    const json_t *list = json_object_get(all, "candidates");
    assert_int_equal(json_array_size(list), 2); /* and a drive */
    assert_string_equal(string(json_array_get(list, 0), "strategy"), "ddp");
    json_decref(all);
    write_file("t.yaml", SMALL "distributed.strategy: zero3\n");
    assert_int_equal(plan("t.yaml"), 0);
    assert_non_null(strstr(out, "\nzero3         -  none "));
    assert_null(strstr(out, "\nddp "));
}

/* A shape as that of Llama 3 70B, on 1024 GPUs, none of which is here. */
static void seventy_billion_parameters_need_no_gpu(void **state)
{
    (void)state;
    assert_int_equal(mkdir("model", 0777), 0);
    write_file("model/config.json",
               "{\"model_type\": \"llama\", \"vocab_size\": 128256,"
               "\"hidden_size\": 8192, \"intermediate_size\": 28672,"
               "\"num_hidden_layers\": 80, \"num_attention_heads\": 64,"
               "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-5,"
               "\"max_position_embeddings\": 8192}");
    write_file("t.yaml",
               "algorithm: sft\n"
               "data: {train: train.txt, max_length: 4096}\n"
               "model: {config_path: model, gradient_checkpointing: true}\n"
               "training.per_device_batch_size: 2\n");
    json_t *all = plan_json("--json --nodes 128 --ntasks-per-node 8 "
                            "--gpu-memory 80 t.yaml");
    assert_true(number(all, "parameters") == 70553706496.0);
    assert_string_equal(string(all, "guide"), "zero3");
    const json_t *list = json_object_get(all, "candidates");
    const json_t *ddp = json_array_get(list, 0);
    const json_t *zero3 = json_array_get(list, 3);
    assert_true(number(json_object_get(ddp, "bytes"), "optimizer") > 5.6e11);
    assert_true(json_is_false(json_object_get(ddp, "fits")));
    assert_true(json_is_true(json_object_get(zero3, "taken")));
    assert_true(json_is_true(json_object_get(zero3, "fits")));
    json_decref(all);

    /* on 2 nodes nothing fits, and the status says it */
    assert_int_equal(plan("--nodes 2 --ntasks-per-node 8 --gpu-memory 80 "
                          "t.yaml"),
                     EX_CONFIG);
    assert_non_null(strstr(out, " too much  <- auto\n"));
    assert_memory_equal(errors,
                        "disttrain plan: the run does not fit: zero3 "
                        "needs ",
                        49);
    assert_non_null(strstr(errors, "; what would fit: "));
    unlink("model/config.json");
    assert_int_equal(plan("t.yaml"), EX_NOINPUT);
    assert_non_null(strstr(errors, "/model/config.json: cannot open: No such "
                                   "file or directory\n"));
    rmdir("model");
}

static void write_model(const char *sizes)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"model_type\": \"llama\", \"rms_norm_eps\": 1e-5,"
             "\"max_position_embeddings\": 8192, %s}",
             sizes);
    write_file("model/config.json", text);
}

/* One GPU, with the state of the optimizer in this type. */
static int plan_alone(const char *type, const char *memory)
{
    char text[512], args[64];
    snprintf(text, sizeof(text),
             "algorithm: sft\n"
             "data: {train: train.txt, max_length: 2048}\n"
             "model: {config_path: model, gradient_checkpointing: true}\n"
             "optimizer.state_dtype: %s\n"
             "training.per_device_batch_size: 2\n",
             type);
    write_file("t.yaml", text);
    snprintf(args, sizeof(args), "--gpu-memory %s t.yaml", memory);
    return plan(args);
}

/* What is left of 80 GB once CUDA has its own, and of 24 GB. */
static void in_bf16_large_models_fit_on_one_gpu(void **state)
{
    (void)state;
    assert_int_equal(mkdir("model", 0777), 0);
    write_model("\"vocab_size\": 128256, \"hidden_size\": 4096,"
                "\"intermediate_size\": 14336, \"num_hidden_layers\": 32,"
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 8");
    assert_int_equal(plan_alone("fp32", "78GB"), EX_CONFIG);
    assert_int_equal(plan_alone("bf16", "78GB"), 0);
    write_model("\"vocab_size\": 151936, \"hidden_size\": 1536,"
                "\"intermediate_size\": 8960, \"num_hidden_layers\": 28,"
                "\"tie_word_embeddings\": true,"
                "\"num_attention_heads\": 12, \"num_key_value_heads\": 2");
    assert_int_equal(plan_alone("fp32", "23GB"), EX_CONFIG);
    assert_int_equal(plan_alone("bf16", "23GB"), 0);
    unlink("model/config.json");
    rmdir("model");
}

/* Two copies are over the ranks of the world, or with ddp over those of each of
 * two nodes.
 */
static void with_ddp_each_node_has_all_copies(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL "precision.compute: bf16\n");
    json_t *all = plan_json("--json --nodes 2 --gpu-memory 80 t.yaml");
    const json_t *list = json_object_get(all, "candidates");
    const json_t *ddp = json_object_get(json_array_get(list, 0), "bytes");
    const json_t *zero1 = json_object_get(json_array_get(list, 1), "bytes");
    assert_true(number(zero1, "copies") ==
                2 * (number(zero1, "master") + number(zero1, "optimizer")));
    assert_true(number(ddp, "copies") == 2 * number(zero1, "copies"));
    json_decref(all);
}

/* 12 bytes an element of a rank's parts go to host memory, or to a file. */
static void offload_is_planned_with_what_it_moves(void **state)
{
    (void)state;
    write_file("t.yaml",
               SMALL "precision.compute: bf16\n"
                     "distributed.offload_optimizer.compute: device\n");
    json_t *all = plan_json("--json --nodes 2 --gpu-memory 80 t.yaml");
    const json_t *list = json_object_get(all, "candidates");
    assert_int_equal(json_array_size(list), 8);
    const json_t *plain = json_array_get(list, 3);
    const json_t *cpu = json_array_get(list, 5);
    const json_t *nvme = json_array_get(list, 7);
    assert_string_equal(string(plain, "offload_optimizer"), "none");
    assert_string_equal(string(cpu, "offload_optimizer"), "cpu");
    assert_string_equal(string(nvme, "offload_optimizer"), "nvme");
    const json_t *bytes = json_object_get(plain, "bytes");
    double state_bytes = number(bytes, "master") + number(bytes, "optimizer");
    assert_true(number(bytes, "host") == 0);
    assert_true(number(bytes, "copies") == 2 * state_bytes);
    bytes = json_object_get(cpu, "bytes");
    assert_true(number(bytes, "copies") == 2 * state_bytes);
    assert_true(number(bytes, "optimizer") == 0);
    assert_true(number(bytes, "host") >= state_bytes);
    bytes = json_object_get(nvme, "bytes");
    assert_true(number(bytes, "nvme") >= state_bytes);
    assert_true(number(bytes, "copies") == 0);
    assert_true(number(json_object_get(nvme, "drive_bytes"), "read_by_node") ==
                state_bytes);
    assert_sums_up(cpu);
    assert_sums_up(nvme);
    json_decref(all);

    write_file("t.yaml", SMALL
               "distributed: {strategy: zero3, offload_optimizer: {device: "
               "cpu}}\nlaunch.mem: 1M\n");
    assert_int_equal(plan("--ntasks-per-node 2 --gpu-memory 80 t.yaml"),
                     EX_CONFIG);
    assert_null(strstr(out, "\nddp "));
    assert_non_null(strstr(out, " of a node too much  <- the file\n"));
    assert_non_null(strstr(errors, "of host memory on each node, and "
                                   "launch.mem is 1.05 MB\n"));
    write_file("rates", "device: cuda\nmemory: 1000 GB/s\nnode: 1 GB/s\n"
                        "blocks_bf16: 1 TFLOP/s\n");
    assert_int_equal(plan("--ntasks-per-node 2 --gpu-memory 80 --rates rates "
                          "t.yaml"),
                     EX_DATAERR);
    assert_non_null(strstr(errors, "rates has no rate 'pcie_up'"));
    unlink("rates");
}

static void what_the_file_says_is_planned_even_if_it_does_not_fit(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL "distributed.strategy: ddp\n"
                               "launch: {nodes: 4, mem: 20M}\n");
    assert_int_equal(plan("t.yaml"), EX_CONFIG);
    assert_non_null(strstr(out, " too much  <- the file\n"));
    assert_non_null(strstr(errors, "the run does not fit: ddp needs "));
}

static void mistakes_of_the_file_are_found(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL "lr: fast\n");
    assert_int_equal(plan("t.yaml"), EX_CONFIG);
    assert_string_equal(errors, "t.yaml:5:5: optimizer.lr: expected a number "
                                "> 0, got \"fast\"\n");
    write_file("t.yaml", "launch: {nodes: 2, command: [\"true\"]}\n");
    assert_int_equal(plan("t.yaml"), EX_CONFIG);
    assert_string_equal(errors, "disttrain plan: t.yaml: nothing to plan: it "
                                "has no algorithm\n");
    write_file("t.yaml", SMALL "training.train_batch_size: 12\n");
    assert_int_equal(plan("--nodes 2 t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "E102 12 cannot be divided by 8"));
}

/* --- rates --- */

static void every_mistake_in_rates_has_its_place(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL);
    write_file("rates", "blocks_fp32: fast GFLOP/s\n"
                        "memory: 10 GB\n"
                        "  memry: 1 GB/s\n"
                        "node: 3\n"
                        "hello\n"
                        "\n"
                        "device: gpu\n"
                        "like: h300\n"
                        "network: 1 GB/s fast\n"
                        "ranks_per_node: 0\n");
    assert_int_equal(plan("--rates rates t.yaml"), EX_DATAERR);
    assert_string_equal(
        errors,
        "disttrain plan: rates:1:14: expected a number above 0, got 'fast'; "
        "rates:2:12: memory: expected the unit GB/s, MB/s, GiB/s or Gb/s, got "
        "'GB'; "
        "rates:3:3: unknown rate 'memry'; did you mean 'memory'?; "
        "rates:4:8: node: expected the unit GB/s, MB/s, GiB/s or Gb/s, got ''; "
        "rates:5:1: expected 'name: number unit', got 'hello'; "
        "rates:7:9: device: expected cpu or cuda, got 'gpu'; "
        "rates:8:7: like: expected h100, h200, a100 or cpu, got 'h300'; "
        "rates:9:17: unexpected 'fast'; "
        "rates:10:17: ranks_per_node: expected a number from 1 to 1000000, got "
        "'0'\n");
    write_file("rates", "memory: 1 GB/s\n");
    assert_int_equal(plan("--rates rates t.yaml"), EX_DATAERR);
    assert_string_equal(errors, "disttrain plan: rates:2:1: blocks_fp32 or "
                                "blocks_bf16 is missing; add one, or 'like: "
                                "NAME'\n");
    write_file("rates", "memory: 1 GB/s\nblocks_fp32: 1 GFLOP/s\n");
    assert_int_equal(plan("--rates rates --nodes 2 t.yaml"), EX_DATAERR);
    assert_string_equal(errors,
                        "disttrain plan: rates has no rate 'network', which "
                        "this job needs; measure it with disttrain doctor "
                        "--rates in a step of as many nodes and ranks, or add "
                        "a line 'like: NAME'\n");
    assert_int_equal(plan("--rates none t.yaml"), EX_NOINPUT);
    assert_int_equal(plan("--rates h100 --nodes 2 t.yaml"), 0);
    write_file("t.yaml", SMALL "run.device: cpu\n");
    assert_int_equal(plan("--rates h100 t.yaml"), EX_USAGE);
    assert_string_equal(errors, "disttrain plan: --rates h100 is of GPUs, and "
                                "the run is on CPUs\n");
    unlink("rates");
}

static void a_file_may_say_only_what_differs(void **state)
{
    (void)state;
    write_file("t.yaml", SMALL);
    write_file("rates", "network: 100 Gb/s\nlike: h200\n");
    json_t *all = plan_json("--json --nodes 2 --rates rates t.yaml");
    const json_t *rates = json_object_get(all, "rates");
    const json_t *values = json_object_get(rates, "values");
    assert_string_equal(string(all, "device"), "cuda");
    assert_true(number(values, "network") == 12.5e9);
    assert_true(number(values, "blocks_bf16") == 550e12);
    assert_true(json_is_false(json_object_get(rates, "measured")));
    json_decref(all);
    unlink("rates");
}

/* What is written is read again, to the digits that are written. */
static void rates_are_read_as_they_are_written(void **state)
{
    struct dt_rates rates, again;
    struct dt_error err;
    const char *names;
    (void)state;
    assert_true(dt_rates_known("h100", &rates, &names));
    FILE *file = fopen("rates", "w");
    dt_rates_print(&rates, file);
    fclose(file);
    assert_int_equal(dt_rates_load("rates", &again, &err), 0);
    assert_true(again.gpu && again.measured);
    assert_int_equal(again.ranks_per_node, 8);
    for (int i = 0; i < DT_RATES; i++)
        assert_true(fabs(again.of[i] - rates.of[i]) <= 1e-3 * rates.of[i]);
    unlink("rates");
}

/* Two ranks of a node share what one was measured with; a GPU is no one
 * else's.
 */
static void ranks_share_cpus_and_not_gpus(void **state)
{
    struct dt_rates rates;
    const char *names;
    (void)state;
    assert_true(dt_rates_known("cpu", &rates, &names));
    struct dt_rates each = dt_rates_for(&rates, 4);
    assert_true(each.of[DT_RATE_MEMORY] == rates.of[DT_RATE_MEMORY] / 4);
    assert_true(each.of[DT_RATE_NETWORK] == rates.of[DT_RATE_NETWORK]);
    assert_true(dt_rates_known("h100", &rates, &names));
    each = dt_rates_for(&rates, 4);
    assert_true(each.of[DT_RATE_MEMORY] == rates.of[DT_RATE_MEMORY]);
}

/* --- GPUs that are not here --- */

static void workspaces_of_gpus_are_known_without_one(void **state)
{
    const struct dt_ops *ops = dt_ops_planned_gpu();
    struct dt_attention a = {.B = 2, .T = 64, .NH = 4, .NKV = 4, .HS = 32};
    (void)state;
    assert_int_equal(ops->attention_workspace(DT_F32, &a), 2 * 4 * 64);
    assert_int_equal(ops->attention_workspace(DT_BF16, &a),
                     (256 + 2 * 4 * 64 * 4 + 2 * 4 * 64 * 32 * 4) / 4);
    a.dropout.rate = 0.1;
    assert_int_equal(ops->attention_workspace(DT_BF16, &a), 2 * 4 * 64);
    /* logits of all rows, bf16; GPT-2's weights have a padded copy */
    assert_int_equal(ops->loss_workspace(DT_BF16, 512, 128, 1024, false),
                     512 * 1024 / 2);
    assert_int_equal(ops->loss_workspace(DT_BF16, 512, 128, 50257, false),
                     (50304 * 128 + 512 * 50304) / 2);
    /* chunks of up to 2 GiB with the copy, or of fewer than 2^31 logits */
    assert_int_equal(ops->loss_workspace(DT_BF16, 65536, 768, 50257, false),
                     (50304 * 768 + 20577 * (size_t)50304) / 2);
    assert_int_equal(ops->loss_workspace(DT_BF16, 65536, 768, 50257, true),
                     (50304 * 768 + INT32_MAX / 50304 * (size_t)50304) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_point_to_the_help),
        cmocka_unit_test(the_table_is_that_of_the_manual),
        cmocka_unit_test(the_whole_run_is_timed_where_its_steps_are_known),
        cmocka_unit_test(json_has_all_numbers_and_they_add_up),
        cmocka_unit_test(launch_gives_the_size_unless_an_option_does),
        cmocka_unit_test(a_world_of_one_has_no_other_strategies),
        cmocka_unit_test(seventy_billion_parameters_need_no_gpu),
        cmocka_unit_test(in_bf16_large_models_fit_on_one_gpu),
        cmocka_unit_test(with_ddp_each_node_has_all_copies),
        cmocka_unit_test(offload_is_planned_with_what_it_moves),
        cmocka_unit_test(what_the_file_says_is_planned_even_if_it_does_not_fit),
        cmocka_unit_test(mistakes_of_the_file_are_found),
        cmocka_unit_test(every_mistake_in_rates_has_its_place),
        cmocka_unit_test(a_file_may_say_only_what_differs),
        cmocka_unit_test(rates_are_read_as_they_are_written),
        cmocka_unit_test(ranks_share_cpus_and_not_gpus),
        cmocka_unit_test(workspaces_of_gpus_are_known_without_one),
    };
    return cmocka_run_group_tests_name("plan", tests, enter_directory,
                                       leave_directory);
}
