/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cudnn.c - does cuDNN take our graphs of attention, for a GPU that is
 * not there?
 *
 * It makes plans for an H200 from its description, compiles the kernels and
 * loads them into fake_driver.c. Of GPUs of all kinds it asks which graphs have
 * an engine, which takes no compiler; DT_TEST_PLANS=all makes these plans, too.
 * Nothing can be run: that the graphs mean attention is for tests/ops.
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
#include "ops/cuda/cuda_cache.h"
#include "ops/cuda/dnn.h"

/* What cuDNN asks of a GPU. */
struct gpu {
    const char *name;
    int sm, multiprocessors, shared, blocks, threads;
    int64_t memory, clock, memory_clock, cache; /* kHz, bytes */
};

static const struct gpu GPUS[] = {
    {"NVIDIA A100", 80, 108, 166912, 32, 2048, 85899345920, 1410000, 1593000,
     41943040},
    {"NVIDIA L40S", 89, 142, 101376, 24, 1536, 47810936832, 2520000, 9001000,
     100663296},
    {"NVIDIA H200", 90, 132, 232448, 32, 2048, 150754820096, 1980000, 3201000,
     62914560},
    {"NVIDIA B200", 100, 148, 232448, 32, 2048, 191510446080, 1965000, 3996000,
     132644864},
    {"NVIDIA RTX 5090", 120, 170, 101376, 24, 1536, 33669775360, 2407000,
     14001000, 100663296},
};

static void describe(char *json, size_t bytes, const struct gpu *gpu)
{
    snprintf(
        json, bytes,
        "{\"deviceName\":\"%s\",\"deviceVer\":%d,\"driverVer\":13000,"
        "\"multiProcessorCount\":%d,\"regsPerBlock\":65536,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxRegistersPerSM\":65536,"
        "\"maxSharedMemoryPerBlockOptin\":%d,\"maxCtasPerSM\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"maxThreadsPerBlock\":1024,"
        "\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,"
        "\"supportCoopLaunch\":1,\"totalGlobalMem\":%lld,"
        "\"smClockRateKHz\":%lld,\"memClockRateKHz\":%lld,"
        "\"l2CacheSize\":%lld,\"cudaDeviceId\":0,"
        "\"maxGridSize\":[2147483647,65535,65535],"
        "\"maxBlockSize\":[1024,1024,64]}",
        gpu->name, gpu->sm * 10, gpu->multiprocessors, gpu->shared, gpu->blocks,
        gpu->threads, (long long)gpu->memory, (long long)gpu->clock,
        (long long)gpu->memory_clock, (long long)gpu->cache);
}

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

static const struct gpu *find_gpu(int sm)
{
    const struct gpu *gpu = GPUS;

    while (gpu->sm != sm)
        gpu++;
    return gpu;
}

static bool open_library(void)
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
    return opened = true;
}

static bool open_gpu(int sm)
{
    char json[1024];

    if (!open_library())
        return false;
    describe(json, sizeof(json), find_gpu(sm));
    open_absent(json);
    return true;
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
    if (!open_gpu(90))
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

    if (!open_gpu(90))
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

    if (!open_gpu(90))
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

    if (!open_gpu(90))
        skip();
    assert_in_range(both(s, true), 2 * scores, 2 * scores + 1024);
    s.first = true;
    s.window = 100;
    assert_in_range(both(s, true), 2 * scores, 2 * scores + 1024);
}

/* --- which engines there are --- */

/* Does an engine that may be used take the graph? */
static bool is_taken(const struct dt_attention_shape *s, bool deterministic)
{
    cudnnBackendDescriptor_t proposals[DT_DNN_PROPOSALS];
    struct dt_cuda_dnn_graph *g = dt_cuda_dnn_graph_create();
    struct dt_error err;
    bool taken;

    assert_non_null(g);
    dt_cuda_attention_graph(g, s, deterministic);
    taken = getenv("DT_TEST_PLANS")
                ? dt_cuda_dnn_plan(g, deterministic, &err) == 0
                : dt_cuda_dnn_propose(g, CUDNN_HEUR_MODE_A, deterministic,
                                      proposals) > 0 ||
                      dt_cuda_dnn_propose(g, CUDNN_HEUR_MODE_FALLBACK,
                                          deterministic, proposals) > 0;
    if (g->failure[0])
        fail_msg("%s", g->failure);
    dt_cuda_dnn_graph_destroy(g);
    return taken;
}

/* How a backward pass is computed: documents one by one; as a mask; by our own
 * kernels, which a warning says.
 */
static char way_of(struct dt_attention_shape s, bool deterministic)
{
    s.backward = true;
    if (is_taken(&s, deterministic))
        return 'D';
    s.ragged = false;
    s.first = true;
    return is_taken(&s, deterministic) ? 'M' : 'o';
}

/* Ways of documents; documents, deterministic; with a window; both. No engine
 * for ragged tensors has one order of sums but Hopper's, none of them is for
 * heads of 256 but Hopper's, and that of the RTX 5090 takes no heads of q, k
 * and v that stand beside each other.
 */
static const struct {
    int sm;
    int64_t HS;
    const char *ways;
} BACKWARD[] = {
    {80, 64, "DoDo"},   {80, 96, "DoDo"},   {80, 128, "DoDo"},
    {80, 256, "oooo"},  {89, 64, "DoDo"},   {89, 96, "DoDo"},
    {89, 128, "DoDo"},  {89, 256, "oooo"},  {90, 64, "DDDD"},
    {90, 96, "DDDD"},   {90, 128, "DDDD"},  {90, 256, "DDDD"},
    {100, 64, "DoDo"},  {100, 96, "DoDo"},  {100, 128, "DoDo"},
    {100, 256, "oooo"}, {120, 64, "oooo"},  {120, 96, "oooo"},
    {120, 128, "oooo"}, {120, 256, "oooo"},
};

/* Every forward pass takes documents one by one. */
static void documents_have_engines_as_the_table_says(void **state)
{
    (void)state;

    for (size_t i = 0; i < sizeof(BACKWARD) / sizeof(BACKWARD[0]); i++) {
        char ways[5] = "";
        if (!open_gpu(BACKWARD[i].sm))
            skip();
        for (size_t way = 0; way < 4; way++) {
            const struct dt_attention_shape s = {.B = 4,
                                                 .T = 2048,
                                                 .NH = 8,
                                                 .NKV = 2,
                                                 .HS = BACKWARD[i].HS,
                                                 .window = way < 2 ? 0 : 512,
                                                 .ragged = true,
                                                 .type = DT_BF16};
            assert_true(way % 2 == 1 || is_taken(&s, false));
            ways[way] = way_of(s, way % 2);
        }
        if (strcmp(ways, BACKWARD[i].ways) != 0)
            fail_msg("sm_%d, heads of %ld: %s, not %s", BACKWARD[i].sm,
                     (long)BACKWARD[i].HS, ways, BACKWARD[i].ways);
    }
}

static void documents_have_a_plan(void **state)
{
    (void)state;

    if (!open_gpu(80))
        skip();
    both((struct dt_attention_shape){8, 256, 8, 2, 128, .ragged = true,
                                     .type = DT_BF16},
         false);
}

/* --- plans of earlier runs --- */

static char told[512];
static size_t told_count;

void dt_cuda_tell(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(told, sizeof(told), fmt, args);
    va_end(args);
    told_count++;
}

static struct dt_cuda_dnn_place place = {"a GPU", "a driver", "a compiler"};

/* A graph of documents with its name. */
static struct dt_cuda_dnn_graph *named(int64_t T, bool deterministic,
                                       struct dt_cuda_dnn_name *name)
{
    const struct dt_attention_shape s = {
        2, T, 2, 1, 64, .ragged = true, .type = DT_BF16};
    struct dt_cuda_dnn_graph *g = dt_cuda_dnn_graph_create();

    assert_non_null(g);
    dt_cuda_attention_graph(g, &s, deterministic);
    assert_true(dt_cuda_dnn_name(g, &place, deterministic, name));
    return g;
}

static bool is_kept(int64_t T, bool deterministic)
{
    struct dt_cuda_dnn_name name;
    struct dt_cuda_dnn_graph *g = named(T, deterministic, &name);
    const bool kept = dt_cuda_dnn_recall(g, &name);

    assert_int_equal(g->plan != NULL, kept);
    dt_cuda_dnn_graph_destroy(g);
    return kept;
}

/* Writes `text` over the file, from `at` on. */
static void damage(const char *path, long at, const char *text)
{
    FILE *f = fopen(path, "r+");

    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The rest of the line that says it once. */
static void expect_told(const char *path)
{
    assert_int_equal(told_count, 1);
    assert_int_equal(strncmp(told, path, strlen(path)), 0);
    assert_string_equal(told + strlen(path),
                        " is damaged: the plan is made anew");
    told_count = 0;
}

static void a_plan_is_kept_for_later_runs(void **state)
{
    char dir[] = "/tmp/test_cudnn.XXXXXX", command[64];
    struct dt_cuda_dnn_name name;
    struct dt_cuda_dnn_graph *g;
    struct dt_cuda_cache file;
    struct dt_error err;
    size_t bytes;
    (void)state;

    if (!open_gpu(80))
        skip();
    assert_non_null(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    g = named(128, false, &name);
    assert_false(dt_cuda_dnn_recall(g, &name));
    assert_int_equal(dt_cuda_dnn_plan(g, false, &err), 0);
    bytes = dt_cuda_dnn_workspace(g);
    dt_cuda_dnn_remember(g, &name);
    dt_cuda_dnn_graph_destroy(g);
    g = named(128, false, &name);
    assert_true(dt_cuda_dnn_recall(g, &name));
    assert_int_equal(dt_cuda_dnn_workspace(g), bytes);
    assert_false(is_kept(256, false));
    assert_false(is_kept(128, true));
    for (size_t i = 0; i < 3; i++) {
        char *word = (char *[]){place.gpu, place.driver, place.compiler}[i];
        word[0] = 'A';
        assert_false(is_kept(128, false));
        word[0] = 'a';
    }
    assert_true(is_kept(128, false));
    assert_int_equal(told_count, 0);
    dt_cuda_cache_find(&file, "attention", name.text);
    damage(file.path, -9, "?");
    assert_false(is_kept(128, false));
    expect_told(file.path);
    dt_cuda_dnn_remember(g, &name); /* takes its place */
    assert_true(is_kept(128, false));
    damage(file.path, 0, "D");
    assert_false(is_kept(128, false));
    expect_told(file.path);
    dt_cuda_dnn_graph_destroy(g);
    unsetenv("XDG_CACHE_HOME");
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* NVRTC's version and the size of its file, of which those of a release have
 * different ones.
 */
static void the_compiler_is_named(void **state)
{
    int (*version)(int *, int *);
    char name[80], wanted[80];
    int major, minor;
    void *library;
    (void)state;

    if (!open_library())
        skip();
    dt_cuda_dnn_compiler_name(name, sizeof(name));
    library = dt_cuda_dnn_compiler_open();
    if (!library) {
        assert_string_equal(name, "no NVRTC");
        return;
    }
    version = (int (*)(int *, int *))(uintptr_t)dlsym(library, "nvrtcVersion");
    assert_int_equal(version(&major, &minor), 0);
    snprintf(wanted, sizeof(wanted), "NVRTC %d.%d of ", major, minor);
    assert_int_equal(strncmp(name, wanted, strlen(wanted)), 0);
    assert_true(strtoull(name + strlen(wanted), NULL, 10) > 1 << 20);
    dlclose(library);
}

/* Of the kernel's module, closed and open, and where there is none. */
static void the_driver_is_named_by_its_release(void **state)
{
    static const char *const lines[][2] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct "
         "19 18:56:32 UTC 2023\nGCC version:  gcc version 12.2.0\n",
         "driver 535.129.03 for CUDA 12020"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  "
         "Release Build  (dvs-builder@U22)  Sun Jul 27 06:54:38 UTC 2025\n",
         "driver 580.65.06 for CUDA 12020"},
        {"", "driver ? for CUDA 12020"},
        {NULL, "driver ? for CUDA 12020"}};
    char dir[] = "/tmp/test_cudnn.XXXXXX", command[96], path[96], name[80];
    (void)state;

    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof(command), "mkdir -p %s/proc/driver/nvidia", dir);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", dir);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        FILE *file = lines[i][0] ? fopen(path, "w") : NULL;
        if (file) {
            assert_true(fputs(lines[i][0], file) >= 0);
            assert_int_equal(fclose(file), 0);
        } else {
            assert_int_equal(unlink(path), 0);
        }
        dt_cuda_cache_driver(dir, 12020, name, sizeof(name));
        assert_string_equal(name, lines[i][1]);
    }
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* As of another cuDNN that had the same number. */
static void a_plan_that_cudnn_does_not_take_is_made_anew(void **state)
{
    char dir[] = "/tmp/test_cudnn.XXXXXX", command[64], text[700];
    const char plan[] = "{\"cudnnVersion\":1}";
    struct dt_cuda_dnn_name name;
    struct dt_cuda_cache file;
    (void)state;

    if (!open_gpu(80))
        skip();
    assert_non_null(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    dt_cuda_dnn_graph_destroy(named(128, false, &name));
    dt_cuda_cache_find(&file, "attention", name.text);
    snprintf(text, sizeof(text), "%s%zu %016llx\n%s", name.text, strlen(plan),
             (unsigned long long)dt_cuda_cache_hash(DT_HASH_EMPTY, plan,
                                                    strlen(plan)),
             plan);
    dt_cuda_cache_write(&file, text, strlen(text));
    assert_false(is_kept(128, false));
    expect_told(file.path);
    unsetenv("XDG_CACHE_HOME");
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void head_sizes_without_an_engine_are_refused(void **state)
{
    struct dt_attention_shape s = {1, 64, 2, 2, 12, .type = DT_BF16};
    struct dt_error err;
    (void)state;

    if (!open_gpu(90))
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

    if (!open_gpu(90))
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

    if (open_gpu(90) && plan(s, false, false, &err) == -1 &&
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
#define documents_have_engines_as_the_table_says nothing_without_cudnn
#define a_plan_is_kept_for_later_runs nothing_without_cudnn
#define the_compiler_is_named nothing_without_cudnn
#define the_driver_is_named_by_its_release nothing_without_cudnn
#define a_plan_that_cudnn_does_not_take_is_made_anew nothing_without_cudnn
#define documents_have_a_plan nothing_without_cudnn
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
        cmocka_unit_test(documents_have_engines_as_the_table_says),
        cmocka_unit_test(documents_have_a_plan),
        cmocka_unit_test(a_plan_is_kept_for_later_runs),
        cmocka_unit_test(the_compiler_is_named),
        cmocka_unit_test(the_driver_is_named_by_its_release),
        cmocka_unit_test(a_plan_that_cudnn_does_not_take_is_made_anew),
        cmocka_unit_test(head_sizes_without_an_engine_are_refused),
        cmocka_unit_test(without_nvrtc_that_is_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
