/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - a typed range of a buffer
 *
 * Everything that computes, sends or stores takes views, never (pointer,
 * number): the type and the count travel with the address.
 */
#ifndef DT_TENSOR_VIEW_H
#define DT_TENSOR_VIEW_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

enum dt_dtype {
    DT_F32,
    DT_BF16,
    DT_F16,
    DT_I32,
    DT_I64,
};

/* Size of one element in bytes. */
static inline size_t dt_dtype_bytes(enum dt_dtype dtype)
{
    switch (dtype) {
    case DT_BF16:
    case DT_F16:
        return 2;
    case DT_I64:
        return 8;
    default:
        return 4;
    }
}

/* The name safetensors uses: "F32", "BF16", "F16", "I32", "I64". */
const char *dt_dtype_name(enum dt_dtype dtype);

struct dt_view {
    struct dt_buffer *buf; /* not owned */
    size_t offset;         /* elements from the start of buf */
    size_t count;          /* elements */
    enum dt_dtype dtype;
};

/* Elements [first, first + count) of v. */
static inline struct dt_view dt_view_slice(struct dt_view v, size_t first,
                                           size_t count)
{
    assert(first <= v.count && count <= v.count - first);
    return (struct dt_view){v.buf, v.offset + first, count, v.dtype};
}

/* Address of the first element. */
static inline void *dt_view_data(struct dt_view v)
{
    return (char *)v.buf->data + v.offset * dt_dtype_bytes(v.dtype);
}

static inline float *dt_view_f32(struct dt_view v)
{
    assert(v.dtype == DT_F32);
    return dt_view_data(v);
}

static inline int32_t *dt_view_i32(struct dt_view v)
{
    assert(v.dtype == DT_I32);
    return dt_view_data(v);
}

/* A view of all of buf as elements of dtype. */
static inline struct dt_view dt_view_of(struct dt_buffer *buf,
                                        enum dt_dtype dtype)
{
    return (struct dt_view){buf, 0, buf->bytes / dt_dtype_bytes(dtype), dtype};
}

#endif /* DT_TENSOR_VIEW_H */
