/* SPDX-License-Identifier: Apache-2.0 */
/* test_costs.c - what steps cost: the parts of their time, and ranks.jsonl */
#include "config.h"

#include <fcntl.h>

#include "device/device.h"
#include "run/spec.h"
#include "train/train.h"
#include "train/watch/watch_impl.h"
#include "tests/unit/small_run.h"
#include "tests/unit/sysfs.h"

static bool go_on(void)
{
    return false;
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = comm ? dt_trainer_run(arg, &exec, comm, 1, NULL, go_on, NULL, &err)
                  : -1;
    if (rc < 0)
        fprintf(stderr, "# %s\n", err.text);
    dt_comm_destroy(comm);
    return rc;
}

static void train(int size, const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    world_threads(size, train_rank, conf);
    dt_conf_destroy(conf);
}

/* Line `number` of a file in logs/, from 1; release it. */
static json_t *line_of(const char *name, int number)
{
    char path[64], line[8192] = "";
    snprintf(path, sizeof(path), "out/logs/%s", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int i = 0; i < number; i++)
        assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    json_t *json = json_loads(line, 0, NULL);
    assert_non_null(json);
    return json;
}

static double number_of(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void the_parts_of_a_step_are_no_more_than_the_step(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 6, max_steps: 4}\n"
             "checkpoint.steps: 2\n" EACH);
    for (int i = 1; i <= 4; i++) {
        json_t *line = line_of("metrics.jsonl", i);
        const double step = number_of(line, "step_s");
        const double compute = number_of(line, "compute_s");
        const double stall = number_of(line, "ckpt_stall_s");
        const double parts = compute + stall + number_of(line, "data_wait_s") +
                             number_of(line, "comm_exposed_s");
        assert_true(compute > 0 && parts <= step * 1.001);
        assert_true(i == 3 ? stall > 0 : stall == 0); /* of the save at 2 */
        assert_true(number_of(line, "comm_s") == 0);
        assert_true(number_of(line, "skipped") == 0);
        assert_true(number_of(line, "mem") > 1e6 &&
                    number_of(line, "mem_peak") >= number_of(line, "mem"));
        assert_true(number_of(line, "rank_step_s/min") ==
                    number_of(line, "rank_step_s/max"));
        assert_true(number_of(line, "rank_step_s/argmax") == 0);
        json_decref(line);
    }
}

static void tokens_are_counted_since_the_line_and_since_the_start(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 6, max_steps: 4}\n"
             "logging: {steps: 2, first_step: false}\n");
    json_t *first = line_of("metrics.jsonl", 1),
           *second = line_of("metrics.jsonl", 2);
    assert_true(number_of(first, "tokens") == TARGETS);
    assert_true(number_of(second, "tokens") == TARGETS);
    assert_true(number_of(second, "total_tokens") == 2 * TARGETS);
    json_decref(first);
    json_decref(second);
}

/* A block of 16 channels: 12 C^2 + 13 C, the last norm, and a head that is the
 * embedding; the positions are looked up.
 */
static int check_flops(struct dt_run *run, void *arg)
{
    struct dt_error err = {.text = ""};
    const size_t C = 16, T = 32, V = run->spec.learner.config.vocab_size;
    const size_t N = 12 * C * C + 13 * C + 2 * C + V * C;
    (void)arg;
    TRY(run->spec.learner.layout->param_total == N + T * C);
    TRY(dt_flops_per_token(&run->spec) == (double)(6 * N));
    run->spec.conf.data.kind = DT_KIND_TOKENS;
    TRY(dt_flops_per_token(&run->spec) == (double)(6 * N + 12 * C * T));
    return 0;
}

static void a_token_is_6_n_and_attention_where_its_length_is_known(void **state)
{
    (void)state;
    small_runs(1, "training.train_batch_size: 6\n", check_flops, NULL);
}

static void peaks_are_of_known_devices_in_half_precision(void **state)
{
    static const char h100[] = "NVIDIA H100 80GB HBM3, 79.1 GiB, sm_90";
    (void)state;
    assert_true(dt_peak_of(h100, DT_BF16)->flops == 989.4e12);
    assert_true(dt_peak_of("NVIDIA H200 NVL, 1", DT_F16)->flops == 835.5e12);
    assert_true(dt_peak_of("NVIDIA H200, 139 GiB", DT_F16)->flops == 989.4e12);
    assert_null(dt_peak_of(h100, DT_F32));
    assert_null(dt_peak_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb", DT_BF16));
    assert_null(dt_peak_of("the CPUs of this host", DT_BF16));
}

static void ranks_jsonl_has_a_line_at_the_end(void **state)
{
    (void)state;
    train(2, "training: {train_batch_size: 6, max_steps: 3}\n" EACH);
    json_t *line = line_of("ranks.jsonl", 1);
    const json_t *compute = json_object_get(line, "compute_s");
    assert_true(number_of(line, "step") == 3);
    assert_int_equal(json_array_size(compute), 2);
    assert_true(json_real_value(json_array_get(compute, 1)) > 0);
    assert_int_equal(json_array_size(json_object_get(line, "mem")), 2);
    assert_true(json_is_null(json_object_get(line, "power_w")));
    json_decref(line);
}

/* Waiting for what the last rank has to say is no time that nobody counts. */
static int ask_late_rank(struct dt_run *run, void *arg)
{
    struct dt_report_step line = {0};
    struct dt_error err = {0};
    (void)arg;
    TRY(dt_watch_begin(run, &err) == 0);
    const double since = run->watch->window.since;
    if (run->spec.rank == 1)
        usleep(50000);
    run->watch->window.steps = 1;
    TRY(dt_watch_costs(run, &line, &err) == 0);
    TRY(run->watch->window.since == since + line.seconds);
    TRY(run->watch->window.steps == 0);
    return 0;
}

static void a_window_begins_where_the_one_before_ended(void **state)
{
    (void)state;
    small_runs(2, "training.train_batch_size: 6\n", ask_late_rank, NULL);
}

#define ZONE "sys/class/powercap/intel-rapl:0"

static double value_of(const struct dt_report_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (strcmp(values->value[i].name, name) == 0)
            return values->value[i].value;
    return -1;
}

/* Rank 0 reads the counter of the host, which grows by 5 J. */
static int count_energy(struct dt_run *run, void *arg)
{
    struct dt_report_step line = {0};
    const struct dt_report_values *costs = &line.costs;
    struct dt_error err = {0};
    TRY(dt_watch_begin(run, &err) == 0);
    run->watch->energy.counters = dt_energy_open(
        &(struct dt_energy_options){.node = run->spec.rank == 0, .root = arg});
    TRY(run->watch->energy.counters);
    if (run->spec.rank == 0)
        sysfs_write("host", "5000000\n", ZONE "/energy_uj");
    run->watch->window.steps = 2;
    run->progress.loss_tokens = 100;
    TRY(dt_watch_costs(run, &line, &err) == 0);
    TRY(near(value_of(costs, "energy_j"), 5, 1e-9));
    TRY(near(value_of(costs, "tokens_per_j"), 20, 1e-9));
    run->watch->window.steps = 1;
    run->progress.loss_tokens = 0;
    TRY(dt_watch_costs(run, &line, &err) == 0);
    TRY(value_of(costs, "energy_j") == 0); /* nothing since then */
    TRY(isnan(value_of(costs, "tokens_per_j")));
    dt_watch_end(run);
    return 0;
}

static void each_rank_that_counts_energy_has_its_power(void **state)
{
    (void)state;
    sysfs_write("host", "package-0\n", ZONE "/name");
    sysfs_write("host", "9000000\n", ZONE "/max_energy_range_uj");
    sysfs_write("host", "0\n", ZONE "/energy_uj");
    char *root = strdup(scratch_path("host"));
    small_runs(2, "training: {train_batch_size: 6}\n", count_energy, root);
    free(root);
    json_t *line = line_of("ranks.jsonl", 1);
    const json_t *power = json_object_get(line, "power_w");
    assert_int_equal(json_array_size(power), 2);
    assert_true(json_number_value(json_array_get(power, 0)) > 0);
    assert_true(json_is_null(json_array_get(power, 1)));
    json_decref(line);
}

/* It is of a run that was killed: whoever writes there removes it. */
static void a_site_may_set_the_directory_for_prometheus(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    (void)state;
    assert_int_equal(mkdir("site", 0755), 0);
    const char *path = scratch_write("site/disttrain_1_0.prom", "", 0);
    utimensat(AT_FDCWD, path, old, 0);
    setenv("DISTTRAIN_PROMETHEUS", "site", 1);
    train(1, "training: {train_batch_size: 6, max_steps: 1}\n");
    unsetenv("DISTTRAIN_PROMETHEUS");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir("site"), 0); /* nor is that of this run left */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, NULL, small_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_parts_of_a_step_are_no_more_than_the_step),
        CASE(tokens_are_counted_since_the_line_and_since_the_start),
        CASE(a_window_begins_where_the_one_before_ended),
        CASE(ranks_jsonl_has_a_line_at_the_end),
        CASE(each_rank_that_counts_energy_has_its_power),
        CASE(a_site_may_set_the_directory_for_prometheus),
        CASE(a_token_is_6_n_and_attention_where_its_length_is_known),
        CASE(peaks_are_of_known_devices_in_half_precision),
    };
    return cmocka_run_group_tests_name("costs", tests, small_enter,
                                       small_leave);
}
