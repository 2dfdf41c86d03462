/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_pmix.c - whether Slurm has PMIx, wherever its plugins are */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <slurm/slurm.h>

#include "spank/srun/srun_impl.h"
#include "tests/unit/scratch.h"

/* Stands in for Slurm's own, where dlsym() looks. */
slurm_conf_t slurm_conf;

static void pmix_is_looked_for_in_each_plugin_dir(void **state)
{
    char dirs[1600];
    const char *plugin = scratch_path("mpi_pmix.so");
    size_t len = (size_t)(strrchr(plugin, '/') - plugin);
    (void)state;
    assert_false(dtspank_pmix_is_there());
    snprintf(dirs, sizeof(dirs), "/nowhere:%.*s:/no", (int)len, plugin);
    slurm_conf.plugindir = dirs;
    assert_false(dtspank_pmix_is_there());
    scratch_write("mpi_pmix.so", "", 0);
    assert_true(dtspank_pmix_is_there());
    slurm_conf.plugindir = dirs + strlen("/nowhere:");
    assert_true(dtspank_pmix_is_there());
    slurm_conf.plugindir = "/nowhere:/no";
    assert_false(dtspank_pmix_is_there());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pmix_is_looked_for_in_each_plugin_dir)};
    return cmocka_run_group_tests_name("spank_pmix", tests, NULL, NULL);
}
