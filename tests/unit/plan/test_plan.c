/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - the memory of a rank: every part counted, every offer true */
#include "config.h"

#include "algo/algo.h"
#include "run/sharing.h"
#include "conf/keys/schema.h"
#include "plan/plan.h"
#include "base/log.h"
#include "ops/workspace.h"
#include "tests/unit/conf.h"
#include "tests/unit/stderr_text.h"
#include "tests/families.h"

enum { ROWS = 24 };

static struct dt_spec spec = {
    .world = 1,
    .B = ROWS,
    .eval_B = ROWS,
    .T = 256,
    .A = 1,
    .learner.config = {.family = &dt_family_gpt2,
                       .vocab_size = 257,
                       .n_positions = 256,
                       .n_embd = 64,
                       .n_layer = 4,
                       .n_head = 2,
                       .n_kv_head = 2,
                       .head_size = 32,
                       .n_inner = 256,
                       .tie_word_embeddings = true,
                       .qkv_bias = true,
                       .out_bias = true,
                       .mlp_bias = true},
};

static struct dt_model_options options = {
    .B = ROWS, .T = 256, .compute = DT_F32, .train = true};

static struct dt_error err;

/* Configurations with and without an eval batch of its own. */
static struct dt_conf *plain, *eval;

static int setup(void **state)
{
    if (enter_directory(state) < 0)
        return -1;
    plain = load_good(LEAST, "");
    eval = load_good(LEAST "training.per_device_eval_batch_size: 100\n", "");
    spec.conf = *plain;
    spec.exec = dt_exec_cpu();
    spec.world = 1;
    spec.algo = dt_algo_of(plain);
    spec.learner.layout = dt_model_layout(&spec.learner.config, 1, &err);
    return spec.learner.layout ? 0 : -1;
}

static int teardown(void **state)
{
    dt_layout_destroy(spec.learner.layout);
    dt_conf_destroy(plain);
    dt_conf_destroy(eval);
    return leave_directory(state);
}

static size_t total(size_t B, bool recompute)
{
    struct dt_model_options changed = options;
    changed.B = B;
    changed.recompute = recompute;
    struct dt_plan plan = dt_plan_make(&spec, &changed);
    return dt_plan_total(&plan);
}

/* What a run of that kind spends of `left` bytes. */
static void expect_spent(bool recompute, size_t left, bool saves, bool whole)
{
    struct dt_model_options spent = options;
    spent.recompute = recompute;
    dt_plan_spend(&spec, &spent, left);
    assert_int_equal(spent.save_activations, saves);
    assert_int_equal(spent.whole_head, whole);
    struct dt_plan plan = dt_plan_make(&spec, &spent);
    if (saves || whole)
        assert_true(dt_plan_total(&plan) <= left);
}

/* Activations first; nothing where the bits would tell how much there was. */
static void memory_that_is_left_is_spent(void **state)
{
    struct dt_device gpu = dt_cpu;
    const struct dt_ops *ops = dt_ops_planned_gpu();
    struct dt_model_options most = options;
    (void)state;
    spec.exec.device = &gpu;
    expect_spent(false, SIZE_MAX, false, false); /* a host */
    gpu.is_host = false;
    spec.exec.ops = ops;
    spec.learner.config.vocab_size = 400000; /* 10 GB of logits */
    most.save_activations = true;
    struct dt_plan plan = dt_plan_make(&spec, &most);
    size_t saving = dt_plan_total(&plan);
    most.whole_head = true;
    plan = dt_plan_make(&spec, &most);
    size_t all = dt_plan_total(&plan);
    assert_true(all > saving);
    expect_spent(false, saving - 1, false, false);
    expect_spent(false, saving, true, false);
    expect_spent(false, all - 1, true, false);
    expect_spent(false, all, true, true);
    expect_spent(true, SIZE_MAX, false, true);
    spec.conf.run.deterministic = true;
    expect_spent(false, SIZE_MAX, false, false);
    spec.conf.run.deterministic = false;
    spec.learner.config.vocab_size = 257;
    spec.exec = dt_exec_cpu();
}

/* What would fit into `node`, as the message says it. */
static const char *offers(size_t node, int ranks)
{
    err = (struct dt_error){0};
    assert_int_equal(dt_plan_check(&spec, &options, node, ranks, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    const char *text = strstr(err.text, "what would fit: ");
    assert_non_null(text);
    return text + strlen("what would fit: ");
}

static void every_part_of_the_memory_is_counted(void **state)
{
    (void)state;
    size_t count = spec.learner.layout->count;
    struct dt_plan plan = dt_plan_make(&spec, &options);
    assert_int_equal(plan.weights, 4 * count);
    assert_int_equal(plan.master, 0);
    assert_int_equal(plan.gradients, 4 * count);
    assert_int_equal(plan.optimizer, 8 * count);
    assert_int_equal(plan.activations,
                     dt_model_activation_bytes(&spec.learner.config,
                                               dt_ops_cpu(), &options));
    /* logits of all rows are kept at once in a model as small as this */
    assert_true(plan.activations > 4 * (size_t)257 * ROWS * 256);
    /* inputs, targets, starts; four batches ahead, and the one in use */
    assert_int_equal(plan.batches, (size_t)12 * ROWS * 256 * 5);
    assert_int_equal(dt_plan_total(&plan),
                     16 * count + plan.activations + plan.batches);

    spec.conf.data.validation_split = 0.1;
    assert_int_equal(dt_plan_make(&spec, &options).batches, 2 * plan.batches);
    spec.conf.data.validation_split = 0;
    options.compute = DT_BF16;
    assert_int_equal(dt_plan_make(&spec, &options).weights, 2 * count);
    assert_int_equal(dt_plan_make(&spec, &options).master, 4 * count);
    assert_true(dt_plan_make(&spec, &options).activations < plan.activations);
    options.compute = DT_F32;
}

static void a_run_that_fits_is_accepted(void **state)
{
    (void)state;
    char text[1024];
    size_t all = total(ROWS, false);
    assert_int_equal(dt_plan_check(&spec, &options, all, 1, &err), 0);
    assert_int_equal(dt_plan_check(&spec, &options, 3 * all, 3, &err), 0);
    /* SIZE_MAX: nobody knows how much there is */
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    int rc = dt_plan_check(&spec, &options, SIZE_MAX, 2, &err);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    assert_int_equal(rc, 0);
    assert_non_null(strstr(text, " MB of an unknown amount\n"));
}

static void the_message_gives_the_size_of_each_part(void **state)
{
    (void)state;
    char start[512];
    struct dt_plan plan = dt_plan_make(&spec, &options);
    size_t all = dt_plan_total(&plan);
    offers(all - 1, 1);
    snprintf(start, sizeof(start),
             "%s: this run needs %.1f MB of memory a rank (weights %.1f "
             "MB, gradients %.1f MB, optimizer %.1f MB, activations %.1f MB), "
             "but the node has %.1f MB left for 1 rank; what would fit: ",
             spec.conf.file, (double)all / 1e6, (double)plan.weights / 1e6,
             (double)plan.gradients / 1e6, (double)plan.optimizer / 1e6,
             (double)plan.activations / 1e6, (double)(all - 1) / 1e6);
    assert_memory_equal(err.text, start, strlen(start));
}

static void gradient_checkpointing_is_offered_first(void **state)
{
    (void)state;
    char text[128];
    size_t less = total(ROWS, true);
    snprintf(text, sizeof(text), "model.gradient_checkpointing: true (%.1f MB)",
             (double)less / 1e6);
    assert_string_equal(offers(less, 1), text);
    assert_string_equal(offers(total(ROWS, false) - 1, 1), text);
}

/* The largest batch that divides the old one: no total of 13 .. 23 rows. */
static void the_largest_divisor_of_the_batch_is_offered(void **state)
{
    (void)state;
    char text[160];
    options.recompute = true;
    snprintf(text, sizeof(text),
             "training.per_device_batch_size: 12 with 2 times the accumulation "
             "steps (%.1f MB)",
             (double)total(12, true) / 1e6);
    assert_string_equal(offers(total(12, true), 1), text);
    assert_string_equal(offers(total(23, true), 1), text);
    assert_non_null(
        strstr(offers(total(12, true) - 1, 1), "batch_size: 8 with 3 times"));
    options.recompute = false;
}

static void checkpointing_and_a_smaller_batch_are_combined(void **state)
{
    (void)state;
    char text[160];
    assert_true(total(2, true) < total(1, false));
    snprintf(text, sizeof(text),
             "training.per_device_batch_size: 2 with 12 times the accumulation "
             "steps and model.gradient_checkpointing: true (%.1f MB)",
             (double)total(2, true) / 1e6);
    assert_string_equal(offers(total(2, true), 1), text);
}

/* A batch of the evaluation that is larger than that of training. */
static void a_smaller_evaluation_batch_is_offered(void **state)
{
    (void)state;
    spec.conf = *eval;
    spec.eval_B = options.B = 100;
    options.recompute = true;
    const char *text = offers(total(ROWS, true), 1);
    assert_memory_equal(text, "training.per_device_eval_batch_size: 24 (", 41);
    text = offers(total(6, true), 1);
    assert_memory_equal(text,
                        "training.per_device_batch_size: 6 with 4 times the "
                        "accumulation steps, "
                        "training.per_device_eval_batch_size: 6 (",
                        110);
    options.recompute = false;
    spec.conf = *plain;
    spec.eval_B = options.B = ROWS;
}

static void fewer_ranks_per_node_are_offered(void **state)
{
    (void)state;
    size_t all = total(ROWS, false);
    assert_non_null(
        strstr(offers(3 * all, 4), "); or launch.ntasks_per_node: 3"));
    assert_null(strstr(offers(all - 1, 4), "ntasks_per_node"));
}

static void a_smaller_model_is_the_last_offer(void **state)
{
    (void)state;
    assert_string_equal(offers(total(1, true) - 1, 1),
                        "a smaller model, or nodes with more memory");
}

static void a_strategy_that_fits_is_offered(void **state)
{
    char want[128];
    (void)state;
    spec.world = 4;
    spec.conf.distributed.strategy = DT_CONF_ZERO2;
    size_t zero2 = total(ROWS, false);
    spec.conf.distributed.strategy = DT_CONF_DDP;
    const char *text = offers(zero2, 1);
    snprintf(want, sizeof(want), "distributed.strategy: zero2 (%.1f MB)",
             (double)zero2 / 1e6);
    assert_memory_equal(text, want, strlen(want));
    spec.conf = *plain;
    spec.world = 1;
}

static void a_reference_is_counted_and_fewer_tokens_are_offered(void **state)
{
    struct dt_conf *pairs =
        load_good("algorithm: dpo\ndata.train: train.jsonl\nmodel.n_embd: 96\n"
                  "training.per_device_batch_size: 2\n",
                  "");
    struct dt_model_options all = {.B = 1,
                                   .T = 1024,
                                   .compute = DT_F32,
                                   .train = true,
                                   .recompute = true,
                                   .values = true};
    struct dt_spec dpo = spec;
    struct dt_plan plan;
    (void)state;
    dpo.conf = *pairs;
    dpo.algo = dt_algo_of(pairs);
    dpo.T = 128;
    dpo.tokens = 1024;
    plan = dt_plan_make(&dpo, &all);
    assert_int_equal(plan.reference, 4 * spec.learner.layout->count);
    all.T = 512;
    struct dt_plan half = dt_plan_make(&dpo, &all);
    all.T = 1024;
    assert_int_equal(dt_plan_check(&dpo, &all, dt_plan_total(&half), 1, &err),
                     -1);
    assert_non_null(strstr(err.text, "(reference "));
    assert_non_null(strstr(err.text, "training.micro_batch_tokens: 512 ("));
    dt_conf_destroy(pairs);
}

/* A checkpoint has the weights of one that follows, in fp32. */
static void saves_of_a_reference_that_follows_are_counted(void **state)
{
    struct dt_conf *pairs =
        load_good("algorithm: dpo\ndata.train: train.jsonl\nmodel.n_embd: 96\n"
                  "training.per_device_batch_size: 2\n"
                  "checkpoint.async: on\n",
                  "");
    struct dt_spec dpo = spec;
    (void)state;
    dpo.conf = *pairs;
    dpo.algo = dt_algo_of(pairs);
    for (dpo.world = 1; dpo.world <= 2; dpo.world++) {
        dpo.conf.dpo.sync_ref.enabled = false;
        const size_t frozen = dt_plan_stage_bytes(&dpo, DT_BF16, 0);
        dpo.conf.dpo.sync_ref.enabled = true;
        const size_t more = dt_plan_stage_bytes(&dpo, DT_BF16, 0) - frozen;
        const size_t part = 4 * spec.learner.layout->count / (size_t)dpo.world;
        assert_true(frozen > 0 && more >= part && more < part + (1 << 20));
        dpo.conf.checkpoint.only_model = true;
        const size_t alone = dt_plan_stage_bytes(&dpo, DT_BF16, 0);
        dpo.conf.dpo.sync_ref.enabled = false;
        assert_int_equal(alone, dt_plan_stage_bytes(&dpo, DT_BF16, 0));
        dpo.conf.checkpoint.only_model = false;
    }
    dt_conf_destroy(pairs);
}

/* Sizes with which tiles are small against the state. */
static void offload_is_counted_and_offered_when_nothing_less_fits(void **state)
{
    struct dt_model_config small = spec.learner.config;
    struct dt_layout *layout = spec.learner.layout;
    struct dt_model_options little = options;
    char want[160];
    (void)state;
    spec.learner.config.n_embd = 1024;
    spec.learner.config.n_inner = 4096;
    spec.learner.layout = dt_model_layout(&spec.learner.config, 1, &err);
    assert_non_null(spec.learner.layout);
    spec.conf.distributed.strategy = DT_CONF_ZERO1;
    spec.B = spec.eval_B = little.B = 1;
    little.compute = DT_BF16;
    little.recompute = true;
    struct dt_plan none = dt_plan_make(&spec, &little);
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_NVME;
    struct dt_plan nvme = dt_plan_make(&spec, &little);
    size_t count = spec.learner.layout->count, total = dt_plan_total(&nvme);
    assert_int_equal(nvme.master, 0);
    assert_int_equal(nvme.optimizer, 0);
    assert_true(nvme.nvme >= 12 * count && nvme.nvme < 12 * count + (1 << 20));
    assert_int_equal(nvme.host, 0); /* the host is the device */
    size_t tile = 4 * (count / 32), page = (size_t)2 << 20; /* 1/32 of all */
    assert_int_equal(nvme.tiles, 4 * 3 * ((tile + page - 1) / page * page));
    assert_int_equal(dt_plan_total(&none) - total, 12 * count - nvme.tiles);
    /* cpu moves nothing here */
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_CPU;
    struct dt_plan cpu = dt_plan_make(&spec, &little);
    assert_int_equal(dt_plan_total(&cpu), dt_plan_total(&none));
    assert_int_equal(cpu.host + cpu.nvme, 0);

    spec.conf.distributed.strategy = DT_CONF_DDP;
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_NONE;
    err = (struct dt_error){0};
    assert_int_equal(dt_plan_check(&spec, &little, total, 1, &err), -1);
    snprintf(want, sizeof(want),
             "what would fit: distributed.offload_optimizer.device: nvme with "
             "distributed.strategy: zero1 (%.1f MB)",
             (double)total / 1e6);
    if (!strstr(err.text, want))
        fail_msg("%s", err.text);

    /* so is bf16, where that is enough and the run would not be refused */
    spec.conf.optimizer.state_dtype = DT_CONF_BF16;
    spec.conf.precision.grad_accum_dtype = DT_CONF_BF16;
    struct dt_plan bf16 = dt_plan_make(&spec, &little);
    spec.conf.optimizer.state_dtype = DT_CONF_FP32;
    spec.conf.precision.grad_accum_dtype = DT_CONF_FP32;
    assert_int_equal(bf16.weights + bf16.master + bf16.optimizer, 6 * count);
    assert_int_equal(
        dt_plan_check(&spec, &little, dt_plan_total(&bf16), 1, &err), -1);
    snprintf(want, sizeof(want),
             "what would fit: optimizer.state_dtype: bf16 (%.1f MB); or "
             "distributed.offload_optimizer.device: nvme",
             (double)dt_plan_total(&bf16) / 1e6);
    if (!strstr(err.text, want))
        fail_msg("%s", err.text);
    spec.conf.distributed.reduce_each_micro_step = DT_CONF_FALSE;
    assert_int_equal(
        dt_plan_check(&spec, &little, dt_plan_total(&bf16), 1, &err), -1);
    assert_null(strstr(err.text, "state_dtype"));
    spec.conf.distributed.reduce_each_micro_step = DT_CONF_AUTO_CHOICE;

    /* sums whose type is `auto` in the file follow, those of a type do not */
    struct dt_conf *word =
        load_good(LEAST "precision.grad_accum_dtype: auto\n", "");
    spec.conf.place = word->place;
    assert_int_equal(
        dt_plan_check(&spec, &little, dt_plan_total(&bf16), 1, &err), -1);
    if (!strstr(err.text, want))
        fail_msg("%s", err.text);
    spec.conf.place = plain->place;
    dt_conf_destroy(word);
    spec.conf.optimizer.state_dtype = DT_CONF_BF16;
    const struct dt_plan given = dt_plan_make(&spec, &little);
    spec.conf.optimizer.state_dtype = DT_CONF_FP32;
    assert_int_not_equal(dt_plan_total(&given), dt_plan_total(&bf16));
    spec.conf.place[dt_conf_key_find("precision.grad_accum_dtype")].line = 1;
    assert_int_equal(
        dt_plan_check(&spec, &little, dt_plan_total(&given), 1, &err), -1);
    snprintf(want, sizeof(want), "optimizer.state_dtype: bf16 (%.1f MB)",
             (double)dt_plan_total(&given) / 1e6);
    if (!strstr(err.text, want))
        fail_msg("%s", err.text);
    dt_layout_destroy(spec.learner.layout);
    spec.learner.layout = layout;
    spec.learner.config = small;
    spec.conf = *plain;
    spec.B = spec.eval_B = ROWS;
}

/* On a GPU. With more ranks on a node, its memory is what limits AdamW on the
 * CPUs, and the link of each GPU what limits it there.
 */
static void auto_computes_where_it_is_predicted_to_be_faster(void **state)
{
    struct dt_device gpu = dt_cpu;
    (void)state;
    gpu.is_host = false;
    spec.exec.device = &gpu;
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_CPU;
    spec.nodes.most = 1;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO2).state, DT_TIER_HOST);
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO2).compute, DT_OFFLOAD_HOST);
    spec.nodes.most = 8;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO2).compute,
                     DT_OFFLOAD_STREAM);
    spec.conf.distributed.offload_optimizer.compute = DT_CONF_COMPUTE_HOST;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO2).compute, DT_OFFLOAD_HOST);
    assert_int_equal(dt_spec_offload(&spec, DT_DDP).state, DT_TIER_DEVICE);
    spec.conf = *plain;
    spec.exec = dt_exec_cpu();
    spec.nodes.most = 0;
}

static void a_tile_is_a_small_share_unless_it_is_given(void **state)
{
    (void)state;
    struct dt_layout large = *spec.learner.layout,
                     *layout = spec.learner.layout;
    struct dt_conf *given = load_good(
        LEAST "distributed: {strategy: zero1,\n  offload_optimizer: {device: "
              "nvme, path: /, tile_size: 70000}}\n",
        "");
    large.count = (size_t)1 << 31;
    spec.learner.layout = &large;
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_NVME;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO1).tile, 32 << 20);
    spec.world = 4;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO1).tile, 16 << 20);
    spec.world = 1;
    spec.learner.layout = layout;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO1).tile, 1 << 19);
    spec.conf = *given;
    assert_int_equal(dt_spec_offload(&spec, DT_ZERO1).tile, 70000);
    spec.conf = *plain;
    dt_conf_destroy(given);
}

/* 48 TiB of host memory are more than any node has. */
static void state_that_the_host_has_no_room_for_is_refused(void **state)
{
    struct dt_device gpu = dt_cpu;
    struct dt_layout huge = *spec.learner.layout, *layout = spec.learner.layout;
    (void)state;
    gpu.is_host = false;
    huge.count = (size_t)1 << 42;
    spec.learner.layout = &huge;
    spec.exec.device = &gpu;
    spec.conf.distributed.strategy = DT_CONF_ZERO1;
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_CPU;
    err = (struct dt_error){0};
    assert_int_equal(dt_plan_check(&spec, &options, SIZE_MAX, 2, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_non_null(
        strstr(err.text, "of host memory a rank, but the node has "));
    assert_non_null(strstr(err.text, " left for 2 ranks: set "));
    spec.learner.layout = layout;
    spec.conf = *plain;
    spec.exec = dt_exec_cpu();
}

/* What a run on a GPU has offloaded to host memory is not free any more. */
static void host_memory_that_is_taken_is_counted_once(void **state)
{
    struct dt_device gpu = dt_cpu;
    struct dt_layout huge = *spec.learner.layout, *layout = spec.learner.layout;
    (void)state;
    gpu.is_host = false;
    huge.count = (size_t)1 << 42;
    spec.learner.layout = &huge;
    spec.exec.device = &gpu;
    spec.conf.distributed.strategy = DT_CONF_ZERO1;
    spec.conf.distributed.offload_optimizer.device = DT_CONF_OFFLOAD_CPU;
    assert_true(dt_plan_make(&spec, &options).host > (size_t)1 << 42);
    assert_true(dt_plan_spare(&spec, &options, SIZE_MAX, 2) > 0);
    spec.learner.layout = layout;
    spec.conf = *plain;
    spec.exec = dt_exec_cpu();
}

/* Each length of a row costs a recorded graph: of the longest one's 32 parts,
 * which are whole tiles.
 */
static void joined_rows_have_few_lengths(void **state)
{
    static const struct dt_device gpu = {.name = "cuda"};
    const size_t STEPS[][2] = {{0, 128},     {2048, 128},  {8191, 128},
                               {8192, 256},  {12287, 256}, {16384, 512},
                               {65536, 2048}};
    struct dt_spec joined = {.conf = *plain, .exec.device = &gpu};
    (void)state;
    for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
        joined.tokens = STEPS[i][0];
        assert_int_equal(dt_spec_length_step(&joined), STEPS[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reference_is_counted_and_fewer_tokens_are_offered),
        cmocka_unit_test(every_part_of_the_memory_is_counted),
        cmocka_unit_test(a_run_that_fits_is_accepted),
        cmocka_unit_test(the_message_gives_the_size_of_each_part),
        cmocka_unit_test(gradient_checkpointing_is_offered_first),
        cmocka_unit_test(the_largest_divisor_of_the_batch_is_offered),
        cmocka_unit_test(checkpointing_and_a_smaller_batch_are_combined),
        cmocka_unit_test(a_smaller_evaluation_batch_is_offered),
        cmocka_unit_test(fewer_ranks_per_node_are_offered),
        cmocka_unit_test(a_smaller_model_is_the_last_offer),
        cmocka_unit_test(a_strategy_that_fits_is_offered),
        cmocka_unit_test(saves_of_a_reference_that_follows_are_counted),
        cmocka_unit_test(offload_is_counted_and_offered_when_nothing_less_fits),
        cmocka_unit_test(auto_computes_where_it_is_predicted_to_be_faster),
        cmocka_unit_test(a_tile_is_a_small_share_unless_it_is_given),
        cmocka_unit_test(state_that_the_host_has_no_room_for_is_refused),
        cmocka_unit_test(host_memory_that_is_taken_is_counted_once),
        cmocka_unit_test(memory_that_is_left_is_spent),
        cmocka_unit_test(joined_rows_have_few_lengths),
    };
    return cmocka_run_group_tests_name("plan", tests, setup, teardown);
}
