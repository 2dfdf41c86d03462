/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_pmix.c - whether Slurm has PMIx, wherever its plugins are */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spank/srun/pmix.h"
#include "tests/unit/scratch.h"

/* Slurm's own plugins lead to its folder, wherever libslurm is. */
static void pmix_is_found_beside_the_plugins_of_slurm(void **state)
{
    char command[1600];
    struct link_map *map;
    (void)state;
    assert_false(dtspank_pmix_is_there());
    void *libm = dlopen("libm.so.6", RTLD_LAZY);
    assert_int_equal(dlinfo(libm, RTLD_DI_LINKMAP, &map), 0);
    const char *plugin = scratch_path("auth_any.so");
    snprintf(command, sizeof(command), "cp %s %s", map->l_name, plugin);
    assert_int_equal(system(command), 0);
    assert_non_null(dlopen(plugin, RTLD_LAZY));
    assert_false(dtspank_pmix_is_there());
    scratch_write("mpi_pmix.so", "", 0);
    assert_true(dtspank_pmix_is_there());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pmix_is_found_beside_the_plugins_of_slurm)};
    return cmocka_run_group_tests_name("spank_pmix", tests, NULL, NULL);
}
