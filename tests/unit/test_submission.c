/* SPDX-License-Identifier: Apache-2.0 */
/* test_submission.c - the sum by which a job sees that its files have changed
 */
#include "config.h"

#include "conf_pair.h"
#include "slurm/request.h"
#include "slurm/submission.h"

static char *sum_of(const char *text)
{
    struct dt_conf_problems problems, warnings;
    write_file("t.yaml", text);
    struct dt_conf *conf = dt_conf_load("t.yaml", &problems, &warnings);
    assert_non_null(conf);
    char *sum = dt_submission_sum(conf);
    assert_non_null(sum);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    dt_conf_destroy(conf);
    return sum;
}

static void a_sum_covers_the_deepspeed_file(void **state)
{
    static const char text[] = LEAST "deepspeed: ds.json\n";
    char *sums[4];
    (void)state;
    write_file("ds.json", "{" BF16 "}\n");
    sums[0] = sum_of(text);
    sums[1] = sum_of(text);
    sums[2] = sum_of(LEAST "deepspeed: ds.json # the same\n");
    write_file("ds.json", "{" BF16 ", \"gradient_clipping\": 2}\n");
    sums[3] = sum_of(text);
    assert_string_equal(sums[0], sums[1]);
    assert_string_not_equal(sums[0], sums[2]);
    assert_string_not_equal(sums[0], sums[3]);
    for (int i = 0; i < 4; i++)
        free(sums[i]);
}

/* A partition may have a hyphen, which in a size makes a range. */
static void a_request_sets_sizes_and_the_partition(void **state)
{
    char *list[] = {"-p", "gpu-a100", "-N2-4", "--ntasks=8"};
    const struct dt_srun_words words = {.word = list, .count = 4};
    (void)state;
    setenv("SLURM_JOB_NUM_NODES", "9", 1);
    assert_true(dt_submission_export_request("", &words));
    assert_string_equal(getenv("SLURM_JOB_PARTITION"), "gpu-a100");
    assert_string_equal(getenv("SLURM_NTASKS"), "8");
    assert_null(getenv("SLURM_JOB_NUM_NODES"));
    unsetenv("SLURM_JOB_PARTITION");
    unsetenv("SLURM_NTASKS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_covers_the_deepspeed_file),
        cmocka_unit_test(a_request_sets_sizes_and_the_partition),
    };
    return cmocka_run_group_tests_name("submission", tests, enter_directory,
                                       leave_pair);
}
