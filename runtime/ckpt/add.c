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

#include "base/file.h"
#include "ckpt/checkpoint_impl.h"
#include "ckpt/ckpt_sink.h"

static int add_sum(struct dt_ckpt_writer *writer, const char *file,
                   uint64_t xxh3, struct dt_error *err)
{
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
    int rc = path ? dt_ckpt_sink_init(sink, path, err) : -1;
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
    int rc =
        path ? dt_safetensors_write(path, tensors, count, source, &xxh3, err)
             : -1;
    free(path);
    return rc < 0 ? -1 : add_sum(writer, file, xxh3, err);
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
    return add_sum(writer, file, xxh3, err);
}

/* Copies the file behind `fd`; EX_DATAERR if it is larger than max_bytes. Its
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
    return add_sum(writer, file, xxh3, err);
}

int dt_ckpt_add_copy(struct dt_ckpt_writer *writer, const char *file,
                     const char *dir, size_t max_bytes, struct dt_error *err)
{
    int rc = -1;
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
