/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - reads files and blocks through zlib and libzstd */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/codec.h"
#include "base/file.h"

enum { PACKED_BYTES = 1 << 17 };

struct dt_input {
    char *path;
    int fd;
    enum dt_codec codec;
    void *state; /* of the library */
    bool within; /* a compressed member has begun and not ended */
    unsigned char packed[PACKED_BYTES];
    size_t at, count; /* of packed bytes: where it goes on, its end */
};

/* --- the libraries --- */

/* Bytes that a library took and made. */
struct progress {
    size_t taken, made;
    bool ended; /* of a member */
};

#ifdef HAVE_ZLIB
enum { GZIP_OR_ZLIB = 15 + 32 }; /* windowBits: any, and either header */

static void *zlib_open(void)
{
    z_stream *z = calloc(1, sizeof(*z));
    if (z && inflateInit2(z, GZIP_OR_ZLIB) == Z_OK)
        return z;
    free(z);
    return NULL;
}

static void zlib_close(void *state)
{
    inflateEnd(state);
    free(state);
}

/* Unpacks some bytes. NULL, or why it cannot. */
static const char *zlib_run(void *state, const void *from, size_t count,
                            void *to, size_t bytes, struct progress *p)
{
    z_stream *z = state;
    z->next_in = (unsigned char *)(uintptr_t)from;
    z->avail_in = count < UINT_MAX ? (unsigned)count : UINT_MAX;
    z->next_out = to;
    z->avail_out = bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
    const unsigned in = z->avail_in, out = z->avail_out;
    int rc = inflate(z, Z_NO_FLUSH);
    p->taken = in - z->avail_in;
    p->made = out - z->avail_out;
    p->ended = rc == Z_STREAM_END;
    if (p->ended)
        inflateReset(z);
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
        return NULL;
    return z->msg ? z->msg : "not readable";
}
#endif

#ifdef HAVE_ZSTD
static void *zstd_open(void)
{
    return ZSTD_createDCtx();
}

static void zstd_close(void *state)
{
    ZSTD_freeDCtx(state);
}

static const char *zstd_run(void *state, const void *from, size_t count,
                            void *to, size_t bytes, struct progress *p)
{
    ZSTD_inBuffer in = {from, count, 0};
    ZSTD_outBuffer out = {to, bytes, 0};
    size_t rc = ZSTD_decompressStream(state, &out, &in);
    p->taken = in.pos;
    p->made = out.pos;
    p->ended = rc == 0;
    return ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : NULL;
}
#endif

static const struct library {
    const char *name;
    void *(*open)(void); /* NULL: this build has none */
    void (*close)(void *state);
    const char *(*run)(void *state, const void *from, size_t count, void *to,
                       size_t bytes, struct progress *p);
} libraries[] = {
    [DT_CODEC_NONE] = {"none", NULL, NULL, NULL},
#ifdef HAVE_ZLIB
    [DT_CODEC_GZIP] = {"gzip", zlib_open, zlib_close, zlib_run},
#else
    [DT_CODEC_GZIP] = {"gzip", NULL, NULL, NULL},
#endif
#ifdef HAVE_ZSTD
    [DT_CODEC_ZSTD] = {"zstd", zstd_open, zstd_close, zstd_run},
#else
    [DT_CODEC_ZSTD] = {"zstd", NULL, NULL, NULL},
#endif
};

const char *dt_codec_name(enum dt_codec codec)
{
    return libraries[codec].name;
}

bool dt_codec_is_built(enum dt_codec codec)
{
    return codec == DT_CODEC_NONE || libraries[codec].open;
}

static int not_built(enum dt_codec codec, struct dt_error *err)
{
    return dt_error_set(err, EX_CONFIG,
                        "compressed with %s, which this build of disttrain "
                        "cannot read: unpack it with `%s -d`, or configure "
                        "disttrain --with-%s",
                        dt_codec_name(codec), dt_codec_name(codec),
                        codec == DT_CODEC_GZIP ? "zlib" : "zstd");
}

/* --- a block --- */

int dt_codec_unpack(enum dt_codec codec, const void *from, size_t count,
                    void *to, size_t bytes, struct dt_error *err)
{
    size_t at = 0, made = 0;
    struct progress p = {0};
    const char *wrong = NULL;
    unsigned char more;
    if (!dt_codec_is_built(codec))
        return not_built(codec, err);
    const struct library *library = &libraries[codec];
    void *state = library->open();
    if (!state)
        return dt_error_set(err, EX_OSERR, "out of memory");
    do { /* a byte too much is room for one: it is noticed */
        bool full = made == bytes;
        wrong = library->run(state, (const char *)from + at, count - at,
                             full ? (void *)&more : (char *)to + made,
                             full ? 1 : bytes - made, &p);
        at += p.taken;
        made += p.made;
    } while (!wrong && !p.ended && made <= bytes && p.taken + p.made > 0);
    library->close(state);
    if (wrong)
        return dt_error_set(err, EX_DATAERR, "damaged %s data: %s",
                            dt_codec_name(codec), wrong);
    if (!p.ended || made != bytes)
        return dt_error_set(err, EX_DATAERR,
                            "%s data that is not of %zu bytes when unpacked",
                            dt_codec_name(codec), bytes);
    return 0;
}

/* --- a file --- */

struct dt_input *dt_input_open(const char *path, enum dt_codec codec,
                               struct dt_error *err)
{
    if (!dt_codec_is_built(codec)) {
        not_built(codec, err);
        dt_error_prefix(err, "%s", path);
        return NULL;
    }
    struct dt_input *input = calloc(1, sizeof(*input));
    if (input) {
        input->fd = -1;
        input->codec = codec;
        input->path = strdup(path);
        input->state = codec ? libraries[codec].open() : NULL;
    }
    if (!input || !input->path || (codec && !input->state)) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        dt_input_close(input);
        return NULL;
    }
    input->fd = dt_file_open(path, err);
    if (input->fd >= 0)
        return input;
    dt_input_close(input);
    return NULL;
}

void dt_input_close(struct dt_input *input)
{
    if (!input)
        return;
    if (input->fd >= 0)
        close(input->fd);
    if (input->state)
        libraries[input->codec].close(input->state);
    free(input->path);
    free(input);
}

/* Reads up to `bytes` bytes of the file itself; *count is 0 at its end. */
static int read_file(struct dt_input *input, void *to, size_t bytes,
                     size_t *count, struct dt_error *err)
{
    ssize_t n;
    do
        n = read(input->fd, to, bytes);
    while (n < 0 && errno == EINTR);
    *count = n > 0 ? (size_t)n : 0;
    return n < 0 ? dt_error_set(err, EX_IOERR, "%s: cannot read: %s",
                                input->path, strerror(errno))
                 : 0;
}

/* Unpacks up to `bytes` bytes; *count is 0 at the end. */
static int read_packed(struct dt_input *input, void *to, size_t bytes,
                       size_t *count, struct dt_error *err)
{
    for (*count = 0; *count == 0;) {
        struct progress p;
        if (input->at == input->count) {
            input->at = 0;
            if (read_file(input, input->packed, sizeof(input->packed),
                          &input->count, err) < 0)
                return -1;
        }
        if (input->count == 0 && !input->within)
            return 0;
        const char *wrong = libraries[input->codec].run(
            input->state, input->packed + input->at, input->count - input->at,
            to, bytes, &p);
        if (wrong)
            return dt_error_set(err, EX_DATAERR, "%s: damaged %s data: %s",
                                input->path, dt_codec_name(input->codec),
                                wrong);
        if (p.taken + p.made == 0 && !p.ended)
            return dt_error_set(err, EX_DATAERR,
                                "%s: cut short: its %s data has no end",
                                input->path, dt_codec_name(input->codec));
        input->at += p.taken;
        input->within = !p.ended;
        *count = p.made;
    }
    return 0;
}

uint64_t dt_input_bytes(const struct dt_input *input)
{
    struct stat st;
    return fstat(input->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int dt_input_at(const struct dt_input *input, uint64_t offset, void *to,
                size_t bytes, struct dt_error *err)
{
    for (size_t n = 0; n < bytes;) {
        ssize_t got =
            pread(input->fd, (char *)to + n, bytes - n, (off_t)(offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_error_set(err, EX_IOERR, "%s: cannot read: %s",
                                input->path, strerror(errno));
        if (got == 0)
            return dt_error_set(err, EX_DATAERR, "%s: cut short", input->path);
        n += (size_t)got;
    }
    return 0;
}

int dt_input_read(struct dt_input *input, void *to, size_t bytes, size_t *count,
                  struct dt_error *err)
{
    size_t n = 1;
    for (*count = 0; *count < bytes && n > 0; *count += n)
        if ((input->codec ? read_packed : read_file)(
                input, (char *)to + *count, bytes - *count, &n, err) < 0)
            return -1;
    return 0;
}
