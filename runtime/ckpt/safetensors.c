/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - finds and reads tensors in files that were checked */
#include "config.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/json.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/safetensors.h"
#include "tensor/tensor.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files store little-endian numbers, which are read as they are");

enum {
    CHUNK = 1 << 18, /* elements of a piece, which one thread reads */
    BLOCK = 1 << 11, /* elements converted, then checked while in cache */
    AHEAD = 16,      /* pieces that the disk reads ahead */
};

/* Creates a set with room for `parts` files, none of them open yet. NULL and
 * err: EX_OSERR.
 */
static struct dt_safetensors *create_set(size_t parts, struct dt_error *err)
{
    struct dt_safetensors *st = calloc(1, sizeof(*st));
    if (st)
        st->parts = calloc(parts, sizeof(*st->parts));
    if (st && st->parts)
        return st;
    free(st);
    dt_error_set(err, EX_OSERR, "safetensors: out of memory");
    return NULL;
}

void dt_safetensors_close(struct dt_safetensors *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < st->part_count; i++) {
        struct st_part *part = &st->parts[i];
        if (part->map)
            munmap((void *)(uintptr_t)part->map, part->bytes);
        json_decref(part->header);
        free(part->path);
    }
    free(st->parts);
    free(st->entries);
    free(st);
}

static int by_name(const void *pa, const void *pb)
{
    const struct st_entry *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

/* Sorts all entries by name. -1: EX_DATAERR, a name is in two files. */
static int sort_entries(struct dt_safetensors *st, struct dt_error *err)
{
    if (st->count > 0)
        qsort(st->entries, st->count, sizeof(*st->entries), by_name);
    for (size_t i = 1; i < st->count; i++)
        if (by_name(&st->entries[i - 1], &st->entries[i]) == 0)
            return dt_safetensors_bad(
                st->entries[i].part->path, err, "tensor \"%s\" is in %s, too",
                st->entries[i].name, st->entries[i - 1].part->path);
    return 0;
}

struct dt_safetensors *dt_safetensors_open(const char *path,
                                           struct dt_error *err)
{
    struct dt_safetensors *st = create_set(1, err);
    if (st && dt_safetensors_add(st, path, err) == 0 &&
        sort_entries(st, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}

size_t dt_safetensors_count(const struct dt_safetensors *st)
{
    return st->count;
}

const char *dt_safetensors_name(const struct dt_safetensors *st, size_t i)
{
    return st->entries[i].name;
}

/* The entry called `name`, or NULL. */
static const struct st_entry *find_entry(const struct dt_safetensors *st,
                                         const char *name)
{
    const struct st_entry key = {.name = name};
    return bsearch(&key, st->entries, st->count, sizeof(key), by_name);
}

static const struct st_entry *find_tensor(const struct dt_safetensors *st,
                                          const char *name,
                                          struct dt_error *err)
{
    const struct st_entry *entry = find_entry(st, name);
    if (!entry)
        dt_safetensors_bad(st->parts[0].path, err, "no tensor \"%s\"", name);
    return entry;
}

int dt_safetensors_dtype(const struct dt_safetensors *st, const char *name,
                         enum dt_dtype *dtype)
{
    const struct st_entry *entry = find_entry(st, name);
    if (!entry || entry->dtype->dtype < 0)
        return -1;
    *dtype = (enum dt_dtype)entry->dtype->dtype;
    return 0;
}

int dt_safetensors_describe(const struct dt_safetensors *st, const char *name,
                            struct dt_ckpt_tensor *tensor, struct dt_error *err)
{
    const struct st_entry *entry = find_tensor(st, name, err);
    const size_t most = sizeof(tensor->shape) / sizeof(*tensor->shape);
    if (!entry)
        return -1;
    if (entry->dtype->dtype < 0 || (size_t)entry->ndim > most)
        return dt_safetensors_bad(
            entry->part->path, err,
            "tensor \"%s\" is %s in %d dimensions, which is not supported",
            name, entry->dtype->name, entry->ndim);
    *tensor = (struct dt_ckpt_tensor){
        .name = entry->name,
        .ndim = entry->ndim,
        .stored = (enum dt_dtype)entry->dtype->dtype,
    };
    tensor->view.dtype = tensor->stored;
    tensor->view.count =
        (entry->end - entry->begin) / dt_dtype_bytes(tensor->stored);
    memcpy(tensor->shape, entry->shape,
           (size_t)entry->ndim * sizeof(*tensor->shape));
    return 0;
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

static int check_shape(const struct st_entry *entry, int ndim,
                       const size_t *shape, struct dt_error *err)
{
    char have[192], want[192];
    bool same = entry->ndim == ndim;
    for (int d = 0; same && d < ndim; d++)
        same = entry->shape[d] == shape[d];
    if (same)
        return 0;
    print_shape(have, sizeof(have), entry->ndim, entry->shape);
    print_shape(want, sizeof(want), ndim, shape);
    return dt_safetensors_bad(entry->part->path, err,
                              "tensor \"%s\" is %s, expected %s", entry->name,
                              have, want);
}

static int check_dtype(const struct st_entry *entry, enum dt_dtype dtype,
                       struct dt_error *err)
{
    int have = entry->dtype->dtype;
    bool is_float = dt_dtype_is_float(dtype);
    if (have == (int)dtype ||
        (is_float && have >= 0 &&
         (have == DT_F64 || dt_dtype_is_float((enum dt_dtype)have))))
        return 0;
    return dt_safetensors_bad(
        entry->part->path, err, "tensor \"%s\" is %s, expected %s", entry->name,
        entry->dtype->name,
        is_float ? "F32, BF16, F16 or F64" : dt_dtype_name(dtype));
}

int dt_safetensors_check(const struct dt_safetensors *st, const char *name,
                         int ndim, const size_t *shape, enum dt_dtype dtype,
                         struct dt_error *err)
{
    const struct st_entry *entry = find_tensor(st, name, err);
    if (!entry)
        return -1;
    return check_shape(entry, ndim, shape, err) < 0
               ? -1
               : check_dtype(entry, dtype, err);
}

static const char *data_of(const struct st_entry *entry)
{
    return entry->part->map + entry->part->data + entry->begin;
}

/* A part of a tensor to copy from the mapping to a view. */
struct piece {
    const struct st_entry *entry;
    char *to;
    const char *from;
    enum dt_dtype to_dtype, from_dtype;
    size_t count;
    bool finite;   /* its values must be finite */
    bool lost;     /* result: its pages could not be read */
    bool infinite; /* result: a value is not finite and should be */
};

/* Whether n converted elements are finite. Widening cannot change that, so the
 * smaller source is checked; narrowing can overflow, so the result is.
 */
static bool is_finite(const struct piece *p, const char *to, const char *from,
                      size_t n)
{
    return p->to_dtype == DT_F32 && p->from_dtype != DT_F64
               ? dt_is_finite(from, p->from_dtype, n)
               : dt_is_finite(to, p->to_dtype, n);
}

static void convert_piece(void *ctx)
{
    struct piece *p = ctx;
    for (size_t i = 0; i < p->count; i += BLOCK) {
        size_t n = p->count - i < BLOCK ? p->count - i : BLOCK;
        char *to = p->to + i * dt_dtype_bytes(p->to_dtype);
        const char *from = p->from + i * dt_dtype_bytes(p->from_dtype);
        dt_convert(to, p->to_dtype, from, p->from_dtype, n);
        p->infinite |= p->finite && !is_finite(p, to, from, n);
    }
}

static size_t pieces_of(const struct dt_ckpt_tensor *tensor)
{
    return (tensor->view.count + CHUNK - 1) / CHUNK;
}

static void cut_tensor(const struct st_entry *entry,
                       const struct dt_ckpt_tensor *tensor,
                       struct piece *pieces)
{
    struct dt_view view = tensor->view;
    enum dt_dtype from = (enum dt_dtype)entry->dtype->dtype;
    assert((tensor->first + view.count) * dt_dtype_bytes(from) <=
           entry->end - entry->begin);
    for (size_t i = 0; i < pieces_of(tensor); i++) {
        size_t first = i * CHUNK, left = view.count - first;
        struct dt_view to =
            dt_view_slice(view, first, left < CHUNK ? left : CHUNK);
        pieces[i] = (struct piece){
            .entry = entry,
            .finite = tensor->finite && dt_dtype_is_float(view.dtype),
            .to = dt_view_data(to),
            .from =
                data_of(entry) + (tensor->first + first) * dt_dtype_bytes(from),
            .to_dtype = view.dtype,
            .from_dtype = from,
            .count = to.count,
        };
    }
}

/* Lets the disk start to read a piece; without this, a thread would wait for
 * each page in turn. It is only a hint, so its result does not matter.
 */
static void read_ahead(const struct piece *piece)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)piece->from / page * page;
    uintptr_t end = (uintptr_t)piece->from +
                    piece->count * dt_dtype_bytes(piece->from_dtype);
    madvise((void *)begin, end - begin, MADV_WILLNEED);
}

static int check_finite(const struct piece *pieces, size_t count,
                        struct dt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct piece *p = &pieces[i];
        bool narrowed = p->to_dtype == DT_F16 && p->from_dtype != DT_F16;
        bool wide = p->from_dtype == DT_F64 && !narrowed;
        if (p->infinite)
            return dt_safetensors_bad(
                p->entry->part->path, err,
                "tensor \"%s\" has values that are NaN or infinite%s",
                p->entry->name,
                narrowed ? ", or too large for fp16"
                : wide   ? ", or too large for fp32"
                         : "");
    }
    return 0;
}

static int read_pieces(struct piece *pieces, size_t count, struct dt_error *err)
{
    for (size_t i = 0; i < count && i < AHEAD; i++)
        read_ahead(&pieces[i]);
#pragma omp parallel for schedule(dynamic) if (count > 1)
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            read_ahead(&pieces[i + AHEAD]);
        pieces[i].lost = dt_guard_run(convert_piece, &pieces[i]) < 0;
    }
    for (size_t i = 0; i < count; i++) {
        const struct st_part *part = pieces[i].entry->part;
        if ((pieces[i].lost || i == 0 || part != pieces[i - 1].entry->part) &&
            dt_safetensors_verify(part, pieces[i].lost ? -1 : 0, err) < 0)
            return -1;
    }
    return check_finite(pieces, count, err);
}

int dt_safetensors_read_all(const struct dt_safetensors *st,
                            const struct dt_ckpt_tensor *tensors, size_t count,
                            struct dt_error *err)
{
    size_t piece_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dt_ckpt_tensor *t = &tensors[i];
        if (dt_safetensors_check(st, t->name, t->ndim, t->shape, t->view.dtype,
                                 err) < 0)
            return -1;
        piece_count += pieces_of(t);
    }
    struct piece *pieces = calloc(piece_count + 1, sizeof(*pieces));
    if (!pieces)
        return dt_error_set(err, EX_OSERR, "safetensors: out of memory");
    size_t first = 0;
    for (size_t i = 0; i < count; first += pieces_of(&tensors[i++]))
        cut_tensor(find_entry(st, tensors[i].name), &tensors[i],
                   pieces + first);
    int rc = read_pieces(pieces, piece_count, err);
    free(pieces);
    return rc;
}

/* The two tensors that dt_safetensors_equal compares in dt_guard_run. */
struct pair {
    const struct st_entry *a, *b;
    bool equal;
};

static void compare_tensors(void *ctx)
{
    struct pair *pair = ctx;
    size_t bytes = pair->a->end - pair->a->begin;
    pair->equal = memcmp(data_of(pair->a), data_of(pair->b), bytes) == 0;
}

int dt_safetensors_equal(const struct dt_safetensors *st, const char *a,
                         const char *b, struct dt_error *err)
{
    struct pair pair = {.a = find_tensor(st, a, err)};
    pair.b = pair.a ? find_tensor(st, b, err) : NULL;
    if (!pair.b)
        return -1;
    if (pair.a->dtype != pair.b->dtype ||
        check_shape(pair.a, pair.b->ndim, pair.b->shape, NULL) < 0)
        return 0;
    int rc = dt_guard_run(compare_tensors, &pair);
    if (dt_safetensors_verify(pair.a->part, rc, err) < 0 ||
        dt_safetensors_verify(pair.b->part, rc, err) < 0)
        return -1;
    return pair.equal;
}

/* --- the files of a model --- */

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

enum {
    MAX_INDEX_BYTES = 100 * 1000 * 1000,
};

/* Its name in the directory of the model. */
static const char *file_of(const struct st_part *part, const char *dir)
{
    return part->path + strlen(dir) + 1;
}

/* Opens <dir>/<file> unless it is open already. */
static int add_file(struct dt_safetensors *st, const char *dir,
                    const char *file, struct dt_error *err)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < st->part_count; i++)
        if (strcmp(file_of(&st->parts[i], dir), file) == 0)
            return 0;
    if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    return dt_safetensors_add(st, path, err);
}

/* Whether `file` is in the same directory or below it, by a name that can be
 * printed.
 */
static bool is_below(const char *file)
{
    for (const char *p = file; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    return *file && *file != '/' && !strstr(file, "..");
}

/* Opens every file that `map` names. */
static int add_files(struct dt_safetensors *st, const char *dir,
                     const char *index, json_t *map, struct dt_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (!file)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\": expected the name of a "
                                      "file",
                                      name);
        if (!is_below(file))
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\": \"%s\" is not the name "
                                      "of a file beside or below the index",
                                      name, file);
        if (add_file(st, dir, file, err) < 0)
            return dt_error_prefix(err, "%s", index);
    }
    return 0;
}

/* Checks that the index and the files list the same tensors. */
static int check_map(const struct dt_safetensors *st, const char *dir,
                     const char *index, json_t *map, struct dt_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const struct st_entry *entry = find_entry(st, name);
        const char *file = json_string_value(value);
        if (!entry)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\" is not in %s, nor in any "
                                      "other file",
                                      name, file);
        if (strcmp(file_of(entry->part, dir), file) != 0)
            return dt_safetensors_bad(index, err,
                                      "tensor \"%s\" is in %s, not in %s", name,
                                      file_of(entry->part, dir), file);
    }
    for (size_t i = 0; i < st->count; i++)
        if (!json_object_get(map, st->entries[i].name))
            return dt_safetensors_bad(
                index, err, "tensor \"%s\" of %s is not listed",
                st->entries[i].name, file_of(st->entries[i].part, dir));
    return 0;
}

static struct dt_safetensors *open_map(const char *dir, const char *index,
                                       json_t *map, struct dt_error *err)
{
    if (json_object_size(map) == 0) {
        dt_safetensors_bad(index, err, "no weight_map");
        return NULL;
    }
    struct dt_safetensors *st = create_set(json_object_size(map), err);
    if (st && add_files(st, dir, index, map, err) == 0 &&
        sort_entries(st, err) == 0 && check_map(st, dir, index, map, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}

static struct dt_safetensors *open_index(const char *dir, const char *index,
                                         struct dt_error *err)
{
    char *text = dt_file_read(index, MAX_INDEX_BYTES, err);
    if (!text)
        return NULL;
    json_t *root = dt_json_parse(index, text, err);
    free(text);
    if (!root)
        return NULL;
    struct dt_safetensors *st =
        open_map(dir, index, json_object_get(root, "weight_map"), err);
    json_decref(root);
    return st;
}

struct dt_safetensors *dt_safetensors_open_model(const char *dir,
                                                 struct dt_error *err)
{
    char single[PATH_MAX], index[PATH_MAX];
    snprintf(single, sizeof(single), "%s/" SINGLE, dir);
    if (snprintf(index, sizeof(index), "%s/" INDEX, dir) >=
        (int)sizeof(index)) {
        dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
        return NULL;
    }
    int whole = dt_file_exists(single, err);
    int sharded = whole < 0 ? -1 : dt_file_exists(index, err);
    if (sharded < 0)
        return NULL;
    if (whole)
        return dt_safetensors_open(single, err);
    if (sharded)
        return open_index(dir, index, err);
    if (dt_foreign_weights(dir, err) < 0)
        return NULL;
    dt_error_set(err, EX_NOINPUT,
                 "%s: no weights here: expected " SINGLE ", or " INDEX
                 " and its shards",
                 dir);
    return NULL;
}

struct dt_safetensors *dt_safetensors_open_set(const char *dir,
                                               char *const *names, size_t count,
                                               struct dt_error *err)
{
    struct dt_safetensors *st = create_set(count, err);
    int rc = st ? 0 : -1;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_file(st, dir, names[i], err);
    if (rc == 0 && sort_entries(st, err) == 0)
        return st;
    dt_safetensors_close(st);
    return NULL;
}
