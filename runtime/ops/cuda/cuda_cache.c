/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_cache.c - files of earlier runs: where they are, read and written */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ops/cuda/cuda_cache.h"

uint64_t dt_cuda_cache_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
    return hash;
}

/* Is it a number of a release, as 580.65.06? */
static bool is_release(const char *word)
{
    return strchr(word, '.') && word[strspn(word, "0123456789.")] == '\0';
}

void dt_cuda_cache_driver(const char *root, int version, char *text,
                          size_t bytes)
{
    char path[PATH_MAX], line[256] = "", *rest = line, *word;
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", root);
    file = fopen(path, "re");
    if (file && !fgets(line, sizeof(line), file))
        line[0] = '\0';
    if (file)
        fclose(file);
    while ((word = strsep(&rest, " \t\n")) && !is_release(word))
        ;
    snprintf(text, bytes, "driver %s for CUDA %d", word ? word : "?", version);
}

static bool is_own(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

void dt_cuda_cache_find(struct dt_cuda_cache *cache, const char *kind,
                        const char *head)
{
    const char *home = getenv("HOME"), *base = getenv("XDG_CACHE_HOME");
    const char *sub = "";

    cache->path[0] = '\0';
    if (!base || base[0] != '/') {
        base = home;
        sub = "/.cache";
    }
    if (!base || base[0] != '/' || !is_own(base) ||
        snprintf(cache->dir, sizeof(cache->dir), "%s%s/disttrain", base, sub) >=
            (int)sizeof(cache->dir))
        return;
    snprintf(cache->path, sizeof(cache->path), "%s/%s-%016" PRIx64, cache->dir,
             kind, dt_cuda_cache_hash(DT_HASH_EMPTY, head, strlen(head)));
}

char *dt_cuda_cache_read(const struct dt_cuda_cache *cache, size_t most,
                         bool *damaged)
{
    struct dt_error err;
    char *text;

    *damaged = false;
    if (!is_own(cache->path))
        return NULL;
    text = dt_file_read(cache->path, most, &err);
    *damaged = !text;
    return text;
}

void dt_cuda_cache_write(struct dt_cuda_cache *cache, const char *text,
                         size_t bytes)
{
    char temporary[PATH_MAX + 8];
    struct dt_error err;
    bool good;
    int fd = -1;

    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", cache->path);
    if (dt_file_mkdirs(cache->dir, &err) == 0 && is_own(cache->dir))
        fd = mkstemp(temporary);
    good = fd >= 0 && dt_file_write(fd, text, bytes) == 0;
    if (fd >= 0)
        good &= close(fd) == 0;
    if (good && rename(temporary, cache->path) == 0)
        return;
    if (fd >= 0)
        unlink(temporary);
    cache->path[0] = '\0';
}
