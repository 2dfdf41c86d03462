/* SPDX-License-Identifier: Apache-2.0 */
/* dnn.c - cuDNN: the library, descriptors, plans and their runs */
#include "config.h"

#ifdef HAVE_CUDNN

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ops/cuda/cuda.h"
#include "ops/cuda/dnn_impl.h"

#define LIBRARY "libcudnn.so.9"

struct dt_cuda_dnn dt_cuda_dnn;

enum {
    OLDEST = 91002,     /* see dt_cuda_dnn_load */
    ANY_LENGTH = 91600, /* see dt_cuda_dnn_any_length */
    MOST_CONFIGS = 16,  /* of the heuristics that are tried */
};

/* --- the library --- */

int dt_cuda_dnn_load(struct dt_error *err)
{
    void *library;
    size_t version;

    if (dt_cuda_dnn.loaded)
        return 0;
    library = RTLD_DEFAULT; /* a preloaded one has priority */
    if (!dlsym(library, "cudnnGetVersion")) {
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return dt_error_set(err, EX_UNAVAILABLE,
                                "%s: install cuDNN 9 of NVIDIA, or add its "
                                "folder to LD_LIBRARY_PATH",
                                dlerror());
    }
#define FIND(name)                                                             \
    dt_cuda_dnn.name = (__typeof__(name) *)(uintptr_t)dlsym(library, #name);   \
    if (!dt_cuda_dnn.name)                                                     \
        return dt_error_set(err, EX_UNAVAILABLE, "%s has no %s", LIBRARY,      \
                            #name);
    DT_CUDNN_CALLS(FIND)
#undef FIND
    version = dt_cuda_dnn.cudnnGetVersion();
    dt_cuda_dnn.any_length = version >= ANY_LENGTH;
    snprintf(dt_cuda_dnn.version, sizeof(dt_cuda_dnn.version),
             "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    if (version < OLDEST)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s is %s: attention needs 9.10.2, or 9.16 for "
                            "numbers of positions that are no multiple of 128",
                            LIBRARY, dt_cuda_dnn.version);
    dt_cuda_dnn.loaded = true;
    return 0;
}

const char *dt_cuda_dnn_version(void)
{
    return dt_cuda_dnn.version;
}

bool dt_cuda_dnn_any_length(void)
{
    return dt_cuda_dnn.any_length;
}

/* Under the names that cuDNN tries. It has the library already if it has found
 * it in a folder of its own.
 */
int dt_cuda_dnn_compiler(struct dt_error *err)
{
    const size_t toolkit = dt_cuda_dnn.cudnnGetCudartVersion() / 1000;
    char name[32];
    void *library;

    snprintf(name, sizeof(name), "libnvrtc.so.%zu", toolkit);
    library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        library = dlopen("libnvrtc.so", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s, by which cuDNN compiles its kernels, cannot "
                            "be opened: install NVRTC of CUDA %zu, or add its "
                            "folder to LD_LIBRARY_PATH",
                            name, toolkit);
    dlclose(library);
    return 0;
}

/* "what: CUDNN_STATUS_...: the library's own words" */
static void format_status(char *text, size_t bytes, const char *what,
                          cudnnStatus_t status)
{
    char last[256] = "";

    dt_cuda_dnn.cudnnGetLastErrorString(last, sizeof(last));
    snprintf(text, bytes, "%s: %s%s%s", what,
             dt_cuda_dnn.cudnnGetErrorString(status), last[0] ? ": " : "",
             last);
}

int dt_cuda_dnn_open(struct dt_error *err)
{
    cudnnStatus_t status = dt_cuda_dnn.cudnnCreate(&dt_cuda_dnn.handle);
    char text[400];

    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    format_status(text, sizeof(text), "cudnnCreate", status);
    return dt_error_set(err, EX_UNAVAILABLE, "%s", text);
}

/* --- descriptors --- */

bool dt_cuda_dnn_failed(struct dt_cuda_dnn_graph *g, const char *what,
                        cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return false;
    if (!g->failure[0])
        format_status(g->failure, sizeof(g->failure), what, status);
    return true;
}

/* A descriptor that the graph owns, or NULL. */
cudnnBackendDescriptor_t dt_cuda_dnn_create(struct dt_cuda_dnn_graph *g,
                                            cudnnBackendDescriptorType_t kind)
{
    cudnnBackendDescriptor_t d = NULL;

    if (g->failure[0])
        return NULL;
    if (g->owned_count == MOST_OWNED) {
        snprintf(g->failure, sizeof(g->failure), "more than %d descriptors",
                 MOST_OWNED);
        return NULL;
    }
    if (dt_cuda_dnn_failed(g, "cudnnBackendCreateDescriptor",
                           dt_cuda_dnn.cudnnBackendCreateDescriptor(kind, &d)))
        return NULL;
    g->owned[g->owned_count++] = d;
    return d;
}

void dt_cuda_dnn_set(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *value)
{
    char what[64];

    if (g->failure[0])
        return;
    snprintf(what, sizeof(what), "cudnnBackendSetAttribute(%d)", (int)name);
    dt_cuda_dnn_failed(
        g, what,
        dt_cuda_dnn.cudnnBackendSetAttribute(d, name, type, count, value));
}

void dt_cuda_dnn_set_desc(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendDescriptor_t value)
{
    dt_cuda_dnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void dt_cuda_dnn_finalize(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t d, const char *kind)
{
    char what[64];

    if (g->failure[0])
        return;
    snprintf(what, sizeof(what), "cudnnBackendFinalize(%s)", kind);
    dt_cuda_dnn_failed(g, what, dt_cuda_dnn.cudnnBackendFinalize(d));
}

/* --- plans --- */

/* The graph of all operations. */
static cudnnBackendDescriptor_t operation_graph(struct dt_cuda_dnn_graph *g)
{
    cudnnBackendDescriptor_t all =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

    dt_cuda_dnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                    CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)g->operation_count,
                    g->operations);
    if (dt_cuda_dnn.handle)
        dt_cuda_dnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                        CUDNN_TYPE_HANDLE, 1, &dt_cuda_dnn.handle);
    dt_cuda_dnn_finalize(g, all, "OPERATIONGRAPH");
    return all;
}

/* What cuDNN's heuristics propose, best first. Returns how many. */
static size_t propose_configs(struct dt_cuda_dnn_graph *g,
                              cudnnBackendDescriptor_t all,
                              cudnnBackendHeurMode_t mode,
                              cudnnBackendDescriptor_t configs[MOST_CONFIGS])
{
    cudnnBackendDescriptor_t heur =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;

    dt_cuda_dnn_set_desc(g, heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    dt_cuda_dnn_set(g, heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                    1, &mode);
    if (!dt_cuda_dnn.handle)
        dt_cuda_dnn_set_desc(g, heur, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                             dt_cuda_dnn.absent);
    dt_cuda_dnn_finalize(g, heur, "ENGINEHEUR");
    for (size_t i = 0; i < MOST_CONFIGS; i++)
        configs[i] = dt_cuda_dnn_create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->failure[0])
        return 0;
    dt_cuda_dnn_failed(g, "cudnnBackendGetAttribute(ENGINEHEUR_RESULTS)",
                       dt_cuda_dnn.cudnnBackendGetAttribute(
                           heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                           CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS, &count,
                           configs));
    return count < MOST_CONFIGS ? (size_t)count : MOST_CONFIGS;
}

/* Whether the engine of a proposal may be used. */
static bool engine_allowed(struct dt_cuda_dnn_graph *g,
                           cudnnBackendDescriptor_t config, bool deterministic)
{
    cudnnBackendDescriptor_t engine =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;

    if (!engine || dt_cuda_dnn.cudnnBackendGetAttribute(
                       config, CUDNN_ATTR_ENGINECFG_ENGINE,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine))
        return false;
    count = 0;
    dt_cuda_dnn.cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes);
    for (int64_t i = 0; deterministic && i < count; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return false;
    }
    return true;
}

/* Makes the plan of a proposal. Returns whether cuDNN can. */
static bool make_plan(struct dt_cuda_dnn_graph *g,
                      cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t plan =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t count = 0, bytes = 0;

    dt_cuda_dnn_set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                         config);
    if (dt_cuda_dnn.handle)
        dt_cuda_dnn_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                        CUDNN_TYPE_HANDLE, 1, &dt_cuda_dnn.handle);
    else
        dt_cuda_dnn_set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                             dt_cuda_dnn.absent);
    dt_cuda_dnn_finalize(g, plan, "EXECUTION_PLAN");
    if (!g->failure[0])
        dt_cuda_dnn_failed(
            g, "cudnnBackendGetAttribute(EXECUTION_PLAN_WORKSPACE_SIZE)",
            dt_cuda_dnn.cudnnBackendGetAttribute(
                plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                CUDNN_TYPE_INT64, 1, &count, &bytes));
    if (g->failure[0])
        return false;
    g->plan = plan;
    g->workspace = (size_t)bytes;
    return true;
}

int dt_cuda_dnn_plan(struct dt_cuda_dnn_graph *g, bool deterministic,
                     struct dt_error *err)
{
    const cudnnBackendHeurMode_t MODES[] = {CUDNN_HEUR_MODE_A,
                                            CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t configs[MOST_CONFIGS];
    cudnnBackendDescriptor_t all = operation_graph(g);
    char why[sizeof(g->failure)] = "";

    if (g->failure[0])
        return dt_error_set(err, EX_UNAVAILABLE, "%s", g->failure);
    for (size_t m = 0; m < sizeof(MODES) / sizeof(MODES[0]); m++) {
        size_t count = propose_configs(g, all, MODES[m], configs);
        for (size_t i = 0; i < count; i++) {
            if (engine_allowed(g, configs[i], deterministic) &&
                make_plan(g, configs[i]))
                return 0;
            if (g->failure[0])
                memcpy(why, g->failure, sizeof(why));
            g->failure[0] = '\0'; /* the next proposal may do */
        }
        if (g->failure[0])
            memcpy(why, g->failure, sizeof(why));
        g->failure[0] = '\0';
    }
    if (dt_cuda_dnn_compiler(err) < 0)
        return -1;
    return dt_error_set(err, EX_UNAVAILABLE, "%s",
                        why[0] ? why : "no engine takes the graph");
}

size_t dt_cuda_dnn_workspace(const struct dt_cuda_dnn_graph *g)
{
    return g->workspace;
}

void dt_cuda_dnn_run(struct dt_cuda_dnn_graph *g, cudaStream_t stream,
                     size_t count, const int64_t *uids, void *const *data,
                     void *workspace)
{
    cudnnBackendDescriptor_t pack;
    struct dt_cuda_dnn_graph run = {0};

    dt_cuda_dnn_failed(&run, "cudnnSetStream",
                       dt_cuda_dnn.cudnnSetStream(dt_cuda_dnn.handle, stream));
    pack = dt_cuda_dnn_create(&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dt_cuda_dnn_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                    CUDNN_TYPE_INT64, (int64_t)count, uids);
    dt_cuda_dnn_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                    CUDNN_TYPE_VOID_PTR, (int64_t)count, data);
    dt_cuda_dnn_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                    CUDNN_TYPE_VOID_PTR, 1, &workspace);
    dt_cuda_dnn_finalize(&run, pack, "VARIANT_PACK");
    if (!run.failure[0])
        dt_cuda_dnn_failed(
            &run, "cudnnBackendExecute",
            dt_cuda_dnn.cudnnBackendExecute(dt_cuda_dnn.handle, g->plan, pack));
    if (pack)
        dt_cuda_dnn.cudnnBackendDestroyDescriptor(pack);
    if (run.failure[0])
        dt_cuda_fail("%s", run.failure);
}

#endif /* HAVE_CUDNN */
