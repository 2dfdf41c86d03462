/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_nested.c - what an srun in a task inherits of the task */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/srun/srun_impl.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

static char *no_net[] = {"off=net,ports"};

static void start_task(const char *logs)
{
    static const char *const variables[][2] = {
        {"SLURM_PROCID", "0"},         {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_LOCALID", "0"},        {"SLURM_NODEID", "0"},
        {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n1"},
        {"SLURM_JOB_ID", "4711"},      {"SLURM_STEP_ID", "3"},
        {"SLURMD_NODENAME", "n1"},     {DT_ENV_CONFIG, "/c.yaml"},
        {DT_ENV_FRAMEWORKS, "torch"},  {"PYTHONUNBUFFERED", "mine"},
    };
    stub_reset();
    stub.component_tasks = 1;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        spank_setenv(NULL, variables[i][0], variables[i][1], 1);
    spank_setenv(NULL, DT_ENV_RANK_LOGS, logs, 1);
    assert_int_equal(dtspank_step_init(NULL, 1, no_net), 0);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
}

/* The directory of logs is the only value with blanks. */
static void a_nested_srun_forgets_values_with_blanks(void **state)
{
    static const char *const names[] = {"RANK", "MASTER_ADDR",
                                        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};
    static const char *const logs[] = {"/a b/c", "/a\\sb\\", "/a\nb =\\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(logs) / sizeof(*logs); i++) {
        start_task(logs[i]);
        for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++) {
            assert_non_null(stub_getenv(names[n]));
            setenv(names[n], stub_getenv(names[n]), 1);
        }
        assert_non_null(strstr(getenv(names[2]), logs[i]));
        setenv("PYTHONUNBUFFERED", "mine", 1);
        setenv(DT_ENV_EXPORTED, stub_getenv(DT_ENV_EXPORTED), 1);
        dtspank_inherited_forget_exported();
        for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
            assert_null(getenv(names[n]));
        assert_string_equal(getenv("PYTHONUNBUFFERED"), "mine");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nested_srun_forgets_values_with_blanks)};
    return cmocka_run_group_tests_name("spank_nested", tests, NULL, NULL);
}
