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
 *
 * Layouts with the same units may divide the parameters of a model: those that
 * are trained, and those that are only read. A unit without parameters is empty
 * (count 0): it has no place in a buffer, and nothing moves for it.
 */
#ifndef DT_TENSOR_LAYOUT_H
#define DT_TENSOR_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

#define DT_NO_UNIT SIZE_MAX

enum {
    DT_PARAM_MAX_DIMS = 5,
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

/* How a unit is used, which decides when its weights are needed. */
enum dt_unit_kind {
    DT_UNIT_BLOCK,     /* one of a run of blocks */
    DT_UNIT_EMBEDDING, /* looks up rows by token: goes back without weights */
    DT_UNIT_EDGE,      /* any other: a head, a projector, a tower's ends */
};

/* Parts of a model, which are trained or frozen as a whole. */
enum dt_model_part {
    DT_PART_LANGUAGE, /* all of a model of text */
    DT_PART_PROJECTOR,
    DT_PART_VISION, /* the tower */
    DT_PARTS
};

struct dt_unit {
    enum dt_unit_kind kind;
    enum dt_model_part part;
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
    size_t tied_unit;   /* the last unit computes with this one's weights, too;
                           DT_NO_UNIT: with its own alone */
    size_t stored_rows; /* of the token embedding and of a head over tokens, in
                           files where they are fewer; 0: none */
    char **carried; /* what begins the names of other tensors that files have,
                       which are written as they were read */
    size_t carried_count;
};

/* Where the units of one kind are: in a flat buffer, or each in a place of its
 * own, which two units may share at different times.
 */
struct dt_places {
    struct dt_view flat;
    const struct dt_view *units; /* (unit_count), count 0: of a unit that is
                                    not there; NULL: in flat */
};

/* An empty layout, or NULL and err. */
struct dt_layout *dt_layout_create(struct dt_error *err);
void dt_layout_destroy(struct dt_layout *layout); /* NULL is fine */

/* "language", "projector", "vision" */
const char *dt_model_part_name(enum dt_model_part part);

/* Opens the next unit; parameters added from now on belong to it. */
int dt_layout_add_unit(struct dt_layout *layout, enum dt_unit_kind kind,
                       enum dt_model_part part, struct dt_error *err);

/* Adds a parameter to the open unit; `name` is copied. Returns its index, or -1
 * and err if its size overflows or memory is out.
 */
int dt_layout_add_param(struct dt_layout *layout, const char *name, bool decay,
                        int ndim, const size_t *shape, struct dt_error *err);

/* Lets the last added parameter begin directly after the previous one of its
 * unit, without alignment.
 */
void dt_layout_join(struct dt_layout *layout);

/* Adds a copy of what begins the names of tensors that are carried along. -1:
 * EX_OSERR.
 */
int dt_layout_carry(struct dt_layout *layout, const char *begin,
                    struct dt_error *err);

/* Fixes all offsets for `world` ranks. Call once, after the last parameter. */
void dt_layout_finish(struct dt_layout *layout, int world);

/* The layout of the units of these parts, finished for `world` ranks; the units
 * of others are empty. A unit that is there has its parameters where the same
 * unit of `layout` has them. NULL and err: EX_OSERR.
 */
struct dt_layout *dt_layout_of_parts(const struct dt_layout *layout,
                                     const bool parts[DT_PARTS], int world,
                                     struct dt_error *err);

/* The places of units in a flat buffer; the type of those in `places`. */
static inline struct dt_places dt_places_flat(struct dt_view flat)
{
    return (struct dt_places){.flat = flat};
}

/* Whether unit u has a place there. */
static inline bool dt_places_have(const struct dt_places *places, size_t u)
{
    return (places->units ? places->units[u] : places->flat).count > 0;
}

/* Unit u as a whole, padding included. */
struct dt_view dt_layout_unit(const struct dt_layout *layout,
                              const struct dt_places *places, size_t u);

/* The number of the first element of unit u, the same for any number of ranks:
 * padding that only several of them need does not count. A multiple of
 * DT_LAYOUT_ALIGN.
 */
size_t dt_layout_number(const struct dt_layout *layout, size_t u);

/* Elements of a flat buffer. */
struct dt_range {
    size_t first, count;
};

/* Part `part` of unit u for `world` ranks, for which the layout was finished:
 * all parts of a unit are equally long.
 */
struct dt_range dt_layout_part(const struct dt_layout *layout, size_t u,
                               int part, int world);

/* The elements of parameter i that are in `range`; count 0: none. */
struct dt_range dt_layout_overlap(const struct dt_layout *layout, size_t i,
                                  struct dt_range range);

/* The range of parameter i in the flat buffer `flat`. */
struct dt_view dt_layout_param(const struct dt_layout *layout,
                               struct dt_view flat, size_t i);

/* The range of parameters first .. first + count - 1 of one unit, all joined
 * except the first: matrices with rows of equal length are then one matrix.
 */
struct dt_view dt_layout_params(const struct dt_layout *layout,
                                const struct dt_places *places, size_t first,
                                size_t count);

/* Elements of the largest unit. */
size_t dt_layout_largest(const struct dt_layout *layout);

/* Elements of the parameters of the largest block; 0: there is none. */
size_t dt_layout_largest_block(const struct dt_layout *layout);

/* The first unit from u on that is not empty; unit_count: there is none. */
size_t dt_layout_next(const struct dt_layout *layout, size_t u);

/* Whether the last unit computes with unit u, too, and both are in this layout.
 */
bool dt_layout_is_tied(const struct dt_layout *layout, size_t u);

/* The index of the token embedding, the first parameter of the language's
 * embedding; the layout has it.
 */
size_t dt_layout_embedding(const struct dt_layout *layout);

/* Index of the parameter called `name`, or -1. */
int dt_layout_find(const struct dt_layout *layout, const char *name);

#endif /* DT_TENSOR_LAYOUT_H */
