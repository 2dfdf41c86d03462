/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes files that are checksummed on the way */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <unistd.h>

#include "base/fault.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/safetensors.h"
#include "tensor/tensor.h"

/* --- a file that is checksummed while it is written --- */

enum {
    CHUNK_BYTES = 4 << 20, /* small enough to hash and write from the cache */
};

static void release_sink(struct dt_ckpt_sink *sink)
{
    XXH3_freeState(sink->state);
    free(sink->path);
}

int dt_ckpt_sink_init(struct dt_ckpt_sink *sink, struct dt_ckpt_stage *stage,
                      const char *path, struct dt_error *err)
{
    sink->stage = stage;
    if (stage)
        return dt_ckpt_stage_file(stage, path, err);
    sink->path = strdup(path);
    sink->state = XXH3_createState();
    if (!sink->path || !sink->state) {
        release_sink(sink);
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    }
    XXH3_64bits_reset(sink->state);
    sink->written = sink->flushed = 0;
    sink->direct = false;
    sink->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (sink->fd < 0) {
        release_sink(sink);
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", path,
                            strerror(errno));
    }
    return 0;
}

/* write(2), or the failure that a test injects. */
static ssize_t write_some(int fd, const void *data, size_t bytes)
{
    if (dt_fault("ckpt.write")) {
        errno = ENOSPC;
        return -1;
    }
    return write(fd, data, bytes);
}

void dt_ckpt_sink_direct(struct dt_ckpt_sink *sink, bool direct)
{
    const int flags = fcntl(sink->fd, F_GETFL) & ~O_DIRECT;
    sink->direct =
        fcntl(sink->fd, F_SETFL, direct ? flags | O_DIRECT : flags) == 0 &&
        direct;
}

/* Some file systems offer it, and refuse a write then. */
static bool is_refused_direct(struct dt_ckpt_sink *sink)
{
    if (errno != EINVAL || !sink->direct)
        return false;
    dt_ckpt_sink_direct(sink, false);
    return true;
}

static int write_chunk(struct dt_ckpt_sink *sink, const char *data,
                       size_t bytes, struct dt_error *err)
{
    while (bytes) {
        ssize_t n = write_some(sink->fd, data, bytes);
        if (n < 0 && (errno == EINTR || is_refused_direct(sink)))
            continue;
        if (n < 0)
            return dt_error_set(err, EX_IOERR, "%s: cannot write: %s",
                                sink->path, strerror(errno));
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Starts to write dirty pages now instead of all at once in fsync, which is
 * more than twice as fast. It is only a hint, so its result does not matter.
 */
static void flush_early(struct dt_ckpt_sink *sink)
{
    off_t bytes = sink->written - sink->flushed;
    if (bytes < CHUNK_BYTES)
        return;
    sync_file_range(sink->fd, sink->flushed, bytes, SYNC_FILE_RANGE_WRITE);
    sink->flushed = sink->written;
}

int dt_ckpt_sink_write(struct dt_ckpt_sink *sink, const void *data,
                       size_t bytes, struct dt_error *err)
{
    const char *p = data;
    if (sink->stage)
        return dt_ckpt_stage_put(sink->stage, data, bytes, err);
    while (bytes) {
        size_t n = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        XXH3_64bits_update(sink->state, p, n);
        if (write_chunk(sink, p, n, err) < 0)
            return -1;
        sink->written += (off_t)n;
        flush_early(sink);
        p += n;
        bytes -= n;
    }
    return 0;
}

/* fsync(2), or the failure that a test injects. Returns 0 or an errno. */
static int sync_file(int fd)
{
    int rc;
    if (dt_fault("ckpt.fsync"))
        return EIO;
    while ((rc = fsync(fd)) < 0 && errno == EINTR)
        ;
    return rc < 0 ? errno : 0;
}

int dt_ckpt_sink_finish(struct dt_ckpt_sink *sink, uint64_t *xxh3,
                        struct dt_error *err)
{
    *xxh3 = 0;
    if (sink->stage)
        return 0;
    int bad = sync_file(sink->fd);
    /* NFS and quotas may report a full disk only here. After EINTR, Linux has
     * closed the file.
     */
    if (close(sink->fd) < 0 && errno != EINTR && !bad)
        bad = errno;
    if (bad) {
        dt_error_set(err, EX_IOERR, "%s: cannot sync: %s", sink->path,
                     strerror(bad));
        unlink(sink->path);
    }
    *xxh3 = XXH3_64bits_digest(sink->state);
    release_sink(sink);
    return bad ? -1 : 0;
}

void dt_ckpt_sink_abandon(struct dt_ckpt_sink *sink)
{
    if (sink->stage) {
        dt_ckpt_stage_drop(sink->stage);
        return;
    }
    close(sink->fd);
    unlink(sink->path);
    release_sink(sink);
}

/* --- tensors --- */

enum {
    STAGE = 1 << 22, /* elements converted at a time */
};

/* The reference writer puts wide types first, so that every tensor is aligned
 * to the size of its elements.
 */
static int dtype_rank(enum dt_dtype dtype)
{
    switch (dtype) {
    case DT_I64:
        return 0;
    case DT_F32:
        return 1;
    case DT_I32:
        return 2;
    case DT_BF16:
        return 3;
    default:
        return 4;
    }
}

static int compare_tensors(const void *pa, const void *pb)
{
    const struct dt_ckpt_tensor *a = *(const struct dt_ckpt_tensor *const *)pa;
    const struct dt_ckpt_tensor *b = *(const struct dt_ckpt_tensor *const *)pb;
    int d = dtype_rank(a->stored) - dtype_rank(b->stored);
    return d ? d : strcmp(a->name, b->name);
}

static size_t stored_bytes(const struct dt_ckpt_tensor *tensor)
{
    return tensor->view.count * dt_dtype_bytes(tensor->stored);
}

/* {"dtype": .., "shape": [..], "data_offsets": [begin, end]}, or NULL */
static json_t *describe_tensor(const struct dt_ckpt_tensor *tensor,
                               size_t begin)
{
    json_t *shape = json_array();
    for (int d = 0; shape && d < tensor->ndim; d++)
        json_array_append_new(shape,
                              json_integer((json_int_t)tensor->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     dt_dtype_name(tensor->stored), "shape", shape,
                     "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + stored_bytes(tensor)));
}

/* The header as text padded with spaces to *bytes, a multiple of 8, or NULL. */
static char *make_header(const struct dt_ckpt_tensor **sorted, size_t count,
                         size_t *bytes)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    size_t begin = 0;
    bool ok = root != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        ok = json_object_set_new(root, sorted[i]->name,
                                 describe_tensor(sorted[i], begin)) == 0;
        begin += stored_bytes(sorted[i]);
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    size_t n = strlen(text);
    *bytes = (n + 7) / 8 * 8;
    char *padded = realloc(text, *bytes + 1);
    if (!padded) {
        free(text);
        return NULL;
    }
    memset(padded + n, ' ', *bytes - n);
    return padded;
}

static void convert_view(void *stage, enum dt_dtype stored, struct dt_view view)
{
    const char *from = dt_view_data(view);
    char *to = stage;
    size_t from_bytes = dt_dtype_bytes(view.dtype);
    size_t to_bytes = dt_dtype_bytes(stored);
    enum { PIECE = STAGE / 64 };
#pragma omp parallel for
    for (size_t first = 0; first < view.count; first += PIECE) {
        size_t left = view.count - first;
        dt_convert(to + first * to_bytes, stored, from + first * from_bytes,
                   view.dtype, left < PIECE ? left : PIECE);
    }
}

static int write_view(struct dt_ckpt_sink *sink, struct dt_view view,
                      enum dt_dtype stored, void *stage, struct dt_error *err)
{
    if (stored == view.dtype)
        return dt_ckpt_sink_write(sink, dt_view_data(view),
                                  view.count * dt_dtype_bytes(stored), err);
    for (size_t first = 0; first < view.count; first += STAGE) {
        size_t left = view.count - first;
        struct dt_view part =
            dt_view_slice(view, first, left < STAGE ? left : STAGE);
        convert_view(stage, stored, part);
        if (dt_ckpt_sink_write(sink, stage, part.count * dt_dtype_bytes(stored),
                               err) < 0)
            return -1;
    }
    return 0;
}

/* The tensors in the order of the file; NULL: out of memory. */
static const struct dt_ckpt_tensor **sort_tensors(
    const struct dt_ckpt_tensor *tensors, size_t count)
{
    const struct dt_ckpt_tensor **sorted = calloc(count + 1, sizeof(*sorted));
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &tensors[i];
    if (sorted)
        qsort(sorted, count, sizeof(*sorted), compare_tensors);
    return sorted;
}

static int fetch_tensor(const struct dt_ckpt_tensor *tensor,
                        const struct dt_ckpt_source *source,
                        struct dt_view *view, struct dt_error *err)
{
    *view = tensor->view;
    return source ? source->fetch(source->ctx, tensor, view, err) : 0;
}

static int write_header(struct dt_ckpt_sink *sink, const char *header,
                        size_t bytes, struct dt_error *err)
{
    uint64_t length = htole64(bytes);
    if (dt_ckpt_sink_write(sink, &length, sizeof(length), err) < 0)
        return -1;
    return dt_ckpt_sink_write(sink, header, bytes, err);
}

/* Has a tensor sent to the stage, where it comes as it is. 1; 0: it is to be
 * fetched.
 */
static int send_tensor(struct dt_ckpt_sink *sink,
                       const struct dt_ckpt_tensor *tensor,
                       const struct dt_ckpt_source *source,
                       struct dt_error *err)
{
    if (!sink->stage || !source || !source->send ||
        tensor->stored != tensor->view.dtype)
        return 0;
    void *to = dt_ckpt_stage_room(sink->stage, stored_bytes(tensor), err);
    return to && source->send(source->ctx, tensor, to, err) == 0 ? 1 : -1;
}

/* Fetches all of them; `rc`: -1 if nothing can be written any more. */
static int write_tensors(struct dt_ckpt_sink *sink, int rc,
                         const struct dt_ckpt_tensor **sorted, size_t count,
                         const struct dt_ckpt_source *source, void *stage,
                         struct dt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct dt_view view;
        const int sent =
            rc == 0 ? send_tensor(sink, sorted[i], source, err) : 0;
        if (sent < 0 ||
            (sent == 0 && fetch_tensor(sorted[i], source, &view, err) < 0))
            return -1;
        if (rc == 0 && sent == 0)
            rc = write_view(sink, view, sorted[i]->stored, stage, err);
    }
    return rc;
}

int dt_safetensors_put(struct dt_ckpt_stage *stage, const char *path,
                       const struct dt_ckpt_tensor *tensors, size_t count,
                       const struct dt_ckpt_source *source, uint64_t *xxh3,
                       struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    size_t header_bytes;
    const struct dt_ckpt_tensor **sorted = sort_tensors(tensors, count);
    char *header = sorted ? make_header(sorted, count, &header_bytes) : NULL;
    float *room = malloc(STAGE * sizeof(*room));
    int rc = -1;
    bool open = false;
    if (!header || !room) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    } else {
        open = dt_ckpt_sink_init(&sink, stage, path, err) == 0;
        if (open)
            rc = write_header(&sink, header, header_bytes, err);
    }
    if (sorted)
        rc = write_tensors(&sink, rc, sorted, count, source, room, err);
    if (open && rc < 0)
        dt_ckpt_sink_abandon(&sink);
    else if (open)
        rc = dt_ckpt_sink_finish(&sink, xxh3, err);
    free(room);
    free(header);
    free(sorted);
    return rc;
}

int dt_safetensors_write(const char *path, const struct dt_ckpt_tensor *tensors,
                         size_t count, const struct dt_ckpt_source *source,
                         uint64_t *xxh3, struct dt_error *err)
{
    return dt_safetensors_put(NULL, path, tensors, count, source, xxh3, err);
}

int dt_safetensors_fetch(const struct dt_ckpt_tensor *tensors, size_t count,
                         const struct dt_ckpt_source *source,
                         struct dt_error *err)
{
    const struct dt_ckpt_tensor **sorted = sort_tensors(tensors, count);
    struct dt_view view;
    int rc = sorted ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = fetch_tensor(sorted[i], source, &view, err);
    free(sorted);
    return rc;
}
