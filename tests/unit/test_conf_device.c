/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_device.c - keys that depend on the device, and contradictions */
#include "config.h"

#include "conf.h"

static void device_keys_left_out_mean_auto(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    (void)state;
    assert_int_equal(conf->run.device, DT_CONF_AUTO_DEVICE);
    assert_int_equal(conf->distributed.backend, DT_CONF_AUTO_BACKEND);
    assert_int_equal(conf->model.attention, DT_CONF_AUTO_ATTENTION);
    assert_int_equal(conf->precision.compute, DT_CONF_AUTO_DTYPE);
    assert_false(conf->run.deterministic || conf->precision.tf32);
    dt_conf_destroy(conf);
}

static void names_of_other_trainers_are_understood(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "run: {device: CUDA, deterministic: true}\n"
              "ddp_backend: nccl\n"
              "attn_implementation: flash_attention_2\n"
              "dataloader: {pin_memory: false}\n"
              "tf32: false\n",
        "t.yaml:8:26: data.pin_memory: no effect: not needed here: batches "
        "always reach a GPU through page-locked memory, a few hundred KiB of "
        "it\n");
    (void)state;
    assert_int_equal(conf->run.device, DT_CONF_CUDA);
    assert_true(conf->run.deterministic);
    assert_int_equal(conf->distributed.backend, DT_CONF_NCCL);
    assert_int_equal(conf->model.attention, DT_CONF_FLASH);
    dt_conf_destroy(conf);
    conf = load_good(LEAST "full_determinism: true\n"
                           "attn_implementation: eager\n",
                     "");
    assert_true(conf->run.deterministic);
    assert_int_equal(conf->model.attention, DT_CONF_MATH);
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

static const struct broken clashes[] = {
    {LEAST "run.device: cpu\ndistributed.backend: nccl\n",
     "t.yaml:6:22: distributed.backend: E131 nccl connects GPUs, and "
     "run.device is cpu: write gloo or auto\n"},
    {LEAST "run.device: cuda\ndistributed.backend: gloo\n",
     "t.yaml:6:22: distributed.backend: E131 gloo connects CPUs, and "
     "run.device is cuda: write nccl or auto\n"},
    {LEAST "run.device: cpu\nmodel.attention: flash\n",
     "t.yaml:6:18: model.attention: E131 flash is for GPUs, and run.device is "
     "cpu: write auto\n"},
    {LEAST "mixed_precision: no\nmodel.attention: flash\n",
     "t.yaml:6:18: model.attention: flash computes in bf16 and fp16, and "
     "precision.compute is fp32: write auto\n"},
};

static void settings_that_contradict_the_device_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(clashes);
}

static void contradictions_are_refused_once_the_device_is_known(void **state)
{
    static const struct {
        const char *text, *error;
        enum dt_conf_device device;
    } cases[] = {
        {"distributed.backend: nccl\n",
         "t.yaml:5:22: distributed.backend: E131 nccl connects GPUs, and "
         "run.device is cpu: write gloo or auto",
         DT_CONF_CPU},
        {"distributed.backend: gloo\n",
         "t.yaml:5:22: distributed.backend: E131 gloo connects CPUs, and "
         "run.device is cuda: write nccl or auto",
         DT_CONF_CUDA},
        {"model.attention: flash\n",
         "t.yaml:5:18: model.attention: E131 flash is for GPUs, and "
         "run.device is cpu: write auto",
         DT_CONF_CPU},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct dt_error err;
        snprintf(text, sizeof(text), LEAST "%s", cases[i].text);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(dt_conf_resolve_device(conf, cases[i].device, &err),
                         -1);
        assert_int_equal(err.status, EX_CONFIG);
        assert_non_null(strstr(err.text, cases[i].error));
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
                  "t.yaml:6:7: precision.tf32: no effect: it is about products "
                  "of fp32\n"));
    dt_conf_destroy(load_good(LEAST "mixed_precision: no\ntf32: true\n", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_keys_left_out_mean_auto),
        cmocka_unit_test(names_of_other_trainers_are_understood),
        cmocka_unit_test(the_device_decides_what_auto_becomes),
        cmocka_unit_test(a_named_device_resolves_without_the_machine),
        cmocka_unit_test(the_fingerprint_ignores_how_the_type_was_chosen),
        cmocka_unit_test(settings_that_contradict_the_device_are_refused),
        cmocka_unit_test(contradictions_are_refused_once_the_device_is_known),
        cmocka_unit_test(tf32_without_effect_is_warned_of),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
