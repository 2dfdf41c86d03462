/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_device.c - keys of the device and of precision, contradictions */
#include "config.h"

#include "tests/unit/conf.h"

static void device_keys_left_out_mean_auto(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    (void)state;
    assert_int_equal(conf->run.device, DT_CONF_AUTO_DEVICE);
    assert_int_equal(conf->distributed.backend, DT_CONF_AUTO_BACKEND);
    assert_int_equal(conf->model.attention, DT_ATTENTION_AUTO);
    assert_int_equal(conf->precision.compute, DT_CONF_AUTO_DTYPE);
    assert_false(conf->run.deterministic || conf->precision.tf32);
    assert_int_equal(conf->precision.grad_accum_dtype, DT_CONF_FP32);
    assert_int_equal(conf->precision.loss_scaler, DT_SCALER_TORCH);
    assert_int_equal(conf->precision.initial_scale_power, 16);
    assert_int_equal(conf->precision.loss_scale_window, 1000);
    assert_int_equal(conf->precision.hysteresis, 2);
    assert_false(conf->precision.consecutive_hysteresis);
    assert_true(conf->precision.min_loss_scale == 1);
    assert_int_equal(conf->precision.growth_interval, 2000);
    dt_conf_destroy(conf);
}

static void names_of_other_trainers_are_understood(void **state)
{
    struct dt_conf *conf =
        load_good(LEAST "run: {device: CUDA, deterministic: true}\n"
                        "ddp_backend: nccl\n"
                        "attn_implementation: flash_attention_2\n"
                        "dataloader: {pin_memory: false}\n"
                        "tf32: false\n",
                  "t.yaml:8:26: data.pin_memory: not needed here: batches "
                  "always reach a GPU through a few hundred KiB of page-locked "
                  "memory\n");
    (void)state;
    assert_int_equal(conf->run.device, DT_CONF_CUDA);
    assert_true(conf->run.deterministic);
    assert_int_equal(conf->distributed.backend, DT_CONF_NCCL);
    assert_int_equal(conf->model.attention, DT_ATTENTION_FLASH);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "full_determinism: true\n"
                           "attn_implementation: eager\n",
                     "");
    assert_true(conf->run.deterministic);
    assert_int_equal(conf->model.attention, DT_ATTENTION_MATH);
    dt_conf_destroy(conf);
}

/* What auto becomes: compute, attention and backend of each device. */
static void the_device_decides_what_auto_becomes(void **state)
{
    static const struct {
        const char *text;
        enum dt_conf_device device;
        int compute, backend, reduce_bf16;
    } cases[] = {
        {"", DT_CONF_CPU, DT_CONF_FP32, DT_CONF_GLOO, 0},
        {"", DT_CONF_CUDA, DT_CONF_BF16, DT_CONF_NCCL, 0},
        {"reduce_dtype: compute\n", DT_CONF_CPU, DT_CONF_FP32, DT_CONF_GLOO, 0},
        {"reduce_dtype: compute\n", DT_CONF_CUDA, DT_CONF_BF16, DT_CONF_NCCL,
         1},
        {"fp16: true\nreduce_dtype: compute\n", DT_CONF_CUDA, DT_CONF_FP16,
         DT_CONF_NCCL, 0},
        {"mixed_precision: no\n", DT_CONF_CUDA, DT_CONF_FP32, DT_CONF_NCCL, 0},
        {"bf16: true\n", DT_CONF_CPU, DT_CONF_BF16, DT_CONF_GLOO, 0},
        {"precision: {compute: auto}\n", DT_CONF_CUDA, DT_CONF_BF16,
         DT_CONF_NCCL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct dt_error err;
        snprintf(text, sizeof(text), LEAST "%s", cases[i].text);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(dt_conf_resolve_device(conf, cases[i].device, &err),
                         0);
        assert_int_equal(conf->run.device, cases[i].device);
        assert_int_equal(conf->precision.compute, cases[i].compute);
        assert_int_equal(conf->distributed.backend, cases[i].backend);
        assert_int_equal(conf->precision.reduce_bf16, cases[i].reduce_bf16);
        dt_conf_destroy(conf);
    }
}

/* Who looks whether a key is given does not find the word that it has anyway.
 */
static void auto_written_out_means_what_leaving_it_out_means(void **state)
{
    static const char *const paths[] = {
        "run.device", "distributed.backend", "precision.compute",
        "precision.grad_accum_dtype", "precision.loss_scaler"};
    struct dt_error err;
    struct dt_conf *conf =
        load_good(LEAST "run.device: auto\n"
                        "distributed.backend: auto\n"
                        "precision: {compute: auto, grad_accum_dtype: auto, "
                        "loss_scaler: auto}\n",
                  "");
    (void)state;
    assert_int_equal(dt_conf_resolve_device(conf, DT_CONF_CUDA, &err), 0);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (dt_conf_given(conf, paths[i]))
            fail_msg("%s is given", paths[i]);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "run.device: cuda\n"
                           "precision.grad_accum_dtype: fp32\n",
                     "");
    assert_int_equal(dt_conf_resolve_device(conf, DT_CONF_CUDA, &err), 0);
    assert_true(dt_conf_given(conf, "run.device"));
    assert_true(dt_conf_given(conf, "precision.grad_accum_dtype"));
    dt_conf_destroy(conf);
}

static void a_named_device_resolves_without_the_machine(void **state)
{
    struct dt_conf *conf = load_good(LEAST "run.device: cuda\n", "");
    (void)state;
    assert_int_equal(conf->precision.compute, DT_CONF_BF16);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "run.device: cpu\n", "");
    assert_int_equal(conf->precision.compute, DT_CONF_FP32);
    dt_conf_destroy(conf);
}

static void the_fingerprint_ignores_how_the_type_was_chosen(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    struct dt_conf *given = load_good(LEAST "mixed_precision: bf16\n", "");
    struct dt_error err;
    (void)state;
    assert_true(conf->fingerprint != given->fingerprint);
    assert_int_equal(dt_conf_resolve_device(conf, DT_CONF_CUDA, &err), 0);
    assert_int_equal(dt_conf_resolve_device(given, DT_CONF_CPU, &err), 0);
    assert_true(conf->fingerprint == given->fingerprint);
    dt_conf_destroy(conf);
    dt_conf_destroy(given);
}

/* Settings of one device, and what is said of them with the other. */
static const struct {
    const char *text, *problem;
    enum dt_conf_device device;
} clashes[] = {
    {"distributed.backend: nccl\n",
     "22: distributed.backend: E131 nccl connects GPUs, and run.device is cpu: "
     "write gloo or auto",
     DT_CONF_CPU},
    {"distributed.backend: gloo\n",
     "22: distributed.backend: E131 gloo connects CPUs, and run.device is "
     "cuda: write nccl or auto",
     DT_CONF_CUDA},
    {"model.attention: flash\n",
     "18: model.attention: flash is for GPUs, and run.device is cpu: "
     "write auto",
     DT_CONF_CPU},
};

enum { CLASHES = sizeof(clashes) / sizeof(clashes[0]) };

static void settings_that_contradict_the_device_are_refused(void **state)
{
    static const struct broken attention = {
        LEAST "mixed_precision: no\nmodel.attention: flash\n",
        "t.yaml:6:18: model.attention: flash computes in bf16 and fp16, and "
        "precision.compute is fp32: write auto\n"};
    (void)state;
    check_all(&attention, 1);
    for (size_t i = 0; i < CLASHES; i++) {
        char text[256], problems[256];
        struct broken named = {text, problems};
        snprintf(text, sizeof(text), LEAST "run.device: %s\n%s",
                 clashes[i].device == DT_CONF_CPU ? "cpu" : "cuda",
                 clashes[i].text);
        snprintf(problems, sizeof(problems), "t.yaml:6:%s\n",
                 clashes[i].problem);
        check_all(&named, 1);
    }
}

static void contradictions_are_refused_once_the_device_is_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLASHES; i++) {
        char wanted[256];
        struct dt_error err;
        struct dt_conf *conf = load_more(clashes[i].text);
        snprintf(wanted, sizeof(wanted), "t.yaml:5:%s", clashes[i].problem);
        assert_int_equal(dt_conf_resolve_device(conf, clashes[i].device, &err),
                         -1);
        assert_int_equal(err.status, EX_CONFIG);
        assert_non_null(strstr(err.text, wanted));
        dt_conf_destroy(conf);
    }
}

static void tf32_without_effect_is_warned_of(void **state)
{
    (void)state;
    dt_conf_destroy(
        load_good(LEAST "run.device: cpu\ntf32: true\n",
                  "t.yaml:6:7: precision.tf32: no effect on cpu\n"));
    dt_conf_destroy(
        load_good(LEAST "bf16: true\ntf32: true\n",
                  "t.yaml:6:7: precision.tf32: no effect: it is about fp32 "
                  "matrix multiplications\n"));
    dt_conf_destroy(load_good(LEAST "mixed_precision: no\ntf32: true\n", ""));
}

/* --- precision --- */

static void every_spelling_of_compute_precision_is_understood(void **state)
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
        {"precision: {compute: auto, opt_level: O1}\n", DT_CONF_FP16},
        {"training: {fp16: true, fp16_opt_level: O1}\n", DT_CONF_FP16},
        {"precision: {opt_level: o2}\n", DT_CONF_FP16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load_more(cases[i].text);
        assert_int_equal(conf->precision.compute, cases[i].compute);
        dt_conf_destroy(conf);
    }
}

static void the_keys_given_choose_the_loss_scaler(void **state)
{
    static const struct {
        const char *text;
        int scaler;
    } cases[] = {
        {"loss_scale: 128\n", DT_SCALER_STATIC},
        {"loss_scale: 0\n", DT_SCALER_TORCH},
        {"precision: {loss_scale: 128, hysteresis: 3}\n", DT_SCALER_STATIC},
        {"precision: {initial_scale_power: 8}\n", DT_SCALER_DEEPSPEED},
        {"hysteresis: 1\n", DT_SCALER_DEEPSPEED},
        {"loss_scale_window: 9\n", DT_SCALER_DEEPSPEED},
        {"min_loss_scale: 2\n", DT_SCALER_DEEPSPEED},
        {"consecutive_hysteresis: true\n", DT_SCALER_DEEPSPEED},
        {"", DT_SCALER_TORCH},
        {"hysteresis: 1\nloss_scaler: torch\n", DT_SCALER_TORCH},
        {"growth_interval: 5\n", DT_SCALER_TORCH},
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

/* Weights in bf16 are those that passes read, on any device. */
static void the_state_decides_what_auto_becomes(void **state)
{
    static const struct {
        const char *lines;
        enum dt_conf_dtype state, compute, grads;
    } cases[] = {
        {"run.device: cpu\n", DT_CONF_FP32, DT_CONF_FP32, DT_CONF_FP32},
        {"run.device: cpu\noptimizer.state_dtype: bf16\n", DT_CONF_BF16,
         DT_CONF_BF16, DT_CONF_BF16},
        {"optimizer.state_dtype: bf16\n", DT_CONF_BF16, DT_CONF_BF16,
         DT_CONF_BF16},
        {"optimizer.state_dtype: bf16\ngrad_accum_dtype: fp32\n", DT_CONF_BF16,
         DT_CONF_BF16, DT_CONF_FP32},
        {"run.device: cuda\ngrad_accum_dtype: bf16\n", DT_CONF_FP32,
         DT_CONF_BF16, DT_CONF_BF16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), LEAST "%s", cases[i].lines);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->optimizer.state_dtype, cases[i].state);
        assert_int_equal(conf->precision.compute, cases[i].compute);
        assert_int_equal(conf->precision.grad_accum_dtype, cases[i].grads);
        dt_conf_destroy(conf);
    }
}

static void only_bf16_gradients_are_reduced_in_16_bits(void **state)
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

static void invalid_precision_settings_are_refused(void **state)
{
    static const struct broken cases[] = {
        {LEAST "bf16: true\nfp16: true\n",
         "t.yaml:6:7: precision.compute: E104 fp16 here (fp16), but bf16 in "
         "line 5\n"},
        {LEAST "bf16: true\nfp16_opt_level: O1\n",
         "t.yaml:6:17: precision.opt_level: E104 means fp16, but "
         "precision.compute in line 5 says otherwise: remove one of them\n"},
        {LEAST "fp16_opt_level: O3\n",
         "t.yaml:5:17: precision.opt_level: O3 is not supported yet: it "
         "needs training with weights in fp16 alone\n"},
        {LEAST "fp16: true\noptimizer.state_dtype: bf16\n",
         "t.yaml:6:24: optimizer.state_dtype: bf16 are the weights that passes "
         "read, so it needs precision.compute: bf16\n"},
        {LEAST "grad_accum_dtype: bf16\n"
               "distributed: {strategy: zero2, reduce_each_micro_step: "
               "false}\n",
         "t.yaml:6:56: distributed.reduce_each_micro_step: gradients that are "
         "summed in bf16 are reduced in each micro-batch: remove it, or write "
         "precision.grad_accum_dtype: fp32\n"},
        {LEAST "fp16: true\nloss_scaler: static\n",
         "t.yaml:6:14: precision.loss_scaler: static needs "
         "precision.loss_scale\n"},
        {LEAST "fp16: true\nloss_scaler: torch\nloss_scale: 8\n",
         "t.yaml:7:13: precision.loss_scale: a scale that is given is "
         "static: remove it, or loss_scaler\n"},
        {LEAST "fp16: true\ninitial_scale_power: 2\nmin_loss_scale: 8\n",
         "t.yaml:7:17: precision.min_loss_scale: 8 is above 2^2, where the "
         "scale starts\n"},
        {LEAST "precision: {loss_scale: -1, hysteresis: 0}\n",
         "t.yaml:5:25: precision.loss_scale: expected a number >= 0, got -1\n"
         "t.yaml:5:41: precision.hysteresis: expected an integer from 1 to "
         "1000000 (overflows), got 0\n"},
    };
    (void)state;
    CHECK_ALL(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_keys_left_out_mean_auto),
        cmocka_unit_test(names_of_other_trainers_are_understood),
        cmocka_unit_test(the_device_decides_what_auto_becomes),
        cmocka_unit_test(auto_written_out_means_what_leaving_it_out_means),
        cmocka_unit_test(a_named_device_resolves_without_the_machine),
        cmocka_unit_test(the_fingerprint_ignores_how_the_type_was_chosen),
        cmocka_unit_test(settings_that_contradict_the_device_are_refused),
        cmocka_unit_test(contradictions_are_refused_once_the_device_is_known),
        cmocka_unit_test(tf32_without_effect_is_warned_of),
        cmocka_unit_test(every_spelling_of_compute_precision_is_understood),
        cmocka_unit_test(the_keys_given_choose_the_loss_scaler),
        cmocka_unit_test(the_state_decides_what_auto_becomes),
        cmocka_unit_test(only_bf16_gradients_are_reduced_in_16_bits),
        cmocka_unit_test(invalid_precision_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
