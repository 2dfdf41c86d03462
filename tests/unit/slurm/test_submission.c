/* SPDX-License-Identifier: Apache-2.0 */
/* test_submission.c - what is known of a job before it is queued, and by which
 * sum it sees that its files have changed
 */
#include "config.h"

#include "cmd/cmd.h"
#include "tests/unit/conf_pair.h"
#include "tests/unit/command.h"
#include "slurm/slurm_impl.h"

static char *sum_of(const char *text)
{
    struct dt_conf_problems problems, warnings;
    write_file("t.yaml", text);
    struct dt_conf *conf = dt_conf_load("t.yaml", NULL, &problems, &warnings);
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
    struct dt_slurm_size size;
    (void)state;
    setenv("SLURM_JOB_NUM_NODES", "9", 1);
    setenv("SALLOC_GPUS_PER_NODE", "3", 1);
    setenv("SBATCH_GPUS_PER_NODE", "2", 1);
    assert_true(dt_request_read("", &words, &size));
    assert_string_equal(size.partition, "gpu-a100");
    assert_int_equal(size.ranks, 8);
    assert_int_equal(size.nodes, 0);
    assert_int_equal(size.gpus_per_node, 3);
    dt_slurm_size_fini(&size);
    list[0] = "--wrap=true"; /* of sbatch */
    assert_true(dt_request_read("", &words, &size));
    assert_int_equal(size.gpus_per_node, 2);
    assert_null(size.partition);
    dt_slurm_size_fini(&size);
    unsetenv("SLURM_JOB_NUM_NODES");
    unsetenv("SALLOC_GPUS_PER_NODE");
    unsetenv("SBATCH_GPUS_PER_NODE");
}

#define TRAIN "data.train: train.txt\n"
#define MODEL "model.n_embd: 96\n"

/* What is said of t.yaml with these lines when sbatch with these words, or srun
 * if they are NULL, has it checked. The caller frees it.
 */
static char *said_of(const char *lines, const char *words)
{
    char text[512], args[128];
    snprintf(text, sizeof(text),
             "algorithm: sft\ntraining.per_device_batch_size: 2\n%s\n", lines);
    write_file("t.yaml", text);
    snprintf(args, sizeof(args), "--contract%s t.yaml%s",
             words ? " --allocation job.sh" : "", words ? words : "");
    int status = run_words(dt_cmd_check, args);
    assert_int_equal(status, errors[0] ? EX_CONFIG : 0);
    return strdup(errors);
}

#define NOT_SET(place, key, name)                                              \
    "t.yaml:" place ": " key ": the environment variable " name " is not "     \
    "set: set it, or write ${" name ":-default}\n"

static void what_slurm_promises_is_known_in_the_job(void **state)
{
    static const struct {
        const char *lines, *words, *says;
    } cases[] = {
        {TRAIN MODEL "output_dir: 'o${SLURM_JOB_ID}'", "", ""},
        {TRAIN MODEL "output_dir: 'o${SLURM_JOB_ID}'", NULL,
         NOT_SET("5:13", "run.output_dir", "SLURM_JOB_ID")},
        {TRAIN MODEL "output_dir: 'o${SLURM_ARRAY_TASK_ID}'", " -- -a 0-3", ""},
        {TRAIN MODEL "output_dir: 'o${SLURM_ARRAY_TASK_ID}'", " -- --array=3",
         ""},
        {TRAIN MODEL "output_dir: 'o${SLURM_ARRAY_TASK_ID}'",
         " -- -n1 -- x -a 0-3",
         NOT_SET("5:13", "run.output_dir", "SLURM_ARRAY_TASK_ID")},
        {TRAIN MODEL "output_dir: 'o${SLURM_NO_SUCH}'", "",
         NOT_SET("5:13", "run.output_dir", "SLURM_NO_SUCH")},
        /* files of the job */
        {TRAIN MODEL "data.eval: 'e${SLURM_ARRAY_TASK_ID}.txt'", " -- -a 1",
         ""},
        {TRAIN MODEL "data.eval: 'e${SLURM_ARRAY_TASK_ID}*.txt'", " -- -a 1",
         ""},
        {MODEL "data.train: '${SLURM_ARRAY_TASK_ID}.txt'", " -- -a 1", ""},
        {MODEL
         "data: {train: '${SLURM_ARRAY_TASK_ID}.bin', format: tokens_bin}",
         " -- -a 1", ""},
        {MODEL "data: {train: '${SLURM_ARRAY_TASK_ID}', packing: bfd}",
         " -- -a 1", ""},
        {TRAIN "model.path: 'm${SLURM_ARRAY_TASK_ID}'", " -- -a 1", ""},
        {TRAIN MODEL "resume: 'r${SLURM_ARRAY_TASK_ID}'", " -- -a 1", ""},
        {TRAIN MODEL "data.eval: e1.txt", " -- -a 1",
         "t.yaml:5:12: data.eval: %s/e1.txt: No such file or directory\n"},
    };
    char wanted[512];
    (void)state;
    write_file("job.sh", "#!/bin/sh\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *said = said_of(cases[i].lines, cases[i].words);
        snprintf(wanted, sizeof(wanted), cases[i].says, test_directory);
        assert_string_equal(said, wanted);
        free(said);
    }
    setenv("SBATCH_ARRAY_INX", "0-1", 1);
    char *said = said_of(TRAIN MODEL "output_dir: 'o${SLURM_ARRAY_TASK_ID}'",
                         " -- --wrap=true");
    assert_string_equal(said, "");
    free(said);
    unsetenv("SBATCH_ARRAY_INX");
    unlink("job.sh");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_covers_the_deepspeed_file),
        cmocka_unit_test(a_request_has_sizes_and_the_partition),
        cmocka_unit_test(what_slurm_promises_is_known_in_the_job),
    };
    return cmocka_run_group_tests_name("submission", tests, enter_directory,
                                       leave_pair);
}
