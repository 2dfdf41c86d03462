/* SPDX-License-Identifier: Apache-2.0 */
/* test_simt.h - what the parts of test_simt share */
#ifndef DT_SIMT_TEST_SIMT_H
#define DT_SIMT_TEST_SIMT_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define check(call) assert_int_equal(call, cudaSuccess)

/* test_stream.cu */
void test_missing_event(void **state);
void test_events(void **state);
void test_graph(void **state);
void test_broken_capture(void **state);
void test_half(void **state);
void test_sort(void **state);

/* Products against a loop in double; test_gemm.c */
void test_gemm(void **state);
/* Products that cuBLASLt does not do. */
void test_gemm_refusals(void **state);

#ifdef __cplusplus
}
#endif

#endif /* DT_SIMT_TEST_SIMT_H */
