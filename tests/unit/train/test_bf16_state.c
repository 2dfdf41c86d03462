/* SPDX-License-Identifier: Apache-2.0 */
/* test_bf16_state.c - runs whose weights and moments are in bf16 */
#include "config.h"

#define SMALL                                                                  \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}\n"            \
    "logging.report_to: jsonl\n"

#include "tensor/half.h"
#include "tests/unit/drive.h"
#include "tests/unit/small_run.h"
#include "train/resume/resume.h"
#include "weights/parts.h"

#define STATE16 "optimizer.state_dtype: bf16\n"
#define SFT                                                                    \
    "algorithm: sft\n"                                                         \
    "data: {train: train.jsonl, max_length: 32}\n"
#define TAKES                                                                  \
    SFT "training: {train_batch_size: 12, max_steps: 9, resume: auto}\n"

enum { SAVED = 3, LAST = 6, MOST = 1 << 15 };

/* All that ranks own, by the numbers of elements, which every world has alike.
 */
struct state {
    uint16_t of[DT_OWNED_GRADS][MOST];
};

static struct state at_save, at_end, again;

/* Copies what this rank owns, in bf16, to its place. */
static int collect(struct dt_run *run, struct state *to)
{
    const struct dt_layout *layout = run->spec.learner.layout;
    struct dt_parallel *p = run->learner.parallel;
    struct dt_error err = {0};
    for (size_t u = 0; u < layout->unit_count; u++)
        for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++) {
            struct dt_view part = dt_parallel_part(p, kind, u);
            const struct dt_range range = dt_layout_part(
                layout, u, dt_parallel_index(p), run->spec.world);
            const size_t before = range.first - layout->units[u].offset;
            const size_t number = dt_layout_number(layout, u) + before;
            const size_t end = dt_layout_number(layout, u + 1);
            TRY(part.dtype == DT_BF16 && end <= MOST);
            if (number < end)
                TRY(dt_parallel_get(p,
                                    dt_view_slice(part, 0,
                                                  part.count < end - number
                                                      ? part.count
                                                      : end - number),
                                    to->of[kind] + number, &err) == 0);
        }
    return dt_comm_barrier(run->comm, &err);
}

static int take_steps(struct dt_run *run, long last)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    while (run->progress.step < last)
        TRY(small_step(run, &line, &err) == 0);
    return 0;
}

static int train(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    (void)arg;
    if (take_steps(run, SAVED) < 0 || collect(run, &at_save) < 0)
        return -1;
    TRY(dt_run_save(run, &why, &err) == 0);
    return take_steps(run, LAST) < 0 ? -1 : collect(run, &at_end);
}

static int resume(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(run->progress.step == SAVED);
    if (take_steps(run, LAST) < 0)
        return -1;
    return collect(run, &again);
}

static int read_only(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(run->progress.step == SAVED);
    return collect(run, &again);
}

/* --- worlds --- */

static const struct {
    int ranks;
    bool two_nodes; /* hybrid by default */
    const char *strategy, *more;
    bool files;
} worlds[] = {
    {1, false, "ddp", "precision.grad_accum_dtype: fp32\n", false},
    {2, false, "ddp", "", false},
    {4, false, "zero1", "", false},
    {4, true, "zero2", "", false},
    {4, true, "zero3", "distributed.reduce_between_nodes: int8\n", false},
    {2, false, "zero3", "", true},
};

enum { COUNT = sizeof(worlds) / sizeof(worlds[0]) };

static void run_lines(int ranks, bool two_nodes, const char *lines,
                      bool resumes, small_rank_f f)
{
    struct small_world small = {
        .conf = small_conf(lines), .f = f, .two_nodes = two_nodes};
    if (!resumes)
        small_clean(NULL);
    world_threads(ranks, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

static void run_in(int i, bool resumes, small_rank_f f)
{
    char lines[1024];
    int n =
        snprintf(lines, sizeof(lines),
                 SFT "training: {train_batch_size: 12, max_steps: 9, "
                     "gradient_accumulation_steps: 3, resume: %s}\n" STATE16
                     "distributed.strategy: %s\n%s",
                 resumes ? "auto" : "none", worlds[i].strategy, worlds[i].more);
    if (worlds[i].files)
        snprintf(lines + n, sizeof(lines) - (size_t)n,
                 "offload_optimizer: {device: nvme, path: %s}\n", drive());
    run_lines(worlds[i].ranks, worlds[i].two_nodes, lines, resumes, f);
}

static bool can_run(int i)
{
    return !worlds[i].files || has_uring();
}

static void assert_same(const struct state *a, const struct state *b)
{
    for (int kind = 0; kind < DT_OWNED_GRADS; kind++)
        assert_memory_equal(a->of[kind], b->of[kind], sizeof(a->of[kind]));
}

/* Random bits, of updates and of gradients, depend on nothing that a checkpoint
 * does not have.
 */
static void a_resumed_run_has_the_bits_of_one_that_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        if (!can_run(i))
            continue;
        run_in(i, false, train);
        run_in(i, true, resume);
        assert_same(&again, &at_end);
    }
}

/* Pairs of many lengths: a micro-batch has two of them, or three. */
static void write_pairs(void)
{
    FILE *file = fopen("pairs.jsonl", "w");
    for (int i = 0; i < 26; i++)
        fprintf(file,
                "{\"prompt\": \"%d:\", \"chosen\": \"%.*s\", \"rejected\": "
                "\"%.*s\"}\n",
                i % 7, i % 8 + 1, "abcdefgh", i % 3 + 1, "zzz");
    fclose(file);
}

/* However many micro-batches the steps before had. */
static void so_it_has_where_lengths_end_micro_batches(void **state)
{
    static const struct {
        int ranks;
        bool two_nodes;
        const char *more;
    } runs[] = {
        {1, false, ""},
        {2, false, "distributed.strategy: zero2\n"},
        {4, true,
         "distributed: {strategy: zero3, reduce_between_nodes: int8}\n"
         "precision.grad_accum_dtype: fp32\n"},
    };
    char lines[1024];
    (void)state;
    write_pairs();
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        snprintf(lines, sizeof(lines),
                 "algorithm: dpo\n"
                 "data: {train: pairs.jsonl, max_length: 16}\n"
                 "training: {train_batch_size: 24, max_steps: 9, "
                 "micro_batch_tokens: 32, resume: auto}\n" STATE16 "%s",
                 runs[i].more);
        run_lines(runs[i].ranks, runs[i].two_nodes, lines, false, train);
        run_lines(runs[i].ranks, runs[i].two_nodes, lines, true, resume);
        assert_same(&again, &at_end);
    }
}

static void every_world_reads_every_checkpoint(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        if (!can_run(i))
            continue;
        run_in(i, false, train);
        for (int j = 0; j < COUNT; j++) {
            if (!can_run(j))
                continue;
            memset(&again, 0, sizeof(again));
            run_in(j, true, read_only);
            assert_same(&again, &at_save);
        }
    }
}

/* --- files --- */

struct files {
    bool master; /* beside the model */
    const char *lines;
};

static int look_at_files(struct dt_run *run, void *arg)
{
    const struct files *files = arg;
    struct dt_error err = {0}, why = {0};
    struct dt_parts *parts;
    enum dt_dtype stored;
    const size_t elements = run->spec.learner.layout->param_total;
    if (take_steps(run, SAVED) < 0)
        return -1;
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(dt_parts_open("out/checkpoints/latest", run->spec.learner.layout,
                      &parts, &err) == 0);
    TRY(dt_parts_have(parts, DT_OWNED_M, &err) == 1);
    TRY(dt_parts_have(parts, DT_OWNED_MASTER, &err) == files->master);
    dt_parts_close(parts);
    TRY(dt_weights_dtype("out/checkpoints/latest", run->spec.learner.layout,
                         &stored, &err) == 0);
    TRY(dt_run_checkpoint_bytes(run) ==
        elements * (dt_dtype_bytes(stored) + (files->master ? 6 : 4)));
    return 0;
}

/* What the model's files have is not saved twice. */
static void weights_are_saved_once_unless_they_lose_bits(void **state)
{
    static struct files files[] = {
        {false, TAKES STATE16},
        {false, TAKES STATE16 "checkpoint.save_dtype: fp32\n"},
        {true, TAKES STATE16 "checkpoint.save_dtype: fp16\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        small_runs(1, files[i].lines, look_at_files, &files[i]);
}

static uint16_t *first_weights(struct dt_run *run)
{
    return dt_view_data(
        dt_parallel_part(run->learner.parallel, DT_OWNED_MASTER, 1));
}

static int save_first(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    if (take_steps(run, SAVED) < 0)
        return -1;
    memcpy(arg, first_weights(run), 16 * sizeof(float));
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

static int read_first(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(run->progress.step == SAVED);
    memcpy(arg, first_weights(run), 16 * sizeof(float));
    return 0;
}

#define STATE32 "precision.compute: bf16\n"

static void a_run_may_change_the_type_when_it_resumes(void **state)
{
    uint16_t half[32];
    float wide[16];
    (void)state;
    small_runs(1, TAKES STATE16, save_first, half);
    small_resume(1, TAKES STATE32, read_first, wide);
    for (int i = 0; i < 16; i++)
        assert_int_equal(dt_f32_to_bf16(wide[i]), half[i]);
    small_runs(1, TAKES STATE32, save_first, wide);
    small_resume(1, TAKES STATE16, read_first, half);
    for (int i = 0; i < 16; i++)
        assert_int_equal(dt_f32_to_bf16(wide[i]), half[i]);
}

/* --- learning --- */

enum { STEPS = 150, MEAN = 20 };

#define LEARN                                                                  \
    SFT "training: {train_batch_size: 8, max_steps: 150}\n"                    \
        "optimizer.lr: 1.0e-3\n"                                               \
        "scheduler.name: constant\n"

static int learn(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_report_step line;
    double last = 0;
    for (int step = 1; step <= STEPS; step++) {
        double sum = run->progress.loss_sum, count = run->progress.loss_tokens;
        TRY(small_step(run, &line, &err) == 0);
        if (step > STEPS - MEAN)
            last += (run->progress.loss_sum - sum) /
                    (run->progress.loss_tokens - count) / MEAN;
    }
    if (run->spec.rank == 0)
        *(double *)arg = last;
    return 0;
}

static void it_learns_what_fp32_learns(void **state)
{
    double wide, narrow;
    (void)state;
    small_runs(1, LEARN STATE32, learn, &wide);
    small_runs(1, LEARN STATE16, learn, &narrow);
    fprintf(stderr, "# losses %.4f and %.4f\n", wide, narrow);
    assert_true(near(wide, narrow, 0.05));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_bits_of_one_that_goes_on),
        cmocka_unit_test(so_it_has_where_lengths_end_micro_batches),
        cmocka_unit_test(every_world_reads_every_checkpoint),
        cmocka_unit_test(weights_are_saved_once_unless_they_lose_bits),
        cmocka_unit_test(a_run_may_change_the_type_when_it_resumes),
        cmocka_unit_test_teardown(it_learns_what_fp32_learns, small_clean),
    };
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return cmocka_run_group_tests_name("bf16 state", tests, small_enter,
                                       small_leave);
}
