/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_numerics.c - keys of scheduler, optimizer and precision */
#include "config.h"

#include "conf.h"

static void test_defaults(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    struct dt_error err;
    (void)state;
    assert_int_equal(conf->precision.compute, DT_CONF_FP32);
    assert_int_equal(conf->precision.grad_accum_dtype, DT_CONF_FP32);
    assert_int_equal(conf->precision.loss_scaler, DT_CONF_SCALER_TORCH);
    assert_int_equal(conf->precision.initial_scale_power, 16);
    assert_int_equal(conf->precision.loss_scale_window, 1000);
    assert_int_equal(conf->precision.hysteresis, 2);
    assert_false(conf->precision.consecutive_hysteresis);
    assert_true(conf->precision.min_loss_scale == 1);
    assert_int_equal(conf->precision.growth_interval, 2000);
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

static void test_names(void **state)
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

static void test_sizes(void **state)
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

/* Every spelling of precision.compute. */
static void test_compute(void **state)
{
    static const struct {
        const char *text;
        int compute;
    } cases[] = {
        {"precision: {compute: BF16}\n", DT_CONF_BF16},
        {"mixed_precision: no\n", DT_CONF_FP32},
        {"mixed_precision: fp16\n", DT_CONF_FP16},
        {"training: {mixed_precision: bf16}\nbf16: true\n", DT_CONF_BF16},
        {"fp16: true\nbf16: false\n", DT_CONF_FP16},
        {"use_mixed_precision: true\n", DT_CONF_BF16},
        {"opt_level: O0\n", DT_CONF_FP32},
        {"training: {fp16: true, fp16_opt_level: O1}\n", DT_CONF_FP16},
        {"precision: {opt_level: o2}\n", DT_CONF_FP16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), LEAST "%s", cases[i].text);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->precision.compute, cases[i].compute);
        dt_conf_destroy(conf);
    }
}

static void test_scaler(void **state)
{
    static const struct {
        const char *text;
        int scaler;
    } cases[] = {
        {"loss_scale: 128\n", DT_CONF_SCALER_STATIC},
        {"loss_scale: 0\n", DT_CONF_SCALER_TORCH},
        {"precision: {loss_scale: 128, hysteresis: 3}\n",
         DT_CONF_SCALER_STATIC},
        {"precision: {initial_scale_power: 8}\n", DT_CONF_SCALER_DEEPSPEED},
        {"hysteresis: 1\n", DT_CONF_SCALER_DEEPSPEED},
        {"hysteresis: 1\nloss_scaler: torch\n", DT_CONF_SCALER_TORCH},
        {"growth_interval: 5\n", DT_CONF_SCALER_TORCH},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), LEAST "fp16: true\n%s", cases[i].text);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->precision.loss_scaler, cases[i].scaler);
        dt_conf_destroy(conf);
    }
}

static void test_reduce_dtype(void **state)
{
    struct dt_conf *conf =
        load_good(LEAST "bf16: true\nreduce_dtype: compute\n", "");
    (void)state;
    assert_int_equal(conf->precision.reduce_bf16, 1);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "fp16: true\nreduce_dtype: compute\n", "");
    assert_int_equal(conf->precision.reduce_bf16, 0);
    dt_conf_destroy(conf);
}

static void test_broken_precision(void **state)
{
    static const struct broken cases[] = {
        {LEAST "bf16: true\nfp16: true\n",
         "t.yaml:6:7: precision.compute: E104 fp16 here (fp16), but bf16 in "
         "line 5\n"},
        {LEAST "bf16: true\nfp16_opt_level: O1\n",
         "t.yaml:6:17: precision.opt_level: E104 means fp16, but "
         "precision.compute in line 5 says otherwise: remove one of them\n"},
        {LEAST "fp16_opt_level: O3\n",
         "t.yaml:5:17: precision.opt_level: O3 waits for training without "
         "fp32 weights" NOT_YET},
        {LEAST "grad_accum_dtype: compute\n",
         "t.yaml:5:19: precision.grad_accum_dtype: compute waits for sums of "
         "gradients in 16 bits" NOT_YET},
        {LEAST "fp16: true\nloss_scaler: static\n",
         "t.yaml:6:14: precision.loss_scaler: static needs "
         "precision.loss_scale\n"},
        {LEAST "fp16: true\nloss_scaler: torch\nloss_scale: 8\n",
         "t.yaml:7:13: precision.loss_scale: a scale that is given is "
         "static: remove it, or loss_scaler\n"},
        {LEAST "fp16: true\ninitial_scale_power: 2\nmin_loss_scale: 8\n",
         "t.yaml:7:17: precision.min_loss_scale: 8 is above 2^2, where the "
         "scale begins\n"},
        {LEAST "precision: {loss_scale: -1, hysteresis: 0}\n",
         "t.yaml:5:25: precision.loss_scale: expected a number >= 0, got -1\n"
         "t.yaml:5:41: precision.hysteresis: expected an integer from 1 to "
         "1000000 (overflows), got 0\n"},
        {LEAST "label_smoothing: 1\n",
         "t.yaml:5:18: training.label_smoothing: expected a number in [0, "
         "1), got 1\n"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_warnings(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "bf16: true\nloss_scale: 8\nbf16_full_eval: true\n"
              "lr_scaling_ref_world: 2\n",
        "t.yaml:6:13: precision.loss_scale: no effect: losses are scaled in "
        "fp16 only\n"
        "t.yaml:7:17: precision.full_eval: no effect: an evaluation computes "
        "as training does\n"
        "t.yaml:8:23: distributed.lr_scaling_ref_world: no effect without "
        "lr_scaling\n");
    (void)state;
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_compute),
        cmocka_unit_test(test_scaler),
        cmocka_unit_test(test_reduce_dtype),
        cmocka_unit_test(test_broken_precision),
        cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests_name("conf numerics", tests, enter_directory,
                                       leave_directory);
}
