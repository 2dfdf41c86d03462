/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision_adapter.c - what adapters of models with a tower train, and how
 * PEFT calls it
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/safetensors.h"
#include "model/model_adapter.h"
#include "weights/adapter_file.h"
#include "tests/parity/stored.h"
#include "tests/unit/scratch.h"

#define LANGUAGE "model.language_model.layers."
#define BLOCK "model.vision_tower.encoder.layers."

/* A model with a tower, and its adapter. */
struct sample {
    struct dt_model_config config;
    struct dt_layout *model, *layout;
    struct dt_adapter adapter;
};

static void open_sample(struct sample *s, const char *variant)
{
    json_t *file = stored_load("vision.json");
    const json_t *variants = json_object_get(file, "variants");
    char *text = json_dumps(
        json_object_get(json_object_get(variants, variant), "config"), 0);
    struct dt_error err;
    *s = (struct sample){.adapter = {.r = 2, .alpha = 4}};
    assert_non_null(text);
    if (dt_model_config_parse(&s->config, text, variant, &err) < 0 ||
        !(s->model = dt_model_layout(&s->config, 1, &err)))
        fail_msg("%s", err.text);
    free(text);
    json_decref(file);
}

static void make_layout(struct sample *s)
{
    struct dt_error err;
    dt_layout_destroy(s->layout);
    s->layout = dt_adapter_layout(&s->adapter, &s->config, s->model, 1, &err);
    if (!s->layout)
        fail_msg("%s", err.text);
}

static void close_sample(struct sample *s)
{
    dt_layout_destroy(s->layout);
    dt_layout_destroy(s->model);
    dt_adapter_fini(&s->adapter);
    dt_model_config_fini(&s->config);
}

static size_t count_pairs(const struct sample *s, enum dt_model_part part)
{
    size_t count = 0;
    for (size_t u = 0; u < s->layout->unit_count; u++)
        if (s->layout->units[u].part == part)
            count += s->layout->units[u].param_count / 2;
    return count;
}

static void assert_pairs(struct sample *s, size_t language, size_t projector,
                         size_t vision)
{
    make_layout(s);
    assert_int_equal(count_pairs(s, DT_PART_LANGUAGE), language);
    assert_int_equal(count_pairs(s, DT_PART_PROJECTOR), projector);
    assert_int_equal(count_pairs(s, DT_PART_VISION), vision);
}

/* The expression in adapter_config.json. */
static void assert_expression(const struct sample *s, const char *wanted)
{
    struct dt_error err;
    char *text = dt_adapter_format(&s->adapter, &s->config, s->layout, &err);
    assert_non_null(text);
    json_t *root = json_loads(text, 0, NULL);
    assert_string_equal(
        json_string_value(json_object_get(root, "target_modules")), wanted);
    json_decref(root);
    free(text);
}

static void parts_other_than_the_language_are_asked_for(void **state)
{
    struct sample s;
    (void)state;
    open_sample(&s, "llava"); /* 2 blocks of a tower, 1 of the language */
    assert_pairs(&s, 2, 0, 0);
    s.adapter.vision = true; /* q_proj and v_proj of both */
    assert_pairs(&s, 2, 0, 4);
    s.adapter.projector = true; /* has no q_proj */
    assert_pairs(&s, 2, 0, 4);
    s.adapter.all_linear = true;
    assert_pairs(&s, 7, 2, 12);
    s.adapter.vision = false;
    assert_pairs(&s, 7, 2, 0);
    s.adapter.projector = false;
    assert_pairs(&s, 7, 0, 0);
    close_sample(&s);
    open_sample(&s, "qwen2_5_vl");
    s.adapter.all_linear = s.adapter.vision = s.adapter.projector = true;
    assert_pairs(&s, 7, 2, 2 * 5); /* q, k and v are one, the gate is apart */
    close_sample(&s);
    open_sample(&s, "qwen3_vl"); /* two projectors */
    s.adapter.all_linear = s.adapter.vision = s.adapter.projector = true;
    assert_pairs(&s, 14, 4, 3 * 4);
    close_sample(&s);
    open_sample(&s, "gemma3");
    s.adapter.all_linear = s.adapter.vision = s.adapter.projector = true;
    assert_pairs(&s, 14, 0, 2 * 6); /* a projector without a module */
    close_sample(&s);
}

static void names_are_those_in_memory(void **state)
{
    struct sample s;
    (void)state;
    open_sample(&s, "llava");
    assert_pairs(&s, 2, 0, 0);
    assert_string_equal(s.model->params[0].name,
                        "vision_tower.vision_model.embeddings.class_embedding");
    assert_string_equal(s.layout->params[0].name,
                        "base_model.model." LANGUAGE
                        "0.self_attn.q_proj.lora_A.weight");
    assert_expression(&s, "model\\.language_model\\.layers\\.(?:0)\\."
                          "self_attn\\.q_proj|"
                          "model\\.language_model\\.layers\\.(?:0)\\."
                          "self_attn\\.v_proj");
    s.adapter.vision = s.adapter.projector = true;
    struct dt_error err;
    dt_adapter_add_name(&s.adapter.targets, "fc2", &err);
    dt_adapter_add_name(&s.adapter.targets, "linear_1", &err);
    assert_pairs(&s, 0, 1, 2);
    assert_expression(&s, "model\\.vision_tower\\.encoder\\.layers\\."
                          "(?:0|1)\\.mlp\\.fc2|"
                          "model\\.multi_modal_projector\\.linear_1");
    close_sample(&s);
    open_sample(&s, "qwen2_vl");
    s.adapter.all_linear = s.adapter.projector = true;
    make_layout(&s);
    assert_non_null(strstr(s.layout->params[0].name,
                           "model.visual.merger.mlp.0.lora_A.weight"));
    close_sample(&s);
}

/* A name in full is that of one module. */
static void full_names_fit_one_module(void **state)
{
    struct dt_error err;
    struct sample s;
    (void)state;
    open_sample(&s, "llava");
    dt_adapter_add_name(&s.adapter.targets, BLOCK "1.self_attn.q_proj", &err);
    assert_null(dt_adapter_layout(&s.adapter, &s.config, s.model, 1, &err));
    assert_non_null(strstr(err.text, "E124 target_modules: " BLOCK
                                     "1.self_attn.q_proj is a module of the "
                                     "vision part"));
    s.adapter.vision = true;
    assert_pairs(&s, 0, 0, 1);
    /* as transformers before 4.52 called it */
    dt_adapter_add_name(&s.adapter.targets,
                        "language_model.model.layers.0.mlp.up_proj", &err);
    assert_pairs(&s, 1, 0, 1);
    close_sample(&s);
}

static void a_projector_is_saved_as_a_whole(void **state)
{
    struct dt_error err;
    struct sample s;
    (void)state;
    open_sample(&s, "llava");
    dt_adapter_add_name(&s.adapter.saved, "multi_modal_projector", &err);
    make_layout(&s);
    const int copy =
        dt_layout_find(s.layout, "base_model.model.model.multi_modal_projector."
                                 "linear_2.bias");
    assert_true(copy >= 0);
    assert_int_equal(
        dt_adapter_copied(s.model, s.layout->params[copy].name),
        dt_layout_find(s.model, "multi_modal_projector.linear_2.bias"));
    close_sample(&s);
}

/* Writes the layout as a file with values 0. */
static void write_adapter(const struct sample *s)
{
    struct dt_error err;
    struct dt_ckpt_tensor tensors[64] = {{0}};
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, s->layout->count * sizeof(float), "an adapter", &err);
    char *text = dt_adapter_format(&s->adapter, &s->config, s->layout, &err);
    assert_true(buf && text && s->layout->param_count <= 64);
    memset(buf->data, 0, buf->bytes);
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        tensors[i] = (struct dt_ckpt_tensor){
            .name = param->name,
            .ndim = param->ndim,
            .view = dt_layout_param(s->layout, dt_view_of(buf, DT_F32), i)};
        memcpy(tensors[i].shape, param->shape, sizeof(param->shape));
    }
    scratch_write(DT_ADAPTER_CONFIG_FILE, text, strlen(text));
    if (dt_safetensors_write(scratch_path(DT_ADAPTER_FILE), tensors,
                             s->layout->param_count, NULL, &(uint64_t){0},
                             &err) < 0)
        fail_msg("%s", err.text);
    dt_buffer_destroy(buf);
    free(text);
}

static void an_adapter_reads_back_the_same(void **state)
{
    static const char *const variants[] = {"llava", "smolvlm", "qwen2_5_vl",
                                           "gemma3", "qwen3_vl"};
    (void)state;
    for (size_t v = 0; v < sizeof(variants) / sizeof(*variants); v++) {
        struct dt_error err;
        struct sample s;
        open_sample(&s, variants[v]);
        s.adapter.all_linear = s.adapter.vision = s.adapter.projector = true;
        make_layout(&s);
        write_adapter(&s);
        struct dt_layout *was = s.layout;
        s.layout = NULL;
        if (dt_adapter_load(&s.adapter, scratch_path("."), &err) < 0)
            fail_msg("%s", err.text);
        assert_false(s.adapter.all_linear);
        make_layout(&s);
        assert_int_equal(was->param_count, s.layout->param_count);
        for (size_t i = 0; i < was->param_count; i++)
            assert_string_equal(was->params[i].name, s.layout->params[i].name);
        dt_layout_destroy(was);
        close_sample(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_other_than_the_language_are_asked_for),
        cmocka_unit_test(names_are_those_in_memory),
        cmocka_unit_test(full_names_fit_one_module),
        cmocka_unit_test(a_projector_is_saved_as_a_whole),
        cmocka_unit_test(an_adapter_reads_back_the_same),
    };
    return cmocka_run_group_tests_name("vision_adapter", tests, NULL, NULL);
}
