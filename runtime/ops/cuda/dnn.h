/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnn.h - cuDNN: the library, and graphs of operations (private to ops/cuda)
 *
 * cuDNN is loaded only when it is needed, so the module runs without it. A
 * graph is built node by node over the backend API; tensors have four
 * dimensions: rows of the batch, heads, rows and columns of a matrix. The first
 * call that fails is kept and later calls on the graph do nothing, so only the
 * result of dt_cuda_dnn_plan has to be checked.
 *
 * Every object of the backend API is a descriptor: created by kind, filled by
 * attributes, finalized. A graph owns all of its descriptors, in the order in
 * which they were made; they live as long as its plan.
 */
#ifndef DT_OPS_CUDA_DNN_H
#define DT_OPS_CUDA_DNN_H

#include <cudnn.h>
#include <stdbool.h>

#include "base/error.h"
#include "tensor/tensor.h"

#define DT_CUDNN_CALLS(X)                                                      \
    X(cudnnGetVersion)                                                         \
    X(cudnnGetCudartVersion)                                                   \
    X(cudnnGetErrorString)                                                     \
    X(cudnnGetLastErrorString)                                                 \
    X(cudnnCreate)                                                             \
    X(cudnnSetStream)                                                          \
    X(cudnnBackendCreateDescriptor)                                            \
    X(cudnnBackendDestroyDescriptor)                                           \
    X(cudnnBackendSetAttribute)                                                \
    X(cudnnBackendGetAttribute)                                                \
    X(cudnnBackendFinalize)                                                    \
    X(cudnnBackendExecute)

/* The library; `handle` once it is open. */
struct dt_cuda_dnn {
    bool loaded, any_length;
#define DT_CUDNN_MEMBER(name) __typeof__(name) *name;
    DT_CUDNN_CALLS(DT_CUDNN_MEMBER)
#undef DT_CUDNN_MEMBER
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t absent; /* in place of `handle`: an absent GPU, for
                                        which tests make plans */
    char version[32];
};
extern struct dt_cuda_dnn dt_cuda_dnn;

enum { MOST_OWNED = 256, MOST_OPERATIONS = 48, DT_DNN_PROPOSALS = 16 };

struct dt_cuda_dnn_graph {
    cudnnBackendDescriptor_t owned[MOST_OWNED];
    cudnnBackendDescriptor_t operations[MOST_OPERATIONS];
    size_t owned_count, operation_count;
    int64_t next_uid;
    uint64_t hash;                /* of all that was set, ... */
    bool unnamed;                 /* ... unless there is no need of it */
    char failure[400];            /* of the first call that failed */
    cudnnBackendDescriptor_t all; /* operations as one graph */
    cudnnBackendDescriptor_t plan;
    size_t workspace;
};

/* A descriptor that the graph owns, or NULL. */
cudnnBackendDescriptor_t dt_cuda_dnn_create(struct dt_cuda_dnn_graph *g,
                                            cudnnBackendDescriptorType_t kind);
/* Sets `count` values of an attribute. */
void dt_cuda_dnn_set(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *value);
/* `kind` is for the text of a failure. */
void dt_cuda_dnn_finalize(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t d, const char *kind);

/* Opens libcudnn.so.9, once. -1: EX_UNAVAILABLE, with the part that is missing.
 */
int dt_cuda_dnn_load(struct dt_error *err);

/* "cuDNN 9.19.0"; only after dt_cuda_dnn_load. */
const char *dt_cuda_dnn_version(void);

/* Is attention right for any number of positions, also of rows of a ragged
 * batch? Up to 9.15 it may be wrong for those of keys that are no multiple of
 * 128. Only after dt_cuda_dnn_load.
 */
bool dt_cuda_dnn_any_length(void);

/* Is NVRTC there, without which no plan can be made? Only after
 * dt_cuda_dnn_load. -1: EX_UNAVAILABLE, which library is missing.
 */
int dt_cuda_dnn_compiler(struct dt_error *err);

/* The same, opened, for the caller to close; NULL: it is not there. */
void *dt_cuda_dnn_compiler_open(void);

/* Makes plans for the current GPU, and runs them there. -1: EX_UNAVAILABLE. */
int dt_cuda_dnn_open(struct dt_error *err);

/* A matrix for each row of the batch and each head. */
struct dt_cuda_dnn_tensor {
    cudnnBackendDescriptor_t desc;
    int64_t dims[4];
};

struct dt_cuda_dnn_graph;

/* An empty graph; NULL if there is no memory. Destroying takes its plan. */
struct dt_cuda_dnn_graph *dt_cuda_dnn_graph_create(void);
void dt_cuda_dnn_graph_destroy(struct dt_cuda_dnn_graph *g); /* NULL is fine */

/* A tensor in memory, which dt_cuda_dnn_run is given by its number `uid`, from
 * 1 to 99; 16-byte aligned. Strides are in elements.
 */
struct dt_cuda_dnn_tensor dt_cuda_dnn_tensor(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4]);
/* The same whose row b of the batch begins at element starts(b) of a tensor
 * (B + 1, 1, 1, 1) I64, and not after b strides; `starts` without desc: it
 * does.
 */
struct dt_cuda_dnn_tensor dt_cuda_dnn_ragged(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4],
                                             struct dt_cuda_dnn_tensor starts);
/* One number for the whole tensor, which dt_cuda_dnn_run reads on the host. */
struct dt_cuda_dnn_tensor dt_cuda_dnn_scalar(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type);
/* An intermediate result, which is never in memory. Strides still tell whether
 * it is transposed; NULL: row-major.
 */
struct dt_cuda_dnn_tensor dt_cuda_dnn_between(struct dt_cuda_dnn_graph *g,
                                              cudnnDataType_t type,
                                              const int64_t dims[4],
                                              const int64_t strides[4]);
struct dt_cuda_dnn_tensor dt_cuda_dnn_between_ragged(
    struct dt_cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dims[4],
    const int64_t strides[4], struct dt_cuda_dnn_tensor starts);

/* Rows of a, columns of b and columns of a that count in each row of the batch,
 * (B, 1, 1, 1) I32; without desc: all. Beyond them may be anything.
 */
struct dt_cuda_dnn_sizes {
    struct dt_cuda_dnn_tensor rows, columns, inner;
};

/* c = a b, sums in fp32 */
void dt_cuda_dnn_matmul(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor c,
                        struct dt_cuda_dnn_tensor a,
                        struct dt_cuda_dnn_tensor b,
                        struct dt_cuda_dnn_sizes sizes);
/* y = x reduced over the dimensions in which y has one element */
void dt_cuda_dnn_reduce(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor y, cudnnReduceTensorOp_t op,
                        struct dt_cuda_dnn_tensor x);
/* y = x in the dimensions of y */
void dt_cuda_dnn_reshape(struct dt_cuda_dnn_graph *g,
                         struct dt_cuda_dnn_tensor y,
                         struct dt_cuda_dnn_tensor x);
/* y = mode(x, b, t) element by element, computed in `type`; b and t are NULL
 * where the mode has fewer operands
 */
void dt_cuda_dnn_map(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                     cudnnPointwiseMode_t mode, cudnnDataType_t type,
                     struct dt_cuda_dnn_tensor x,
                     const struct dt_cuda_dnn_tensor *b,
                     const struct dt_cuda_dnn_tensor *t);
/* y = the index of each element of x along a dimension */
void dt_cuda_dnn_index(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                       struct dt_cuda_dnn_tensor x, int64_t axis);

/* Proposals of the heuristics, best first, of engines that take the graph and,
 * if `deterministic`, give the same bits every time. Returns how many; 0 after
 * a failure, too. Nothing is compiled.
 */
size_t dt_cuda_dnn_propose(struct dt_cuda_dnn_graph *g,
                           cudnnBackendHeurMode_t mode, bool deterministic,
                           cudnnBackendDescriptor_t configs[DT_DNN_PROPOSALS]);

/* Finds the fastest plan that cuDNN has for the graph, of engines that give the
 * same bits every time if `deterministic`. Takes up to seconds. -1:
 * EX_UNAVAILABLE, which call failed or that no engine takes the graph.
 */
int dt_cuda_dnn_plan(struct dt_cuda_dnn_graph *g, bool deterministic,
                     struct dt_error *err);

/* The plan as text, which the caller frees; NULL: cuDNN does not write it. The
 * other way round, false: cuDNN does not take it, and nothing was done.
 */
char *dt_cuda_dnn_write(const struct dt_cuda_dnn_graph *g);
bool dt_cuda_dnn_restore(struct dt_cuda_dnn_graph *g, const char *plan);

/* --- the plans of earlier runs (dnn_cache.c) --- */

/* All on which a plan depends, in a line. */
struct dt_cuda_dnn_name {
    char text[640];
};

/* For which GPU a plan is, who loads it, and who has compiled its kernels. */
struct dt_cuda_dnn_place {
    char gpu[300];     /* of dt_cuda_cache_gpu, */
    char driver[80];   /* dt_cuda_cache_driver */
    char compiler[80]; /* and dt_cuda_dnn_compiler_name */
};

/* Writes "NVRTC 13.0 of 91021048 bytes", the version and the size of the
 * library by which cuDNN compiles, as builds of one version have no numbers; or
 * "no NVRTC". Only after dt_cuda_dnn_load.
 */
void dt_cuda_dnn_compiler_name(char *text, size_t bytes);

/* Names the plan of a graph, before that is made. False: the graph has failed.
 */
bool dt_cuda_dnn_name(const struct dt_cuda_dnn_graph *g,
                      const struct dt_cuda_dnn_place *place, bool deterministic,
                      struct dt_cuda_dnn_name *name);

/* Takes the plan of an earlier run. False: there is none. */
bool dt_cuda_dnn_recall(struct dt_cuda_dnn_graph *g,
                        const struct dt_cuda_dnn_name *name);

/* Keeps the plan of the graph for later runs, if that can be. */
void dt_cuda_dnn_remember(const struct dt_cuda_dnn_graph *g,
                          const struct dt_cuda_dnn_name *name);

/* --- runs --- */

/* Bytes of workspace that a run of the plan needs. */
size_t dt_cuda_dnn_workspace(const struct dt_cuda_dnn_graph *g);

/* Queues the plan to `stream`; data[i] is tensor uids[i], workspace is 256-byte
 * aligned. A failure goes to dt_cuda_fail.
 */
void dt_cuda_dnn_run(struct dt_cuda_dnn_graph *g, cudaStream_t stream,
                     size_t count, const int64_t *uids, void *const *data,
                     void *workspace);

/* --- attention as graphs that cuDNN recognizes (attention_graph.c) --- */

/* Numbers of the tensors of a graph. */
enum dt_attention_uid {
    NONE,
    Q,
    K,
    V,
    O,
    LSE,
    FIRST,
    LAST,
    DO,
    DQ,
    DK,
    DV,
    DELTA,  /* D above */
    DQ_SUM, /* dQ in fp32, which blocks of keys add to in any order */
    SCALE,
    HIDDEN, /* -infinity */
    WINDOW,
    ONE,
    LENGTHS,    /* of documents, (B, 1, 1, 1) I32 */
    QKV_STARTS, /* where a document begins, (B + 1, 1, 1, 1) I64: in qkv, */
    OUT_STARTS, /* and in out */
    UID_COUNT
};

/* The operation and shape of a plan. */
struct dt_attention_shape {
    int64_t B, T, NH, NKV, HS, window;
    bool first, last, backward; /* with such bounds */
    bool ragged; /* of B documents, each of its own length up to T */
    enum dt_dtype type;
};

/* Adds the operations of a pass to an empty graph: Q, K, V, dQ, dK and dV are
 * heads of a packed qkv or of its gradient; LSE, DELTA: (B, NH, T) F32, DQ_SUM:
 * (B, NH, T, HS) F32. A backward pass that is not `deterministic` has DQ_SUM. A
 * ragged one has LENGTHS and starts, and reads and writes nothing of qkv and
 * out beyond the end of a document.
 */
void dt_cuda_attention_graph(struct dt_cuda_dnn_graph *g,
                             const struct dt_attention_shape *s,
                             bool deterministic);

#endif /* DT_OPS_CUDA_DNN_H */
