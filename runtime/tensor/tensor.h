/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor.h - typed ranges of buffers, and the rows of one forward pass
 *
 * All code that computes, sends or stores takes views, never (pointer, number):
 * type and count travel with the address.
 */
#ifndef DT_TENSOR_TENSOR_H
#define DT_TENSOR_TENSOR_H

#include <assert.h>
#include <stdbool.h>
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
    DT_U8,
};

/* Size of one element in bytes. */
static inline size_t dt_dtype_bytes(enum dt_dtype dtype)
{
    switch (dtype) {
    case DT_U8:
        return 1;
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

/* The name safetensors uses: "F32", "BF16", "F16", "I32", "I64", "F64", "U8".
 */
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

/* Bytes of all elements. */
static inline size_t dt_view_bytes(struct dt_view v)
{
    return v.count * dt_dtype_bytes(v.dtype);
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

/* F32, BF16 or F16. */
static inline bool dt_dtype_is_float(enum dt_dtype dtype)
{
    return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16;
}

/* to(count) = from(count), rounded as half.h says. The types are equal, or both
 * floats, or F64 becomes a float, of two bytes by way of F32, as in PyTorch.
 * The memory does not overlap and needs no alignment.
 */
void dt_convert(void *to, enum dt_dtype to_dtype, const void *from,
                enum dt_dtype from_dtype, size_t count);

/* Whether none of data(count), floats, is NaN or infinite. No alignment is
 * needed.
 */
bool dt_is_finite(const void *data, enum dt_dtype dtype, size_t count);

enum {
    DT_IGNORE =
        -100, /* marks a position without target: no loss, no gradient */
};

/* A document of a batch, by positions n of (B, T). Those of [first, end - 1)
 * have targets: the tokens of the completion, which are as many.
 */
struct dt_batch_side {
    size_t start; /* of its first token */
    size_t first; /* of its first target */
    size_t end;   /* after its last token */
};

/* A preference pair, two documents of one row. */
struct dt_batch_pair {
    uint64_t number; /* of the pair in the data */
    float margin;
    struct dt_batch_side chosen, rejected;
};

/* A completion that follows its prompt in a document of its own. The position
 * before a token predicts it, so the last token is not there.
 */
struct dt_batch_sample {
    size_t number; /* of the completion, among those of its generation */
    size_t first;  /* position before its first token */
    size_t count;  /* of its tokens, targets of [first, first + count) */
    size_t
        picked; /* positions from `first` whose values are computed: count,
                   or one more, which is then there: that of the last token */
};

/* A grid of patches that a vision tower sees by itself: an image, or a tile of
 * one. Its tokens are neighbors in one row and in one document. A copy of an
 * earlier picture has tokens of its own, and the pixels of that one.
 */
struct dt_batch_picture {
    uint32_t height, width; /* patches */
    size_t first;           /* position n of (B, T) of its first token */
    size_t tokens;
    size_t repeats; /* how many pictures before it is the one that it is a copy
                       of, which is none itself; 0: it has pixels of its own */
};

struct dt_batch {
    size_t B, T;              /* rows, positions in a row */
    const int32_t *inputs;    /* (B, T) token ids; -1 at the tokens of pictures,
                                 which have no embedding */
    const int32_t *targets;   /* (B, T) next token ids, or DT_IGNORE */
    const int32_t *doc_start; /* (B, T) where in the row each position's
                                 document begins: attention sees nothing before
                                 it, and positions count from it; NULL: every
                                 row is one document */
    const int64_t *rows;      /* (B) global sample numbers, which seed random
                                 numbers; NULL: none are needed */
    size_t target_count;      /* targets that are not DT_IGNORE */
    const struct dt_batch_pair *pairs; /* NULL: the data are no pairs */
    size_t pair_count;
    const struct dt_batch_sample *samples; /* NULL: the data are no completions
                                            */
    size_t sample_count;
    const int32_t *picked; /* (picked_count) positions n of (B, T), all
                              different: a model computes values of them; NULL:
                              none */
    size_t picked_count;
    /* in the order of `first`; NULL: none */
    const struct dt_batch_picture *pictures;
    size_t picture_count;
    const uint8_t *pixels; /* the patches of all pictures that are no copies,
                              one after another, as dt_image_rows makes them */
};

#ifdef __cplusplus
}
#endif

#endif /* DT_TENSOR_TENSOR_H */
