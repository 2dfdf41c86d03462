/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnn_cache.c - the plans of earlier runs, in files of the user
 *
 * disttrain/attention-HASH (cuda_cache.h): a plan as cuDNN writes it, with its
 * kernels, so that nothing has to be compiled. The first line names the GPU,
 * the driver, cuDNN with its CUDA toolkit, the compiler of its kernels, and the
 * graph, by a hash of all that makes it; the second one has the length of the
 * rest and its hash. Every rank writes: the last file replaces the others
 * whole.
 */
#include "config.h"

#ifdef HAVE_CUDNN

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/cuda/cuda.h"
#include "ops/cuda/cuda_cache.h"
#include "ops/cuda/dnn.h"

enum { MOST_BYTES = 16 << 20 };

void dt_cuda_dnn_compiler_name(char *text, size_t bytes)
{
    void *library = dt_cuda_dnn_compiler_open();
    int (*version)(int *, int *) = NULL;
    int major = 0, minor = 0;
    struct link_map *map;
    struct stat st = {0};

    snprintf(text, bytes, "no NVRTC");
    if (!library)
        return;
    version = (int (*)(int *, int *))(uintptr_t)dlsym(library, "nvrtcVersion");
    if (version && version(&major, &minor) == 0 &&
        dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
        stat(map->l_name, &st) == 0)
        snprintf(text, bytes, "NVRTC %d.%d of %lld bytes", major, minor,
                 (long long)st.st_size);
    dlclose(library);
}

bool dt_cuda_dnn_name(const struct dt_cuda_dnn_graph *g,
                      const struct dt_cuda_dnn_place *place, bool deterministic,
                      struct dt_cuda_dnn_name *name)
{
    const int length = snprintf(
        name->text, sizeof(name->text),
        "disttrain: a plan, form 1; %s, %s, %s for CUDA %zu, %s, graph "
        "%016" PRIx64 "%s\n",
        place->gpu, place->driver, dt_cuda_dnn.version,
        dt_cuda_dnn.cudnnGetCudartVersion(), place->compiler, g->hash,
        deterministic ? ", deterministic" : "");

    return !g->failure[0] && length < (int)sizeof(name->text);
}

/* The plan in a file: what is behind two lines as they should be; NULL: it is
 * damaged.
 */
static const char *find_plan(const char *text, const char *name)
{
    const size_t head = strlen(name);
    uint64_t hash;
    size_t bytes;
    char *end;

    if (strncmp(text, name, head) != 0)
        return NULL;
    bytes = strtoul(text + head, &end, 10);
    hash = strtoull(end, &end, 16);
    if (*end++ != '\n' || strlen(end) != bytes || bytes == 0 ||
        dt_cuda_cache_hash(DT_HASH_EMPTY, end, bytes) != hash)
        return NULL;
    return end;
}

bool dt_cuda_dnn_recall(struct dt_cuda_dnn_graph *g,
                        const struct dt_cuda_dnn_name *name)
{
    struct dt_cuda_cache file;
    bool damaged, good;
    const char *plan;
    char *text;

    dt_cuda_cache_find(&file, "attention", name->text);
    text = dt_cuda_cache_read(&file, MOST_BYTES, &damaged);
    plan = text ? find_plan(text, name->text) : NULL;
    good = plan && dt_cuda_dnn_restore(g, plan);
    if (damaged || (text && !good))
        dt_cuda_tell("%s is damaged: the plan is made anew", file.path);
    free(text);
    return good;
}

void dt_cuda_dnn_remember(const struct dt_cuda_dnn_graph *g,
                          const struct dt_cuda_dnn_name *name)
{
    struct dt_cuda_cache file;
    char *plan = dt_cuda_dnn_write(g), *text = NULL;
    const size_t bytes = plan ? strlen(plan) : 0;

    dt_cuda_cache_find(&file, "attention", name->text);
    if (bytes > 0 && bytes < MOST_BYTES / 2 && file.path[0] &&
        asprintf(&text, "%s%zu %016" PRIx64 "\n%s", name->text, bytes,
                 dt_cuda_cache_hash(DT_HASH_EMPTY, plan, bytes), plan) > 0)
        dt_cuda_cache_write(&file, text, strlen(text));
    free(text);
    free(plan);
}

#endif /* HAVE_CUDNN */
