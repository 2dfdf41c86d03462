/* SPDX-License-Identifier: Apache-2.0 */
/* test_adapter.c - adapter_config.json, and what an adapter trains */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "conf/conf.h"
#include "model/model_adapter.h"
#include "weights/adapter_file.h"
#include "tests/unit/scratch.h"
#include "tests/families.h"

static const struct dt_model_config llama = {
    .family = &dt_family_llama,
    .padding_row = -1,
    .vocab_size = 11,
    .n_positions = 8,
    .n_embd = 8,
    .n_layer = 2,
    .n_head = 2,
    .n_kv_head = 1,
    .head_size = 4,
    .n_inner = 12,
};

static struct dt_layout *model_layout(void)
{
    struct dt_error err;
    struct dt_layout *layout = dt_model_layout(&llama, 2, &err);
    assert_non_null(layout);
    return layout;
}

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static int load(struct dt_adapter *adapter, const char *text,
                struct dt_error *err)
{
    write_text("adapter_config.json", text);
    return dt_adapter_load(adapter, scratch_path("."), err);
}

/* --- adapter_config.json --- */

#define LORA "\"peft_type\": \"LORA\", "

static void the_file_of_peft_is_read(void **state)
{
    struct dt_adapter adapter;
    struct dt_error err;
    (void)state;
    if (load(&adapter,
             "{" LORA "\"r\": 4, \"lora_alpha\": 8, \"lora_dropout\": 0.25, "
             "\"use_rslora\": true, \"bias\": \"none\", \"use_dora\": false, "
             "\"rank_pattern\": {}, \"megatron_core\": \"megatron.core\", "
             "\"base_model_name_or_path\": \"/m\", \"layers_pattern\": null, "
             "\"target_modules\": [\"q_proj\", \"up_proj\"], "
             "\"modules_to_save\": [\"lm_head\"], "
             "\"init_lora_weights\": true, \"task_type\": \"SEQ_CLS\"}",
             &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(adapter.r, 4);
    assert_true(adapter.dropout == 0.25 && adapter.scores);
    assert_true(dt_adapter_scale(&adapter) == 4.0f);
    assert_int_equal(adapter.targets.count, 2);
    assert_string_equal(adapter.targets.text[1], "up_proj");
    assert_string_equal(adapter.saved.text[0], "lm_head");
    assert_string_equal(adapter.base, "/m");
    dt_adapter_fini(&adapter);
}

static void refused(const char *text, const char *why)
{
    struct dt_adapter adapter;
    struct dt_error err;
    assert_int_equal(load(&adapter, text, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
    dt_adapter_fini(&adapter);
}

static void what_peft_computes_otherwise_is_refused_by_name(void **state)
{
    (void)state;
    refused("{\"peft_type\": \"LOHA\"}",
            "adapter_config.json: E124 \"peft_type\": LOHA is not supported, "
            "only LORA");
    refused("{" LORA "\"use_dora\": true}", "E124 \"use_dora\" is not");
    refused("{" LORA "\"bias\": \"all\"}", "E124 \"bias\": all is not");
    refused("{" LORA "\"rank_pattern\": {\"q_proj\": 2}}",
            "E124 \"rank_pattern\" is not supported");
    refused("{" LORA "\"layers_to_transform\": [1]}",
            "E124 \"layers_to_transform\" is not supported");
    refused("{" LORA "\"of_tomorrow\": 1}", "E124 \"of_tomorrow\" is not");
    refused("{" LORA "\"init_lora_weights\": \"pissa\"}",
            "E124 \"init_lora_weights\": pissa changes the base model");
    refused("{" LORA "\"target_modules\": {\"q_proj\": 1}}",
            "E124 \"target_modules\": expected a list of names");
    refused("{" LORA "\"r\": 1.5}", "\"r\": expected a whole number");
    refused("{" LORA "\"r\": 0}", "\"r\": expected a number from 1");
    refused("[]", "expected an object");
}

/* --- the layout --- */

static void parameters_have_names_and_shapes_of_peft(void **state)
{
    struct dt_adapter adapter = {.r = 3, .alpha = 6};
    struct dt_layout *model = model_layout(), *layout;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_adapter_add_name(&adapter.saved, "lm_head", &err), 0);
    layout = dt_adapter_layout(&adapter, &llama, model, 2, &err);
    assert_non_null(layout);
    assert_int_equal(layout->unit_count, model->unit_count);
    assert_int_equal(layout->param_count, 2 * 2 * 2 + 1);
    assert_string_equal(layout->params[2].name,
                        "base_model.model.model.layers.0.self_attn.v_proj."
                        "lora_A.weight");
    assert_int_equal(layout->params[2].shape[0], 3);
    assert_int_equal(layout->params[2].shape[1], 8);
    assert_string_equal(layout->params[3].name,
                        "base_model.model.model.layers.0.self_attn.v_proj."
                        "lora_B.weight");
    assert_int_equal(layout->params[3].shape[0], 4);
    assert_int_equal(layout->params[3].shape[1], 3);
    assert_string_equal(layout->params[8].name,
                        "base_model.model.lm_head.weight");
    assert_int_equal(dt_adapter_copied(model, layout->params[8].name),
                     dt_layout_find(model, "lm_head.weight"));
    assert_int_equal(dt_adapter_copied(model, layout->params[2].name), -1);
    assert_int_equal(layout->units[0].param_count, 0);
    assert_int_equal(layout->units[0].count, 0);
    dt_layout_destroy(layout);
    dt_layout_destroy(model);
    dt_adapter_fini(&adapter);
}

/* PEFT adds classifier and score for every reward model, and takes what fits.
 */
static void names_in_a_file_may_fit_nothing(void **state)
{
    struct dt_layout *model = model_layout(), *layout;
    struct dt_adapter adapter;
    struct dt_error err;
    (void)state;
    assert_int_equal(load(&adapter,
                          "{" LORA
                          "\"target_modules\": [\"v_proj\", \"Wqkv\"], "
                          "\"modules_to_save\": [\"classifier\", \"score\"]}",
                          &err),
                     0);
    layout = dt_adapter_layout(&adapter, &llama, model, 2, &err);
    assert_non_null(layout);
    assert_int_equal(layout->param_count, 2 * 2);
    dt_layout_destroy(layout);
    adapter.stored = false;
    assert_null(dt_adapter_layout(&adapter, &llama, model, 2, &err));
    assert_non_null(strstr(err.text, "E124 target_modules: no module is called "
                                     "Wqkv; linear layers of this model are "
                                     "q_proj, k_proj"));
    dt_layout_destroy(model);
    dt_adapter_fini(&adapter);
}

/* What was written for all linear layers names the same ones. */
static void what_is_written_is_read_back(void **state)
{
    struct dt_adapter adapter = {.r = 2, .alpha = 5, .all_linear = true}, back;
    struct dt_layout *model = model_layout(), *layout, *again;
    struct dt_error err;
    (void)state;
    layout = dt_adapter_layout(&adapter, &llama, model, 2, &err);
    char *text = dt_adapter_format(&adapter, &llama, layout, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"fan_in_fan_out\": false"));
    assert_non_null(strstr(text, "\"task_type\": \"CAUSAL_LM\""));
    if (load(&back, text, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(back.alpha == 5 && !back.all_linear);
    again = dt_adapter_layout(&back, &llama, model, 2, &err);
    assert_int_equal(again->param_count, 2 * 7 * 2);
    for (size_t i = 0; i < again->param_count; i++)
        assert_string_equal(again->params[i].name, layout->params[i].name);
    free(text);
    dt_layout_destroy(again);
    dt_layout_destroy(layout);
    dt_layout_destroy(model);
    dt_adapter_fini(&adapter);
    dt_adapter_fini(&back);
}

/* A is uniform within 1 / sqrt(in), a function of the seed alone; B is 0. */
static void new_pairs_add_nothing(void **state)
{
    enum { ROOM = 4096 };
    static float w[2][ROOM];
    struct dt_adapter adapter = {.r = 4, .alpha = 4, .all_linear = true};
    struct dt_error err;
    (void)state;
    for (int world = 1; world <= 2; world++) {
        struct dt_layout *model = dt_model_layout(&llama, world, &err);
        struct dt_layout *layout =
            dt_adapter_layout(&adapter, &llama, model, world, &err);
        const struct dt_unit *unit = &layout->units[2];
        struct dt_buffer buf = {w[world - 1], sizeof(w[0]), &dt_cpu};
        dt_adapter_init_unit(
            layout, 2, dt_view_slice(dt_view_of(&buf, DT_F32), 0, unit->count),
            7);
        const struct dt_param *a = &layout->params[unit->first_param],
                              *b = a + 1;
        const float bound = 1 / sqrtf(8);
        float most = 0;
        for (size_t i = 0; i < a->count; i++)
            most = fmaxf(most, fabsf(w[world - 1][i]));
        assert_true(most <= bound && most > bound / 2);
        for (size_t i = 0; i < b->count; i++)
            assert_true(w[world - 1][b->offset - unit->offset + i] == 0);
        if (world == 2)
            assert_memory_equal(w[0], w[1], a->count * sizeof(float));
        dt_layout_destroy(layout);
        dt_layout_destroy(model);
    }
}

/* --- the configuration --- */

static void check_conf(const char *lines, const char *want)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf =
        dt_conf_load_text("t.yaml", lines, strlen(lines), &problems, &warnings);
    bool found = !want && conf;
    for (size_t i = 0; want && i < problems.count; i++)
        found |= strstr(problems.text[i], want) != NULL;
    if (!found)
        fail_msg("%s: %s", want ? want : "none",
                 problems.count > 0 ? problems.text[0] : "no problem");
    dt_conf_destroy(conf);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
}

static void what_does_not_know_adapters_is_refused(void **state)
{
    char base[640], dir[1024];
    (void)state;
    mkdir(scratch_path("base"), 0777);
    scratch_write("base/config.json", "{}", 2);
    mkdir(scratch_path("own"), 0777);
    snprintf(base, sizeof(base), "model.path: %s\n", scratch_path("base"));
#define WITH(algorithm, more)                                                  \
    (snprintf(dir, sizeof(dir),                                                \
              "algorithm: " algorithm "\ndata.train: %s\n"                     \
              "training.per_device_batch_size: 2\n%s%s",                       \
              scratch_path("base/config.json"), base, more),                   \
     dir)
    check_conf(WITH("sft", "adapter: {type: lora, r: 4}\n"), NULL);
    check_conf(WITH("sft", "adapter: {type: lora, target_modules: "
                           "all-linear}\nuse_peft: true\n"),
               NULL);
    check_conf(WITH("sft", "adapter: {r: 4}\n"),
               "adapter.r: only adapter.type: lora uses it");
    check_conf(WITH("ppo", "adapter: {type: lora}\n"
                           "ppo.critic.share_backbone: true\n"),
               "ppo.critic.share_backbone: E124 cannot be used with "
               "adapter.type: lora: the critic has an adapter of its own");
    check_conf(WITH("sft", "adapter: {type: lora}\nmodel.init: random\n"),
               "adapter.type: E124 lora is trained beside the weights");
    check_conf(WITH("sft", "adapter: {type: lora}\ndistributed: {strategy: "
                           "zero3, offload_optimizer: {device: cpu}, "
                           "offload_param: {device: cpu}}\n"),
               "distributed.offload_param.device: E124 cannot be used with "
               "adapter.type: lora");
    check_conf(
        WITH("dpo", "adapter: {type: lora}\ndpo.sync_ref.enabled: true\n"),
        "dpo.sync_ref.enabled: E124 cannot be used with adapter.type: lora");

    /* model.path may be the adapter itself */
    snprintf(base, sizeof(base), "model.path: %s\n", scratch_path("own"));
    write_text("own/adapter_config.json",
               "{\"base_model_name_or_path\": \"../base\"}");
    check_conf(WITH("sft", ""), NULL);
    check_conf(WITH("sft", "adapter.r: 8\n"),
               "adapter.r: cannot be used with adapter.path: its "
               "adapter_config.json says this");
    write_text("own/adapter_config.json",
               "{\"base_model_name_or_path\": \"no/where\"}");
    check_conf(WITH("sft", ""),
               "an adapter beside the model no/where, which is not here");
    write_text("own/adapter_config.json", "{}");
    check_conf(WITH("sft", ""),
               "own: an adapter, and its adapter_config.json does not say of "
               "which model: write that model's directory, and this one in "
               "adapter.path");
#undef WITH
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_of_peft_is_read),
        cmocka_unit_test(what_peft_computes_otherwise_is_refused_by_name),
        cmocka_unit_test(parameters_have_names_and_shapes_of_peft),
        cmocka_unit_test(names_in_a_file_may_fit_nothing),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(new_pairs_add_nothing),
        cmocka_unit_test(what_does_not_know_adapters_is_refused),
    };
    return cmocka_run_group_tests_name("adapter", tests, NULL, NULL);
}
