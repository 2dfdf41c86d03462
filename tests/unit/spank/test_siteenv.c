/* SPDX-License-Identifier: Apache-2.0 */
/* test_siteenv.c - the site's variables against those of the user and config */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

static void assert_set(const char *name, const char *value)
{
    assert_non_null(stub_getenv(name));
    assert_string_equal(stub_getenv(name), value);
}

/* Rank 1 of 2 on one node, in an active step. */
static int setup(void **state)
{
    (void)state;
    stub_reset();
    stub.component_tasks = 2;
    stub.local_tasks = 2;
    set("SLURM_PROCID", "1");
    set("SLURM_STEP_NUM_TASKS", "2");
    set("SLURM_LOCALID", "1");
    set("SLURM_NODEID", "0");
    set("SLURM_STEP_NODELIST", "n1");
    set("SLURM_STEP_NUM_NODES", "1");
    set("SLURM_JOB_ID", "1");
    set("SLURM_STEP_ID", "0");
    set("SLURM_JOB_PARTITION", "main");
    set(DT_ENV_CONFIG, "/c.yaml");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stub_reset();
    return 0;
}

static void use_site(int ac, char **av)
{
    assert_int_equal(dtspank_step_init(NULL, ac, av), 0);
    assert_string_equal(stub.said, "");
}

/* env= is for those who have nothing: neither the user nor the config. */
static void env_sets_only_what_nobody_else_has_set(void **state)
{
    char *av[] = {"env=A=site", "env=B=site", "env=C=site", "env[gpu]=C=gpu",
                  "env[gpu]=D=gpu"};
    (void)state;
    set("A", "mine");
    set(DT_ENV_CARRY "B", "config's");
    use_site(5, av);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("A", "mine");
    assert_set("B", "config's");
    assert_set("C", "site");
    assert_null(stub_getenv("D"));

    spank_unsetenv(NULL, "C");
    set("SLURM_JOB_PARTITION", "gpu");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("C", "gpu");
    assert_set("D", "gpu");
    assert_string_equal(stub.said, "");
}

/* force= wins, over env= in silence; only rank 0 tells the user. */
static void force_wins_over_the_user_and_env(void **state)
{
    char *av[] = {"env=A=site", "force=A=forced", "force=B=forced"};
    (void)state;
    set("B", "mine");
    use_site(3, av);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("A", "forced");
    assert_set("B", "forced");
    assert_string_equal(stub.said, "");

    spank_unsetenv(NULL, "RANK");
    set("SLURM_PROCID", "0");
    set("B", "mine");
    set(DT_ENV_CARRY "C", "x");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_string_equal(stub.said, "disttrain: B of the job is not used: this "
                                   "site has its own value\n");
}

static void an_inactive_step_gets_no_site_variables(void **state)
{
    char *av[] = {"env=A=site", "force=B=forced"};
    (void)state;
    use_site(2, av);
    spank_unsetenv(NULL, DT_ENV_CONFIG);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_null(stub_getenv("A"));
    assert_null(stub_getenv("B"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(env_sets_only_what_nobody_else_has_set),
        TEST(force_wins_over_the_user_and_env),
        TEST(an_inactive_step_gets_no_site_variables),
    };
    return cmocka_run_group_tests_name("siteenv", tests, NULL, NULL);
}
