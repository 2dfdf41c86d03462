/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - the hardware of the host, and the module for GPUs */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/proc.h"

#define MODULE "disttrain-cuda.so"

/* --- cpu --- */

static int open_cpu(const struct dt_backend_options *options,
                    struct dt_error *err)
{
    (void)options;
    (void)err;
    return 0;
}

static void describe_cpu(char *text, size_t bytes)
{
    snprintf(text, bytes, "matmul: %s\nvector code: %s\n",
             dt_ops_cpu()->library(), dt_ops_cpu()->name);
}

static struct dt_comm *connect_cpu(const struct dt_comm_world *world,
                                   const struct dt_comm_options *options,
                                   struct dt_error *err)
{
    return dt_comm_create("gloo", world, options, err);
}

static const struct dt_backend *cpu(void)
{
    static struct dt_backend backend = {
        .version = DT_BACKEND_VERSION,
        .name = "cpu",
        .open = open_cpu,
        .describe = describe_cpu,
        .device = &dt_cpu,
        .connect = connect_cpu,
    };
    backend.ops = dt_ops_cpu();
    return &backend;
}

/* --- cuda --- */

/* The path of the module: that of $DISTTRAIN_CUDA_MODULE, else one in the
 * folder of a program that was built but not installed, else where `make
 * install` puts it.
 */
static void find_module(char path[PATH_MAX])
{
    const char *named = getenv("DISTTRAIN_CUDA_MODULE");
    if (named && *named) {
        snprintf(path, PATH_MAX, "%s", named);
        return;
    }
    char *name = dt_proc_path(path) == 0 ? strrchr(path, '/') : NULL;
    if (name && name + sizeof(MODULE) < path + PATH_MAX) {
        memcpy(name + 1, MODULE, sizeof(MODULE));
        if (access(path, F_OK) == 0)
            return;
    }
    snprintf(path, PATH_MAX, "%s/%s", DT_MODULE_DIR, MODULE);
}

static const struct dt_backend *no_module(const char *path,
                                          struct dt_error *err)
{
    const char *why = dlerror();
    if (access(path, F_OK) != 0)
#ifdef HAVE_CUDA
        dt_error_set(err, EX_CONFIG,
                     "there is no %.400s: `make install` puts "
                     "it there",
                     path);
#else
        dt_error_set(err, EX_CONFIG,
                     "this disttrain was built without CUDA: "
                     "configure it --with-cuda");
#endif
    else
        dt_error_set(err, EX_CONFIG, "%.800s%s", why ? why : path,
                     why && strstr(why, "cannot open shared object file")
                         ? ": add the folder that has it to "
                           "LD_LIBRARY_PATH"
                         : "");
    return NULL;
}

const struct dt_backend *dt_backend_load(struct dt_error *err)
{
    char path[PATH_MAX];
    find_module(path);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return no_module(path, err);
    const struct dt_backend *backend = dlsym(module, DT_BACKEND_SYMBOL);
    if (backend && backend->version == DT_BACKEND_VERSION)
        return backend;
    dt_error_set(err, EX_CONFIG,
                 "%.400s is of another build than this disttrain: install both "
                 "from one build",
                 path);
    dlclose(module);
    return NULL;
}

/* With run.device auto this is asked first, because the module loads libraries
 * of hundreds of MB. A module that the user named may need no driver.
 */
static bool has_driver(struct dt_error *why)
{
    const char *named = getenv("DISTTRAIN_CUDA_MODULE");
    if (named && *named)
        return true;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        dt_error_set(why, EX_CONFIG,
                     "there is no NVIDIA driver here (no libcuda.so.1)");
        return false;
    }
    dlclose(driver);
    return true;
}

static const struct dt_backend *open_cuda(
    const struct dt_backend_options *options, struct dt_error *err)
{
    const struct dt_backend *backend = dt_backend_load(err);
    return backend && backend->open(options, err) == 0 ? backend : NULL;
}

/* --- both --- */

const struct dt_backend *dt_backend_open(
    const char *name, const struct dt_backend_options *options, char *note,
    size_t note_bytes, struct dt_error *err)
{
    struct dt_error why;
    if (note)
        note[0] = '\0';
    if (strcmp(name, "cpu") == 0)
        return cpu();
    bool optional = strcmp(name, "auto") == 0;
    const struct dt_backend *backend =
        optional && !has_driver(&why) ? NULL : open_cuda(options, &why);
    if (backend)
        return backend;
    if (!optional) {
        dt_error_set(err, EX_CONFIG, "run.device cuda: %s", why.text);
        return NULL;
    }
    if (note)
        snprintf(note, note_bytes, "running on the CPU: %s", why.text);
    return cpu();
}

int dt_backend_agree(const struct dt_backend *backend,
                     const struct dt_comm_world *world, int timeout_ms,
                     struct dt_error *err)
{
    static const char key[] = "disttrain.device";
    size_t bytes, mine = strlen(backend->name);
    void *first;
    if (world->put(world->ctx, key, backend->name, mine, err) < 0 ||
        world->fence(world->ctx, timeout_ms, err) < 0 ||
        world->get(world->ctx, 0, key, &first, &bytes, err) < 0)
        return -1;
    bool same = bytes == mine && memcmp(first, backend->name, bytes) == 0;
    if (!same)
        dt_error_set(err, EX_CONFIG,
                     "E131 run.device is %s on %s (rank %d) and %.*s on %s "
                     "(rank 0): allocate nodes that are alike, or set "
                     "run.device: cpu",
                     backend->name, world->host(world->ctx, world->rank),
                     world->rank, (int)bytes, (const char *)first,
                     world->host(world->ctx, 0));
    free(first);
    return same ? 0 : -1;
}

struct dt_comm *dt_backend_connect(const struct dt_backend *backend,
                                   const struct dt_comm_world *world,
                                   const struct dt_comm_options *options,
                                   struct dt_error *err)
{
    if (world->size == 1)
        return dt_comm_create("self", world, options, err);
    return backend->connect(world, options, err);
}
