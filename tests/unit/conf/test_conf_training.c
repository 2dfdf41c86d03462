/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_training.c - keys of training, scheduler, optimizer; batch sizes */
#include "config.h"

#include "tests/unit/conf.h"

static void omitted_keys_get_their_defaults(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    struct dt_error err;
    (void)state;
    assert_int_equal(conf->distributed.lr_scaling, DT_CONF_LR_AS_GIVEN);
    assert_int_equal(conf->distributed.lr_scaling_ref_world, 1);
    assert_true(conf->training.label_smoothing == 0);
    assert_false(conf->training.eval_only || conf->checkpoint.only_model ||
                 conf->model.disable_dropout ||
                 conf->model.gradient_checkpointing);
    assert_int_equal(conf->checkpoint.save_dtype, DT_CONF_AUTO_DTYPE);
    assert_int_equal(conf->checkpoint.max_shard_size, 5000000000);
    assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), 0);
    assert_int_equal(conf->training.per_device_eval_batch_size, 2);
    dt_conf_destroy(conf);
}

static void keys_are_read_under_their_other_names(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "training:\n"
              "  gradient_checkpointing: true\n"
              "  label_smoothing_factor: 0.1\n"
              "  per_device_eval_batch_size: 8\n"
              "  mode: eval\n"
              "data.eval: train.txt\n"
              "disable_dropout: true\n"
              "lr_scaling: SQRT\n"
              "distributed: {lr_scaling_ref_world: 8}\n"
              "save_only_model: true\n"
              "checkpoint: {save_dtype: bf16, max_shard_size: 1.5 GiB}\n",
        "");
    struct dt_error err;
    (void)state;
    assert_true(conf->model.gradient_checkpointing);
    assert_true(conf->model.disable_dropout);
    assert_true(conf->training.label_smoothing == 0.1);
    assert_true(conf->training.eval_only);
    assert_int_equal(conf->distributed.lr_scaling, DT_CONF_LR_SQRT);
    assert_int_equal(conf->distributed.lr_scaling_ref_world, 8);
    assert_true(conf->checkpoint.only_model);
    assert_int_equal(conf->checkpoint.save_dtype, DT_CONF_BF16);
    assert_int_equal(conf->checkpoint.max_shard_size, 3L << 29);
    assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), 0);
    assert_int_equal(conf->training.per_device_eval_batch_size, 8);
    dt_conf_destroy(conf);
}

static void only_positive_sizes_with_known_units_are_read(void **state)
{
    static const struct {
        const char *text;
        long bytes;
    } cases[] = {
        {"5GB", 5000000000},      {"500mb", 500000000}, {"200KB", 200000},
        {"1KiB", 1024},           {"2 MiB", 2097152},   {"1e9", 1000000000},
        {"'2TB'", 2000000000000}, {"4096", 4096},
    };
    static const struct broken bad[] = {
        {LEAST "max_shard_size: 5 GiBs\n",
         "t.yaml:5:17: checkpoint.max_shard_size: expected a size such as "
         "500MB or 2GiB, got \"5 GiBs\"\n"},
        {LEAST "max_shard_size: 0\n",
         "t.yaml:5:17: checkpoint.max_shard_size: expected a size such as "
         "500MB or 2GiB, got 0\n"},
        {LEAST "max_shard_size: -1GB\n",
         "t.yaml:5:17: checkpoint.max_shard_size: expected a size such as "
         "500MB or 2GiB, got \"-1GB\"\n"},
        {LEAST "max_shard_size: 9e30TB\n",
         "t.yaml:5:17: checkpoint.max_shard_size: expected a size such as "
         "500MB or 2GiB, got \"9e30TB\"\n"},
        {LEAST "max_shard_size: GB\n",
         "t.yaml:5:17: checkpoint.max_shard_size: expected a size such as "
         "500MB or 2GiB, got \"GB\"\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), LEAST "max_shard_size: %s\n",
                 cases[i].text);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->checkpoint.max_shard_size, cases[i].bytes);
        dt_conf_destroy(conf);
    }
    CHECK_ALL(bad);
}

static void label_smoothing_is_below_one(void **state)
{
    static const struct broken one = {
        LEAST "label_smoothing: 1\n",
        "t.yaml:5:18: training.label_smoothing: expected a number in [0, 1), "
        "got 1\n"};
    (void)state;
    check_all(&one, 1);
}

static void the_adam_of_deepspeed_is_adamw(void **state)
{
    struct dt_conf *conf = load_good(LEAST "optim: adam\n", "");
    (void)state;
    assert_int_equal(conf->optimizer.name, DT_CONF_ADAM);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "optimizer: {type: Adam}\n", "");
    assert_int_equal(conf->optimizer.name, DT_CONF_ADAMW);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "training: {optim: adamw_torch_fused}\n", "");
    assert_int_equal(conf->optimizer.name, DT_CONF_ADAMW);
    dt_conf_destroy(conf);
}

/* The defaults that depend on the name; every key in Hugging Face's words. */
static void each_schedule_has_its_own_defaults(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "training:\n"
              "  max_steps: 100\n"
              "  lr_scheduler_type: warmup_stable_decay\n"
              "  lr_scheduler_kwargs: {num_decay_steps: 0.2, min_lr_ratio: 0.5,"
              " num_stable_steps: 10, warmup_type: 1-sqrt, decay_type: linear, "
              "num_cycles: 2}\n",
        "");
    (void)state;
    assert_int_equal(conf->scheduler.name, DT_SCHEDULE_WARMUP_STABLE_DECAY);
    assert_true(conf->scheduler.min_lr == 1e-5);
    assert_true(conf->scheduler.num_cycles == 2);
    assert_int_equal(conf->scheduler.stable_steps, 10);
    assert_int_equal(conf->scheduler.warmup_type, DT_CURVE_SQRT);
    assert_int_equal(conf->scheduler.decay_type, DT_CURVE_LINEAR);
    assert_int_equal(dt_conf_resolve_steps(conf, 100, NULL), 0);
    assert_int_equal(conf->scheduler.decay_steps, 20);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "scheduler: {name: polynomial}\n", "");
    assert_true(conf->scheduler.min_lr == 1e-7 && conf->scheduler.power == 1);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "lr_scheduler_type: cosine_with_restarts\n", "");
    assert_true(conf->scheduler.num_cycles == 1);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "scheduler: {type: WarmupLR}\nlr: 1e-3\n", "");
    assert_true(conf->scheduler.warmup_steps == 1000);
    assert_true(conf->scheduler.warmup_max_lr == 1e-3);
    assert_int_equal(conf->scheduler.warmup_type, DT_CURVE_LOG);
    dt_conf_destroy(conf);
}

#define WSD LEAST "scheduler:\n  name: warmup_stable_decay\n"
static void invalid_schedules_are_refused(void **state)
{
    static const struct broken cases[] = {
        {WSD, "t.yaml:6:9: scheduler.name: E108 warmup_stable_decay needs "
              "decay_steps\n"},
        {WSD "  decay_steps: 10\n  warmup_type: log\n",
         "t.yaml:8:16: scheduler.warmup_type: log is for DeepSpeed's schedules "
         "only\n"},
        {WSD "  decay_steps: 80\n  warmup_steps: 0.3\nmax_steps: 100\n",
         "t.yaml:7:16: scheduler.decay_steps: E110 80, with 30 of warm-up and "
         "0 stable ones, do not fit into a run of 100 steps\n"},
        {LEAST "scheduler: {name: cosine_warmup_with_min_lr}\n",
         "t.yaml:5:19: scheduler.name: E108 cosine_warmup_with_min_lr needs "
         "exactly one of min_lr and min_lr_rate\n"},
        {LEAST "scheduler: {name: nanogpt, min_lr: 1e-6, min_lr_rate: 0.1}\n",
         "t.yaml:5:55: scheduler.min_lr_rate: E108 min_lr is given too: remove "
         "one of them\n"},
        {LEAST "scheduler: {name: polynomial, lr_end: 2e-5}\n",
         "t.yaml:5:39: scheduler.min_lr: 2e-05 is not below optimizer.lr "
         "2e-05\n"},
        {LEAST "scheduler: {name: WarmupLR, warmup_num_steps: 0}\n",
         "t.yaml:5:47: scheduler.warmup_steps: WarmupLR needs at least 1 step "
         "of warm-up\n"},
        {LEAST "scheduler: {name: WarmupLR, warmup_type: cosine}\n",
         "t.yaml:5:42: scheduler.warmup_type: only log and linear with "
         "scheduler WarmupLR\n"},
        {LEAST "scheduler: {name: WarmupLR, params: {warmup_min_lr: 1, "
               "momentum: 1}}\n",
         "t.yaml:5:53: scheduler.warmup_min_lr: 1 is above the highest rate "
         "2e-05\n"
         "t.yaml:5:56: scheduler.params.momentum: unknown key\n"},
        {LEAST "scheduler: {name: WarmupDecayLR, total_num_steps: 7}\n"
               "warmup_steps: 2\nmax_steps: 8\n",
         "t.yaml:5:51: scheduler.total_num_steps: E110 7, but the run has 8 "
         "steps\n"},
        {LEAST "lr_scheduler_type: reduce_lr_on_plateau\n",
         "t.yaml:5:20: scheduler.name: reduce_lr_on_plateau is not supported "
         "yet: it needs schedules that follow the loss\n"},
    };
    struct dt_conf *conf = load_good(LEAST "total_num_steps: 7\n", "");
    struct dt_error err;
    (void)state;
    CHECK_ALL(cases);
    assert_int_equal(dt_conf_resolve_steps(conf, 7, &err), 0);
    assert_int_equal(dt_conf_resolve_steps(conf, 9, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_non_null(strstr(err.text, "t.yaml:5:18: scheduler.total_num_steps: "
                                     "E110 7, but the run has 9 steps"));
    dt_conf_destroy(conf);
}

static void every_key_that_a_schedule_ignores_is_reported(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "scheduler:\n  min_lr_rate: 0.1\n  num_cycles: 2\n  power: 2\n"
              "  timescale: 5\n  decay_steps: 5\n  stable_steps: 5\n"
              "  decay_type: linear\n  warmup_type: log\n"
              "  warmup_lr_rate: 0.1\n  warmup_min_lr: 0\n"
              "  warmup_max_lr: 1\n",
        "t.yaml:6:16: scheduler.min_lr_rate: no effect with scheduler linear\n"
        "t.yaml:7:15: scheduler.num_cycles: no effect with scheduler linear\n"
        "t.yaml:8:10: scheduler.power: no effect with scheduler linear\n"
        "t.yaml:9:14: scheduler.timescale: no effect with scheduler linear\n"
        "t.yaml:10:16: scheduler.decay_steps: no effect with scheduler "
        "linear\n"
        "t.yaml:11:17: scheduler.stable_steps: no effect with scheduler "
        "linear\n"
        "t.yaml:12:15: scheduler.decay_type: no effect with scheduler linear\n"
        "t.yaml:13:16: scheduler.warmup_type: no effect with scheduler "
        "linear\n"
        "t.yaml:14:19: scheduler.warmup_lr_rate: no effect with scheduler "
        "linear\n"
        "t.yaml:15:18: scheduler.warmup_min_lr: no effect with scheduler "
        "linear\n"
        "t.yaml:16:18: scheduler.warmup_max_lr: no effect with scheduler "
        "linear\n");
    (void)state;
    dt_conf_destroy(conf);
}

static void keys_without_effect_are_reported(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "bf16: true\nloss_scale: 8\nbf16_full_eval: true\n"
              "lr_scaling_ref_world: 2\n",
        "t.yaml:6:13: precision.loss_scale: no effect: losses are scaled in "
        "fp16 only\n"
        "t.yaml:7:17: bf16_full_eval: not needed here: evaluation "
        "computes in the same type as training\n"
        "t.yaml:8:23: distributed.lr_scaling_ref_world: no effect without "
        "lr_scaling\n");
    (void)state;
    dt_conf_destroy(conf);
}

/* --- batch sizes --- */

struct sizes {
    const char *given; /* in training */
    int world;
    long per_device, global_micro, train, accumulation;
};

static struct dt_conf *load_sizes(const char *given)
{
    char text[512], *problems, *warnings;
    snprintf(text, sizeof(text),
             "algorithm: sft\ndata.train: train.txt\n"
             "model.n_embd: 96\ntraining: {%s}\n",
             given);
    struct dt_conf *conf = load_text(text, &problems, &warnings);
    assert_string_equal(problems, "");
    free(problems);
    free(warnings);
    return conf;
}

static void batch_sizes_follow_from_those_given(void **state)
{
    static const struct sizes cases[] = {
        {"per_device_batch_size: 4", 3, 4, 12, 12, 1},
        {"per_device_batch_size: 4, grad_accum: 2", 3, 4, 12, 24, 2},
        {"global_micro_batch_size: 12, grad_accum: 2", 3, 4, 12, 24, 2},
        {"train_batch_size: 24", 3, 8, 24, 24, 1},
        {"train_batch_size: 24, grad_accum: 2", 3, 4, 12, 24, 2},
        {"train_batch_size: 24, per_device_batch_size: 2", 3, 2, 6, 24, 4},
        {"train_batch_size: 24, global_micro_batch_size: 6", 3, 2, 6, 24, 4},
        {"train_batch_size: 24, per_device_batch_size: 2, grad_accum: 4, "
         "global_micro_batch_size: 6",
         3, 2, 6, 24, 4},
        {"batch_size: 24, batch_size_is: train", 3, 8, 24, 24, 1},
        {"batch_size: 24, batch_size_is: global_micro", 3, 8, 24, 24, 1},
        {"batch_size: 24, batch_size_is: per_device", 3, 24, 72, 72, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_sizes(cases[i].given);
        struct dt_error err = {0};
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(dt_conf_resolve_batch(conf, cases[i].world, &err),
                             0);
            assert_int_equal(conf->training.per_device_batch_size,
                             cases[i].per_device);
            assert_int_equal(conf->training.global_micro_batch_size,
                             cases[i].global_micro);
            assert_int_equal(conf->training.train_batch_size, cases[i].train);
            assert_int_equal(conf->training.gradient_accumulation_steps,
                             cases[i].accumulation);
        }
        dt_conf_destroy(conf);
    }
}

static void batch_sizes_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *given, *error; /* without the file's directory */
    } cases[] = {
        {"train_batch_size: 32, per_device_batch_size: 4, grad_accum: 8",
         "4:30: training.train_batch_size: E103 train_batch_size does not "
         "match: 32 != 4 (per device) * 8 (accumulation) * 4 (ranks) = 128; "
         "use train_batch_size 128 or accumulation 2"},
        {"train_batch_size: 30, per_device_batch_size: 5, grad_accum: 6",
         "4:30: training.train_batch_size: E103 train_batch_size does not "
         "match: 30 != 5 (per device) * 6 (accumulation) * 4 (ranks) = 120; "
         "use train_batch_size 120"},
        {"train_batch_size: 30",
         "4:30: training.train_batch_size: E102 30 cannot be divided by 4 "
         "(accumulation * ranks); nearest are 28 and 32"},
        {"train_batch_size: 3",
         "4:30: training.train_batch_size: E102 3 cannot be divided by 4 "
         "(accumulation * ranks); the smallest is 4"},
        {"train_batch_size: 20, per_device_batch_size: 2",
         "4:30: training.train_batch_size: E102 20 cannot be divided by 8 "
         "(per device * ranks); nearest are 16 and 24"},
        {"global_micro_batch_size: 10",
         "4:37: training.global_micro_batch_size: E102 10 cannot be divided "
         "by 4 (ranks); nearest are 8 and 12"},
        {"global_micro_batch_size: 8, per_device_batch_size: 4",
         "4:37: training.global_micro_batch_size: E103 8 != 4 (per device) * "
         "4 (ranks) = 16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_sizes(cases[i].given);
        struct dt_error err = {0};
        char wanted[1024];
        snprintf(wanted, sizeof(wanted), "%s:%s", conf->file, cases[i].error);
        assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), -1);
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.status, EX_CONFIG);
        dt_conf_destroy(conf);
    }
}

static void check_reports(const char *more, const char *expected)
{
    struct dt_conf *conf = load_more(more);
    char text[64];
    snprintf(text, sizeof(text), "%s%s%s%s%s",
             conf->logging.to_stdout ? "stdout " : "",
             conf->logging.to_jsonl ? "jsonl " : "",
             conf->logging.to_html ? "html " : "",
             conf->logging.to_tensorboard ? "tensorboard " : "",
             conf->logging.to_wandb ? "wandb " : "");
    assert_string_equal(text, expected);
    dt_conf_destroy(conf);
}

/* Trainer's words add to the console and the log, which it always has. */
static void reports_go_where_trainer_sends_them(void **state)
{
    (void)state;
    check_reports("report_to: tensorboard\n", "stdout jsonl html tensorboard ");
    check_reports("report_to: [wandb, tensorboard]\n",
                  "stdout jsonl html tensorboard wandb ");
    check_reports("report_to: all\n", "stdout jsonl html tensorboard wandb ");
    check_reports("report_to: none\n", "stdout jsonl html ");
    check_reports("report_to: []\n", "stdout jsonl html ");
    check_reports("logging: {report_to: [jsonl, wandb]}\n", "jsonl wandb ");
    check_reports("logging: {report_to: [stdout, wandb]}\n",
                  "stdout jsonl wandb ");
    check_reports("logging: {report_to: stdout}\n", "stdout ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omitted_keys_get_their_defaults),
        cmocka_unit_test(keys_are_read_under_their_other_names),
        cmocka_unit_test(only_positive_sizes_with_known_units_are_read),
        cmocka_unit_test(label_smoothing_is_below_one),
        cmocka_unit_test(the_adam_of_deepspeed_is_adamw),
        cmocka_unit_test(each_schedule_has_its_own_defaults),
        cmocka_unit_test(invalid_schedules_are_refused),
        cmocka_unit_test(every_key_that_a_schedule_ignores_is_reported),
        cmocka_unit_test(keys_without_effect_are_reported),
        cmocka_unit_test(batch_sizes_follow_from_those_given),
        cmocka_unit_test(batch_sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(reports_go_where_trainer_sends_them),
    };
    return cmocka_run_group_tests_name("conf training", tests, enter_directory,
                                       leave_directory);
}
