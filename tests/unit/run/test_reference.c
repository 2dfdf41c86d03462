/* SPDX-License-Identifier: Apache-2.0 */
/* test_reference.c - a reference that ranks share, and one that follows */
#include "config.h"

#include <glob.h>

#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/pair_run.h"

#define DPO                                                                    \
    "algorithm: dpo\n"                                                         \
    "training: {train_batch_size: 12, max_steps: 9, resume: auto}\n"           \
    "optimizer.lr: 1.0e-3\n"
#define FOLLOW "dpo: {sync_ref: {enabled: true, alpha: 0.25, steps: 2}}\n"
#define ZERO3 "distributed.strategy: zero3\n"
#define BF16 "precision.compute: bf16\n"

/* What a rank has of all units: of the model, or of the reference. */
static float *parts_of(struct dt_run *run, struct dt_parallel *of)
{
    struct dt_error err = {0};
    float *parts = calloc(run->spec.learner.layout->count, sizeof(float)),
          *at = parts;
    for (size_t u = 0; u < run->spec.learner.layout->unit_count; u++) {
        struct dt_view part = dt_parallel_part(of, DT_OWNED_MASTER, u);
        if (dt_parallel_get(of, part, at, &err) < 0)
            exit(1);
        at += part.count;
    }
    return parts;
}

static size_t part_elements(const struct dt_run *run)
{
    return run->spec.learner.layout->count / (size_t)run->spec.world;
}

static bool same(const struct dt_run *run, const float *a, const float *b)
{
    return !memcmp(a, b, part_elements(run) * sizeof(float));
}

/* The compute type, of all units: what passes of the reference read. */
static int read_by_passes(struct dt_run *run, void *all, struct dt_error *err)
{
    const size_t width = dt_dtype_bytes(run->learner.compute);
    for (size_t u = 0; u < run->spec.learner.layout->unit_count; u++) {
        const struct dt_unit *unit = &run->spec.learner.layout->units[u];
        struct dt_view view;
        if (dt_parallel_gather(run->reference.parallel, u, false, &view, err) <
            0)
            return -1;
        memcpy((char *)all + unit->offset * width, dt_view_data(view),
               unit->count * width);
    }
    return 0;
}

/* --- shared by ranks --- */

struct outcome {
    double margin[4], loss[4];
};

static int train_on(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct outcome *outcome = arg;
    double loss, count, results[DT_METRICS_MAX];
    struct dt_metrics metrics;
    for (int i = 0; i < 4; i++) {
        TRY(pair_steps(run, i, &err) == 0);
        TRY(dt_run_evaluate(run, &loss, &count, &metrics, &err) == 0);
        dt_metrics_results(run->spec.algo, &metrics, results);
        if (run->spec.rank == 0) {
            outcome->loss[i] = loss;
            outcome->margin[i] = results[3];
        }
    }
    return 0;
}

/* Ends a run as the directory `to`. */
static void leave_reference(const char *to)
{
    small_runs(1, DPO "run.seed: 9\n", pair_save, NULL);
    assert_int_equal(rename("out/checkpoints/checkpoint-0", to), 0);
}

/* A step is one micro-batch, so that strategies sum alike. */
static void a_shared_reference_has_the_bits_of_a_whole_one(void **state)
{
    static const char *const types[] = {"", BF16};
    static const char *const shared[] = {
        ZERO3, ZERO3 "distributed.prefetch_units: 2\n",
        "distributed.strategy: zero1\n", "distributed.strategy: zero2\n"};
    struct outcome whole, parts;
    char lines[512];
    (void)state;
    leave_reference("ref");
    for (int i = 0; i < 2 * 4; i++) {
        int size = i % 4 == 1 ? 3 : 2;
        snprintf(lines, sizeof(lines),
                 DPO "model.reference_path: ref\n%s"
                     "distributed.strategy: ddp\n",
                 types[i / 4]);
        small_runs(size, lines, train_on, &whole);
        snprintf(lines, sizeof(lines), DPO "model.reference_path: ref\n%s%s",
                 types[i / 4], shared[i % 4]);
        small_runs(size, lines, train_on, &parts);
        assert_memory_equal(&whole, &parts, sizeof(whole));
        assert_true(fabs(whole.margin[0]) > 1e-3);
    }
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

/* Groups of two, each of which has all of the reference. */
static void groups_share_a_reference(void **state)
{
    static const char *const types[] = {"", BF16, FOLLOW, FOLLOW BF16};
    struct outcome flat, hybrid;
    char lines[512];
    (void)state;
    leave_reference("ref");
    for (int i = 0; i < 4; i++) {
        struct outcome *outcomes[] = {&flat, &hybrid};
        for (int k = 0; k < 2; k++) {
            snprintf(lines, sizeof(lines),
                     DPO "model.reference_path: ref\n" ZERO3
                         "distributed.shard_group: %s\n%s",
                     k ? "node" : "world", types[i]);
            struct small_world small = {.conf = small_conf(lines),
                                        .f = train_on,
                                        .arg = outcomes[k],
                                        .two_nodes = true};
            small_clean(NULL);
            world_threads(4, small_rank, &small);
            dt_conf_destroy((struct dt_conf *)small.conf);
        }
        assert_memory_equal(&flat, &hybrid, sizeof(flat));
    }
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

/* --- following --- */

/* TRL's rule, of the parts after each move. */
static int follow(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    float *first = parts_of(run, run->reference.parallel);
    float *model, *moved, *now;
    (void)arg;
    TRY(pair_steps(run, 1, &err) == 0);
    now = parts_of(run, run->reference.parallel);
    TRY(same(run, first, now));
    free(now);
    TRY(pair_steps(run, 2, &err) == 0);
    model = parts_of(run, run->learner.parallel);
    moved = parts_of(run, run->reference.parallel);
    for (size_t i = 0; i < part_elements(run); i++) {
        double want = 0.25 * (double)model[i] + 0.75 * (double)first[i];
        TRY(fabs(want - (double)moved[i]) <= 1e-7 * (1 + fabs(want)));
    }
    TRY(!same(run, first, moved));
    TRY(pair_steps(run, 3, &err) == 0);
    now = parts_of(run, run->reference.parallel);
    TRY(same(run, moved, now));
    free(now);
    TRY(pair_steps(run, 4, &err) == 0);
    now = parts_of(run, run->reference.parallel);
    TRY(!same(run, moved, now));
    free(first);
    free(model);
    free(moved);
    free(now);
    return 0;
}

static const char *const everywhere[] = {
    "distributed.strategy: ddp\n",
    "distributed.strategy: zero1\n",
    "distributed.strategy: zero2\n",
    ZERO3,
    "distributed.strategy: zero1\n" BF16,
    ZERO3 BF16,
    "distributed: {strategy: zero1, offload_optimizer.device: cpu}\n" BF16,
    "distributed: {strategy: zero3, offload_optimizer.device: cpu}\n",
};
enum { EVERYWHERE = sizeof(everywhere) / sizeof(everywhere[0]) };

static void a_reference_follows_the_model(void **state)
{
    char lines[512];
    (void)state;
    small_runs(1, DPO FOLLOW, follow, NULL);
    small_runs(1, DPO FOLLOW BF16, follow, NULL);
    for (int i = 0; i < EVERYWHERE; i++) {
        snprintf(lines, sizeof(lines), DPO FOLLOW "%s", everywhere[i]);
        small_runs(2, lines, follow, NULL);
    }
}

/* With alpha 1 it is the model, in the type that passes compute with, and no
 * pair has a margin.
 */
static int become_the_model(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_metrics metrics;
    double loss, count, results[DT_METRICS_MAX];
    (void)arg;
    TRY(pair_steps(run, 3, &err) == 0);
    TRY(dt_run_evaluate(run, &loss, &count, &metrics, &err) == 0);
    dt_metrics_results(run->spec.algo, &metrics, results);
    TRY(results[0] == 0 && results[1] == 0 && near(loss, log(2), 1e-6));
    return 0;
}

static void a_reference_becomes_the_model(void **state)
{
    char lines[512];
    (void)state;
    for (int i = 0; i < EVERYWHERE; i++) {
        snprintf(lines, sizeof(lines),
                 DPO "dpo: {sync_ref: {enabled: true, alpha: 1, steps: 3}}\n%s",
                 everywhere[i]);
        small_runs(2, lines, become_the_model, NULL);
    }
    small_runs(2,
               DPO "dpo: {sync_ref: {enabled: true, alpha: 1, steps: 3}}\n"
                   "optimizer.state_dtype: bf16\n",
               become_the_model, NULL);
}

/* --- resuming --- */

enum { HALF = 3, ALL = 6 };

struct kept {
    float *model[4], *reference[4]; /* parts of each rank */
    void *read;                     /* by passes */
};

static int through(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    struct kept *kept = arg;
    TRY(pair_steps(run, HALF, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(pair_steps(run, ALL, &err) == 0);
    kept->model[run->spec.rank] = parts_of(run, run->learner.parallel);
    kept->reference[run->spec.rank] = parts_of(run, run->reference.parallel);
    return 0;
}

static int resumed(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    const struct kept *kept = arg;
    TRY(run->progress.step == HALF);
    TRY(pair_steps(run, ALL, &err) == 0);
    float *model = parts_of(run, run->learner.parallel);
    float *reference = parts_of(run, run->reference.parallel);
    TRY(same(run, model, kept->model[run->spec.rank]));
    TRY(same(run, reference, kept->reference[run->spec.rank]));
    free(model);
    free(reference);
    return 0;
}

/* What is left in out/ goes on. */
static void resumes(int size, const char *lines, small_rank_f f, void *arg)
{
    struct small_world small = {.conf = small_conf(lines), .f = f, .arg = arg};
    world_threads(size, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

static void a_reference_that_followed_resumes_bit_by_bit(void **state)
{
    char lines[512];
    (void)state;
    for (int i = 0; i < EVERYWHERE; i++) {
        struct kept kept = {0};
        snprintf(lines, sizeof(lines), DPO FOLLOW "%s", everywhere[i]);
        small_runs(2, lines, through, &kept);
        resumes(2, lines, resumed, &kept);
        for (int rank = 0; rank < 2; rank++) {
            free(kept.model[rank]);
            free(kept.reference[rank]);
        }
    }
}

static int keep_read(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    struct kept *kept = arg;
    TRY(pair_steps(run, HALF, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    void *all = calloc(run->spec.learner.layout->count, sizeof(float));
    if (read_by_passes(run, all, &err) < 0)
        return -1;
    if (run->spec.rank == 0)
        kept->read = all;
    else
        free(all);
    return 0;
}

/* Padding depends on the world, parameters do not. */
static int compare_read(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    const struct kept *kept = arg;
    struct dt_layout *layout =
        dt_model_layout(&run->spec.learner.config, 2, &err);
    const size_t width = dt_dtype_bytes(run->learner.compute);
    char *all = calloc(run->spec.learner.layout->count, sizeof(float));
    TRY(layout && read_by_passes(run, all, &err) == 0);
    for (size_t i = 0; i < layout->param_count; i++)
        TRY(!memcmp(all + run->spec.learner.layout->params[i].offset * width,
                    (char *)kept->read + layout->params[i].offset * width,
                    layout->params[i].count * width));
    dt_layout_destroy(layout);
    free(all);
    return 0;
}

static void a_world_of_any_size_reads_it(void **state)
{
    static const char *const types[] = {"", BF16};
    char lines[512];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kept kept = {0};
        snprintf(lines, sizeof(lines), DPO FOLLOW ZERO3 "%s", types[i]);
        small_runs(2, lines, keep_read, &kept);
        resumes(3, lines, compare_read, &kept);
        snprintf(lines, sizeof(lines), DPO FOLLOW "%s", types[i]);
        resumes(1, lines, compare_read, &kept);
        free(kept.read);
    }
}

static void a_run_that_does_not_follow_refuses_it(void **state)
{
    struct kept kept = {0};
    (void)state;
    small_runs(1, DPO FOLLOW, keep_read, &kept);
    free(kept.read);
    small_refused(
        small_conf(DPO),
        "t.yaml:1:1: dpo.sync_ref.enabled: the checkpoint has a reference that "
        "followed the model: set it to true, or start a new run in another "
        "run.output_dir");
}

/* --- values that are not finite --- */

/* Makes NaN of the last number of a safetensors file. */
static void spoil(const char *path)
{
    const uint32_t nan_bits = 0x7fc00000;
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -4, SEEK_END), 0);
    assert_int_equal(fwrite(&nan_bits, sizeof(nan_bits), 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

#define REFERENCE                                                              \
    "algorithm: dpo\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2, "             \
    "reference_path: ref}\n"                                                   \
    "data: {train: train.jsonl, max_length: 32, cache_dir: sums}\n"            \
    "training: {train_batch_size: 8, max_steps: 9}\n"

static void nan_in_a_reference_is_refused(void **state)
{
    (void)state;
    leave_reference("ref");
    spoil("ref/model.safetensors");
    pair_refused(REFERENCE, "values that are NaN or infinite");
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

static void nan_in_what_was_computed_before_is_refused(void **state)
{
    char path[256] = "";
    glob_t found;
    (void)state;
    leave_reference("ref");
    pair_runs(REFERENCE "dpo.reference.mode: precompute\n", pair_save);
    assert_int_equal(glob("sums/reference-*.safetensors", 0, NULL, &found), 0);
    snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
    globfree(&found);
    spoil(path);
    pair_refused(REFERENCE "dpo.reference.mode: precompute\n",
                 "values that are NaN or infinite");
    assert_int_equal(dt_file_remove_tree("sums", NULL), 0);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(
            a_shared_reference_has_the_bits_of_a_whole_one, small_clean),
        cmocka_unit_test_teardown(groups_share_a_reference, small_clean),
        cmocka_unit_test_teardown(a_reference_follows_the_model, small_clean),
        cmocka_unit_test_teardown(a_reference_becomes_the_model, small_clean),
        cmocka_unit_test_teardown(a_reference_that_followed_resumes_bit_by_bit,
                                  small_clean),
        cmocka_unit_test_teardown(a_world_of_any_size_reads_it, small_clean),
        cmocka_unit_test_teardown(a_run_that_does_not_follow_refuses_it,
                                  small_clean),
        cmocka_unit_test_teardown(nan_in_a_reference_is_refused, small_clean),
        cmocka_unit_test_teardown(nan_in_what_was_computed_before_is_refused,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("reference", tests, pair_enter,
                                       small_leave);
}
