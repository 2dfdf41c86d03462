/* SPDX-License-Identifier: Apache-2.0 */
/* dnn.c - cuDNN: the library, graphs, plans and their runs */
#include "config.h"

#ifdef HAVE_CUDNN

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda.h"
#include "ops/cuda/cuda_cache.h"
#include "ops/cuda/dnn.h"

#define LIBRARY "libcudnn.so.9"

struct dt_cuda_dnn dt_cuda_dnn;

enum {
    OLDEST = 91002,     /* see dt_cuda_dnn_load */
    ANY_LENGTH = 91600, /* see dt_cuda_dnn_any_length */
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

/* Writes the name that cuDNN tries first. */
static void name_compiler(char name[32])
{
    snprintf(name, 32, "libnvrtc.so.%zu",
             dt_cuda_dnn.cudnnGetCudartVersion() / 1000);
}

/* Under the names that cuDNN tries. It has the library already if it has found
 * it in a folder of its own.
 */
void *dt_cuda_dnn_compiler_open(void)
{
    char name[32];
    void *library;

    name_compiler(name);
    library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        library = dlopen("libnvrtc.so", RTLD_LAZY | RTLD_LOCAL);
    return library;
}

int dt_cuda_dnn_compiler(struct dt_error *err)
{
    void *library = dt_cuda_dnn_compiler_open();
    char name[32];

    if (library) {
        dlclose(library);
        return 0;
    }
    name_compiler(name);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "%s, by which cuDNN compiles its kernels, cannot be "
                        "opened: install NVRTC of CUDA %zu, or add its folder "
                        "to LD_LIBRARY_PATH",
                        name, dt_cuda_dnn.cudnnGetCudartVersion() / 1000);
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

/* Keeps the first failure, of the call `what`. Returns whether it is one. */
static bool failed(struct dt_cuda_dnn_graph *g, const char *what,
                   cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return false;
    if (!g->failure[0])
        format_status(g->failure, sizeof(g->failure), what, status);
    return true;
}

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
    if (failed(g, "cudnnBackendCreateDescriptor",
               dt_cuda_dnn.cudnnBackendCreateDescriptor(kind, &d)))
        return NULL;
    g->owned[g->owned_count++] = d;
    return d;
}

/* The place of a descriptor among those of the graph, which its hash has
 * instead of the address.
 */
static size_t place_of(const struct dt_cuda_dnn_graph *g,
                       cudnnBackendDescriptor_t d)
{
    size_t i = 0;

    while (i < g->owned_count && g->owned[i] != d)
        i++;
    return i;
}

/* Bytes of a value that can be in a graph. */
static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    return type == CUDNN_TYPE_INT64     ? sizeof(int64_t)
           : type == CUDNN_TYPE_BOOLEAN ? sizeof(bool)
           : type == CUDNN_TYPE_CHAR    ? 1
           : type == CUDNN_TYPE_HANDLE  ? 0
                                        : sizeof(int);
}

static void add_to_hash(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                        cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, int64_t count,
                        const void *value)
{
    const int64_t what[] = {(int64_t)place_of(g, d), name, type, count};
    const cudnnBackendDescriptor_t *children = value;

    g->hash = dt_cuda_cache_hash(g->hash, what, sizeof(what));
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        g->hash =
            dt_cuda_cache_hash(g->hash, value, (size_t)count * bytes_of(type));
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count;
         i++) {
        const size_t place = place_of(g, children[i]);
        g->hash = dt_cuda_cache_hash(g->hash, &place, sizeof(place));
    }
}

void dt_cuda_dnn_set(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *value)
{
    char what[64];

    if (g->failure[0])
        return;
    if (!g->unnamed)
        add_to_hash(g, d, name, type, count, value);
    snprintf(what, sizeof(what), "cudnnBackendSetAttribute(%d)", (int)name);
    failed(g, what,
           dt_cuda_dnn.cudnnBackendSetAttribute(d, name, type, count, value));
}

static void set_desc(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
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
    failed(g, what, dt_cuda_dnn.cudnnBackendFinalize(d));
}

/* --- plans --- */

/* The graph of all operations. */
static cudnnBackendDescriptor_t operation_graph(struct dt_cuda_dnn_graph *g)
{
    cudnnBackendDescriptor_t all = g->all;

    if (all)
        return all;
    g->all = all =
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

size_t dt_cuda_dnn_propose(struct dt_cuda_dnn_graph *g,
                           cudnnBackendHeurMode_t mode, bool deterministic,
                           cudnnBackendDescriptor_t configs[DT_DNN_PROPOSALS])
{
    const cudnnBackendDescriptor_t all = operation_graph(g);
    cudnnBackendDescriptor_t heur =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;
    size_t allowed = 0;

    set_desc(g, heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    dt_cuda_dnn_set(g, heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                    1, &mode);
    if (!dt_cuda_dnn.handle)
        set_desc(g, heur, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, dt_cuda_dnn.absent);
    dt_cuda_dnn_finalize(g, heur, "ENGINEHEUR");
    for (size_t i = 0; i < DT_DNN_PROPOSALS; i++)
        configs[i] = dt_cuda_dnn_create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->failure[0])
        return 0;
    failed(g, "cudnnBackendGetAttribute(ENGINEHEUR_RESULTS)",
           dt_cuda_dnn.cudnnBackendGetAttribute(
               heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
               CUDNN_TYPE_BACKEND_DESCRIPTOR, DT_DNN_PROPOSALS, &count,
               configs));
    for (int64_t i = 0; i < count && i < DT_DNN_PROPOSALS; i++)
        if (engine_allowed(g, configs[i], deterministic))
            configs[allowed++] = configs[i];
    return allowed;
}

/* Finalizes a plan that has its `name`. Returns whether cuDNN can. */
static bool make_plan(struct dt_cuda_dnn_graph *g,
                      cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t size,
                      const void *value)
{
    cudnnBackendDescriptor_t plan =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t count = 0, bytes = 0;

    dt_cuda_dnn_set(g, plan, name, type, size, value);
    if (dt_cuda_dnn.handle)
        dt_cuda_dnn_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                        CUDNN_TYPE_HANDLE, 1, &dt_cuda_dnn.handle);
    else
        set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                 dt_cuda_dnn.absent);
    dt_cuda_dnn_finalize(g, plan, "EXECUTION_PLAN");
    if (!g->failure[0])
        failed(g, "cudnnBackendGetAttribute(EXECUTION_PLAN_WORKSPACE_SIZE)",
               dt_cuda_dnn.cudnnBackendGetAttribute(
                   plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                   CUDNN_TYPE_INT64, 1, &count, &bytes));
    if (g->failure[0])
        return false;
    g->plan = plan;
    g->workspace = (size_t)bytes;
    return true;
}

bool dt_cuda_dnn_restore(struct dt_cuda_dnn_graph *g, const char *plan)
{
    const bool made =
        make_plan(g, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                  CUDNN_TYPE_CHAR, (int64_t)strlen(plan) + 1, plan);

    g->failure[0] = '\0'; /* another plan may do */
    return made;
}

char *dt_cuda_dnn_write(const struct dt_cuda_dnn_graph *g)
{
    const cudnnBackendAttributeName_t name =
        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t count = 0;
    char *text;

    if (dt_cuda_dnn.cudnnBackendGetAttribute(g->plan, name, CUDNN_TYPE_CHAR, 0,
                                             &count, NULL) ||
        count <= 0)
        return NULL;
    text = calloc((size_t)count + 1, 1);
    if (text && dt_cuda_dnn.cudnnBackendGetAttribute(
                    g->plan, name, CUDNN_TYPE_CHAR, count, &count, text)) {
        free(text);
        return NULL;
    }
    return text;
}

int dt_cuda_dnn_plan(struct dt_cuda_dnn_graph *g, bool deterministic,
                     struct dt_error *err)
{
    const cudnnBackendHeurMode_t MODES[] = {CUDNN_HEUR_MODE_A,
                                            CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t configs[DT_DNN_PROPOSALS];
    char why[sizeof(g->failure)] = "";

    if (g->failure[0])
        return dt_error_set(err, EX_UNAVAILABLE, "%s", g->failure);
    for (size_t m = 0; m < sizeof(MODES) / sizeof(MODES[0]); m++) {
        size_t count = dt_cuda_dnn_propose(g, MODES[m], deterministic, configs);
        for (size_t i = 0; i < count; i++) {
            if (make_plan(g, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configs[i]))
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
    struct dt_cuda_dnn_graph run = {.unnamed = true};

    failed(&run, "cudnnSetStream",
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
        failed(
            &run, "cudnnBackendExecute",
            dt_cuda_dnn.cudnnBackendExecute(dt_cuda_dnn.handle, g->plan, pack));
    if (pack)
        dt_cuda_dnn.cudnnBackendDestroyDescriptor(pack);
    if (run.failure[0])
        dt_cuda_fail("%s", run.failure);
}

/* --- tensors and operations of a graph --- */

enum { FIRST_BETWEEN = 100 };

struct dt_cuda_dnn_graph *dt_cuda_dnn_graph_create(void)
{
    struct dt_cuda_dnn_graph *g = calloc(1, sizeof(*g));

    if (g)
        g->next_uid = FIRST_BETWEEN;
    return g;
}

void dt_cuda_dnn_graph_destroy(struct dt_cuda_dnn_graph *g)
{
    if (!g)
        return;
    while (g->owned_count > 0)
        dt_cuda_dnn.cudnnBackendDestroyDescriptor(g->owned[--g->owned_count]);
    free(g);
}

/* --- tensors --- */

static struct dt_cuda_dnn_tensor make_tensor(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4],
                                             cudnnBackendAttributeName_t trait,
                                             cudnnBackendDescriptor_t starts)
{
    struct dt_cuda_dnn_tensor t = {
        .desc = dt_cuda_dnn_create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
    const int64_t alignment = 16;
    const bool yes = true;

    memcpy(t.dims, dims, sizeof(t.dims));
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_DATA_TYPE,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                    4, dims);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                    strides);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                    &uid);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                    CUDNN_TYPE_INT64, 1, &alignment);
    if (trait != CUDNN_ATTR_TENSOR_UNIQUE_ID)
        dt_cuda_dnn_set(g, t.desc, trait, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (starts)
        set_desc(g, t.desc, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, starts);
    dt_cuda_dnn_finalize(g, t.desc, "TENSOR");
    return t;
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_ragged(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4],
                                             struct dt_cuda_dnn_tensor starts)
{
    return make_tensor(g, uid, type, dims, strides, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                       starts.desc);
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_tensor(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4])
{
    return dt_cuda_dnn_ragged(g, uid, type, dims, strides,
                              (struct dt_cuda_dnn_tensor){0});
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_scalar(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type)
{
    const int64_t one[4] = {1, 1, 1, 1};

    return make_tensor(g, uid, type, one, one, CUDNN_ATTR_TENSOR_IS_BY_VALUE,
                       NULL);
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_between_ragged(
    struct dt_cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dims[4],
    const int64_t strides[4], struct dt_cuda_dnn_tensor starts)
{
    const int64_t row_major[4] = {dims[1] * dims[2] * dims[3],
                                  dims[2] * dims[3], dims[3], 1};

    return make_tensor(g, g->next_uid++, type, dims,
                       strides ? strides : row_major,
                       CUDNN_ATTR_TENSOR_IS_VIRTUAL, starts.desc);
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_between(struct dt_cuda_dnn_graph *g,
                                              cudnnDataType_t type,
                                              const int64_t dims[4],
                                              const int64_t strides[4])
{
    return dt_cuda_dnn_between_ragged(g, type, dims, strides,
                                      (struct dt_cuda_dnn_tensor){0});
}

/* --- operations --- */

static void add_operation(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t operation, const char *kind)
{
    dt_cuda_dnn_finalize(g, operation, kind);
    if (!g->failure[0] && g->operation_count == MOST_OPERATIONS)
        snprintf(g->failure, sizeof(g->failure), "more than %d operations",
                 MOST_OPERATIONS);
    if (!g->failure[0])
        g->operations[g->operation_count++] = operation;
}

static void set_size(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t op,
                     cudnnBackendAttributeName_t name,
                     struct dt_cuda_dnn_tensor sizes)
{
    if (sizes.desc)
        set_desc(g, op, name, sizes.desc);
}

void dt_cuda_dnn_matmul(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor c,
                        struct dt_cuda_dnn_tensor a,
                        struct dt_cuda_dnn_tensor b,
                        struct dt_cuda_dnn_sizes sizes)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                    1, &type);
    dt_cuda_dnn_finalize(g, how, "MATMUL");
    op = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.desc);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.desc);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.desc);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_size(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
             sizes.rows);
    set_size(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
             sizes.columns);
    set_size(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
             sizes.inner);
    add_operation(g, op, "OPERATION_MATMUL");
}

void dt_cuda_dnn_reduce(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor y, cudnnReduceTensorOp_t op,
                        struct dt_cuda_dnn_tensor x)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnBackendDescriptor_t node;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    dt_cuda_dnn_set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR,
                    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    dt_cuda_dnn_finalize(g, how, "REDUCTION");
    node = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.desc);
    set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.desc);
    set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_operation(g, node, "OPERATION_REDUCTION");
}

void dt_cuda_dnn_reshape(struct dt_cuda_dnn_graph *g,
                         struct dt_cuda_dnn_tensor y,
                         struct dt_cuda_dnn_tensor x)
{
    cudnnBackendDescriptor_t op =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.desc);
    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.desc);
    add_operation(g, op, "OPERATION_RESHAPE");
}

/* axis < 0: none */
static void add_pointwise(struct dt_cuda_dnn_graph *g,
                          struct dt_cuda_dnn_tensor y,
                          cudnnPointwiseMode_t mode, cudnnDataType_t type,
                          struct dt_cuda_dnn_tensor x,
                          const struct dt_cuda_dnn_tensor *b,
                          const struct dt_cuda_dnn_tensor *t, int64_t axis)
{
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_MODE,
                    CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0)
        dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1,
                        &axis);
    dt_cuda_dnn_finalize(g, how, "POINTWISE");
    op = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.desc);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.desc);
    if (b)
        set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->desc);
    if (t)
        set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->desc);
    add_operation(g, op, "OPERATION_POINTWISE");
}

void dt_cuda_dnn_map(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                     cudnnPointwiseMode_t mode, cudnnDataType_t type,
                     struct dt_cuda_dnn_tensor x,
                     const struct dt_cuda_dnn_tensor *b,
                     const struct dt_cuda_dnn_tensor *t)
{
    add_pointwise(g, y, mode, type, x, b, t, -1);
}

void dt_cuda_dnn_index(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                       struct dt_cuda_dnn_tensor x, int64_t axis)
{
    add_pointwise(g, y, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, x, NULL,
                  NULL, axis);
}

#endif /* HAVE_CUDNN */
