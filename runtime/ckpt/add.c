/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - adds files of tensors, of text and copies to a checkpoint */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/safetensors.h"

int dt_ckpt_add_sum(struct dt_ckpt_writer *writer, const char *file,
                    uint64_t xxh3, struct dt_error *err)
{
    if (writer->stage) /* dt_ckpt_write does this */
        return 0;
    char *sums = dt_ckpt_format(err, "%sXXH3 (%s%s) = %016" PRIx64 "\n",
                                writer->sums, writer->folder, file, xxh3);
    if (!sums)
        return -1;
    free(writer->sums);
    writer->sums = sums;
    return 0;
}

/* The path of a file to add; the caller frees. */
static char *name_file(const struct dt_ckpt_writer *writer, const char *file,
                       struct dt_error *err)
{
    assert(!strpbrk(file, "/\n"));
    return dt_ckpt_format(err, "%s/%s%s", writer->temp, writer->folder, file);
}

/* Creates `file` in the temporary directory. */
static int begin_file(const struct dt_ckpt_writer *writer, const char *file,
                      struct dt_ckpt_sink *sink, struct dt_error *err)
{
    char *path = name_file(writer, file, err);
    int rc = path ? dt_ckpt_sink_init(sink, writer->stage, path, err) : -1;
    free(path);
    return rc;
}

int dt_ckpt_add_tensors(struct dt_ckpt_writer *writer, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t count,
                        const struct dt_ckpt_source *source,
                        struct dt_error *err)
{
    uint64_t xxh3;
    char *path = name_file(writer, file, err);
    int rc = path ? dt_safetensors_put(writer->stage, path, tensors, count,
                                       source, &xxh3, err)
                  : -1;
    free(path);
    return rc < 0 ? -1 : dt_ckpt_add_sum(writer, file, xxh3, err);
}

int dt_ckpt_write_text(struct dt_ckpt_writer *writer, const char *file,
                       const char *text, uint64_t *xxh3, struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    if (begin_file(writer, file, &sink, err) < 0)
        return -1;
    if (dt_ckpt_sink_write(&sink, text, strlen(text), err) < 0) {
        dt_ckpt_sink_abandon(&sink);
        return -1;
    }
    return dt_ckpt_sink_finish(&sink, xxh3, err);
}

int dt_ckpt_add_text(struct dt_ckpt_writer *writer, const char *file,
                     const char *text, struct dt_error *err)
{
    uint64_t xxh3;
    if (dt_ckpt_write_text(writer, file, text, &xxh3, err) < 0)
        return -1;
    return dt_ckpt_add_sum(writer, file, xxh3, err);
}

/* Copies the open file `fd`; EX_DATAERR if it is larger than max_bytes. Its
 * size is counted while it is read, since another process may still write it.
 */
static int copy_fd(int fd, const char *source, size_t max_bytes,
                   struct dt_ckpt_sink *sink, struct dt_error *err)
{
    char data[1 << 16];
    for (size_t all = 0;;) {
        ssize_t n = read(fd, data, sizeof(data));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_error_set(err, EX_IOERR, "%s: cannot read: %s", source,
                                strerror(errno));
        if (n == 0)
            return 0;
        all += (size_t)n;
        if (all > max_bytes)
            return dt_error_set(err, EX_DATAERR,
                                "%s: larger than %zu bytes, not copied", source,
                                max_bytes);
        if (dt_ckpt_sink_write(sink, data, (size_t)n, err) < 0)
            return -1;
    }
}

static int copy_file(struct dt_ckpt_writer *writer, const char *file, int fd,
                     const char *source, size_t max_bytes, struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    struct stat st;
    uint64_t xxh3;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return dt_error_set(err, EX_DATAERR, "%s: not a regular file", source);
    if (begin_file(writer, file, &sink, err) < 0)
        return -1;
    if (copy_fd(fd, source, max_bytes, &sink, err) < 0) {
        dt_ckpt_sink_abandon(&sink);
        return -1;
    }
    if (dt_ckpt_sink_finish(&sink, &xxh3, err) < 0)
        return -1;
    return dt_ckpt_add_sum(writer, file, xxh3, err);
}

/* Notes it, so that a disk which does not answer holds up only the writing. */
static int add_copy_later(struct dt_ckpt_writer *writer, const char *file,
                          const char *dir, size_t max_bytes,
                          struct dt_error *err)
{
    char *path = name_file(writer, file, err);
    int rc = path ? dt_ckpt_stage_copy(writer->stage, path, dir, max_bytes, err)
                  : -1;
    free(path);
    return rc;
}

int dt_ckpt_add_copy(struct dt_ckpt_writer *writer, const char *file,
                     const char *dir, size_t max_bytes, struct dt_error *err)
{
    int rc = -1;
    if (writer->stage)
        return add_copy_later(writer, file, dir, max_bytes, err);
    char *source = dt_ckpt_format(err, "%s/%s", dir, file);
    int fd = source ? open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0)
        rc = copy_file(writer, file, fd, source, max_bytes, err);
    else if (source && errno == ENOENT)
        rc = 0;
    else if (source)
        dt_error_set(err, dt_file_is_missing(errno) ? EX_NOINPUT : EX_IOERR,
                     "%s: cannot open: %s", source, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(source);
    return rc;
}

/* --- the weights of a model, as one file or as shards --- */

/* The end of the shard that starts at tensor `first`, and its size in *bytes.
 * A shard takes as many tensors as fit into max_bytes, and at least one.
 */
static size_t shard_end(const struct dt_ckpt_tensor *tensors, size_t count,
                        size_t first, size_t max_bytes, size_t *bytes)
{
    size_t i = first;
    for (*bytes = 0; i < count; i++) {
        size_t more = tensors[i].view.count * dt_dtype_bytes(tensors[i].stored);
        if (i > first && *bytes + more > max_bytes)
            break;
        *bytes += more;
    }
    return i;
}

/* Maps the tensors first .. end - 1 to `file` in the index. */
static int list_tensors(json_t *map, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t first,
                        size_t end)
{
    for (size_t i = first; i < end; i++)
        if (json_object_set_new(map, tensors[i].name, json_string(file)) < 0)
            return -1;
    return 0;
}

static int add_index(struct dt_ckpt_writer *writer, json_t *map, size_t bytes,
                     struct dt_error *err)
{
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size",
                             (json_int_t)bytes, "weight_map", map);
    char *text =
        root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    int rc = text ? dt_ckpt_add_text(writer, "model.safetensors.index.json",
                                     text, err)
                  : dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    free(text);
    json_decref(root);
    return rc;
}

/* Writes file k, or fetches its tensors if another rank writes it, or if
 * nothing can be written any more (`rc` is -1).
 */
static int add_file(struct dt_ckpt_writer *writer, size_t k, int world, int rc,
                    const char *file, const struct dt_ckpt_tensor *tensors,
                    size_t count, const struct dt_ckpt_source *source,
                    struct dt_error *err)
{
    if (rc == 0 && k % (size_t)world == (size_t)writer->rank)
        return dt_ckpt_add_tensors(writer, file, tensors, count, source, err);
    if (!source)
        return rc;
    struct dt_error *first = rc < 0 ? NULL : err;
    return dt_safetensors_fetch(tensors, count, source, first) < 0 ? -1 : rc;
}

static int add_shards(struct dt_ckpt_writer *writer, int world,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, size_t shards,
                      const struct dt_ckpt_source *source, struct dt_error *err)
{
    char file[64];
    size_t first = 0, total = 0, bytes;
    json_t *map = json_object();
    int rc = map ? 0 : dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    for (size_t k = 0; k < shards; k++) {
        size_t end = shard_end(tensors, count, first, max_bytes, &bytes);
        snprintf(file, sizeof(file), "model-%05zu-of-%05zu.safetensors", k + 1,
                 shards);
        rc = add_file(writer, k, world, rc, file, tensors + first, end - first,
                      source, err);
        if (rc == 0 && list_tensors(map, file, tensors, first, end) < 0)
            rc = dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
        first = end;
        total += bytes;
    }
    if (rc == 0 && writer->rank == 0)
        rc = add_index(writer, map, total, err);
    json_decref(map);
    return rc;
}

int dt_ckpt_add_shared(struct dt_ckpt_writer *writer, int world,
                       const char *file, const struct dt_ckpt_tensor *tensors,
                       size_t count, const struct dt_ckpt_source *source,
                       struct dt_error *err)
{
    return add_file(writer, 0, world, 0, file, tensors, count, source, err);
}

int dt_ckpt_add_model(struct dt_ckpt_writer *writer, int world,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, const struct dt_ckpt_source *source,
                      struct dt_error *err)
{
    size_t shards = 0, bytes;
    for (size_t first = 0; first < count; shards++)
        first = shard_end(tensors, count, first, max_bytes, &bytes);
    if (shards > 1)
        return add_shards(writer, world, tensors, count, max_bytes, shards,
                          source, err);
    return dt_ckpt_add_shared(writer, world, "model.safetensors", tensors,
                              count, source, err);
}
