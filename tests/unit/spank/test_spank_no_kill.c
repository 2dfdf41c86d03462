/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_no_kill.c - jobs that Slurm does not end with their first node */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spank/options.h"
#include "tests/unit/spank/submit_scene.h"

/* sbatch reads its variables before the options of its command line, which are
 * here those of the environment.
 */
static int outlives_job_body(void)
{
    EXPECT(is_set("SBATCH_NO_KILL", "set"));
    EXPECT(is_set("SALLOC_NO_KILL", "set"));
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", "set"));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL)); /* nor in the job */
    EXPECT(is_set("SALLOC_NO_KILL", NULL));
    EXPECT(is_set("SLURM_NO_KILL", NULL));
    return 0;
}

/* But after the options of the script, in whatever order they come. */
static int outlives_script_body(void)
{
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", "set"));
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    EXPECT(dtspank_submit_override("launch.spares=1") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", "set"));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    return 0;
}

/* What the environment says counts for more, and comes later. */
static int outlives_preset_body(void)
{
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    return 0;
}

/* The component of a heterogeneous job that comes first leaves nothing. */
static int outlives_component_body(void)
{
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    return 0;
}

/* Told only once, although the question is asked for each option. */
static int mute_body(void)
{
    static const char warning[] = "did not answer within 5 s: if the run is to "
                                  "outlive its nodes, add --no-kill\n";
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    EXPECT(dtspank_submit_option("mute") == 0);
    EXPECT(strcmp(stub.said, "") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    const char *told = strstr(stub.said, warning);
    EXPECT(told && !strstr(told + 1, warning));
    return 0;
}

static int users_no_kill_body(void)
{
    EXPECT(is_set("SBATCH_NO_KILL", "off"));
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SBATCH_NO_KILL", "off"));
    return 0;
}

static int ends_job_body(void)
{
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(is_set("SBATCH_NO_KILL", NULL));
    return 0;
}

static void a_job_stays_without_nodes_that_its_run_can_lose(void **state)
{
    (void)state;
    run_case(S_CTX_ALLOCATOR, outlives_script_body);
    run_case(S_CTX_ALLOCATOR, outlives_component_body);
    setenv(DTSPANK_PRESET, "outlives", 1);
    run_case(S_CTX_ALLOCATOR, outlives_job_body);
    setenv("SBATCH_NO_KILL", "off", 1);
    run_case(S_CTX_ALLOCATOR, users_no_kill_body);
    unsetenv("SBATCH_NO_KILL");
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    run_case(S_CTX_ALLOCATOR, ends_job_body);
    run_case(S_CTX_ALLOCATOR, outlives_preset_body);
    setenv(DTSPANK_PRESET, "mute", 1);
    run_case(S_CTX_ALLOCATOR, mute_body);
    unsetenv(DTSPANK_PRESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_stays_without_nodes_that_its_run_can_lose),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
