/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.c - opens a file of torch.save(state_dict) as named tensors
 *
 * It is a zip archive of one folder: data.pkl, a pickle that describes the
 * tensors, and data/NAME, the bytes of each storage.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign.h"
#include "ckpt/torch_pickle.h"
#include "ckpt/torch_zip.h"

enum {
    PICKLE_BYTES = 64 << 20,
    STORAGE_NAME = 64,
};

/* An archive that is read. */
struct archive {
    struct dt_safetensors *st;
    struct st_part *part;
    struct zip zip;
    size_t names_bytes, names_room; /* of part->names */
    size_t room;                    /* of st->entries */
};

/* Where the bytes of a tensor are in the file. */
static int find_bytes(const struct archive *a, const struct pickle_tensor *t,
                      struct st_entry *entry, struct dt_error *err)
{
    char name[STORAGE_NAME + 8];
    const uint64_t width = entry->dtype->bits / 8;
    uint64_t count = 1, end;
    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d]; /* which the reader of the pickle has checked */
    if (t->storage_bytes > STORAGE_NAME)
        return dt_safetensors_bad(a->part->path, err,
                                  "the storage of \"%s\" "
                                  "has a long name",
                                  entry->name);
    snprintf(name, sizeof(name), "data/%.*s", (int)t->storage_bytes,
             t->storage);
    const struct zip_member *member = zip_find(&a->zip, name);
    if (!member)
        return dt_safetensors_bad(a->part->path, err,
                                  "tensor \"%s\": there is no %s", entry->name,
                                  name);
    if (__builtin_add_overflow(t->first, count, &end) ||
        __builtin_mul_overflow(end, width, &end) ||
        end > member->end - member->begin)
        return dt_safetensors_bad(
            a->part->path, err,
            "tensor \"%s\": %s has %" PRIu64 " bytes, too few for it",
            entry->name, name, member->end - member->begin);
    entry->begin = member->begin + t->first * width;
    entry->end = entry->begin + count * width;
    return 0;
}

/* Copies a name to where it lives as long as the part; NULL: it is none. */
static const char *keep_name(struct archive *a, const struct pickle_tensor *t)
{
    if (t->name_bytes >= a->names_room - a->names_bytes ||
        memchr(t->name, '\0', t->name_bytes))
        return NULL;
    char *name = a->part->names + a->names_bytes;
    memcpy(name, t->name, t->name_bytes);
    name[t->name_bytes] = '\0';
    a->names_bytes += t->name_bytes + 1;
    return name;
}

static int add_entry(void *ctx, const struct pickle_tensor *t,
                     struct dt_error *err)
{
    struct archive *a = ctx;
    struct dt_safetensors *st = a->st;
    if (st->count == a->room) {
        size_t room = 2 * a->room + 64;
        struct st_entry *entries =
            reallocarray(st->entries, room, sizeof(*entries));
        if (!entries)
            return dt_error_set(err, EX_OSERR, "out of memory");
        st->entries = entries;
        a->room = room;
    }
    struct st_entry *entry = &st->entries[st->count];
    *entry = (struct st_entry){.part = a->part, .ndim = t->ndim};
    entry->name = keep_name(a, t);
    if (!entry->name)
        return dt_safetensors_bad(a->part->path, err,
                                  "data.pkl: two tensors have one name, or one "
                                  "with U+0000");
    entry->dtype = dt_safetensors_find_dtype(t->dtype);
    for (int d = 0; d < t->ndim; d++)
        entry->shape[d] = t->shape[d];
    if (find_bytes(a, t, entry, err) < 0)
        return -1;
    st->count++;
    return 0;
}

/* --- the archive --- */

/* Numbers are little-endian; newer files say so. */
static int check_order(const struct archive *a, struct dt_error *err)
{
    char text[8] = "";
    const struct zip_member *order = zip_find(&a->zip, "byteorder");
    if (!order)
        return 0;
    size_t bytes = order->end - order->begin;
    if (bytes < sizeof(text) &&
        dt_safetensors_copy(a->part, order->begin, text, bytes, err) < 0)
        return -1;
    return strcmp(text, "little") == 0
               ? 0
               : dt_safetensors_bad(a->part->path, err,
                                    "its numbers are not little-endian");
}

static int read_pickle(struct archive *a, struct dt_error *err)
{
    const struct zip_member *member = zip_find(&a->zip, "data.pkl");
    struct dt_error inner = {0};
    if (zip_find(&a->zip, "constants.pkl"))
        return dt_safetensors_bad(a->part->path, err,
                                  "a program of TorchScript, not weights");
    if (!member)
        return dt_safetensors_bad(a->part->path, err,
                                  "no archive of torch.save: there is no "
                                  "data.pkl in it");
    const size_t bytes = member->end - member->begin;
    if (bytes > PICKLE_BYTES)
        return dt_safetensors_bad(a->part->path, err,
                                  "data.pkl has more than 64 MiB");
    char *pickle = malloc(bytes + 1);
    /* each name is there once, behind 5 bytes, unless it is used twice */
    a->names_room = bytes + 1;
    a->part->names = malloc(a->names_room);
    int rc =
        pickle && a->part->names
            ? 0
            : dt_error_set(err, EX_OSERR, "%s: out of memory", a->part->path);
    if (rc == 0)
        rc = dt_safetensors_copy(a->part, member->begin, pickle, bytes, err);
    if (rc == 0 && pickle_read(pickle, bytes, add_entry, a, &inner) < 0) {
        size_t n = strlen(a->part->path);
        bool whole = strncmp(inner.text, a->part->path, n) == 0;
        rc = dt_safetensors_bad(a->part->path, err, "%s",
                                inner.text + (whole ? n + 2 : 0));
        if (err)
            err->status = inner.status;
    }
    free(pickle);
    return rc;
}

/* Says what a file is that is no zip archive. */
static int check_magic(const struct st_part *part, struct dt_error *err)
{
    static const char old[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9";
    char begin[32] = "";
    size_t bytes = part->bytes < sizeof(begin) ? part->bytes : sizeof(begin);
    if (dt_safetensors_copy(part, 0, begin, bytes, err) < 0 ||
        dt_foreign_pointer(part->path, begin, bytes, err) < 0)
        return -1;
    if (memcmp(begin, old, sizeof(old) - 1) == 0)
        return dt_safetensors_bad(part->path, err,
                                  "the format of PyTorch before 1.6: let "
                                  "PyTorch write it again, "
                                  "torch.save(torch.load(FILE), FILE)");
    return memcmp(begin, "PK\x03\x04", 4) == 0
               ? 0
               : dt_safetensors_bad(part->path, err,
                                    "not a file of torch.save");
}

int dt_torch_add(struct dt_safetensors *st, const char *path,
                 struct dt_error *err)
{
    struct archive a = {.st = st, .room = st->count};
    a.part = dt_safetensors_map(st, path, err);
    int rc = -1;
    if (a.part && check_magic(a.part, err) == 0 &&
        zip_init(&a.zip, a.part, err) == 0 && check_order(&a, err) == 0)
        rc = read_pickle(&a, err);
    zip_fini(&a.zip);
    return rc;
}
