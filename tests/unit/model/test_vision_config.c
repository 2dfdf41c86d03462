/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision_config.c - config.json of models with a tower, and their layouts
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/family.h"
#include "tests/parity/stored.h"

static void parse_stored(struct dt_model_config *c, const json_t *json,
                         const char *name)
{
    struct dt_error err = {0};
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    if (dt_model_config_parse(c, text, name, &err) < 0)
        fail_msg("%s", err.text);
    if (dt_model_config_check(c, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    assert_non_null(c->vision);
    free(text);
}

static bool is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), name))
            return true;
    return false;
}

/* The shape is that of transformers; a matrix decays, and what is in `decays`.
 */
static void check_param(const struct dt_param *param, const json_t *grad,
                        const json_t *decays)
{
    const json_t *shape = json_array_get(grad, 0);
    if (json_array_size(grad) < 2)
        fail_msg("%s: transformers has no gradient of it", param->name);
    assert_int_equal(param->ndim, json_array_size(shape));
    for (int d = 0; d < param->ndim; d++)
        assert_int_equal(param->shape[d],
                         json_integer_value(json_array_get(shape, (size_t)d)));
    if (param->decay != (param->ndim > 1 || is_listed(decays, param->name)))
        fail_msg("%s decays in one of both only", param->name);
}

static void check_variant(const char *name, const json_t *stored)
{
    const json_t *grads = json_object_get(stored, "grads"), *grad;
    struct dt_model_config c;
    size_t computed = 0;
    const char *key;
    parse_stored(&c, json_object_get(stored, "config"), name);
    struct dt_layout *layout = dt_model_layout(&c, 1, NULL);
    assert_non_null(layout);
    for (size_t i = 0; i < layout->param_count; i++)
        check_param(&layout->params[i],
                    json_object_get(grads, layout->params[i].name),
                    json_object_get(stored, "decays"));
    json_object_foreach((json_t *)grads, key, grad) computed +=
        json_array_size(grad) > 1;
    assert_int_equal(layout->param_count, computed);
    assert_int_equal(layout->unit_count,
                     dt_model_first_unit(&c) + c.n_layer + 2);
    dt_layout_destroy(layout);
    dt_model_config_fini(&c);
}

static void layouts_are_what_transformers_trains(void **state)
{
    json_t *file = stored_load("vision.json"), *stored;
    const char *name;
    (void)state;
    json_object_foreach(json_object_get(file, "variants"), name, stored)
        check_variant(name, stored);
    json_decref(file);
}

static void files_of_all_releases_are_read(void **state)
{
    json_t *file = stored_load("vision_names.json"), *families, *stored;
    const char *release, *name;
    struct dt_model_config c;
    (void)state;
    json_object_foreach(file, release, families)
        json_object_foreach(families, name, stored)
    {
        parse_stored(&c, json_object_get(stored, "config"), name);
        assert_int_equal(c.vocab_size, 79);
        assert_int_equal(c.n_embd, 24);
        assert_int_equal(c.vision->tower.n_embd, 24);
        assert_int_equal(c.vision->token, 77);
        assert_int_equal(c.vision->layers, 1);
        dt_model_config_fini(&c);
    }
    json_decref(file);
}

/* --- what differs --- */

/* A stored configuration with one key changed: "tower.key" or "key". */
static void parse_changed(struct dt_model_config *c, const json_t *json,
                          const char *part, const char *key, const char *value)
{
    struct dt_error err = {0};
    json_t *root = json_deep_copy(json);
    json_t *object = part ? json_object_get(root, part) : root;
    assert_non_null(root);
    json_object_set_new(object, key, json_loads(value, JSON_DECODE_ANY, NULL));
    char *text = json_dumps(root, 0);
    json_decref(root);
    dt_model_config_parse(c, text, "c", &err);
    if (err.text[0])
        fail_msg("%s", err.text);
    free(text);
}

static void what_computes_differently_is_told_by_its_key(void **state)
{
    static const struct {
        const char *variant, *part, *key, *value, *told, *was, *is;
    } cases[] = {
        {"llava", NULL, "vision_feature_layer", "-1", "vision_feature_layer",
         "a list", "another one"},
        {"llava", NULL, "vision_feature_select_strategy", "\"full\"",
         "vision_feature_select_strategy", "default", "full"},
        {"llava", NULL, "projector_hidden_act", "\"gelu_new\"",
         "projector_hidden_act", "gelu", "gelu_pytorch_tanh"},
        {"llava", NULL, "multimodal_projector_bias", "false",
         "multimodal_projector_bias", "true", "false"},
        {"llava", "vision_config", "hidden_act", "\"gelu\"",
         "vision_config.hidden_act", "quick_gelu", "gelu"},
        {"llava", "vision_config", "image_size", "12",
         "vision_config.image_size", "8", "12"},
        {"llava", "vision_config", "intermediate_size", "20",
         "vision_config.intermediate_size", "28", "20"},
        {"llava", "text_config", "rms_norm_eps", "1e-05", "rms_norm_eps",
         "1e-06", "1e-05"},
        {"smolvlm", NULL, "scale_factor", "3", "scale_factor", "2", "3"},
        {"smolvlm", NULL, "model_type", "\"idefics3\"", "model_type", "smolvlm",
         "idefics3"},
        {"qwen2_vl", "vision_config", "mlp_ratio", "3",
         "vision_config.intermediate_size", "80", "120"},
        {"qwen2_5_vl", "vision_config", "fullatt_block_indexes", "[0]",
         "vision_config.fullatt_block_indexes", "a list", "another one"},
        {"qwen2_5_vl", "vision_config", "window_size", "8",
         "vision_config.window_size", "16", "8"},
    };
    json_t *file = stored_load("vision.json");
    const json_t *variants = json_object_get(file, "variants");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const json_t *json = json_object_get(
            json_object_get(variants, cases[i].variant), "config");
        struct dt_model_config was, same, is;
        struct dt_model_change change;
        parse_stored(&was, json, "c");
        parse_stored(&same, json, "c");
        if (!strcmp(cases[i].key, "model_type"))
            json_object_del((json_t *)json, "architectures");
        parse_changed(&is, json, cases[i].part, cases[i].key, cases[i].value);
        assert_null(dt_model_config_differ(&was, &same));
        assert_int_equal(dt_model_config_hash(&was),
                         dt_model_config_hash(&same));
        assert_true(dt_model_config_change(&was, &is, &change));
        assert_string_equal(change.key, cases[i].told);
        assert_string_equal(change.was, cases[i].was);
        assert_string_equal(change.is, cases[i].is);
        assert_true(dt_model_config_hash(&was) != dt_model_config_hash(&is));
        dt_model_config_fini(&was);
        dt_model_config_fini(&same);
        dt_model_config_fini(&is);
    }
    json_decref(file);
}

/* A tower more or less is a difference, too. */
static void a_model_of_text_is_another_one(void **state)
{
    json_t *file = stored_load("vision.json");
    const json_t *json = json_object_get(
        json_object_get(json_object_get(file, "variants"), "llava"), "config");
    struct dt_model_config seeing, text;
    struct dt_model_change change;
    (void)state;
    parse_stored(&seeing, json, "c");
    text = seeing;
    text.vision = NULL;
    assert_true(dt_model_config_change(&seeing, &text, &change));
    assert_string_equal(change.key, "vision_config");
    assert_string_equal(dt_model_type(&seeing), "llava");
    assert_string_equal(dt_model_type(&text), "llama");
    dt_model_config_fini(&seeing);
    json_decref(file);
}

/* --- what is written --- */

static const json_t *part_of(const json_t *root, const char *part)
{
    return part ? json_object_get(root, part) : root;
}

static void assert_word(const json_t *root, const char *part, const char *key,
                        const char *word)
{
    const json_t *value = json_object_get(part_of(root, part), key);
    if (!word)
        assert_null(value);
    else
        assert_string_equal(json_string_value(value), word);
}

static void assert_vocab_size(const json_t *root, const char *part, int size)
{
    assert_int_equal(
        json_integer_value(json_object_get(part_of(root, part), "vocab_size")),
        size);
}

/* The type and a grown vocabulary are written wherever the file has them. */
static void files_are_written_as_they_were_read(void **state)
{
    static const struct {
        const char *release, *family, *dtype, *inside;
        bool root, part; /* where vocab_size is */
    } cases[] = {
        {"4.51.3", "llava", "torch_dtype", NULL, false, true},
        {"4.51.3", "qwen2_vl", "torch_dtype", NULL, true, false},
        {"4.57.6", "qwen2_vl", "dtype", NULL, true, true},
        {"5.24.0", "qwen2_vl", "dtype", NULL, false, true},
    };
    json_t *file = stored_load("vision_names.json");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *was = json_object_get(
            json_object_get(json_object_get(file, cases[i].release),
                            cases[i].family),
            "config");
        struct dt_model_config c;
        parse_stored(&c, was, "c");
        dt_model_config_grow(&c, 80);
        assert_int_equal(c.stored_vocab, 79);
        char *text = dt_model_config_format(&c, DT_BF16, NULL);
        json_t *is = json_loads(text, 0, NULL);
        assert_word(is, NULL, cases[i].dtype, "bfloat16");
        assert_word(is, "vision_config", cases[i].dtype, NULL);
        assert_vocab_size(is, NULL, cases[i].root ? 80 : 0);
        assert_vocab_size(is, "text_config", cases[i].part ? 80 : 0);
        /* nothing else has changed */
        json_object_set(was, cases[i].dtype,
                        json_object_get(is, cases[i].dtype));
        if (cases[i].root)
            json_object_set_new(was, "vocab_size", json_integer(80));
        if (cases[i].part)
            json_object_set_new(json_object_get(was, "text_config"),
                                "vocab_size", json_integer(80));
        json_object_del(was, "architectures");
        json_object_del(is, "architectures");
        assert_true(json_equal(was, is));
        json_decref(is);
        free(text);
        dt_model_config_fini(&c);
    }
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_what_transformers_trains),
        cmocka_unit_test(files_of_all_releases_are_read),
        cmocka_unit_test(what_computes_differently_is_told_by_its_key),
        cmocka_unit_test(a_model_of_text_is_another_one),
        cmocka_unit_test(files_are_written_as_they_were_read),
    };
    return cmocka_run_group_tests_name("vision_config", tests, NULL, NULL);
}
