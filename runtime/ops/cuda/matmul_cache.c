/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_cache.c - the choices of earlier runs, in a file of the user
 *
 * $XDG_CACHE_HOME/disttrain/matmul-HASH, by default in ~/.cache: one file for a
 * kind of GPU and a version of cuBLASLt, which its first line names; a line for
 * each shape. A line only picks one of the candidates that the library offers
 * now, so nothing in the file can make a product wrong. The first rank of each
 * node writes it: to a temporary file, which then takes its place. Ranks that
 * write at the same time may lose a line of each other, which the next run
 * finds out again.
 *
 * A process that has another user's home, as below sudo, leaves no file there.
 */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ops/cuda/matmul_impl.h"

enum {
    KEY = 15,          /* numbers of a key, */
    COUNT = KEY,       /* then how many candidates there are, */
    CHOICE,            /* and the choice + 1 */
    NUMBERS,           /* of a line */
    MOST_LINES = 8192, /* then no more are kept */
    MOST_BYTES = 1 << 20,
};

struct line {
    uint64_t numbers[NUMBERS];
};

static struct {
    bool tried;
    char dir[PATH_MAX - 64], path[PATH_MAX]; /* "": there is no such file */
    char head[320];                          /* its first line */
    struct line *lines;
    size_t count;
} cache;

static struct line line_of(const struct dt_matmul_key *k)
{
    return (struct line){{k->M, k->N, k->K, k->lda, k->ldb, k->ldd, k->ta,
                          k->tb, k->type, k->out,
                          (uint64_t)k->epilogue * 4 + k->adds * 2 + k->bias,
                          k->align_a, k->align_b, k->align_c, k->align_d}};
}

static struct line *find_line(const struct line *key)
{
    for (size_t i = 0; i < cache.count; i++)
        if (memcmp(cache.lines[i].numbers, key->numbers,
                   KEY * sizeof(key->numbers[0])) == 0)
            return &cache.lines[i];
    return NULL;
}

/* Keeps a line, unless one with its key is there. */
static void add_line(const struct line *line)
{
    struct line *more;

    if (find_line(line) || cache.count == MOST_LINES)
        return;
    if (cache.count % 64 == 0) {
        more = realloc(cache.lines, (cache.count + 64) * sizeof(*more));
        if (!more)
            return;
        cache.lines = more;
    }
    cache.lines[cache.count++] = *line;
}

/* --- which file --- */

static bool is_own(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

/* Writes the facts on which all choices depend. */
static bool describe(char *head, size_t bytes)
{
    struct cudaDeviceProp gpu;
    int index;

    if (cudaGetDevice(&index) != cudaSuccess ||
        cudaGetDeviceProperties(&gpu, index) != cudaSuccess)
        return false;
    snprintf(head, bytes,
             "disttrain: products, form 1; %s, sm_%d%d, %d multiprocessors, "
             "%s%s\n",
             gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount,
             dt_cuda_library(), dt_cuda_facts.tf32 ? ", tf32" : "");
    return true;
}

static void find_path(void)
{
    const char *home = getenv("HOME"), *base = getenv("XDG_CACHE_HOME");
    const char *sub = "";
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    if (!base || base[0] != '/') {
        base = home;
        sub = "/.cache";
    }
    if (!base || base[0] != '/' || !is_own(base) ||
        !describe(cache.head, sizeof(cache.head)) ||
        snprintf(cache.dir, sizeof(cache.dir), "%s%s/disttrain", base, sub) >=
            (int)sizeof(cache.dir))
        return;
    for (const char *c = cache.head; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    snprintf(cache.path, sizeof(cache.path), "%s/matmul-%016" PRIx64, cache.dir,
             hash);
}

/* --- reading --- */

/* Takes one line of the text; NULL: it is not as written. */
static const char *take_line(const char *text)
{
    struct line line;
    char *end;

    for (int i = 0; i < NUMBERS; i++) {
        if (*text < '0' || *text > '9')
            return NULL;
        line.numbers[i] = strtoull(text, &end, 10);
        if (*end != (i + 1 < NUMBERS ? ' ' : '\n'))
            return NULL;
        text = end + 1;
    }
    if (line.numbers[CHOICE] > line.numbers[COUNT])
        return NULL;
    add_line(&line);
    return text;
}

/* Adds the choices in the file that are not known yet. False: it is damaged. */
static bool read_file(void)
{
    struct dt_error err;
    char *text;
    const char *next;

    if (!is_own(cache.path))
        return true;
    text = dt_file_read(cache.path, MOST_BYTES, &err);
    if (!text)
        return false;
    next = strncmp(text, cache.head, strlen(cache.head)) == 0
               ? text + strlen(cache.head)
               : NULL;
    while (next && *next)
        next = take_line(next);
    free(text);
    return next;
}

/* Is there a file, or can there be one? */
static bool is_open(void)
{
    const bool wanted = !dt_cuda_autotune_asks(DT_AUTOTUNE_FRESH);

    if (!cache.tried && wanted) {
        find_path();
        if (cache.path[0] && !read_file()) {
            cache.count = 0;
            dt_cuda_tell("%s is damaged: the speed of products is measured "
                         "anew, and the file replaced",
                         cache.path);
        }
    }
    cache.tried = true;
    return wanted && cache.path[0];
}

bool dt_cuda_matmul_recall(const struct dt_matmul_key *key, int count,
                           int *choice)
{
    struct line want = line_of(key);
    const struct line *line = is_open() ? find_line(&want) : NULL;

    if (!line || line->numbers[COUNT] != (uint64_t)count ||
        (line->numbers[CHOICE] == 0 && !key->activation && !key->sum))
        return false;
    *choice = (int)line->numbers[CHOICE] - 1;
    return true;
}

/* --- writing --- */

static bool write_lines(FILE *f)
{
    bool good = fputs(cache.head, f) >= 0;

    for (size_t i = 0; i < cache.count; i++)
        for (int n = 0; n < NUMBERS; n++)
            good &= fprintf(f, "%" PRIu64 "%c", cache.lines[i].numbers[n],
                            n + 1 < NUMBERS ? ' ' : '\n') > 0;
    return good;
}

/* A disk that is full, or read-only, costs the next run its time and this one
 * nothing: it tries no more.
 */
static void write_file(void)
{
    char temporary[PATH_MAX + 8];
    struct dt_error err;
    FILE *f = NULL;
    bool good;
    int fd = -1;

    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", cache.path);
    if (dt_file_mkdirs(cache.dir, &err) == 0 && is_own(cache.dir))
        fd = mkstemp(temporary);
    if (fd >= 0)
        f = fdopen(fd, "w");
    good = f && write_lines(f);
    if (f)
        good &= fclose(f) == 0;
    else if (fd >= 0)
        close(fd);
    if (!good || rename(temporary, cache.path) < 0) {
        if (fd >= 0)
            unlink(temporary);
        cache.path[0] = '\0';
    }
}

void dt_cuda_matmul_remember(const struct dt_matmul_key *key, int count,
                             int choice)
{
    struct line line = line_of(key), *old;

    if (dt_cuda_facts.local_rank != 0 || !is_open())
        return;
    line.numbers[COUNT] = (uint64_t)count;
    line.numbers[CHOICE] = (uint64_t)(choice + 1);
    old = find_line(&line);
    if (old)
        *old = line;
    else
        add_line(&line);
    read_file(); /* for choices that others have written */
    write_file();
}
