/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - the files under tests/parity/models */
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
#include "tests/parity/reference.h"
#include "tests/unit/tensor_read.h"

const char *reference_path(const char *name, const char *file)
{
    static char path[4096];
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, sizeof(path), "%s/tests/parity/models/%s/%s",
             srcdir ? srcdir : ".", name, file);
    return path;
}

const char *reference_adapter(const char *name)
{
    static char path[4096];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/tests/parity/adapters/%s",
             srcdir ? srcdir : ".", name);
    return path;
}

static json_t *load_json(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    if (!root)
        fail_msg("%s cannot be read", path);
    return root;
}

static struct dt_safetensors *load_tensors(const char *path)
{
    struct dt_error err = {0};
    struct dt_safetensors *file = dt_safetensors_open(path, &err);
    if (!file)
        fail_msg("%s", err.text);
    return file;
}

void reference_open(struct reference *r, const char *name)
{
    struct dt_error err = {0};
    *r = (struct reference){.name = name};
    if (dt_model_config_load(&r->config, reference_path(name, ""), &err) < 0)
        fail_msg("%s", err.text);
    r->sft = load_json(reference_path(".", "sft.json"));
    r->runs = load_json(reference_path(name, "reference.json"));
    r->model = load_tensors(reference_path(name, "model.safetensors"));
    r->first = load_tensors(reference_path(name, "reference.safetensors"));
}

void reference_close(struct reference *r)
{
    dt_safetensors_close(r->model);
    dt_safetensors_close(r->first);
    json_decref(r->sft);
    json_decref(r->runs);
    dt_model_config_fini(&r->config);
}

static void read_tensor(const struct dt_safetensors *file, const char *name,
                        int ndim, const size_t *shape, struct dt_view view)
{
    struct dt_error err = {0};
    if (tensor_read(file, name, ndim, shape, view, &err) < 0)
        fail_msg("%s", err.text);
}

void reference_load(const struct reference *r, struct subject *s)
{
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        struct dt_buffer here = {subject_weights(s, i),
                                 param->count * sizeof(float), &dt_cpu};
        read_tensor(r->model, param->name, param->ndim, param->shape,
                    dt_view_of(&here, DT_F32));
    }
    subject_publish(s);
}

float *reference_tensor(const struct reference *r, const char *name, int ndim,
                        const size_t *shape)
{
    size_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= shape[d];
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * sizeof(float), "a test", NULL);
    float *data = malloc(count * sizeof(float));
    assert_true(buf && data);
    read_tensor(r->first, name, ndim, shape, dt_view_of(buf, DT_F32));
    memcpy(data, buf->data, count * sizeof(float));
    dt_buffer_destroy(buf);
    return data;
}

static double as_number(const json_t *value)
{
    assert_true(json_is_number(value));
    return json_number_value(value);
}

double reference_number(const struct reference *r, const char *key)
{
    return as_number(json_object_get(r->sft, key));
}

double reference_listed(const struct reference *r, const char *key, size_t k)
{
    return as_number(json_array_get(json_object_get(r->sft, key), k));
}

double reference_result(const struct reference *r, const char *run,
                        const char *key, size_t k)
{
    const json_t *list = json_object_get(json_object_get(r->runs, run), key);
    return as_number(json_array_get(list, k));
}

double reference_error(const struct reference *r, const char *run,
                       const char *key)
{
    return as_number(json_object_get(json_object_get(r->runs, run), key));
}

void reference_document(const struct reference *r, size_t batch, size_t i,
                        bool assistant, struct document *document)
{
    const json_t *steps = json_object_get(r->sft, "steps");
    const json_t *stored = json_array_get(json_array_get(steps, batch), i);
    const json_t *ids = json_object_get(stored, "ids");
    const json_t *said = json_object_get(stored, "assistant");
    *document = (struct document){.count = json_array_size(ids)};
    assert_in_range(document->count, 1, ROWS_WIDTH);
    for (size_t t = 0; t < document->count; t++) {
        document->ids[t] = (int32_t)json_integer_value(json_array_get(ids, t));
        document->target[t] =
            !assistant || json_integer_value(json_array_get(said, t));
    }
}

void reference_rows(const struct reference *r, size_t batch, bool packed,
                    bool assistant, struct rows *rows, size_t (*places)[2])
{
    const json_t *packing =
        json_array_get(json_object_get(r->sft, "packing"), batch);
    size_t B = packed ? json_array_size(packing) : REFERENCE_DOCUMENTS;
    rows_init(rows, B, ROWS_WIDTH);
    for (size_t b = 0; b < B; b++) {
        const json_t *row = json_array_get(packing, b);
        size_t count = packed ? json_array_size(row) : 1;
        for (size_t n = 0; n < count; n++) {
            struct document document;
            size_t i = b;
            if (packed)
                i = (size_t)json_integer_value(json_array_get(row, n));
            reference_document(r, batch, i, assistant, &document);
            size_t at = rows_add(rows, b, &document);
            if (places) {
                places[i][0] = b;
                places[i][1] = at;
            }
        }
    }
}
