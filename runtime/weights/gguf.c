/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c - writes values, tensors and blocks of GGUF */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/convert.h"
#include "tensor/half.h"
#include "weights/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are, and files are little-endian");

enum {
    FORMAT_VERSION = 3,
    ALIGN = 32,
    BLOCK = 32, /* numbers of Q8_0 with one scale */
    BLOCK_BYTES = 34,
};

/* Types of values. */
enum { UINT32 = 4, INT32 = 5, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

/* --- numbers --- */

size_t dt_gguf_bytes(enum dt_gguf_type type, size_t count)
{
    return type == DT_GGUF_Q8_0  ? count / BLOCK * BLOCK_BYTES
           : type == DT_GGUF_F32 ? 4 * count
                                 : 2 * count;
}

/* The scale is rounded to F16 only where it is stored. */
static void quantize_block(uint8_t *to, const float *from)
{
    float most = 0.0F;
    for (int i = 0; i < BLOCK; i++)
        most = fmaxf(most, fabsf(from[i]));
    const float scale = most / 127.0F;
    const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
    const uint16_t half = dt_f32_to_f16(scale);
    memcpy(to, &half, sizeof(half));
    for (int i = 0; i < BLOCK; i++)
        to[2 + i] = (uint8_t)(int8_t)roundf(from[i] * inverse);
}

void dt_gguf_convert(void *to, enum dt_gguf_type type, const float *from,
                     size_t count)
{
    if (type == DT_GGUF_Q8_0)
        for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
            quantize_block((uint8_t *)to + i / BLOCK * BLOCK_BYTES, from + i);
    else
        dt_convert(to,
                   type == DT_GGUF_F32   ? DT_F32
                   : type == DT_GGUF_F16 ? DT_F16
                                         : DT_BF16,
                   from, DT_F32, count);
}

/* --- the file --- */

int dt_gguf_open(struct dt_gguf *gguf, const char *path, struct dt_error *err)
{
    char temporary[PATH_MAX];
    *gguf = (struct dt_gguf){0};
    if (snprintf(temporary, sizeof(temporary), "%s.partial-%ld", path,
                 (long)getpid()) >= (int)sizeof(temporary))
        return dt_error_set(err, EX_CANTCREAT, "%s: path too long", path);
    gguf->path = strdup(path);
    gguf->temporary = strdup(temporary);
    gguf->memory = open_memstream(&gguf->values, &gguf->bytes);
    if (!gguf->path || !gguf->temporary || !gguf->memory)
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    else if (!(gguf->file = fopen(temporary, "wbx")))
        dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", temporary,
                     strerror(errno));
    else
        return 0;
    dt_gguf_close(gguf, -1, NULL);
    return -1;
}

static void put(struct dt_gguf *gguf, const void *bytes, size_t count)
{
    gguf->failed |= fwrite(bytes, 1, count, gguf->memory) != count;
}

static void put_u32(struct dt_gguf *gguf, uint32_t value)
{
    put(gguf, &value, sizeof(value));
}

static void put_u64(struct dt_gguf *gguf, uint64_t value)
{
    put(gguf, &value, sizeof(value));
}

static void put_text(struct dt_gguf *gguf, const char *text)
{
    put_u64(gguf, strlen(text));
    put(gguf, text, strlen(text));
}

static void put_key(struct dt_gguf *gguf, const char *key, uint32_t type)
{
    gguf->value_count++;
    put_text(gguf, key);
    put_u32(gguf, type);
}

static void put_array(struct dt_gguf *gguf, const char *key, uint32_t type,
                      size_t count)
{
    put_key(gguf, key, ARRAY);
    put_u32(gguf, type);
    put_u64(gguf, count);
}

void dt_gguf_put_u32(struct dt_gguf *gguf, const char *key, uint32_t value)
{
    put_key(gguf, key, UINT32);
    put_u32(gguf, value);
}

void dt_gguf_put_f32(struct dt_gguf *gguf, const char *key, float value)
{
    put_key(gguf, key, FLOAT32);
    put(gguf, &value, sizeof(value));
}

void dt_gguf_put_bool(struct dt_gguf *gguf, const char *key, bool value)
{
    const char byte = value;
    put_key(gguf, key, BOOL);
    put(gguf, &byte, 1);
}

void dt_gguf_put_string(struct dt_gguf *gguf, const char *key,
                        const char *value)
{
    put_key(gguf, key, STRING);
    put_text(gguf, value);
}

void dt_gguf_put_strings(struct dt_gguf *gguf, const char *key,
                         const char *const *values, size_t count)
{
    put_array(gguf, key, STRING, count);
    for (size_t i = 0; i < count; i++)
        put_text(gguf, values[i]);
}

void dt_gguf_put_integers(struct dt_gguf *gguf, const char *key,
                          const int32_t *values, size_t count)
{
    put_array(gguf, key, INT32, count);
    put(gguf, values, count * sizeof(*values));
}

/* --- tensors --- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void dt_gguf_add_tensor(struct dt_gguf *gguf, const char *name,
                        enum dt_gguf_type type, int ndim, const size_t *shape)
{
    size_t count = 1;
    gguf->tensor_count++;
    put_text(gguf, name);
    put_u32(gguf, (uint32_t)ndim);
    for (int d = ndim; d-- > 0; count *= shape[d])
        put_u64(gguf, shape[d]);
    put_u32(gguf, type);
    put_u64(gguf, gguf->data_bytes);
    gguf->data_bytes += aligned(dt_gguf_bytes(type, count));
}

static void pad(struct dt_gguf *gguf, uint64_t bytes)
{
    static const char zeros[ALIGN];
    const size_t n = (size_t)(aligned(bytes) - bytes);
    gguf->failed |= fwrite(zeros, 1, n, gguf->file) != n;
}

void dt_gguf_begin_data(struct dt_gguf *gguf)
{
    const uint32_t version = FORMAT_VERSION;
    const uint64_t counts[] = {gguf->tensor_count, gguf->value_count};
    gguf->failed |= fflush(gguf->memory) != 0;
    gguf->failed |=
        fwrite("GGUF", 1, 4, gguf->file) != 4 ||
        fwrite(&version, sizeof(version), 1, gguf->file) != 1 ||
        fwrite(counts, sizeof(counts), 1, gguf->file) != 1 ||
        fwrite(gguf->values, 1, gguf->bytes, gguf->file) != gguf->bytes;
    pad(gguf, 4 + sizeof(version) + sizeof(counts) + gguf->bytes);
}

void dt_gguf_put_data(struct dt_gguf *gguf, const void *data, size_t bytes)
{
    gguf->failed |= fwrite(data, 1, bytes, gguf->file) != bytes;
    pad(gguf, bytes);
}

int dt_gguf_close(struct dt_gguf *gguf, int rc, struct dt_error *err)
{
    if (gguf->file) {
        gguf->failed |=
            fflush(gguf->file) != 0 || fsync(fileno(gguf->file)) < 0;
        gguf->failed |= fclose(gguf->file) != 0;
        if (rc == 0 && gguf->failed)
            rc = dt_error_set(err, EX_IOERR, "%s: cannot write: %s",
                              gguf->temporary, strerror(errno));
        if (rc == 0 && rename(gguf->temporary, gguf->path) < 0)
            rc = dt_error_set(err, EX_IOERR, "%s: cannot create: %s",
                              gguf->path, strerror(errno));
        if (rc < 0)
            unlink(gguf->temporary);
    }
    if (gguf->memory)
        fclose(gguf->memory);
    free(gguf->values);
    free(gguf->path);
    free(gguf->temporary);
    *gguf = (struct dt_gguf){0};
    return rc;
}
