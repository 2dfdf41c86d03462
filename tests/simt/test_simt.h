/* SPDX-License-Identifier: Apache-2.0 */
/* test_simt.h - the test functions of the parts of test_simt */
#ifndef DT_SIMT_TEST_SIMT_H
#define DT_SIMT_TEST_SIMT_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define check(call) assert_int_equal(call, cudaSuccess)

/* test_shared.cu */
void copies_arrive_in_dynamic_shared_memory(void **state);
void a_missing_wait_for_copies_is_found_with_every_seed(void **state);
void copies_to_one_place_differ_with_some_seeds(void **state);
void wrong_uses_of_shared_memory_end_the_process(void **state);
void shared_memory_beyond_48_kib_must_be_asked_for(void **state);

/* test_stream.cu */
void a_missing_event_is_found_with_some_seeds(void **state);
void an_event_is_not_ready_before_its_work_is_done(void **state);
void a_shorter_upload_leaves_nothing_of_a_longer_one(void **state);
void a_graph_repeats_the_work_of_two_streams(void **state);
void a_broken_capture_is_refused(void **state);
void short_floats_round_as_on_a_gpu(void **state);
void a_radix_sort_is_stable(void **state);

/* test_gemm.c */
void matrix_products_match_a_loop_in_double(void **state);
void products_that_cublaslt_lacks_are_refused(void **state);

#ifdef __cplusplus
}
#endif

#endif /* DT_SIMT_TEST_SIMT_H */
