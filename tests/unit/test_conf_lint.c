/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_lint.c - each variable that the lint knows, and names like it */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"

/* NULL: nothing is said. */
static const char *lint(const char *name, const char *value, bool trains,
                        long nodes, bool *refused)
{
    *refused = false;
    return dt_conf_lint_variable(name, value, trains, nodes, refused);
}

/* What is said of a name, and of nothing that only begins like it. */
static const struct {
    const char *name, *value, *begins;
    bool refused;
} names[] = {
    {"RANK", "1", "is different on each rank", true},
    {"LOCAL_RANK", "1", "is different on each rank", true},
    {"NODE_RANK", "1", "is different on each rank", true},
    {"GROUP_RANK", "1", "is different on each rank", true},
    {"WORLD_SIZE", "1", "follows from the job", true},
    {"LOCAL_WORLD_SIZE", "1", "follows from the job", true},
    {"NCCL_TIMEOUT", "1", "read by nothing: the limit", false},
    {"DEEPSPEED_LOG_LEVEL", "1", "read by nothing: give", false},
    {"NCCL_ASYNC_ERROR_HANDLING", "1",
     "an old name: PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING", false},
    {"NCCL_BLOCKING_WAIT", "1",
     "an old name: PyTorch reads TORCH_NCCL_BLOCKING_WAIT", false},
    {"NCCL_DESYNC_DEBUG", "1",
     "an old name: PyTorch reads TORCH_NCCL_DESYNC_DEBUG", false},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", "1",
     "an old name: JAX reads XLA_CLIENT_MEM_FRACTION", false},
    {"JAX_PLATFORM_NAME", "1", "an old name: JAX reads JAX_PLATFORMS", false},
    {"CUDA_VISIBLE_DEVICES", "1", "overrides what Slurm has given", false},
    {"MASTER_PORT", "1", "the same for every step", false},
    {"NCCL_IB_DISABLE", "1", "switches InfiniBand off", false},
    {"NCCL_P2P_DISABLE", "1", "switches copies between GPUs off", false},
    {"NCCL_SHM_DISABLE", "1", "switches shared memory off", false},
    {"CUDA_LAUNCH_BLOCKING", "1", "makes every kernel wait", false},
    {"MASTER_ADDR", "localhost", "means another host on each node", false},
};

static void the_lint_knows_variables_by_their_exact_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool refused;
        char other[64];
        const char *text =
            lint(names[i].name, names[i].value, false, 2, &refused);
        assert_non_null(text);
        assert_memory_equal(text, names[i].begins, strlen(names[i].begins));
        assert_int_equal(refused, names[i].refused);
        snprintf(other, sizeof(other), "%sS", names[i].name);
        assert_null(lint(other, names[i].value, false, 2, &refused));
        snprintf(other, sizeof(other), "X%s", names[i].name);
        assert_null(lint(other, names[i].value, false, 2, &refused));
        snprintf(other, sizeof(other), "%.*s", (int)strlen(names[i].name) - 1,
                 names[i].name);
        assert_null(lint(other, names[i].value, false, 2, &refused));
    }
}

/* All that begins so; of JAX only where disttrain itself trains. */
static void the_prefix_tells_whose_variable_it_is(void **state)
{
    bool refused;
    (void)state;
    assert_string_equal(lint("SLURM_X", "", false, 1, &refused),
                        "belongs to Slurm");
    assert_true(refused);
    assert_string_equal(lint("PMIX_X", "", false, 1, &refused),
                        "belongs to PMIx");
    assert_true(refused);
    assert_null(lint("SLURMX", "", false, 1, &refused));
    assert_null(lint("PMIXX", "", false, 1, &refused));
    assert_string_equal(lint("XLA_FLAGS", "", true, 1, &refused),
                        "read by JAX only");
    assert_false(refused);
    assert_string_equal(lint("JAX_X", "", true, 1, &refused),
                        "read by JAX only");
    assert_null(lint("XLA_FLAGS", "", false, 1, &refused));
    assert_null(lint("JAX_X", "", false, 1, &refused));
}

static void harmless_values_are_not_reported(void **state)
{
    static const char *const debugging[] = {
        "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
        "CUDA_LAUNCH_BLOCKING"};
    static const char *const local[] = {"localhost", "127.0.0.1", "127.9.9.9",
                                        "::1"};
    static const char *const others[] = {
        "n1", "localhost.n1", "10.127.0.1", "128.0.0.1", "::11", ""};
    bool refused;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_null(lint(debugging[i], "0", false, 1, &refused));
        assert_null(lint(debugging[i], "", false, 1, &refused));
        assert_non_null(lint(debugging[i], "00", false, 1, &refused));
        assert_non_null(lint("MASTER_ADDR", local[i], false, 2, &refused));
        assert_null(lint("MASTER_ADDR", local[i], false, 1, &refused));
        assert_null(lint("MASTER_ADDR", local[i], false, 0, &refused));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(lint("MASTER_ADDR", others[i], false, 2, &refused));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lint_knows_variables_by_their_exact_names),
        cmocka_unit_test(the_prefix_tells_whose_variable_it_is),
        cmocka_unit_test(harmless_values_are_not_reported),
    };
    return cmocka_run_group_tests_name("conf_lint", tests, NULL, NULL);
}
