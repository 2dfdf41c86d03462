/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carried.c - tensors that a model's files have and nothing is computed with
 *
 * transformers makes the whole of a tower, of which LLaVA leaves out the end.
 * Directories that are written have the end as it was read.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors.h"
#include "model/model.h"
#include "weights/weights.h"

bool dt_carried_is(const struct dt_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->carried_count; i++)
        if (dt_model_name_begins(name, layout->carried[i]))
            return true;
    return false;
}

/* Reads one, with its name. */
static int read_tensor(const struct dt_safetensors *st, const char *name,
                       struct dt_ckpt_tensor *tensor, struct dt_error *err)
{
    if (dt_safetensors_describe(st, name, tensor, err) < 0)
        return -1;
    const size_t bytes =
        tensor->view.count * dt_dtype_bytes(tensor->view.dtype);
    tensor->view.buf = dt_buffer_create(&dt_cpu, bytes, "carried", err);
    if (!tensor->view.buf || dt_safetensors_read_all(st, tensor, 1, err) < 0)
        return -1;
    tensor->name = strdup(name);
    return tensor->name ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static int read_all(const struct dt_safetensors *st,
                    const struct dt_layout *layout, struct dt_carried *carried,
                    struct dt_error *err)
{
    const size_t count = dt_safetensors_count(st);
    carried->tensors = calloc(count + 1, sizeof(*carried->tensors));
    if (!carried->tensors)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const char *name = dt_safetensors_name(st, i);
        struct dt_ckpt_tensor tensor = {0};
        if (!dt_carried_is(layout, name))
            continue;
        if (read_tensor(st, name, &tensor, err) < 0) {
            dt_buffer_destroy(tensor.view.buf);
            return -1;
        }
        carried->tensors[carried->count++] = tensor;
    }
    return 0;
}

int dt_carried_load(struct dt_carried *carried, const char *dir,
                    const struct dt_layout *layout, struct dt_error *err)
{
    *carried = (struct dt_carried){0};
    if (layout->carried_count == 0)
        return 0;
    struct dt_safetensors *st = dt_safetensors_open_model(dir, err);
    int rc = st ? read_all(st, layout, carried, err) : -1;
    dt_safetensors_close(st);
    if (rc < 0)
        dt_carried_fini(carried);
    return rc;
}

void dt_carried_fini(struct dt_carried *carried)
{
    for (size_t i = 0; i < carried->count; i++) {
        dt_buffer_destroy(carried->tensors[i].view.buf);
        free((char *)(uintptr_t)carried->tensors[i].name);
    }
    free(carried->tensors);
    *carried = (struct dt_carried){0};
}
