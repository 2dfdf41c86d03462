/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - units, parameters and their offsets */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/layout.h"

const char *dt_dtype_name(enum dt_dtype dtype)
{
    static const char *const names[] = {
        [DT_F32] = "F32", [DT_BF16] = "BF16", [DT_F16] = "F16",
        [DT_I32] = "I32", [DT_I64] = "I64",   [DT_F64] = "F64",
        [DT_U8] = "U8",
    };
    return names[dtype];
}

const char *dt_model_part_name(enum dt_model_part part)
{
    static const char *const names[] = {
        [DT_PART_LANGUAGE] = "language",
        [DT_PART_PROJECTOR] = "projector",
        [DT_PART_VISION] = "vision",
    };
    return names[part];
}

struct dt_layout *dt_layout_create(struct dt_error *err)
{
    struct dt_layout *layout = calloc(1, sizeof(*layout));
    if (layout)
        layout->tied_unit = DT_NO_UNIT;
    else
        dt_error_set(err, EX_OSERR, "out of memory");
    return layout;
}

void dt_layout_destroy(struct dt_layout *layout)
{
    if (!layout)
        return;
    for (size_t i = 0; i < layout->param_count; i++)
        free(layout->params[i].name);
    free(layout->params);
    free(layout->units);
    for (size_t i = 0; i < layout->carried_count; i++)
        free(layout->carried[i]);
    free(layout->carried);
    free(layout);
}

int dt_layout_carry(struct dt_layout *layout, const char *begin,
                    struct dt_error *err)
{
    const size_t n = layout->carried_count;
    char **more = reallocarray(layout->carried, n + 1, sizeof(*more));
    if (more)
        layout->carried = more;
    if (!more || !(more[n] = strdup(begin)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    layout->carried_count++;
    return 0;
}

int dt_layout_add_unit(struct dt_layout *layout, enum dt_unit_kind kind,
                       enum dt_model_part part, struct dt_error *err)
{
    size_t n = layout->unit_count;
    struct dt_unit *units = reallocarray(layout->units, n + 1, sizeof(*units));
    if (!units)
        return dt_error_set(err, EX_OSERR, "out of memory");
    units[n] = (struct dt_unit){
        .kind = kind, .part = part, .first_param = layout->param_count};
    layout->units = units;
    layout->unit_count = n + 1;
    return 0;
}

int dt_layout_add_param(struct dt_layout *layout, const char *name, bool decay,
                        int ndim, const size_t *shape, struct dt_error *err)
{
    size_t n = layout->param_count;
    struct dt_param param = {
        .unit = layout->unit_count - 1,
        .count = 1,
        .ndim = ndim,
        .decay = decay,
    };
    assert(layout->unit_count > 0 && ndim >= 0 && ndim <= DT_PARAM_MAX_DIMS);
    for (int d = 0; d < ndim; d++) {
        param.shape[d] = shape[d];
        /* 2^48 elements: bytes and sums of a model can not overflow either */
        if (__builtin_mul_overflow(param.count, shape[d], &param.count) ||
            param.count > (size_t)1 << 48)
            return dt_error_set(err, EX_DATAERR, "%s: too many elements", name);
    }
    struct dt_param *params =
        reallocarray(layout->params, n + 1, sizeof(*params));
    if (params)
        layout->params = params;
    if (!params || !(param.name = strdup(name)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    params[n] = param;
    layout->param_count = n + 1;
    layout->units[param.unit].param_count++;
    return (int)n;
}

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

void dt_layout_finish(struct dt_layout *layout, int world)
{
    size_t align = (size_t)world * DT_LAYOUT_ALIGN, offset = 0;
    for (size_t u = 0; u < layout->unit_count; u++) {
        struct dt_unit *unit = &layout->units[u];
        unit->offset = offset;
        for (size_t i = 0; i < unit->param_count; i++) {
            struct dt_param *param = &layout->params[unit->first_param + i];
            if (!param->joined)
                offset = round_up(offset, DT_PARAM_ALIGN);
            param->offset = offset;
            offset += param->count;
            layout->param_total += param->count;
        }
        unit->count = round_up(offset - unit->offset, align);
        offset = unit->offset + unit->count;
    }
    layout->count = offset;
}

/* Adds a copy of unit u, with its parameters or empty. */
static int add_copy(struct dt_layout *layout, const struct dt_layout *from,
                    size_t u, bool there, struct dt_error *err)
{
    const struct dt_unit *unit = &from->units[u];
    if (dt_layout_add_unit(layout, unit->kind, unit->part, err) < 0)
        return -1;
    for (size_t i = 0; there && i < unit->param_count; i++) {
        const struct dt_param *param = &from->params[unit->first_param + i];
        if (dt_layout_add_param(layout, param->name, param->decay, param->ndim,
                                param->shape, err) < 0)
            return -1;
        if (param->joined)
            dt_layout_join(layout);
    }
    return 0;
}

struct dt_layout *dt_layout_of_parts(const struct dt_layout *layout,
                                     const bool parts[DT_PARTS], int world,
                                     struct dt_error *err)
{
    struct dt_layout *own = dt_layout_create(err);
    for (size_t u = 0; own && u < layout->unit_count; u++)
        if (add_copy(own, layout, u, parts[layout->units[u].part], err) < 0) {
            dt_layout_destroy(own);
            return NULL;
        }
    if (!own)
        return NULL;
    own->tied_unit = layout->tied_unit;
    own->stored_rows = layout->stored_rows;
    dt_layout_finish(own, world);
    return own;
}

struct dt_view dt_layout_param(const struct dt_layout *layout,
                               struct dt_view flat, size_t i)
{
    const struct dt_param *param = &layout->params[i];
    return dt_view_slice(flat, param->offset, param->count);
}

void dt_layout_join(struct dt_layout *layout)
{
    struct dt_param *last = &layout->params[layout->param_count - 1];
    assert(layout->units[last->unit].param_count > 1);
    last->joined = true;
}

struct dt_view dt_layout_unit(const struct dt_layout *layout,
                              const struct dt_places *places, size_t u)
{
    const struct dt_unit *unit = &layout->units[u];
    return places->units
               ? places->units[u]
               : dt_view_slice(places->flat, unit->offset, unit->count);
}

size_t dt_layout_number(const struct dt_layout *layout, size_t u)
{
    size_t number = 0;
    for (const struct dt_unit *unit = layout->units; unit < layout->units + u;
         unit++) {
        if (unit->param_count == 0)
            continue;
        const struct dt_param *last =
            &layout->params[unit->first_param + unit->param_count - 1];
        number += round_up(last->offset + last->count - unit->offset,
                           DT_LAYOUT_ALIGN);
    }
    return number;
}

struct dt_range dt_layout_part(const struct dt_layout *layout, size_t u,
                               int part, int world)
{
    const struct dt_unit *unit = &layout->units[u];
    size_t count = unit->count / (size_t)world;
    assert(unit->count % (size_t)world == 0);
    return (struct dt_range){unit->offset + (size_t)part * count, count};
}

struct dt_range dt_layout_overlap(const struct dt_layout *layout, size_t i,
                                  struct dt_range range)
{
    const struct dt_param *param = &layout->params[i];
    size_t first = range.first, end = range.first + range.count;
    if (first < param->offset)
        first = param->offset;
    if (end > param->offset + param->count)
        end = param->offset + param->count;
    return (struct dt_range){first, first < end ? end - first : 0};
}

struct dt_view dt_layout_params(const struct dt_layout *layout,
                                const struct dt_places *places, size_t first,
                                size_t count)
{
    const struct dt_param *begin = &layout->params[first];
    const struct dt_param *end = &begin[count - 1];
    for (const struct dt_param *p = begin + 1; p <= end; p++)
        assert(p->joined);
    return dt_view_slice(dt_layout_unit(layout, places, begin->unit),
                         begin->offset - layout->units[begin->unit].offset,
                         end->offset + end->count - begin->offset);
}

size_t dt_layout_largest(const struct dt_layout *layout)
{
    size_t most = 0;
    for (size_t u = 0; u < layout->unit_count; u++)
        if (layout->units[u].count > most)
            most = layout->units[u].count;
    return most;
}

size_t dt_layout_largest_block(const struct dt_layout *layout)
{
    size_t most = 0;
    for (size_t u = 0; u < layout->unit_count; u++) {
        const struct dt_unit *unit = &layout->units[u];
        size_t sum = 0;
        for (size_t i = 0; unit->kind == DT_UNIT_BLOCK && i < unit->param_count;
             i++)
            sum += layout->params[unit->first_param + i].count;
        most = sum > most ? sum : most;
    }
    return most;
}

size_t dt_layout_next(const struct dt_layout *layout, size_t u)
{
    while (u < layout->unit_count && layout->units[u].count == 0)
        u++;
    return u;
}

bool dt_layout_is_tied(const struct dt_layout *layout, size_t u)
{
    return u != DT_NO_UNIT && u == layout->tied_unit &&
           layout->units[u].count > 0 &&
           layout->units[layout->unit_count - 1].count > 0;
}

size_t dt_layout_embedding(const struct dt_layout *layout)
{
    size_t u = 0;
    while (layout->units[u].kind != DT_UNIT_EMBEDDING ||
           layout->units[u].part != DT_PART_LANGUAGE)
        u++;
    return layout->units[u].first_param;
}

int dt_layout_find(const struct dt_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->param_count; i++)
        if (!strcmp(layout->params[i].name, name))
            return (int)i;
    return -1;
}
