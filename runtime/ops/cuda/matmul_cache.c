/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_cache.c - the choices of earlier runs, in a file of the user
 *
 * disttrain/matmul-HASH (cuda_cache.h): one file for a kind of GPU and a
 * version of cuBLASLt, which its first line names; a line for each shape. A
 * line only picks one of the candidates that the library offers now, so nothing
 * in the file can make a product wrong. The first rank of each node writes it.
 * Ranks that write at the same time may lose a line of each other, which the
 * next run finds out again.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda_cache.h"
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
    struct dt_cuda_cache file;
    char head[400]; /* its first line */
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

/* The first line has the facts on which all choices depend. */
static void find_path(void)
{
    char gpu[300];

    if (!dt_cuda_cache_gpu(gpu, sizeof(gpu)))
        return;
    snprintf(cache.head, sizeof(cache.head),
             "disttrain: products, form 1; %s, %s%s\n", gpu, dt_cuda_library(),
             dt_cuda_facts.tf32 ? ", tf32" : "");
    dt_cuda_cache_find(&cache.file, "matmul", cache.head);
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
    bool damaged;
    char *text = dt_cuda_cache_read(&cache.file, MOST_BYTES, &damaged);
    const char *next;

    if (!text)
        return !damaged;
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
        if (cache.file.path[0] && !read_file()) {
            cache.count = 0;
            dt_cuda_tell("%s is damaged: the speed of products is measured "
                         "anew, and the file replaced",
                         cache.file.path);
        }
    }
    cache.tried = true;
    return wanted && cache.file.path[0];
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

static void write_lines(FILE *f)
{
    fputs(cache.head, f);
    for (size_t i = 0; i < cache.count; i++)
        for (int n = 0; n < NUMBERS; n++)
            fprintf(f, "%" PRIu64 "%c", cache.lines[i].numbers[n],
                    n + 1 < NUMBERS ? ' ' : '\n');
}

static void write_file(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    bool good = f != NULL;

    if (f) {
        write_lines(f);
        good = !ferror(f);
        good &= fclose(f) == 0;
    }
    if (good)
        dt_cuda_cache_write(&cache.file, text, bytes);
    free(text);
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
