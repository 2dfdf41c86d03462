/* SPDX-License-Identifier: Apache-2.0 */
/* test_strategy.c - auto takes the fastest of what fits, on all ranks alike */
#include "config.h"

#define SMALL                                                                  \
    "algorithm: sft\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 16, n_layer: 4, n_head: 2}\n"            \
    "data.train: train.jsonl\n"                                                \
    "data.max_length: 32\n"                                                    \
    "training.per_device_batch_size: 2\n"                                      \
    "logging.report_to: jsonl\n"

#include "plan/plan.h"
#include "plan/strategy.h"
#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/small_run.h"

/* A step is its update, which ddp makes whole on each rank. */
#define UPDATES "network: 10 GB/s\nnetwork_call: 1 us\nmemory: 0.1 MB/s\n"
/* A step is its collectives, of which ddp has the fewest. */
#define CALLS "network: 10 GB/s\nnetwork_call: 900 ms\nmemory: 20 GB/s\n"
#define RATES                                                                  \
    "device: cpu\nranks_per_node: 1\nblocks_fp32: 100 GFLOP/s\n"               \
    "head_fp32: 100 GFLOP/s\nnode: 10 GB/s\nnode_call: 1 us\n"

/* A run with these lines on four nodes, which nothing is allocated for. */
struct planned {
    struct dt_conf *conf;
    struct dt_spec spec;
    struct dt_model_options options;
};

static struct planned plan(const char *lines)
{
    struct planned p = {.conf = small_conf(lines)};
    struct dt_error err = {0};
    p.spec = (struct dt_spec){.conf = *p.conf,
                              .world = 4,
                              .nodes = {.count = 4, .least = 1, .most = 1},
                              .exec = dt_exec_cpu()};
    if (dt_plan_resolve(&p.spec, &p.options, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static void unplan(struct planned *p)
{
    dt_spec_fini(&p->spec);
    dt_conf_destroy(p->conf);
}

static size_t total_of(const struct planned *p, int strategy)
{
    struct dt_spec spec = p->spec;
    spec.conf.distributed.strategy = strategy;
    struct dt_plan plan = dt_plan_make(&spec, &p->options);
    return dt_plan_total(&plan);
}

static struct dt_rates rates_of(const char *lines)
{
    char text[512];
    struct dt_rates rates;
    struct dt_error err = {0};
    snprintf(text, sizeof(text), RATES "%s", lines);
    if (dt_rates_parse("rates", text, &rates, &err) < 0)
        fail_msg("%s", err.text);
    return rates;
}

/* What is taken with `left` bytes for each of `local_size` ranks of a node. */
static int taken(const struct planned *p, size_t left, int local_size,
                 const struct dt_rates *rates)
{
    struct dt_ballot ballot = {.left = left, .local_size = local_size};
    const struct dt_predictor predictor = {
        .rates = rates, .nodes = 4, .ranks = 1};
    struct dt_error err = {0};
    if (dt_ballot_make(&p->spec, &p->options, rates ? &predictor : NULL,
                       &ballot, &err) < 0)
        fail_msg("%s", err.text);
    return dt_ballot_take(&p->spec, &ballot);
}

/* --- what is taken --- */

static void without_rates_it_is_the_first_that_fits(void **state)
{
    struct planned p = plan("");
    size_t need[DT_STRATEGIES];
    (void)state;
    for (int s = DT_CONF_DDP; s < DT_STRATEGIES; s++) {
        need[s] = total_of(&p, s);
        assert_true(s == DT_CONF_DDP || need[s] < need[s - 1]);
    }
    for (int s = DT_CONF_DDP; s < DT_STRATEGIES; s++) {
        const int next = s < DT_CONF_ZERO3 ? s + 1 : s;
        assert_int_equal(taken(&p, need[s], 1, NULL), s);
        assert_int_equal(taken(&p, need[s] - 1, 1, NULL), next);
        assert_int_equal(taken(&p, 2 * need[s] - 1, 2, NULL), next);
    }
    /* by the number of parameters, of which there are few */
    p.spec.conf.distributed.strategy_auto_memory = false;
    assert_int_equal(taken(&p, 1, 1, NULL), DT_CONF_DDP);
    p.spec.conf.distributed.strategy_auto_memory = true;
    p.spec.world = 1;
    assert_int_equal(taken(&p, 1, 1, NULL), DT_CONF_DDP);
    unplan(&p);
}

static void the_clock_chooses_of_what_fits(void **state)
{
    struct planned p = plan("");
    const struct dt_rates updates = rates_of(UPDATES), calls = rates_of(CALLS);
    const size_t zero1 = total_of(&p, DT_CONF_ZERO1);
    (void)state;
    assert_int_equal(taken(&p, SIZE_MAX, 1, &updates), DT_CONF_ZERO1);
    assert_int_equal(taken(&p, SIZE_MAX, 1, &calls), DT_CONF_DDP);
    assert_int_equal(taken(&p, zero1, 1, &updates), DT_CONF_ZERO1);
    assert_int_equal(taken(&p, zero1 - 1, 1, &updates), DT_CONF_ZERO2);
    assert_int_equal(taken(&p, zero1, 1, &calls), DT_CONF_ZERO1);
    assert_int_equal(taken(&p, 1, 1, &calls), DT_CONF_ZERO3);
    unplan(&p);
}

/* With it nothing is lost when a spare node takes the place of another. */
static void spares_have_ddp_where_it_fits(void **state)
{
    struct planned p = plan("launch: {nodes: 4, spares: 1}\n");
    const struct dt_rates updates = rates_of(UPDATES);
    const size_t ddp = total_of(&p, DT_CONF_DDP);
    struct dt_ballot ballot = {.left = ddp, .local_size = 1};
    const struct dt_predictor predictor = {
        .rates = &updates, .nodes = 4, .ranks = 1};
    struct dt_error err = {0};
    char text[256];
    (void)state;
    assert_int_equal(taken(&p, ddp, 1, &updates), DT_CONF_DDP);
    assert_int_equal(taken(&p, ddp - 1, 1, &updates), DT_CONF_ZERO1);
    assert_int_equal(
        dt_ballot_make(&p.spec, &p.options, &predictor, &ballot, &err), 0);
    assert_string_equal(
        dt_ballot_text(&p.spec, &ballot, text),
        "ddp (auto: fits, and a spare node has all that a lost one had)");
    unplan(&p);
}

static void a_strategy_that_is_given_is_taken(void **state)
{
    const struct dt_rates updates = rates_of(UPDATES);
    (void)state;
    for (int s = DT_CONF_DDP; s < DT_STRATEGIES; s++) {
        char line[64];
        snprintf(line, sizeof(line), "distributed.strategy: %s\n",
                 dt_conf_strategy_name(s));
        struct planned p = plan(line);
        assert_int_equal(taken(&p, 1, 1, &updates), s);
        unplan(&p);
    }
}

/* Offload is not for ddp, and that of weights for zero3 alone. */
static void auto_is_a_strategy_that_can_offload(void **state)
{
#define OFFLOAD "distributed.offload_optimizer: {device: nvme, path: /tmp}\n"
    const struct dt_rates calls =
        rates_of(CALLS "drive_read: 1 GB/s\ndrive_write: 1 GB/s\n");
    const struct dt_rates *known[] = {NULL, &calls};
    struct planned p = plan(OFFLOAD);
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(taken(&p, SIZE_MAX, 1, known[i]), DT_CONF_ZERO1);
    unplan(&p);
    p = plan(OFFLOAD "distributed.offload_param: {device: cpu}\n");
    for (int i = 0; i < 2; i++)
        assert_int_equal(taken(&p, SIZE_MAX, 1, known[i]), DT_CONF_ZERO3);
    unplan(&p);
}

/* --- why --- */

static void the_reason_is_told(void **state)
{
    static const struct {
        double seconds[4];
        bool lacks[4];
        const char *text;
    } cases[] = {
        {{1.43, 1, 1, 1},
         {0},
         "zero1 (auto: fits, predicted 43 % faster than ddp)"},
        {{1.03, 1, 1, 1},
         {0},
         "ddp (auto: fits, and no other that does is predicted to be more than "
         "3 % faster)"},
        {{1.031, 1, 1, 1},
         {0},
         "zero1 (auto: fits, predicted 3 % faster than ddp)"},
        {{9, 2, 1, 1},
         {true},
         "zero2 (auto: fits, predicted 100 % faster than zero1)"},
        {{1, 9, 2, 1.5},
         {true, false, true},
         "zero3 (auto: fits, predicted 500 % faster than zero1)"},
        {{1, 1, 1, 2},
         {true, true, true},
         "zero3 (auto: the only one that fits)"},
        {{1, 1, 1, 1}, {true, true, true, true}, "zero3 (auto: none fits)"},
        {{0},
         {true},
         "zero1 (auto: the first that fits; no rates are known of a lamp)"},
    };
    struct planned p = plan("");
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_ballot ballot = {.kind = DT_BALLOT_OPEN,
                                   .least = DT_CONF_DDP,
                                   .unknown = "no rates are known of a lamp"};
        for (int k = 0; k < 4; k++) {
            ballot.seconds[DT_CONF_DDP + k] = cases[i].seconds[k];
            ballot.lacks[DT_CONF_DDP + k] = cases[i].lacks[k];
        }
        assert_string_equal(dt_ballot_text(&p.spec, &ballot, text),
                            cases[i].text);
    }
    struct dt_ballot ballot = {.kind = DT_BALLOT_SIZE, .least = DT_CONF_DDP};
    assert_string_equal(dt_ballot_text(&p.spec, &ballot, text),
                        "ddp (auto: by the number of parameters)");
    ballot.kind = DT_BALLOT_GIVEN;
    assert_string_equal(dt_ballot_text(&p.spec, &ballot, text), "");
    unplan(&p);
}

/* --- in a run --- */

static _Thread_local size_t available;

static size_t available_bytes(void)
{
    return available;
}

/* What ranks have taken; and the memory of rank 1, others have enough. */
struct choice {
    size_t rank1;
    int strategy[3];
    char text[256];
};

static int choose(const struct dt_comm_world *world, void *arg)
{
    struct small_world *small = arg;
    struct choice *choice = small->arg;
    struct dt_device device = dt_cpu;
    struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_run whole = {.spec = {.rank = world->rank, .world = world->size}};
    struct dt_run *run = &whole;
    struct dt_report_step line;
    device.available_bytes = available_bytes;
    exec.device = &device;
    available = world->rank == 1 ? choice->rank1 : (size_t)1 << 30;
    struct dt_comm *comm = small_comm(world, &err);
    TRY(comm);
    TRY(dt_run_init(run, small->conf, &exec, comm, 1, &err) == 0);
    choice->strategy[run->spec.rank] = run->spec.conf.distributed.strategy;
    if (run->spec.rank == 0)
        strcpy(choice->text, run->spec.strategy);
    TRY(small_step(run, &line, &err) == 0);
    dt_run_fini(run);
    dt_comm_destroy(comm);
    return 0;
}

static struct choice run_with(const char *rates, const char *lines,
                              size_t rank1)
{
    char text[512];
    struct choice choice = {.rank1 = rank1};
    FILE *file = fopen("rates", "w");
    fprintf(file, RATES "%s", rates);
    fclose(file);
    snprintf(text, sizeof(text), "distributed.rates: rates\n%s", lines);
    struct small_world small = {.conf = small_conf(text), .arg = &choice};
    small_clean(NULL);
    world_threads(3, choose, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
    unlink("rates");
    for (int r = 1; r < 3; r++)
        assert_int_equal(choice.strategy[r], choice.strategy[0]);
    return choice;
}

/* Bytes of a rank of three. */
static size_t need_of(const char *lines, int strategy)
{
    struct planned p = {.conf = small_conf(lines)};
    struct dt_error err = {0};
    p.spec =
        (struct dt_spec){.conf = *p.conf, .world = 3, .exec = dt_exec_cpu()};
    assert_int_equal(dt_plan_resolve(&p.spec, &p.options, &err), 0);
    const size_t bytes = total_of(&p, strategy);
    unplan(&p);
    return bytes;
}

static void all_ranks_take_the_fastest_that_fits_on_each(void **state)
{
    const size_t enough = (size_t)1 << 30;
    (void)state;
    struct choice choice = run_with(UPDATES, "", enough);
    assert_int_equal(choice.strategy[0], DT_CONF_ZERO1);
    assert_non_null(strstr(choice.text, "zero1 (auto: fits, predicted "));
    assert_non_null(strstr(choice.text, " % faster than ddp)"));
    choice = run_with(CALLS, "", enough);
    assert_int_equal(choice.strategy[0], DT_CONF_DDP);
    choice = run_with(CALLS, "", need_of("", DT_CONF_DDP));
    assert_int_equal(choice.strategy[0], DT_CONF_DDP);
    choice = run_with(CALLS, "", need_of("", DT_CONF_DDP) - 1);
    assert_int_equal(choice.strategy[0], DT_CONF_ZERO1);
    choice = run_with(CALLS, "", need_of("", DT_CONF_ZERO2) - 1);
    assert_int_equal(choice.strategy[0], DT_CONF_ZERO3);
    assert_string_equal(choice.text, "zero3 (auto: the only one that fits)");
    choice = run_with(UPDATES, "distributed.strategy: ddp\n", enough);
    assert_int_equal(choice.strategy[0], DT_CONF_DDP);
    assert_string_equal(choice.text, "");
}

/* The file lacks what a run between nodes needs. */
static void rates_that_are_missing_are_named(void **state)
{
    (void)state;
    struct choice choice = run_with("memory: 1 MB/s\n", "", (size_t)1 << 30);
    assert_int_equal(choice.strategy[0], DT_CONF_DDP);
    assert_non_null(strstr(choice.text, "ddp (auto: the first that fits; "));
    assert_non_null(strstr(choice.text, "rates has no rate 'network'"));
}

static int train_two(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    struct dt_report_step line;
    double *seen = arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    if (run->spec.rank == 0) {
        seen[0] = (double)run->progress.step;
        seen[1] = line.grad_norm;
        seen[2] = run->spec.conf.distributed.strategy;
    }
    return 0;
}

/* Rates that have changed change the strategy, and nothing else. */
static void a_run_is_resumed_with_another_strategy(void **state)
{
    static const char *const rates[] = {RATES CALLS, RATES UPDATES};
    double seen[2][3];
    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            FILE *file = fopen("rates", "w");
            fputs(rates[k == 0 ? 0 : i], file);
            fclose(file);
            (k == 0 ? small_runs : small_resume)(
                2,
                "distributed.rates: rates\ntraining: {resume: auto, epochs: "
                "4}\n",
                train_two, seen[i]);
        }
        assert_true(seen[i][0] == 4);
        assert_true(seen[i][2] == (i ? DT_CONF_ZERO1 : DT_CONF_DDP));
    }
    assert_true(seen[0][1] > 0 && seen[0][1] == seen[1][1]);
    unlink("rates");
}

static void rates_of_the_other_kind_are_refused(void **state)
{
    FILE *file = fopen("rates", "w");
    (void)state;
    fputs("like: h100\n", file);
    fclose(file);
    struct dt_conf *conf = small_conf("distributed.rates: rates\n");
    struct dt_rates rates;
    struct dt_error err = {0};
    assert_int_equal(dt_strategy_rates(conf, true, &rates, &err), 1);
    assert_int_equal(dt_strategy_rates(conf, false, &rates, &err), -1);
    assert_non_null(strstr(err.text, "t.yaml:8:20: distributed.rates: "));
    assert_non_null(
        strstr(err.text, "/rates is of GPUs, and the run is on CPUs"));
    dt_conf_destroy(conf);
    unlink("rates");
}

static void devices_are_known_by_what_they_say_of_themselves(void **state)
{
    static const struct {
        const char *says, *name;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3, 79.6 GiB, sm_90, driver 13.0", "h100"},
        {"NVIDIA H200, 139.8 GiB, sm_90, driver 13.0", "h200"},
        {"NVIDIA A100-SXM4-80GB, 79.2 GiB, sm_80, driver 12.4", "a100"},
        {"NVIDIA H100 PCIe, 79.6 GiB, sm_90, driver 13.0", NULL},
        {"NVIDIA H100 NVL, 93.1 GiB, sm_90, driver 13.0", NULL},
        {"NVIDIA A100-SXM4-40GB MIG 1g.5gb, 4.8 GiB, sm_80", NULL},
        {"NVIDIA GH200 480GB, 94.5 GiB, sm_90, driver 13.0", NULL},
        {"NVIDIA H20, 95.0 GiB, sm_90, driver 13.0", NULL},
        {"NVIDIA A1000, 8.0 GiB, sm_86, driver 13.0", NULL},
        {"H100", NULL},
        {"", NULL},
    };
    struct dt_rates rates;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool found = dt_rates_of_device(cases[i].says, true, &rates);
        assert_int_equal(found, cases[i].name != NULL);
        if (found)
            assert_string_equal(rates.from, cases[i].name);
    }
    assert_true(dt_rates_of_device("2 cores", false, &rates));
    assert_string_equal(rates.from, "cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rates_it_is_the_first_that_fits),
        cmocka_unit_test(the_clock_chooses_of_what_fits),
        cmocka_unit_test(spares_have_ddp_where_it_fits),
        cmocka_unit_test(a_strategy_that_is_given_is_taken),
        cmocka_unit_test(auto_is_a_strategy_that_can_offload),
        cmocka_unit_test(the_reason_is_told),
        cmocka_unit_test(all_ranks_take_the_fastest_that_fits_on_each),
        cmocka_unit_test(rates_that_are_missing_are_named),
        cmocka_unit_test(a_run_is_resumed_with_another_strategy),
        cmocka_unit_test(rates_of_the_other_kind_are_refused),
        cmocka_unit_test(devices_are_known_by_what_they_say_of_themselves),
    };
    return cmocka_run_group_tests_name("strategy", tests, small_enter,
                                       small_leave);
}
