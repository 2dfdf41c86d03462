/* SPDX-License-Identifier: Apache-2.0 */
/* line_out.c - buffers lines on their way to a file without a name */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/forms/line.h"
#include "data/forms/line_out.h"

enum {
    BUFFER_BYTES = 1 << 18,
};

/* Not every file system has O_TMPFILE. */
static int open_unnamed(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof(path), "%s/rows-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int dt_line_out_init(struct dt_line_out *out, const char *path, const char *dir,
                     uint64_t most, struct dt_error *err)
{
    *out =
        (struct dt_line_out){.path = path, .fd = -1, .line = 1, .most = most};
    out->buffer = malloc(BUFFER_BYTES);
    if (!out->buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    out->fd = dir ? open_unnamed(dir) : memfd_create("rows", MFD_CLOEXEC);
    if (out->fd >= 0)
        return 0;
    dt_error_set(err, EX_CANTCREAT, "%s: cannot write its rows to %s: %s", path,
                 dir ? dir : "memory", strerror(errno));
    dt_line_out_fini(out);
    return -1;
}

void dt_line_out_fini(struct dt_line_out *out)
{
    if (out->buffer && out->fd >= 0)
        close(out->fd);
    free(out->buffer);
    *out = (struct dt_line_out){.fd = -1};
}

static void write_all(struct dt_line_out *out, const char *bytes, size_t count)
{
    while (count > 0 && !out->failed) {
        ssize_t n = write(out->fd, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        out->failed = n <= 0;
        out->cause = errno;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
}

static void flush(struct dt_line_out *out)
{
    write_all(out, out->buffer, out->count);
    out->count = 0;
}

void dt_line_out_put(struct dt_line_out *out, const void *bytes, size_t count)
{
    out->bytes += count;
    if (count == 0)
        return;
    if (count > BUFFER_BYTES - out->count)
        flush(out);
    if (count > BUFFER_BYTES) {
        write_all(out, bytes, count);
        return;
    }
    memcpy(out->buffer + out->count, bytes, count);
    out->count += count;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void put_escape(struct dt_line_out *out, unsigned char c)
{
    char text[8];
    int n = c >= 0x20 ? snprintf(text, sizeof(text), "\\%c", c)
                      : snprintf(text, sizeof(text), "\\u%04x", c);
    dt_line_out_put(out, text, (size_t)n);
}

void dt_line_out_string(struct dt_line_out *out, const char *text, size_t count)
{
    dt_line_out_put(out, "\"", 1);
    for (size_t i = 0, first = 0; i <= count; i++) {
        if (i < count && is_plain((unsigned char)text[i]))
            continue;
        dt_line_out_put(out, text + first, i - first);
        if (i < count)
            put_escape(out, (unsigned char)text[i]);
        first = i + 1;
    }
    dt_line_out_put(out, "\"", 1);
}

static int no_room(const struct dt_line_out *out, struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR,
                        "%s: no room for its rows as lines of JSON: %s "
                        "(data.cache_dir names another place)",
                        out->path, strerror(out->cause));
}

void dt_line_out_skip(struct dt_line_out *out, uint64_t line)
{
    for (; out->line < line; out->line++)
        dt_line_out_put(out, "\n", 1);
}

int dt_line_out_check(const struct dt_line_out *out, struct dt_error *err)
{
    return out->bytes - out->began <= DT_LINE_BYTES
               ? 0
               : dt_error_set(err, EX_DATAERR,
                              "%s: row %" PRIu64 ": more than 256 MiB",
                              out->path, out->line);
}

int dt_line_out_end(struct dt_line_out *out, struct dt_error *err)
{
    dt_line_out_put(out, "\n", 1);
    if (out->failed)
        return no_room(out, err);
    if (out->stop && dt_stop_check(out->stop, out->path, err) < 0)
        return -1;
    out->began = out->bytes;
    return out->line++ >= out->most && out->most > 0;
}

int dt_line_out_map(struct dt_line_out *out, struct dt_map *map,
                    struct dt_error *err)
{
    flush(out);
    *map = (struct dt_map){.bytes = out->bytes};
    if (out->failed)
        return no_room(out, err);
    if (map->bytes == 0)
        return 0;
    void *data = mmap(NULL, map->bytes, PROT_READ, MAP_SHARED, out->fd, 0);
    if (data == MAP_FAILED)
        return dt_error_set(err, EX_IOERR,
                            "%s: cannot map %zu bytes of rows: %s", out->path,
                            map->bytes, strerror(errno));
    map->data = data;
    return 0;
}
