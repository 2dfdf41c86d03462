/* SPDX-License-Identifier: Apache-2.0 */
/* grown.c - computes the mean of rows, and copies it to new ones */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "weights/grown.h"

enum { ROWS = 1024 }; /* read at a time */

const struct dt_grown *dt_grown_find(const struct dt_grown *grown, size_t count,
                                     size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (grown[k].param == i)
            return &grown[k];
    return NULL;
}

/* Where the new rows of the parameter begin in the flat buffer. */
static size_t begin_of_new(const struct dt_grown *grown,
                           const struct dt_layout *layout)
{
    const struct dt_param *param = &layout->params[grown->param];
    return param->offset + layout->stored_rows * param->shape[1];
}

struct dt_range dt_grown_stored(const struct dt_grown *grown,
                                const struct dt_layout *layout,
                                struct dt_range part)
{
    const size_t end = begin_of_new(grown, layout);
    if (part.first >= end)
        return (struct dt_range){part.first, 0};
    if (part.count > end - part.first)
        part.count = end - part.first;
    return part;
}

/* Adds rows [first, first + count) of the file to sums. */
static int add_rows(const struct dt_safetensors *st,
                    struct dt_ckpt_tensor tensor, size_t first, size_t count,
                    struct dt_view rows, double *sums, struct dt_error *err)
{
    const size_t columns = tensor.shape[1];
    tensor.first = first * columns;
    tensor.view = dt_view_slice(rows, 0, count * columns);
    if (dt_safetensors_read_all(st, &tensor, 1, err) < 0)
        return -1;
    const float *from = dt_view_data(tensor.view);
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < columns; c++)
            sums[c] += (double)from[r * columns + c];
    return 0;
}

static int compute_mean(struct dt_grown *grown, const struct dt_safetensors *st,
                        const char *source, const struct dt_layout *layout,
                        struct dt_error *err)
{
    const size_t columns = layout->params[grown->param].shape[1];
    const size_t all = layout->stored_rows;
    struct dt_ckpt_tensor tensor = {
        .name = source, .ndim = 2, .shape = {all, columns}, .finite = true};
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, ROWS * columns * sizeof(float), "rows", err);
    double *sums = calloc(columns, sizeof(*sums));
    float *mean = calloc(columns, sizeof(*mean));
    int rc = buf ? 0 : -1;
    if (rc == 0 && (!sums || !mean))
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t r = 0; rc == 0 && r < all; r += ROWS)
        rc = add_rows(st, tensor, r, all - r < ROWS ? all - r : ROWS,
                      dt_view_of(buf, DT_F32), sums, err);
    for (size_t c = 0; rc == 0 && c < columns; c++)
        mean[c] = (float)(sums[c] / (double)all);
    dt_buffer_destroy(buf);
    free(sums);
    if (rc == 0)
        grown->mean = mean;
    else
        free(mean);
    return rc;
}

int dt_grown_fill(struct dt_grown *grown, const struct dt_safetensors *st,
                  const char *source, const struct dt_layout *layout,
                  struct dt_range range, struct dt_view to,
                  struct dt_error *err)
{
    const struct dt_param *param = &layout->params[grown->param];
    const size_t columns = param->shape[1];
    const size_t begin = begin_of_new(grown, layout);
    struct dt_range part = dt_layout_overlap(layout, grown->param, range);
    const size_t end = part.first + part.count;
    size_t at = part.first > begin ? part.first : begin;
    if (part.count == 0 || at >= end)
        return 0;
    if (!grown->mean && compute_mean(grown, st, source, layout, err) < 0)
        return -1;
    while (at < end) { /* a row, or what the range has of it */
        const size_t column = (at - param->offset) % columns;
        size_t n = columns - column;
        n = n < end - at ? n : end - at;
        dt_convert(dt_view_data(dt_view_slice(to, at - range.first, n)),
                   to.dtype, grown->mean + column, DT_F32, n);
        at += n;
    }
    return 0;
}
