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

static void a_request_has_sizes_and_the_partition(void **state)
{
    char *list[] = {"-p", "gpu-a100", "-N2-4", "--ntasks=8"};
    const struct dt_srun_words words = {.word = list, .count = 4};
    struct dt_job_size size;
    (void)state;
    setenv("SLURM_JOB_NUM_NODES", "9", 1);
    setenv("SALLOC_GPUS_PER_NODE", "3", 1);
    setenv("SBATCH_GPUS_PER_NODE", "2", 1);
    assert_true(dt_request_read("", &words, &size));
    assert_string_equal(size.partition, "gpu-a100");
    assert_int_equal(size.ranks, 8);
    assert_int_equal(size.nodes, 0);
    assert_int_equal(size.gpus_per_node, 3);
    dt_job_size_fini(&size);
    list[0] = "--wrap=true"; /* of sbatch */
    assert_true(dt_request_read("", &words, &size));
    assert_int_equal(size.gpus_per_node, 2);
    assert_null(size.partition);
    dt_job_size_fini(&size);
    unsetenv("SLURM_JOB_NUM_NODES");
    unsetenv("SALLOC_GPUS_PER_NODE");
    unsetenv("SBATCH_GPUS_PER_NODE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_covers_the_deepspeed_file),
        cmocka_unit_test(a_request_has_sizes_and_the_partition),
    };
    return cmocka_run_group_tests_name("submission", tests, enter_directory,
                                       leave_pair);
}
