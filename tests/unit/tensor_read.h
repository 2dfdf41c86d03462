/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_read.h - reads one tensor of a file of safetensors */
#ifndef DT_TESTS_UNIT_TENSOR_READ_H
#define DT_TESTS_UNIT_TENSOR_READ_H

#include <assert.h>

#include "ckpt/safetensors.h"

/* As dt_safetensors_read_all, of a tensor of up to 4 dimensions. */
static inline int tensor_read(const struct dt_safetensors *st, const char *name,
                              int ndim, const size_t *shape,
                              struct dt_view view, struct dt_error *err)
{
    struct dt_ckpt_tensor tensor = {.name = name, .ndim = ndim, .view = view};
    assert(ndim <= (int)(sizeof(tensor.shape) / sizeof(tensor.shape[0])));
    for (int d = 0; d < ndim; d++)
        tensor.shape[d] = shape[d];
    return dt_safetensors_read_all(st, &tensor, 1, err);
}

#endif /* DT_TESTS_UNIT_TENSOR_READ_H */
