/* SPDX-License-Identifier: Apache-2.0 */
/* variant.c - reads families.json, and makes weights as its script does */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/family/family.h"
#include "tests/parity/variant.h"

/* --- what is stored --- */

double variant_number_at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

double variant_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

void variant_open(struct variant *v, const json_t *all, const char *name)
{
    const json_t *ids = json_object_get(all, "ids");
    struct dt_error err = {0};
    *v = (struct variant){.all = all};
    v->stored = json_object_get(json_object_get(all, "variants"), name);
    char *text = json_dumps(json_object_get(v->stored, "config"), 0);
    assert_non_null(text);
    if (dt_model_config_parse(&v->config, text, name, &err) < 0)
        fail_msg("%s", err.text);
    free(text);
    rows_init(&v->rows, VARIANT_ROWS, ROWS_WIDTH);
    for (size_t i = 0; i < VARIANT_DOCUMENTS; i++) {
        const json_t *list = json_array_get(ids, i);
        const size_t row = i % VARIANT_ROWS;
        struct document document = {.count = json_array_size(list)};
        for (size_t t = 0; t < document.count; t++) {
            document.ids[t] =
                (int32_t)json_integer_value(json_array_get(list, t));
            document.target[t] = true;
        }
        v->length[i] = document.count;
        v->first[i] = row * ROWS_WIDTH + rows_add(&v->rows, row, &document);
    }
}

void variant_close(struct variant *v)
{
    dt_model_config_fini(&v->config);
}

/* --- weights --- */

/* Element i of the hashes of a name, in [-1, 1): as in the script. */
static uint64_t seed_of(const char *name)
{
    uint64_t seed = 0xcbf29ce484222325;
    for (; *name; name++)
        seed = (seed ^ (unsigned char)*name) * 0x100000001b3;
    return seed;
}

static float hash_at(uint64_t seed, size_t i)
{
    uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    x ^= x >> 31;
    return (float)(x >> 40) * 0x1p-23f - 1;
}

void variant_hashes(float *x, size_t count, const char *name, float scale)
{
    uint64_t seed = seed_of(name);
    for (size_t i = 0; i < count; i++)
        x[i] = hash_at(seed, i) * scale;
}

double variant_project(const float *x, size_t count, const char *name)
{
    uint64_t seed = seed_of(name);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)hash_at(seed, i);
    return sum;
}

void variant_fill(const struct dt_model_config *config,
                  const struct dt_param *param, float *w)
{
    const bool shifted =
        param->unit >= dt_model_first_unit(config) && config->family->shifted;
    const bool matrix = param->ndim > 1;
    const bool scales = !matrix && !shifted && !strstr(param->name, "bias");
    variant_hashes(w, param->count, param->name, matrix ? 0.375f : 0.25f);
    for (size_t j = 0; j < param->count && scales; j++)
        w[j] += 1;
}
