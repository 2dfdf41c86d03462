/* SPDX-License-Identifier: Apache-2.0 */
/* test_backend.c - which backend is opened, and what is wrong with a module */
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

#include "backend/backend.h"
#include "tests/unit/world.h"

static const struct dt_backend_options options = {.local_rank = 3};

/* Stubs of the module lie beside this program. */
static void use_stub(const char *name)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
    setenv("DISTTRAIN_CUDA_MODULE", path, 1);
}

static int forget(void **state)
{
    (void)state;
    unsetenv("DISTTRAIN_CUDA_MODULE");
    unsetenv("STUB_ERROR");
    return 0;
}

static void cpu_opens_the_backend_that_is_built_in(void **state)
{
    char note[64] = "?";
    struct dt_error err;
    (void)state;
    use_stub("stub.so");
    const struct dt_backend *backend =
        dt_backend_open("cpu", &options, note, sizeof(note), &err);
    assert_non_null(backend);
    assert_string_equal(backend->name, "cpu");
    assert_ptr_equal(backend->device, &dt_cpu);
    assert_ptr_equal(backend->ops, dt_ops_cpu());
    assert_string_equal(note, "");
}

static void cuda_and_auto_open_the_module(void **state)
{
    static const char *const names[] = {"cuda", "auto"};
    (void)state;
    use_stub("stub.so");
    for (size_t i = 0; i < 2; i++) {
        char note[64] = "?", text[64];
        struct dt_error err;
        const struct dt_backend *backend =
            dt_backend_open(names[i], &options, note, sizeof(note), &err);
        assert_non_null(backend);
        assert_string_equal(backend->name, "cuda");
        assert_string_equal(note, "");
        backend->describe(text, sizeof(text));
        assert_string_equal(text, "CUDA: a stub\nGPU 0: none of course\n");
    }
}

/* auto computes on the cpu then, and says why. */
static void without_a_gpu_only_auto_falls_back(void **state)
{
    char note[64];
    struct dt_error err;
    (void)state;
    use_stub("stub.so");
    setenv("STUB_ERROR", "no GPU", 1);
    assert_null(dt_backend_open("cuda", &options, note, sizeof(note), &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text, "run.device cuda: no GPU, local rank 3");
    const struct dt_backend *backend =
        dt_backend_open("auto", &options, note, sizeof(note), &err);
    assert_non_null(backend);
    assert_string_equal(backend->name, "cpu");
    assert_string_equal(note, "running on the CPU: no GPU, local rank 3");
}

/* A rank without a GPU among three. */
static int agree(const struct dt_comm_world *world, void *arg)
{
    const struct dt_backend backend = {.name =
                                           world->rank == 2 ? "cpu" : "cuda"};
    struct dt_error err;
    (void)arg;
    int result = dt_backend_agree(&backend, world, 1000, &err);
    if (world->rank < 2)
        return result;
    assert_int_equal(result, -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text,
                        "E131 run.device is cpu on h2 (rank 2) and cuda on "
                        "h0 (rank 0): allocate nodes that are alike, or set "
                        "run.device: cpu");
    return 0;
}

static void ranks_with_different_devices_are_refused(void **state)
{
    (void)state;
    world_threads(3, agree, NULL);
}

static void a_missing_module_says_how_to_get_it(void **state)
{
    struct dt_error err;
    (void)state;
    setenv("DISTTRAIN_CUDA_MODULE", "/nowhere/disttrain-cuda.so", 1);
    assert_null(dt_backend_load(&err));
    assert_int_equal(err.status, EX_CONFIG);
#ifdef HAVE_CUDA
    assert_string_equal(err.text, "there is no /nowhere/disttrain-cuda.so: "
                                  "`make install` puts it there");
#else
    assert_string_equal(err.text, "this disttrain was built without CUDA: "
                                  "configure it --with-cuda");
#endif
}

static void a_foreign_or_newer_module_is_refused(void **state)
{
    struct dt_error err;
    (void)state;
    setenv("DISTTRAIN_CUDA_MODULE", "/etc/passwd", 1);
    assert_null(dt_backend_load(&err));
    assert_non_null(strstr(err.text, "/etc/passwd: "));
    use_stub("stub_newer.so");
    assert_null(dt_backend_load(&err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_non_null(strstr(err.text, "stub_newer.so is of another build than "
                                     "this disttrain: install both from one "
                                     "build"));
    assert_null(
        dlopen(getenv("DISTTRAIN_CUDA_MODULE"), RTLD_NOW | RTLD_NOLOAD));
}

static const char *host_of(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return "here";
}

static void only_several_ranks_need_the_backend_library(void **state)
{
    struct dt_comm_world world = {.size = 1, .host = host_of};
    const struct dt_comm_options comm_options = {.timeout_ms = 1000};
    struct dt_error err;
    (void)state;
    use_stub("stub.so");
    const struct dt_backend *backend = dt_backend_load(&err);
    assert_non_null(backend);
    struct dt_comm *comm =
        dt_backend_connect(backend, &world, &comm_options, &err);
    assert_non_null(comm);
    assert_string_equal(dt_comm_backend(comm), "self");
    dt_comm_destroy(comm);
    world.size = 2;
    assert_null(dt_backend_connect(backend, &world, &comm_options, &err));
    assert_string_equal(err.text, "stub of 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(cpu_opens_the_backend_that_is_built_in,
                                  forget),
        cmocka_unit_test_teardown(cuda_and_auto_open_the_module, forget),
        cmocka_unit_test_teardown(without_a_gpu_only_auto_falls_back, forget),
        cmocka_unit_test(ranks_with_different_devices_are_refused),
        cmocka_unit_test_teardown(a_missing_module_says_how_to_get_it, forget),
        cmocka_unit_test_teardown(a_foreign_or_newer_module_is_refused, forget),
        cmocka_unit_test_teardown(only_several_ranks_need_the_backend_library,
                                  forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
