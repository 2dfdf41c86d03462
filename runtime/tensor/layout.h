/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - where each parameter is in the flat buffers
 *
 * One flat buffer per kind (weights, gradients, m, v) with the same layout:
 * units in model order, every parameter aligned, each unit padded to a multiple
 * of world x 128 elements so that a unit is one contiguous reduce-scatter or
 * all-gather. A model declares named ranges; optim updates ranges; parallel
 * reduces ranges; ckpt stores ranges. Every offset comes from here. Padding
 * stays zero in every buffer.
 */
#ifndef DT_TENSOR_LAYOUT_H
#define DT_TENSOR_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tensor/view.h"

enum {
    DT_PARAM_MAX_DIMS = 4,
    DT_LAYOUT_ALIGN = 128, /* elements, times world: a unit */
    DT_PARAM_ALIGN = 16,   /* elements: a parameter, 64 bytes of fp32 */
};

struct dt_param {
    char *name; /* as in model.safetensors */
    size_t unit;
    size_t offset; /* elements from the start of the flat buffer */
    size_t count;
    int ndim;
    size_t shape[DT_PARAM_MAX_DIMS];
    bool decay;  /* weight decay applies */
    bool joined; /* begins where the previous one ends */
};

struct dt_unit {
    size_t first_param, param_count;
    size_t offset; /* elements from the start of the flat buffer */
    size_t count;  /* with padding */
};

struct dt_layout {
    struct dt_param *params;
    size_t param_count;
    struct dt_unit *units;
    size_t unit_count;
    size_t count;       /* elements of a flat buffer, padding included */
    size_t param_total; /* elements of all parameters, without padding */
};

/* An empty layout, or NULL and err. */
struct dt_layout *dt_layout_create(struct dt_error *err);
void dt_layout_destroy(struct dt_layout *layout); /* NULL is fine */

/* Opens the next unit; parameters added from now on belong to it. */
int dt_layout_add_unit(struct dt_layout *layout, struct dt_error *err);

/* Adds a parameter to the open unit; `name` is copied. Returns its index, or -1
 * and err if its size overflows or memory is out.
 */
int dt_layout_add_param(struct dt_layout *layout, const char *name, bool decay,
                        int ndim, const size_t *shape, struct dt_error *err);

/* Lets the last added parameter begin directly after the previous one of its
 * unit, without alignment.
 */
void dt_layout_join(struct dt_layout *layout);

/* Fixes all offsets for `world` ranks. Call once, after the last parameter. */
void dt_layout_finish(struct dt_layout *layout, int world);

/* The range of parameter i in the flat buffer `flat`. */
struct dt_view dt_layout_param(const struct dt_layout *layout,
                               struct dt_view flat, size_t i);

/* The range of parameters first .. first + count - 1, all joined except the
 * first: matrices with rows of equal length are then one matrix.
 */
struct dt_view dt_layout_params(const struct dt_layout *layout,
                                struct dt_view flat, size_t first,
                                size_t count);

/* Index of the parameter called `name`, or -1. */
int dt_layout_find(const struct dt_layout *layout, const char *name);

#endif /* DT_TENSOR_LAYOUT_H */
