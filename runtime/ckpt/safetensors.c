/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - a safetensors file, checked in full before it is believed */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "ckpt/ckpt.h"

enum {
    MAX_HEADER_BYTES = 100 * 1000 * 1000, /* of the format */
    MAX_DIMS = 8,
    STAGE_ELEMENTS = 1 << 16, /* of a tensor that is widened while read */
};

struct dtype {
    const char *name;
    unsigned bits;
};

static const struct dtype dtypes[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"I16", 16},
    {"U16", 16},    {"I32", 32},        {"U32", 32},        {"I64", 64},
    {"U64", 64},    {"F16", 16},        {"BF16", 16},       {"F32", 32},
    {"F64", 64},    {"C64", 64},        {"F8_E4M3", 8},     {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

struct entry {
    const char *name; /* owned by the header */
    const struct dtype *dtype;
    int ndim;
    size_t shape[MAX_DIMS];
    uint64_t begin, end; /* bytes from the start of the data */
};

struct dt_safetensors {
    char *path;
    int fd;
    uint64_t bytes; /* of the file */
    uint64_t data;  /* where the data starts in the file */
    json_t *header;
    struct entry *entries; /* by name once open */
    size_t count;
};

static int bad(const struct dt_safetensors *file, struct dt_error *err,
               const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int bad(const struct dt_safetensors *file, struct dt_error *err,
               const char *fmt, ...)
{
    char text[DT_ERROR_TEXT_BYTES / 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++) /* names come from the file */
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    return dt_error_set(err, EX_DATAERR, "%s: %s", file->path, text);
}

static int read_at(const struct dt_safetensors *file, uint64_t offset,
                   void *data, size_t bytes, struct dt_error *err)
{
    char *p = data;
    while (bytes) {
        ssize_t n = pread(file->fd, p, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_error_set(err, EX_IOERR, "%s: cannot read: %s",
                                file->path, strerror(errno));
        if (n == 0)
            return bad(file, err, "became shorter while it was read");
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int open_file(struct dt_safetensors *file, const char *path,
                     struct dt_error *err)
{
    struct stat st;
    file->path = strdup(path);
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!file->path)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    if (file->fd < 0 || fstat(file->fd, &st) < 0)
        return dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", path,
                            strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dt_error_set(err, EX_NOINPUT, "%s: not a regular file", path);
    file->bytes = (uint64_t)st.st_size;
    return 0;
}

static int read_header(struct dt_safetensors *file, struct dt_error *err)
{
    uint64_t length;
    json_error_t why;
    if (file->bytes < 8)
        return bad(file, err,
                   "not a safetensors file: %" PRIu64
                   " bytes, shorter than the header length",
                   file->bytes);
    if (read_at(file, 0, &length, sizeof(length), err) < 0)
        return -1;
    length = le64toh(length);
    if (length > MAX_HEADER_BYTES)
        return bad(file, err,
                   "not a safetensors file: header of %" PRIu64
                   " bytes, at most %d are allowed",
                   length, MAX_HEADER_BYTES);
    if (length > file->bytes - 8)
        return bad(file, err,
                   "cut short: header of %" PRIu64 " bytes in a "
                   "file of %" PRIu64,
                   length, file->bytes);
    file->data = 8 + length;
    char *text = malloc(length + 1);
    if (!text)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", file->path);
    int rc = read_at(file, 8, text, length, err);
    if (rc == 0 && (length == 0 || text[0] != '{'))
        rc = bad(file, err, "header does not begin with '{'");
    if (rc == 0) {
        file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
        if (!file->header)
            rc = bad(file, err, "header byte %d: %s", why.position, why.text);
    }
    free(text);
    return rc;
}

static int check_metadata(const struct dt_safetensors *file, json_t *metadata,
                          struct dt_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return bad(file, err, "__metadata__ is not an object");
    json_object_foreach(metadata, key, value) if (
        !json_is_string(
            value)) return bad(file, err,
                               "__metadata__: \"%s\" is not a string", key);
    return 0;
}

/* A JSON integer >= 0, or -1. */
static int get_size(const json_t *value, uint64_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return -1;
    *size = (uint64_t)json_integer_value(value);
    return 0;
}

static int parse_dtype(const struct dt_safetensors *file, struct entry *entry,
                       const json_t *value, struct dt_error *err)
{
    const char *name = json_string_value(value);
    if (!name)
        return bad(file, err, "tensor \"%s\": no dtype", entry->name);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(name, dtypes[i].name) == 0)
            entry->dtype = &dtypes[i];
    if (!entry->dtype)
        return bad(file, err, "tensor \"%s\": unknown dtype \"%s\"",
                   entry->name, name);
    return 0;
}

/* Fills the shape and gives the bytes it takes. */
static int parse_shape(const struct dt_safetensors *file, struct entry *entry,
                       const json_t *value, uint64_t *bytes,
                       struct dt_error *err)
{
    uint64_t bits = entry->dtype->bits;
    if (!json_is_array(value))
        return bad(file, err, "tensor \"%s\": no shape", entry->name);
    if (json_array_size(value) > MAX_DIMS)
        return bad(file, err,
                   "tensor \"%s\": %zu dimensions, at most %d are "
                   "supported",
                   entry->name, json_array_size(value), MAX_DIMS);
    entry->ndim = (int)json_array_size(value);
    for (int d = 0; d < entry->ndim; d++) {
        uint64_t size;
        if (get_size(json_array_get(value, (size_t)d), &size) < 0)
            return bad(file, err,
                       "tensor \"%s\": dimension %d is not an "
                       "integer >= 0",
                       entry->name, d);
        if (__builtin_mul_overflow(bits, size, &bits))
            return bad(file, err,
                       "tensor \"%s\": the product of its shape "
                       "overflows",
                       entry->name);
        entry->shape[d] = size;
    }
    if (bits % 8)
        return bad(file, err,
                   "tensor \"%s\": %" PRIu64 " bits are no whole "
                   "number of bytes",
                   entry->name, bits);
    *bytes = bits / 8;
    return 0;
}

static int parse_entry(const struct dt_safetensors *file, struct entry *entry,
                       const char *name, const json_t *value,
                       struct dt_error *err)
{
    uint64_t bytes = 0;
    const json_t *offsets = json_object_get(value, "data_offsets");
    entry->name = name;
    if (!json_is_object(value))
        return bad(file, err, "tensor \"%s\": not an object", name);
    if (parse_dtype(file, entry, json_object_get(value, "dtype"), err) < 0 ||
        parse_shape(file, entry, json_object_get(value, "shape"), &bytes, err) <
            0)
        return -1;
    if (json_array_size(offsets) != 2 ||
        get_size(json_array_get(offsets, 0), &entry->begin) < 0 ||
        get_size(json_array_get(offsets, 1), &entry->end) < 0 ||
        entry->begin > entry->end)
        return bad(file, err,
                   "tensor \"%s\": data_offsets are not two "
                   "ascending integers >= 0",
                   name);
    if (entry->end - entry->begin != bytes)
        return bad(file, err,
                   "tensor \"%s\": data_offsets span %" PRIu64
                   " bytes, its shape and dtype take %" PRIu64,
                   name, entry->end - entry->begin, bytes);
    return 0;
}

static int parse_entries(struct dt_safetensors *file, struct dt_error *err)
{
    const char *name;
    json_t *value;
    file->entries =
        calloc(json_object_size(file->header) + 1, sizeof(*file->entries));
    if (!file->entries)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", file->path);
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (check_metadata(file, value, err) < 0)
                return -1;
        } else if (parse_entry(file, &file->entries[file->count++], name, value,
                               err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int by_begin(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static int by_name(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

/* Ranges follow each other from 0 to the end of the file. */
static int check_ranges(struct dt_safetensors *file, struct dt_error *err)
{
    uint64_t at = 0;
    qsort(file->entries, file->count, sizeof(*file->entries), by_begin);
    for (size_t i = 0; i < file->count; i++) {
        const struct entry *entry = &file->entries[i];
        if (entry->begin != at)
            return bad(file, err,
                       "tensor \"%s\": begins at %" PRIu64 ", %s "
                       "that ends at %" PRIu64,
                       entry->name, entry->begin,
                       entry->begin < at ? "inside the tensor before it"
                                         : "after a hole; the data before it",
                       at);
        at = entry->end;
    }
    if (at != file->bytes - file->data)
        return bad(file, err,
                   "%s: tensors take %" PRIu64 " bytes, the file "
                   "has %" PRIu64,
                   at > file->bytes - file->data ? "cut short"
                                                 : "bytes after the last one",
                   at, file->bytes - file->data);
    qsort(file->entries, file->count, sizeof(*file->entries), by_name);
    return 0;
}

struct dt_safetensors *dt_safetensors_open(const char *path,
                                           struct dt_error *err)
{
    struct dt_safetensors *file = calloc(1, sizeof(*file));
    if (!file) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        return NULL;
    }
    if (open_file(file, path, err) < 0 || read_header(file, err) < 0 ||
        parse_entries(file, err) < 0 || check_ranges(file, err) < 0) {
        dt_safetensors_close(file);
        return NULL;
    }
    return file;
}

void dt_safetensors_close(struct dt_safetensors *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    json_decref(file->header);
    free(file->entries);
    free(file->path);
    free(file);
}

size_t dt_safetensors_count(const struct dt_safetensors *file)
{
    return file->count;
}

const char *dt_safetensors_name(const struct dt_safetensors *file, size_t i)
{
    return file->entries[i].name;
}

/* "[2, 3]" */
static void print_shape(char *text, size_t room, int ndim, const size_t *shape)
{
    size_t n = (size_t)snprintf(text, room, "[");
    for (int d = 0; d < ndim && n < room; d++)
        n +=
            (size_t)snprintf(text + n, room - n, d ? ", %zu" : "%zu", shape[d]);
    if (n < room)
        snprintf(text + n, room - n, "]");
}

static int check_shape(const struct dt_safetensors *file,
                       const struct entry *entry, int ndim, const size_t *shape,
                       struct dt_error *err)
{
    char have[192], want[192];
    bool same = entry->ndim == ndim;
    for (int d = 0; same && d < ndim; d++)
        same = entry->shape[d] == shape[d];
    if (same)
        return 0;
    print_shape(have, sizeof(have), entry->ndim, entry->shape);
    print_shape(want, sizeof(want), ndim, shape);
    return bad(file, err, "tensor \"%s\" is %s, expected %s", entry->name, have,
               want);
}

static float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    uint32_t bits;
    float value;
    if (magnitude >= 0x7c00) /* infinity, NaN */
        bits = 0x7f800000 | (magnitude & 0x3ff) << 13;
    else if (magnitude >= 0x400)
        bits = (magnitude << 13) + (112U << 23);
    else {
        value = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &value, sizeof(bits));
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Reads 16-bit floats and widens them. */
static int read_widened(const struct dt_safetensors *file,
                        const struct entry *entry, float *out, size_t count,
                        float (*widen)(uint16_t), struct dt_error *err)
{
    uint16_t stage[STAGE_ELEMENTS];
    for (size_t done = 0; done < count;) {
        size_t n =
            count - done < STAGE_ELEMENTS ? count - done : STAGE_ELEMENTS;
        if (read_at(file, file->data + entry->begin + 2 * done, stage, 2 * n,
                    err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            out[done + i] = widen(le16toh(stage[i]));
        done += n;
    }
    return 0;
}

int dt_safetensors_read(const struct dt_safetensors *file, const char *name,
                        int ndim, const size_t *shape, struct dt_view view,
                        struct dt_error *err)
{
    struct entry key = {.name = name};
    const struct entry *entry =
        bsearch(&key, file->entries, file->count, sizeof(key), by_name);
    if (!entry)
        return bad(file, err, "no tensor \"%s\"", name);
    if (check_shape(file, entry, ndim, shape, err) < 0)
        return -1;
    const char *have = entry->dtype->name;
    const char *want = dt_dtype_name(view.dtype);
    if (strcmp(have, want) == 0)
        return read_at(file, file->data + entry->begin, dt_view_data(view),
                       entry->end - entry->begin, err);
    if (view.dtype == DT_F32 && strcmp(have, "BF16") == 0)
        return read_widened(file, entry, dt_view_f32(view), view.count,
                            bf16_to_f32, err);
    if (view.dtype == DT_F32 && strcmp(have, "F16") == 0)
        return read_widened(file, entry, dt_view_f32(view), view.count,
                            f16_to_f32, err);
    return bad(file, err, "tensor \"%s\" is %s, expected %s", name, have,
               view.dtype == DT_F32 ? "F32, BF16 or F16" : want);
}
