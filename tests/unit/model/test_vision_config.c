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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_what_transformers_trains),
        cmocka_unit_test(files_of_all_releases_are_read),
    };
    return cmocka_run_group_tests_name("vision_config", tests, NULL, NULL);
}
