/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_header.c - opens one file and checks its whole header */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/foreign.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/safetensors.h"

enum {
    MAX_HEADER_BYTES = 100 * 1000 * 1000, /* the format's limit */
};

static const struct st_dtype dtypes[] = {
    {"BOOL", 8, -1},        {"U8", 8, -1},         {"I8", 8, -1},
    {"I16", 16, -1},        {"U16", 16, -1},       {"I32", 32, DT_I32},
    {"U32", 32, -1},        {"I64", 64, DT_I64},   {"U64", 64, -1},
    {"F16", 16, DT_F16},    {"BF16", 16, DT_BF16}, {"F32", 32, DT_F32},
    {"F64", 64, DT_F64},    {"C64", 64, -1},       {"F8_E4M3", 8, -1},
    {"F8_E5M2", 8, -1},     {"F8_E8M0", 8, -1},    {"F8_E4M3FNUZ", 8, -1},
    {"F8_E5M2FNUZ", 8, -1}, {"F4", 4, -1},         {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},
};

int dt_safetensors_bad(const char *path, struct dt_error *err, const char *fmt,
                       ...)
{
    char text[DT_ERROR_TEXT_BYTES / 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    return dt_error_set(err, EX_DATAERR, "%s: %s", path, text);
}

int dt_safetensors_verify(const struct st_part *part, int result,
                          struct dt_error *err)
{
    struct stat st;
    if (result == 0 &&
        (stat(part->path, &st) < 0 || st.st_ino != part->inode ||
         st.st_dev != part->device || (size_t)st.st_size == part->bytes))
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "%s: changed its size while it was read, or its disk "
                        "has failed",
                        part->path);
}

static int out_of_memory(const struct st_part *part, struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "%s: out of memory", part->path);
}

static int map_file(struct st_part *part, int fd, struct dt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot open: %s", part->path,
                            strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dt_error_set(err, EX_NOINPUT, "%s: not a regular file",
                            part->path);
    part->device = st.st_dev;
    part->inode = st.st_ino;
    part->bytes = (size_t)st.st_size;
    if (part->bytes == 0)
        return dt_safetensors_bad(part->path, err, "empty");
    void *map = mmap(NULL, part->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return dt_error_set(err, EX_IOERR, "%s: cannot map %zu bytes: %s",
                            part->path, part->bytes, strerror(errno));
    part->map = map;
    return 0;
}

/* Opens with O_NONBLOCK, since a FIFO would block forever. */
static int open_file(struct st_part *part, struct dt_error *err)
{
    int fd = open(part->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dt_error_set(err,
                            dt_file_is_missing(errno) ? EX_NOINPUT : EX_IOERR,
                            "%s: cannot open: %s", part->path, strerror(errno));
    int rc = map_file(part, fd, err);
    close(fd);
    return rc;
}

/* --- the text of the header --- */

/* A range of the mapping that dt_guard_run copies. */
struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void copy_bytes(void *ctx)
{
    const struct copy *c = ctx;
    memcpy(c->to, c->from, c->bytes);
}

/* Copies bytes of a mapped file that the file is known to have. -1: EX_IOERR.
 */
static int copy_out(const struct st_part *part, uint64_t offset, void *to,
                    size_t bytes, struct dt_error *err)
{
    struct copy c = {to, part->map + offset, bytes};
    return dt_safetensors_verify(part, dt_guard_run(copy_bytes, &c), err);
}

static int check_length(const struct st_part *part, uint64_t length,
                        struct dt_error *err)
{
    if (length > MAX_HEADER_BYTES)
        return dt_safetensors_bad(part->path, err,
                                  "not a safetensors file: header of %" PRIu64
                                  " bytes, at most %d are allowed",
                                  length, MAX_HEADER_BYTES);
    if (length > part->bytes - 8)
        return dt_safetensors_bad(part->path, err,
                                  "cut short: header of %" PRIu64
                                  " bytes in a file of %zu",
                                  length, part->bytes);
    return 0;
}

static int parse_text(struct st_part *part, const char *text, size_t length,
                      struct dt_error *err)
{
    json_error_t why;
    if (length == 0 || text[0] != '{')
        return dt_safetensors_bad(part->path, err,
                                  "header does not begin with '{'");
    part->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (!part->header)
        return dt_safetensors_bad(part->path, err, "header byte %d: %s",
                                  why.position, why.text);
    return 0;
}

static int read_header(struct st_part *part, struct dt_error *err)
{
    uint64_t length;
    char begin[32];
    size_t bytes = part->bytes < sizeof(begin) ? part->bytes : sizeof(begin);
    if (copy_out(part, 0, begin, bytes, err) < 0 ||
        dt_foreign_pointer(part->path, begin, bytes, err) < 0)
        return -1;
    if (part->bytes < sizeof(length))
        return dt_safetensors_bad(
            part->path, err,
            "not a safetensors file: %zu bytes, shorter than the header length",
            part->bytes);
    memcpy(&length, begin, sizeof(length));
    length = le64toh(length);
    if (check_length(part, length, err) < 0)
        return -1;
    part->data = 8 + length;
    char *text = malloc(length + 1);
    if (!text)
        return out_of_memory(part, err);
    int rc = copy_out(part, 8, text, length, err);
    if (rc == 0)
        rc = parse_text(part, text, length, err);
    free(text);
    return rc;
}

/* --- the entries of the header --- */

static int check_metadata(const struct st_part *part, json_t *metadata,
                          struct dt_error *err)
{
    if (!json_is_object(metadata))
        return dt_safetensors_bad(part->path, err,
                                  "__metadata__ is not an object");
    for (void *i = json_object_iter(metadata); i;
         i = json_object_iter_next(metadata, i))
        if (!json_is_string(json_object_iter_value(i)))
            return dt_safetensors_bad(part->path, err,
                                      "__metadata__: \"%s\" is not a string",
                                      json_object_iter_key(i));
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

/* The type that the format calls `name`, or NULL. */
static const struct st_dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return &dtypes[i];
    return NULL;
}

static int parse_dtype(struct st_entry *entry, const json_t *value,
                       struct dt_error *err)
{
    const char *name = json_string_value(value);
    if (!name)
        return dt_safetensors_bad(entry->part->path, err,
                                  "tensor \"%s\": no dtype", entry->name);
    entry->dtype = find_dtype(name);
    if (!entry->dtype)
        return dt_safetensors_bad(entry->part->path, err,
                                  "tensor \"%s\": unknown dtype \"%s\"",
                                  entry->name, name);
    return 0;
}

/* Parses the shape into `entry` and computes its size in *bytes. */
static int parse_shape(struct st_entry *entry, const json_t *value,
                       uint64_t *bytes, struct dt_error *err)
{
    const char *path = entry->part->path;
    uint64_t bits = entry->dtype->bits;
    if (!json_is_array(value))
        return dt_safetensors_bad(path, err, "tensor \"%s\": no shape",
                                  entry->name);
    if (json_array_size(value) > ST_MAX_DIMS)
        return dt_safetensors_bad(
            path, err,
            "tensor \"%s\": %zu dimensions, at most %d are supported",
            entry->name, json_array_size(value), ST_MAX_DIMS);
    entry->ndim = (int)json_array_size(value);
    for (int d = 0; d < entry->ndim; d++) {
        uint64_t size;
        if (get_size(json_array_get(value, (size_t)d), &size) < 0)
            return dt_safetensors_bad(
                path, err, "tensor \"%s\": dimension %d is not an integer >= 0",
                entry->name, d);
        if (__builtin_mul_overflow(bits, size, &bits))
            return dt_safetensors_bad(
                path, err, "tensor \"%s\": the product of its shape overflows",
                entry->name);
        entry->shape[d] = size;
    }
    if (bits % 8)
        return dt_safetensors_bad(path, err,
                                  "tensor \"%s\": %" PRIu64
                                  " bits are not a whole number of bytes",
                                  entry->name, bits);
    *bytes = bits / 8;
    return 0;
}

static int parse_entry(struct st_entry *entry, const json_t *value,
                       struct dt_error *err)
{
    uint64_t bytes = 0;
    const char *path = entry->part->path;
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (!json_is_object(value))
        return dt_safetensors_bad(path, err, "tensor \"%s\": not an object",
                                  entry->name);
    if (parse_dtype(entry, json_object_get(value, "dtype"), err) < 0 ||
        parse_shape(entry, json_object_get(value, "shape"), &bytes, err) < 0)
        return -1;
    if (json_array_size(offsets) != 2 ||
        get_size(json_array_get(offsets, 0), &entry->begin) < 0 ||
        get_size(json_array_get(offsets, 1), &entry->end) < 0 ||
        entry->begin > entry->end)
        return dt_safetensors_bad(
            path, err,
            "tensor \"%s\": data_offsets are not two ascending integers >= 0",
            entry->name);
    if (entry->end - entry->begin != bytes)
        return dt_safetensors_bad(path, err,
                                  "tensor \"%s\": data_offsets span %" PRIu64
                                  " bytes, its shape and dtype take %" PRIu64,
                                  entry->name, entry->end - entry->begin,
                                  bytes);
    return 0;
}

static int by_begin(const void *pa, const void *pb)
{
    const struct st_entry *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Checks that the ranges follow each other from 0 to the end of the file. */
static int check_ranges(const struct st_part *part, struct st_entry *entries,
                        size_t count, struct dt_error *err)
{
    uint64_t at = 0, size = part->bytes - part->data;
    qsort(entries, count, sizeof(*entries), by_begin);
    for (size_t i = 0; i < count; i++) {
        const struct st_entry *entry = &entries[i];
        if (entry->begin != at)
            return dt_safetensors_bad(part->path, err,
                                      "tensor \"%s\": begins at %" PRIu64
                                      ", %s that ends at %" PRIu64,
                                      entry->name, entry->begin,
                                      entry->begin < at
                                          ? "inside the tensor before it"
                                          : "after a hole; the data before it",
                                      at);
        at = entry->end;
    }
    if (at != size)
        return dt_safetensors_bad(
            part->path, err,
            "%s: tensors take %" PRIu64 " bytes, the file has %" PRIu64,
            at > size ? "cut short" : "bytes after the last one", at, size);
    return 0;
}

/* Adds the entries of the header of `part` to st. */
static int parse_entries(struct dt_safetensors *st, const struct st_part *part,
                         struct dt_error *err)
{
    const char *name;
    json_t *value;
    size_t first = st->count;
    struct st_entry *entries =
        reallocarray(st->entries, first + json_object_size(part->header) + 1,
                     sizeof(*entries));
    if (!entries)
        return out_of_memory(part, err);
    st->entries = entries;
    json_object_foreach(part->header, name, value)
    {
        struct st_entry *entry = &entries[st->count];
        *entry = (struct st_entry){.name = name, .part = part};
        if (strcmp(name, "__metadata__") == 0) {
            if (check_metadata(part, value, err) < 0)
                return -1;
            continue;
        }
        if (parse_entry(entry, value, err) < 0)
            return -1;
        st->count++;
    }
    return check_ranges(part, entries + first, st->count - first, err);
}

int dt_safetensors_add(struct dt_safetensors *st, const char *path,
                       struct dt_error *err)
{
    struct st_part *part = &st->parts[st->part_count++];
    part->path = strdup(path);
    if (!part->path)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    return open_file(part, err) < 0 || read_header(part, err) < 0
               ? -1
               : parse_entries(st, part, err);
}
