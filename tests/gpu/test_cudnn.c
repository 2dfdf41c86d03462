/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cudnn.c - does cuDNN take our graphs of attention, for a GPU that is
 * not there?
 *
 * It makes plans for an H200 from its description, compiles the kernels and
 * loads them into fake_driver.c. Nothing can be run: that the graphs mean
 * attention is for tests/ops.
 */
#include "config.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef HAVE_CUDNN

#include "ops/cuda/cuda.h"
#include "ops/cuda/dnn.h"

static const char H200[] =
    "{\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,"
    "\"multiProcessorCount\":132,\"regsPerBlock\":65536,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxRegistersPerSM\":65536,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"maxCtasPerSM\":32,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150754820096,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"cudaDeviceId\":0,"
    "\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64]}";

/* Makes plans for an absent GPU, described in cuDNN's JSON; they cannot be run.
 */
static void open_absent(const char *json)
{
    struct dt_cuda_dnn_graph g = {0};
    cudnnBackendDescriptor_t gpu =
        dt_cuda_dnn_create(&g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

    dt_cuda_dnn_set(&g, gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                    CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json);
    dt_cuda_dnn_finalize(&g, gpu, "DEVICEPROP");
    if (g.failure[0])
        fail_msg("%s", g.failure);
    dt_cuda_dnn.absent = gpu;
}

static bool open_h200(void)
{
    static bool tried, opened;
    struct dt_error err;
    char path[4096];
    const char *build = getenv("DT_BUILDDIR");

    if (tried)
        return opened;
    tried = true;
    snprintf(path, sizeof(path), "%s/tests/gpu/fake_driver.so",
             build ? build : ".");
    if (dt_cuda_dnn_load(&err) < 0) {
        print_message("# %s\n", err.text);
        return false;
    }
    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        fail_msg("%s", dlerror());
    open_absent(H200);
    return opened = true;
}

/* Bytes of workspace of the plan, -1: there is none, and why. */
static int64_t plan(struct dt_attention_shape s, bool backward,
                    bool deterministic, struct dt_error *err)
{
    struct dt_cuda_dnn_graph *g = dt_cuda_dnn_graph_create();
    int64_t bytes = -1;

    assert_non_null(g);
    s.backward = backward;
    dt_cuda_attention_graph(g, &s, deterministic);
    if (dt_cuda_dnn_plan(g, deterministic, err) == 0)
        bytes = (int64_t)dt_cuda_dnn_workspace(g);
    dt_cuda_dnn_graph_destroy(g);
    return bytes;
}

/* Forward and backward; the workspace of the latter. */
static int64_t both(struct dt_attention_shape s, bool deterministic)
{
    struct dt_error err;
    int64_t forward = plan(s, false, deterministic, &err);
    int64_t backward = plan(s, true, deterministic, &err);

    if (forward < 0 || backward < 0)
        fail_msg("T %ld, %ld for %ld heads of %ld: %s", (long)s.T, (long)s.NKV,
                 (long)s.NH, (long)s.HS, err.text);
    assert_true(forward <= DT_CUDA_WORKSPACE);
    return backward;
}

static void attention_of_every_shape_has_a_plan(void **state)
{
    (void)state;
    if (!open_h200())
        skip();
    both((struct dt_attention_shape){8, 1024, 12, 12, 64, .type = DT_BF16}, 0);
    both((struct dt_attention_shape){2, 512, 12, 12, 64, .type = DT_F16}, 0);
    both((struct dt_attention_shape){2, 1000, 8, 1, 256, .type = DT_BF16}, 0);
    both((struct dt_attention_shape){3, 77, 6, 2, 8, .type = DT_F16}, 0);
}

static void attention_with_masks_has_a_plan(void **state)
{
    struct dt_attention_shape s = {2, 1024, 16, 8, 128, .type = DT_BF16};
    (void)state;

    if (!open_h200())
        skip();
    s.first = true;
    both(s, false);
    s.window = 256;
    both(s, false);
    s.last = true;
    both(s, false);
    s.window = 0;
    both(s, true);
}

/* Towers of models: heads of 64, 72 and 80, all of an image at once. */
static void attention_within_images_has_a_plan(void **state)
{
    struct dt_attention_shape s = {
        1, 5120, 16, 16, 64, .last = true, .first = true, .type = DT_BF16};
    (void)state;

    if (!open_h200())
        skip();
    for (s.HS = 64; s.HS <= 80; s.HS += 8)
        both(s, false);
    s.first = false;
    both(s, false);
    s.T = 577;
    s.type = DT_F16;
    both(s, true);
}

/* Engines with one order of sums keep dS: 2 bytes a score. */
static void deterministic_attention_keeps_its_scores(void **state)
{
    struct dt_attention_shape s = {8, 1024, 12, 12, 64, .type = DT_BF16};
    const int64_t scores = s.B * s.NH * s.T * s.T;
    (void)state;

    if (!open_h200())
        skip();
    assert_in_range(both(s, true), 2 * scores, 2 * scores + 1024);
    s.first = true;
    s.window = 100;
    assert_in_range(both(s, true), 2 * scores, 2 * scores + 1024);
}

static void head_sizes_without_an_engine_are_refused(void **state)
{
    struct dt_attention_shape s = {1, 64, 2, 2, 12, .type = DT_BF16};
    struct dt_error err;
    (void)state;

    if (!open_h200())
        skip();
    assert_int_equal(plan(s, false, false, &err), -1);
    assert_string_equal(err.text, "no engine takes the graph");
    s.HS = 264;
    assert_int_equal(plan(s, true, false, &err), -1);
    assert_string_equal(err.text, "no engine takes the graph");
}

/* Where to look for NVRTC is decided when a process starts, so this one starts
 * another, for which empty files are in its place.
 */
static void without_nvrtc_that_is_what_is_missing(void **state)
{
    char dir[] = "/tmp/test_cudnn.XXXXXX", command[512];
    (void)state;

    if (!open_h200())
        skip();
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof(command),
             "touch %s/libnvrtc.so %s/libnvrtc.so.%zu; "
             "LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "
             "/proc/%d/exe nvrtc; status=$?; rm -r %s; exit $status",
             dir, dir, dt_cuda_dnn.cudnnGetCudartVersion() / 1000, dir,
             getpid(), dir);
    assert_int_equal(system(command), 0);
}

/* The other process. */
static int fail_without_nvrtc(void)
{
    const struct dt_attention_shape s = {8, 1024, 12, 12, 64, .type = DT_BF16};
    struct dt_error err;

    if (open_h200() && plan(s, false, false, &err) == -1 &&
        strstr(err.text, "by which cuDNN compiles its kernels, cannot be "))
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

#else

#define attention_of_every_shape_has_a_plan nothing_without_cudnn
#define attention_with_masks_has_a_plan nothing_without_cudnn
#define attention_within_images_has_a_plan nothing_without_cudnn
#define deterministic_attention_keeps_its_scores nothing_without_cudnn
#define head_sizes_without_an_engine_are_refused nothing_without_cudnn

#define without_nvrtc_that_is_what_is_missing nothing_without_cudnn

static int fail_without_nvrtc(void)
{
    return 0;
}

static void nothing_without_cudnn(void **state)
{
    (void)state;
    skip();
}

#endif /* HAVE_CUDNN */

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return fail_without_nvrtc();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_every_shape_has_a_plan),
        cmocka_unit_test(attention_with_masks_has_a_plan),
        cmocka_unit_test(attention_within_images_has_a_plan),
        cmocka_unit_test(deterministic_attention_keeps_its_scores),
        cmocka_unit_test(head_sizes_without_an_engine_are_refused),
        cmocka_unit_test(without_nvrtc_that_is_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
