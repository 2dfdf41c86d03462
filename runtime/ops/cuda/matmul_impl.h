/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_impl.h - plans of matrix multiplications (for ops/cuda/matmul*.c) */
#ifndef DT_OPS_CUDA_MATMUL_IMPL_H
#define DT_OPS_CUDA_MATMUL_IMPL_H

#include <cublasLt.h>

#include "ops/cuda/cuda.h"

/* cuBLASLt has the first half of a stream's workspace, and our own kernels have
 * the second.
 */
enum { DT_MATMUL_WORKSPACE = DT_CUDA_WORKSPACE / 2 };

/* Everything that a choice of algorithm depends on. Compared as bytes. */
struct dt_matmul_key {
    size_t M, N, K, lda, ldb, ldd;
    uint8_t ta, tb, type, out, epilogue, bias, accumulate, adds;
    uint8_t activation, sum; /* kind of the epilogue, if it can be unfused */
    uint8_t fits;            /* the library takes the epilogue's operands */
    uint8_t align_a, align_b, align_c, align_d;
};

enum dt_matmul_state {
    DT_MATMUL_UNKNOWN,
    DT_MATMUL_GUESSED, /* the first candidate, until more is known */
    DT_MATMUL_CHOSEN,
    DT_MATMUL_IMPOSSIBLE,
};

struct dt_matmul_plan {
    struct dt_matmul_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* of our a, b, d */
    cublasLtMatmulAlgo_t algo;
    enum dt_matmul_state state;
    bool unfused; /* the epilogue in a kernel of its own */
    struct dt_matmul_plan *next;
};

/* --- cuda_matmul.c --- */

extern cublasLtHandle_t dt_cuda_blas;

/* The plan for a key, NULL: there is none yet. */
struct dt_matmul_plan *dt_cuda_matmul_find(const struct dt_matmul_key *key);

/* Queues a multiplication with the library's epilogue; bias and aux are those
 * that the plan was told last.
 */
cublasStatus_t dt_cuda_matmul_run(struct dt_stream *stream,
                                  const struct dt_matmul_plan *plan,
                                  const struct dt_cuda_matmul *mm,
                                  const cublasLtMatmulAlgo_t *algo);

/* "(64, 32) x (32, 96)^T, bf16 to f32, epilogue 4": valid until the next call.
 */
const char *dt_cuda_matmul_words(const struct dt_matmul_key *key);

/* Returns whether `function` succeeded; waiting for the stream tells if not. */
bool dt_cuda_matmul_check(cublasStatus_t status, const char *function,
                          const struct dt_matmul_key *key);
#define DT_MATMUL_TRY(key, function, ...)                                      \
    dt_cuda_matmul_check(function(__VA_ARGS__), #function, key)

/* --- matmul_tune.c --- */

/* Chooses the algorithm of a plan, and whether its epilogue is fused. `mm` has
 * the operands, with which candidates are timed.
 */
void dt_cuda_matmul_choose(struct dt_stream *stream,
                           struct dt_matmul_plan *plan,
                           const struct dt_cuda_matmul *mm);

/* --- matmul_cache.c: choices of earlier runs on this kind of GPU --- */

/* The choice among `count` candidates: the index of one, or -1 for an epilogue
 * in a kernel of its own. False: it is not known. With `accumulate` it is that
 * without.
 */
bool dt_cuda_matmul_recall(const struct dt_matmul_key *key, int count,
                           int *choice);

/* Keeps a choice for later runs, if this rank is the first of its node. */
void dt_cuda_matmul_remember(const struct dt_matmul_key *key, int count,
                             int choice);

#endif /* DT_OPS_CUDA_MATMUL_IMPL_H */
