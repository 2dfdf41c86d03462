/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - a typed range of a buffer
 *
 * All code that computes, sends or stores takes views, never (pointer, number):
 * type and count travel with the address.
 */
#ifndef DT_TENSOR_VIEW_H
#define DT_TENSOR_VIEW_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_dtype {
    DT_F32,
    DT_BF16,
    DT_F16,
    DT_I32,
    DT_I64,
    DT_F64,
};

/* Size of one element in bytes. */
static inline size_t dt_dtype_bytes(enum dt_dtype dtype)
{
    switch (dtype) {
    case DT_BF16:
    case DT_F16:
        return 2;
    case DT_I64:
    case DT_F64:
        return 8;
    default:
        return 4;
    }
}

/* The name safetensors uses: "F32", "BF16", "F16", "I32", "I64", "F64". */
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
    v.offset += first;
    v.count = count;
    return v;
}

/* Address of the first element; the host may use it if buf is its own. */
static inline void *dt_view_data(struct dt_view v)
{
    return (char *)v.buf->data + v.offset * dt_dtype_bytes(v.dtype);
}

static inline float *dt_view_f32(struct dt_view v)
{
    assert(v.dtype == DT_F32);
    return (float *)dt_view_data(v);
}

static inline int32_t *dt_view_i32(struct dt_view v)
{
    assert(v.dtype == DT_I32);
    return (int32_t *)dt_view_data(v);
}

static inline int64_t *dt_view_i64(struct dt_view v)
{
    assert(v.dtype == DT_I64);
    return (int64_t *)dt_view_data(v);
}

static inline double *dt_view_f64(struct dt_view v)
{
    assert(v.dtype == DT_F64);
    return (double *)dt_view_data(v);
}

/* A view of all of buf as elements of dtype. */
static inline struct dt_view dt_view_of(struct dt_buffer *buf,
                                        enum dt_dtype dtype)
{
    struct dt_view v = {buf, 0, buf->bytes / dt_dtype_bytes(dtype), dtype};
    return v;
}

#ifdef __cplusplus
}
#endif

#endif /* DT_TENSOR_VIEW_H */
