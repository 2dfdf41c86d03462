/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_conf_deepspeed.c - DeepSpeed files and keys mean the same as ours
 *
 * tests/unit/conf/deepspeed has files as users have them, and beside each what
 * `disttrain check --explain FILE.json` prints of it there.
 */
#include "config.h"

#include <dirent.h>

#include "base/file.h"
#include "tests/unit/conf_pair.h"

static char *explained(const char *path, int *rc)
{
    struct dt_error err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    *rc = dt_conf_explain_deepspeed(path, out, &err);
    fclose(out);
    return text;
}

static bool matches_report(const char *name)
{
    char report[300];
    struct dt_error err;
    int rc;
    snprintf(report, sizeof(report), "%.*s.report", (int)strlen(name) - 5,
             name);
    char *wanted = dt_file_read(report, 1 << 20, &err);
    char *text = explained(name, &rc);
    bool same = wanted && strcmp(wanted, text) == 0;
    if (!same)
        fprintf(stderr, "%s: wanted:\n%s\ngot:\n%s\n", name,
                wanted ? wanted : err.text, text);
    free(wanted);
    free(text);
    return same;
}

static void each_file_of_users_has_its_report(void **state)
{
    const char *root = getenv("DT_SRCDIR");
    char path[1024];
    int count = 0, bad = 0;
    (void)state;
    snprintf(path, sizeof(path), "%s/tests/unit/conf/deepspeed",
             root ? root : ".");
    DIR *dir = opendir(path);
    assert_non_null(dir);
    assert_int_equal(chdir(path), 0);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0) {
            count++;
            bad += !matches_report(entry->d_name);
        }
    }
    closedir(dir);
    assert_int_equal(chdir(test_directory), 0);
    assert_int_equal(bad, 0);
    assert_true(count >= 24);
}

static void a_file_gives_what_the_yaml_does_not(void **state)
{
    struct dt_conf *conf = load_good_pair(
        "training: {distributed_strategy: deepspeed, "
        "deepspeed: {config_path: ds.json}}\n"
        "learning_rate: 1e-3\n"
        "warmup_steps: 50\n",
        "{\"zero_optimization\": {\"stage\": 3,\n"
        "  \"offload_optimizer\": {\"device\": \"nvme\",\n"
        "    \"nvme_path\": \"/nvme\", \"buffer_count\": 3, \"ratio\": 0.9},\n"
        "  \"offload_param\": {\"device\": \"cpu\"},\n"
        "  \"sub_group_size\": 2e6, \"reduce_bucket_size\": 1e6,\n"
        "  \"zero_hpz_partition_size\": 8},\n"
        " \"aio\": {\"block_size\": 262144, \"thread_count\": 2},\n"
        " \"optimizer\": {\"type\": \"Adam\",\n"
        "   \"params\": {\"lr\": \"auto\", \"betas\": [0.8, 0.9]}},\n"
        " \"scheduler\": {\"type\": \"WarmupLR\",\n"
        "   \"params\": {\"warmup_num_steps\": \"auto\"}},\n"
        " \"fp16\": {\"enabled\": true},\n"
        " \"gradient_accumulation_steps\": 4}\n");
    (void)state;
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO3);
    assert_int_equal(conf->distributed.offload_optimizer.device,
                     DT_CONF_OFFLOAD_NVME);
    assert_string_equal(conf->distributed.offload_optimizer.path, "/nvme");
    assert_int_equal(conf->distributed.offload_optimizer.buffer_count, 3);
    assert_true(conf->distributed.offload_optimizer.ratio == 0.9);
    assert_int_equal(conf->distributed.offload_optimizer.tile_size, 2000000);
    assert_int_equal(conf->distributed.offload_param.device,
                     DT_CONF_OFFLOAD_CPU);
    assert_int_equal(conf->distributed.bucket_cap_mb, 3);
    assert_int_equal(conf->distributed.shard_group, 8);
    assert_int_equal(conf->distributed.aio.block_size, 262144);
    assert_int_equal(conf->distributed.aio.threads, 2);
    assert_int_equal(conf->optimizer.name, DT_CONF_ADAMW);
    assert_true(conf->optimizer.lr == 1e-3);
    assert_true(conf->optimizer.beta2 == 0.9);
    assert_int_equal(conf->scheduler.name, DT_SCHEDULE_DS_WARMUP);
    assert_true(conf->scheduler.warmup_steps == 50);
    assert_int_equal(conf->precision.compute, DT_CONF_FP16);
    assert_int_equal(conf->precision.loss_scaler, DT_SCALER_DEEPSPEED);
    assert_int_equal(conf->training.gradient_accumulation_steps, 4);
    dt_conf_destroy(conf);
}

/* A pair whose warnings are not filtered. */
static void check_defaults(const char *lines, const char *json,
                           const char *warned)
{
    char text[512];
    write_file("ds.json", json);
    snprintf(text, sizeof(text), LEAST "deepspeed: ds.json\n%s", lines);
    dt_conf_destroy(load_good(text, warned));
}

static void other_defaults_of_deepspeed_are_told_at_once(void **state)
{
    (void)state;
    check_defaults(
        "", "{" BF16 ", \"optimizer\": {\"type\": \"AdamW\"}}",
        "ds.json:1:1: DeepSpeed has other defaults than those here: "
        "without gradient_clipping it clips nothing, and "
        "training.max_grad_norm is 1; without a rate it takes 0.001, "
        "and optimizer.lr is 2e-05; without a scheduler its rate is "
        "constant, and scheduler.name is linear; write what you "
        "want in t.yaml\n");
    check_defaults("scheduler.name: constant\n", "{" BF16 "}",
                   "ds.json:1:1: DeepSpeed has other defaults than those here: "
                   "without gradient_clipping it clips nothing, and "
                   "training.max_grad_norm is 1; write what you want in "
                   "t.yaml\n");
    check_defaults("max_grad_norm: 2\nlr: 1e-4\nscheduler.name: linear\n",
                   "{" BF16 ", \"optimizer\": {\"type\": \"AdamW\"}}", "");
    check_defaults("",
                   "{" BF16 ", \"gradient_clipping\": \"auto\",\n"
                   "\"optimizer\": {\"params\": \"auto\"},\n"
                   "\"scheduler\": {\"type\": \"WarmupLR\"}}",
                   "");
}

static const struct pair agreements[] = {
    {"deepspeed: ds.json\nlr: 1e-4\nbf16: true\nzero_stage: 2\n"
     "max_grad_norm: 1\nper_device_train_batch_size: 2\n",
     "{" BF16 ", \"zero_optimization\": {\"stage\": 2},\n"
     "\"gradient_clipping\": 1.0, \"train_micro_batch_size_per_gpu\": 2,\n"
     "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.0001}}}\n",
     "", ""},
    {"deepspeed_config_file: ./ds.json\ndistributed_strategy: auto\n"
     "mixed_precision: auto\n",
     "{" BF16 ", \"zero_optimization\": {\"stage\": 1}}", "", ""},
    {"distributed: {deepspeed_config: ds.json}\nbf16: true\n"
     "logging_steps: 5\ngradient_checkpointing: true\n",
     "{\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": \"auto\"},\n"
     "\"optimizer\": {\"params\": \"auto\"},\n"
     "\"activation_checkpointing\": {\"cpu_checkpointing\": true}}",
     "", ""},
};

static void both_may_say_the_same_or_leave_it_to_the_other(void **state)
{
    (void)state;
    CHECK_PAIRS(agreements);
}

static const struct pair contradictions[] = {
    /* all at once, with both places */
    {"training:\n"
     "  deepspeed: ds.json\n"
     "  learning_rate: 1e-4\n"
     "  fp16: true\n"
     "  zero_stage: 3\n"
     "  train_batch_size: 64\n"
     "  lr_scheduler_type: cosine\n"
     "  gradient_checkpointing: false\n",
     "{\"optimizer\": {\"params\": {\"lr\": 3e-5}},\n"
     " " BF16 ",\n"
     " \"zero_optimization\": {\"stage\": 2},\n"
     " \"train_batch_size\": 32,\n"
     " \"scheduler\": {\"type\": \"WarmupLR\"},\n"
     " \"activation_checkpointing\": {\"cpu_checkpointing\": true}}\n",
     "t.yaml:9:15: distributed.zero_stage: E105 3 means zero3, but "
     "distributed.strategy in ds.json:3:33 says otherwise: remove one of "
     "them\n"
     "ds.json:1:33: optimizer.lr: 3e-05 here (lr), but 0.0001 in t.yaml:7:18: "
     "write \"auto\" here to take that\n"
     "ds.json:2:22: precision.compute: E104 bf16 here (enabled), but fp16 in "
     "t.yaml:8:9: write \"auto\" here to take that\n"
     "ds.json:4:22: training.train_batch_size: E103 32 here "
     "(train_batch_size), but 64 in t.yaml:10:21: write \"auto\" here to take "
     "that\n"
     "ds.json:5:24: scheduler.name: E109 WarmupLR here (type), but cosine in "
     "t.yaml:11:22: write \"auto\" here to take that\n"
     "ds.json:6:52: model.gradient_checkpointing: offload here "
     "(cpu_checkpointing), but false in t.yaml:12:27: write \"auto\" here to "
     "take that\n",
     ""},
    {"deepspeed: ds.json\ndistributed_strategy: ddp\n",
     "{" BF16 ", \"zero_optimization\": {\"stage\": 2}}",
     "ds.json:1:60: distributed.strategy: E105 zero2 here (stage), but ddp in "
     "t.yaml:6:23: write \"auto\" here to take that\n",
     ""},
    {"deepspeed: ds.json\nbf16: true\n",
     "{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}\n",
     "ds.json:1:22: precision.compute: E104 fp16 here (enabled), but bf16 in "
     "t.yaml:6:7: write \"auto\" here to take that\n"
     "ds.json:1:49: precision.compute: E104 bf16 here (enabled), but fp16 in "
     "line 1\n",
     ""},
    {"deepspeed: ds.json\nbf16: true\n", "{\"bf16\": {\"enabled\": false}}\n",
     "ds.json:1:22: bf16.enabled: E104 false here, but precision.compute is "
     "bf16 in t.yaml:6:7: write \"auto\" here to take that\n",
     ""},
    {"deepspeed: ds.json\n",
     "{" BF16 ",\n\"zero_optimization\": {\"stage\": 3,\n"
     "\"offload_optimizer\": {\"device\": \"nvme\"}}}",
     "ds.json:3:33: distributed.offload_optimizer.device: E106 nvme needs "
     "distributed.offload_optimizer.path: a directory on a local drive of "
     "each node\n",
     ""},
    {"deepspeed: ds.json\noptimizer.state_dtype: bf16\n",
     "{" BF16 ",\n\"data_types\": {\"grad_accum_dtype\": \"fp16\"},\n"
     "\"optimizer\": {\"params\": {\"lr\": 1e-4,\n"
     "\"fp32_optimizer_states\": true}}}\n",
     "ds.json:2:36: precision.grad_accum_dtype: expected one of auto, fp32, "
     "float32, bf16, bfloat16, got \"fp16\"\n"
     "ds.json:4:26: optimizer.state_dtype: fp32 here (fp32_optimizer_states), "
     "but bf16 in t.yaml:6:24: write \"auto\" here to take that\n",
     ""},
    {"deepspeed: ds.json\n",
     "{\"bf16\": {\"enabled\": true,\n\"bf16_optimizer_states\": true},\n"
     "\"optimizer\": {\"params\": {\"lr\": 1e-4,\n"
     "\"fp32_optimizer_states\": false}}}\n",
     "ds.json:2:26: bf16.bf16_optimizer_states: not supported: remove it, and "
     "write optimizer.state_dtype: bf16 for weights and both moments, which "
     "are rounded at random\n"
     "ds.json:4:26: optimizer.params.fp32_optimizer_states: not supported: "
     "remove it; optimizer.state_dtype says in which type weights and moments "
     "are\n",
     ""},
    {"distributed: {strategy: deepspeed, deepspeed_config: ds.json}\n",
     "{" BF16 "}\n",
     "t.yaml:5:25: distributed.strategy: E105 deepspeed needs a stage: give "
     "zero_optimization.stage in the file of distributed.deepspeed_config, or "
     "zero_stage\n",
     ""},
};

static void contradictions_are_listed_at_once_with_both_places(void **state)
{
    (void)state;
    CHECK_PAIRS(contradictions);
}

static const struct pair told[] = {
    {"deepspeed: ds.json\n",
     "{" BF16 ", \"zero_optimization\": {\"stage\": 1,\n"
     "\"overlap_comm\": true, \"contiguous_gradients\": false,\n"
     "\"sub_group_size\": 1e9}, \"wandb\": {\"enabled\": false},\n"
     "\"steps_per_print\": 2e6, \"comms_config\": 1}\n",
     "",
     "ds.json:2:47: no effect here: contiguous_gradients, sub_group_size, "
     "steps_per_print; `disttrain check --explain ds.json` says why\n"
     "ds.json:4:25: comms_config: unknown key, which DeepSpeed ignores too\n"},
    {"deepspeed: ds.json\nlogging_steps: 5\nddp_bucket_cap_mb: 10\n",
     "{" BF16 ", \"steps_per_print\": 100,\n"
     "\"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": 1e5}}\n",
     "",
     "ds.json:1:48: no effect here: steps_per_print, reduce_bucket_size; "
     "`disttrain check --explain ds.json` says why\n"},
    {"deepspeed: ds.json\n",
     "{" BF16 ", \"zero_optimization\": {\"stage\": 2,\n"
     "\"offload_param\": {\"device\": \"cpu\"}, \"cpu_offload\": true}}\n",
     "",
     "ds.json:2:29: distributed.offload_param.device: no effect with zero2, "
     "neither here nor in DeepSpeed\n"
     "ds.json:2:52: zero_optimization.cpu_offload: deprecated: write "
     "offload_optimizer: {\"device\": \"cpu\"}\n"},
    {"deepspeed: ds.json\n", "{\"fp16\": {\"enabled\": false}}\n", "",
     "ds.json:1:1: precision.compute: neither fp16 nor bf16 is enabled, which "
     "means fp32 in DeepSpeed and bf16 on GPUs here: write fp32 or bf16 in "
     "t.yaml\n"},
};

static void what_has_no_effect_is_told(void **state)
{
    (void)state;
    CHECK_PAIRS(told);
}

static void later_checks_know_the_place_in_the_file(void **state)
{
    struct dt_conf *conf = load_good_pair(
        "deepspeed: ds.json\n", "{" BF16 ",\n \"train_batch_size\": 32,\n"
                                " \"gradient_accumulation_steps\": 8}\n");
    struct dt_error err;
    char wanted[256], *text = NULL;
    size_t bytes = 0;
    (void)state;
    snprintf(wanted, sizeof(wanted),
             "%s/ds.json:2:22: training.train_batch_size: E103 "
             "train_batch_size does not match: 32 != 2 (per device) * 8 "
             "(accumulation) * 4 (ranks) = 64; use train_batch_size 64 or "
             "accumulation 4",
             test_directory);
    assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), -1);
    assert_string_equal(err.text, wanted);
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_print_problem(conf, "t.yaml", "precision.compute", "x", out);
    dt_conf_print_problem(conf, "t.yaml", "data.train", "y", out);
    fclose(out);
    snprintf(wanted, sizeof(wanted),
             "%s/ds.json:1:22: precision.compute: x\n"
             "t.yaml:2:13: data.train: y\n",
             test_directory);
    assert_string_equal(text, wanted);
    free(text);
    dt_conf_destroy(conf);
}

static void gradients_have_the_type_of_the_file(void **state)
{
    static const struct {
        const char *word;
        int means;
    } types[] = {{"fp32", DT_CONF_FP32},
                 {"float32", DT_CONF_FP32},
                 {"bf16", DT_CONF_BF16},
                 {"bfloat16", DT_CONF_BF16},
                 {"auto", DT_CONF_BF16}};
    char file[128];
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        snprintf(file, sizeof(file),
                 "{" BF16 ", \"data_types\": {\"grad_accum_dtype\": \"%s\"}}",
                 types[i].word);
        struct dt_conf *conf = load_good_pair(
            "deepspeed: ds.json\noptimizer.state_dtype: bf16\n", file);
        assert_int_equal(conf->precision.grad_accum_dtype, types[i].means);
        dt_conf_destroy(conf);
    }
}

/* The dump has the values, and needs the DeepSpeed file no more. */
static void a_dump_needs_no_deepspeed_file(void **state)
{
    struct dt_conf *conf = load_good_pair(
        "deepspeed: ds.json\ndistributed_strategy: deepspeed\n",
        "{\"fp16\": {\"enabled\": true, \"loss_scale_window\": 500},\n"
        "\"zero_optimization\": {\"stage\": 3,\n"
        "\"stage3_max_live_parameters\": 1e9}}");
    char *text = NULL, line[256];
    size_t bytes = 0;
    (void)state;
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    snprintf(line, sizeof(line),
             "  strategy: zero3  # line 2 of \"%s/ds.json\"", test_directory);
    assert_non_null(strstr(text, line));
    unlink("ds.json");
    struct dt_conf *again = load_good(text, "");
    assert_true(again->fingerprint == conf->fingerprint);
    assert_int_equal(again->distributed.strategy, DT_CONF_ZERO3);
    assert_int_equal(again->precision.loss_scaler, DT_SCALER_DEEPSPEED);
    assert_int_equal(again->distributed.live_elements, 1000000000);
    free(text);
    dt_conf_destroy(conf);
    dt_conf_destroy(again);
}

static void yaml_may_have_the_keys_of_deepspeed(void **state)
{
    static const struct {
        const char *lines;
        int strategy, device, compute;
    } cases[] = {
        {"deepspeed: {stage: 2, offload_optimizer: {device: cpu}}\n"
         "bf16: {enabled: true}\n",
         DT_CONF_ZERO2, DT_CONF_OFFLOAD_CPU, DT_CONF_BF16},
        {"training: {deepspeed: {zero_optimization: {stage: 1}, "
         "fp16: {enabled: true}}}\n",
         DT_CONF_ZERO1, DT_CONF_OFFLOAD_NONE, DT_CONF_FP16},
        {"zero_optimization: {stage: 3, offload_optimizer: {device: nvme, "
         "nvme_path: /x}}\naio: {queue_depth: 4}\nfp16: true\n",
         DT_CONF_ZERO3, DT_CONF_OFFLOAD_NVME, DT_CONF_FP16},
        {"distributed: {strategy: deepspeed, zero: {stage: true}}\n"
         "bf16: true\n",
         DT_CONF_ZERO1, DT_CONF_OFFLOAD_NONE, DT_CONF_BF16},
        {"deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, "
         "gradient_clipping: 1.0, zero3_save_16bit_model: auto}\n"
         "mixed_precision: bf16\n",
         DT_CONF_ZERO3, DT_CONF_OFFLOAD_CPU, DT_CONF_BF16},
        {"deepspeed: null\nbf16: true\n", DT_CONF_AUTO_STRATEGY,
         DT_CONF_OFFLOAD_NONE, DT_CONF_BF16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_more(cases[i].lines);
        assert_int_equal(conf->distributed.strategy, cases[i].strategy);
        assert_int_equal(conf->distributed.offload_optimizer.device,
                         cases[i].device);
        assert_int_equal(conf->precision.compute, cases[i].compute);
        dt_conf_destroy(conf);
    }
}

static const struct broken yaml_mistakes[] = {
    {LEAST "deepspeed: {stag: 2}\n",
     "t.yaml:5:13: deepspeed.stag: unknown key; did you mean stage?\n"},
    {LEAST "zero_optimization: {stage: 1, offload_param: {device: cpu}}\n",
     "t.yaml:5:55: distributed.offload_param.device: E106 with zero1 each "
     "rank computes with all weights: set distributed.strategy to zero3\n"},
    {LEAST "zero_optimization: true\n",
     "t.yaml:5:20: zero_optimization: expected a section with keys\n"},
    {LEAST "zero_optimisation: {stage: 1}\n",
     "t.yaml:5:1: zero_optimisation: unknown key; did you mean "
     "zero_optimization?\n"},
    {LEAST "zero_optimization: {stage: 2}\nfp16: {enabled: true}\n"
           "training: {use_ddp: true, bf16: true}\n",
     "t.yaml:7:21: distributed.strategy: E105 ddp here (use_ddp), but zero2 "
     "in line 5\n"
     "t.yaml:7:33: precision.compute: E104 bf16 here (bf16), but fp16 in line "
     "6\n"},
};

static void mistakes_in_yaml_are_at_their_place(void **state)
{
    (void)state;
    CHECK_ALL(yaml_mistakes);
    dt_conf_destroy(
        load_good(LEAST "zero_optimization: {stage: 2, overlap_comm: false}\n",
                  "t.yaml:5:45: no effect here: overlap_comm; `disttrain check "
                  "--explain KEY` says why\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_of_users_has_its_report),
        cmocka_unit_test(a_file_gives_what_the_yaml_does_not),
        cmocka_unit_test(other_defaults_of_deepspeed_are_told_at_once),
        cmocka_unit_test(both_may_say_the_same_or_leave_it_to_the_other),
        cmocka_unit_test(contradictions_are_listed_at_once_with_both_places),
        cmocka_unit_test(what_has_no_effect_is_told),
        cmocka_unit_test(later_checks_know_the_place_in_the_file),
        cmocka_unit_test(gradients_have_the_type_of_the_file),
        cmocka_unit_test(a_dump_needs_no_deepspeed_file),
        cmocka_unit_test(yaml_may_have_the_keys_of_deepspeed),
        cmocka_unit_test(mistakes_in_yaml_are_at_their_place),
    };
    return cmocka_run_group_tests_name("conf deepspeed", tests, enter_directory,
                                       leave_pair);
}
