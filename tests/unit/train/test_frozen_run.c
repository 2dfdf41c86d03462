/* SPDX-License-Identifier: Apache-2.0 */
/* test_frozen_run.c - runs that train some parts of a model
 *
 * A model of text has one part. Here its blocks are given to others.
 */
#include "config.h"

#define SMALL                                                                  \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 16, n_layer: 3, n_head: 2}\n"            \
    "optimizer.lr: 1.0e-2\n"                                                   \
    "logging.report_to: jsonl\n"

#include "train/resume/resume.h"
#include "tests/unit/small_run.h"
#include "weights/parts.h"
#include "weights/weights.h"

#define TWELVE "training: {train_batch_size: 12, max_steps: 9}\n"
#define SFT                                                                    \
    "algorithm: sft\ndata: {train: train.jsonl, max_length: 32}\n" TWELVE
#define DPO                                                                    \
    "algorithm: dpo\ndata: {train: pairs.jsonl, max_length: 32}\n" TWELVE
#define GRPO                                                                   \
    "algorithm: grpo\n"                                                        \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout: {max_completion_length: 8}\n"                                    \
    "grpo: {num_generations: 4, beta: 0.1}\n"                                  \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]}\n"         \
    "training: {train_batch_size: 16, max_steps: 9}\n"

enum { HALF = 2, LAST = 4, SAMPLES = 24 };

#define CHECKPOINT "out/checkpoints/checkpoint-4"

/* The second block is a tower, the third one a projector. */
static void split_units(struct dt_layout *layout)
{
    layout->units[1].part = DT_PART_VISION;
    layout->units[2].part = DT_PART_PROJECTOR;
}

struct dt_layout *__real_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);
struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);

struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err)
{
    struct dt_layout *layout = __real_dt_model_layout(config, world, err);
    if (layout)
        split_units(layout);
    return layout;
}

static int enter(void **state)
{
    if (small_enter(state) < 0)
        return -1;
    FILE *pairs = fopen("pairs.jsonl", "w"),
         *prompts = fopen("prompts.jsonl", "w");
    for (int i = 0; i < SAMPLES; i++) {
        fprintf(pairs,
                "{\"prompt\": \"%d:\", \"chosen\": \"%.*s\", "
                "\"rejected\": \"zz\"}\n",
                i, i % 4 + 5, "abcdefgh");
        fprintf(prompts, "{\"prompt\": \"%.*s\"}\n", i % 4 + 1, "abcdefgh");
    }
    return fclose(pairs) | fclose(prompts);
}

static bool freezes[DT_PARTS];

static void freeze(struct dt_run *run)
{
    memcpy(run->spec.learner.freezes, freezes, sizeof(freezes));
}

/* Bit i freezes part i. */
static void choose(int choice)
{
    for (int i = 0; i < DT_PARTS; i++)
        freezes[i] = choice >> i & 1;
}

static void run_world(int size, const char *lines, small_rank_f f, void *arg,
                      bool resumes)
{
    char all[1024];
    snprintf(all, sizeof(all), "%straining.resume: %s\n", lines,
             resumes ? "auto" : "none");
    struct small_world small = {
        .conf = small_conf(all), .f = f, .arg = arg, .prepare = freeze};
    if (!resumes)
        small_clean(NULL);
    world_threads(size, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

/* --- what a run leaves --- */

/* The weights at the end, as passes read them and as they are updated, and the
 * loss of each step.
 */
struct left {
    double loss[LAST];
    size_t bytes, count;
    char *weights;
    float *master;
};

static void forget(struct left *left)
{
    free(left->weights);
    free(left->master);
    *left = (struct left){0};
}

static int gather(struct dt_run *run, bool master, char *all)
{
    struct dt_error err = {0};
    struct dt_learner *l = &run->learner;
    const struct dt_layout *layout = l->spec->whole;
    for (size_t u = 0; u < layout->unit_count; u++) {
        struct dt_view unit;
        TRY(dt_learner_gather(l, u, master, &unit, &err) == 0);
        const size_t bytes = dt_view_bytes(unit);
        memcpy(all, dt_view_data(unit), bytes);
        all += layout->units[u].count * sizeof(float);
    }
    return 0;
}

static int finish(struct dt_run *run, struct left *left)
{
    struct dt_error err = {0};
    const size_t bytes = run->spec.learner.whole->count * sizeof(float);
    char *weights = calloc(1, bytes), *master = calloc(1, bytes);
    TRY(weights && master);
    TRY(gather(run, false, weights) == 0 && gather(run, true, master) == 0);
    if (run->spec.rank == 0) {
        left->bytes = bytes;
        left->weights = weights;
        left->master = (float *)(void *)master;
        return 0;
    }
    free(weights);
    free(master);
    return 0;
}

/* Takes a step and keeps its loss. */
static int step(struct dt_run *run, struct left *left)
{
    const struct dt_progress *p = &run->progress;
    const double sum = p->loss_sum, tokens = p->loss_tokens;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        left->loss[p->step - 1] =
            (p->loss_sum - sum) / (p->loss_tokens - tokens);
    return 0;
}

/* Steps to the end, with a checkpoint there. */
static int train(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    while (run->progress.step < LAST)
        TRY(step(run, arg) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    return finish(run, arg);
}

/* Steps half of the way, saves, and is killed after one more. */
static int begin(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    for (int i = 0; i < HALF; i++)
        TRY(step(run, arg) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    return step(run, arg);
}

static int resume(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(run->progress.step == HALF);
    return train(run, arg);
}

static void compare(const struct left *a, const struct left *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof(a->loss));
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->weights, b->weights, a->bytes);
    assert_memory_equal(a->master, b->master, a->bytes);
}

/* --- cases --- */

/* With files that hold the type that passes read, more, and less than that:
 * then frozen weights are those that the run began with.
 */
static void a_resumed_run_has_the_bits_of_one_that_was_not(void **state)
{
    static const struct {
        int choice, ranks;
        const char *lines;
    } cases[] = {
        {1 << DT_PART_LANGUAGE, 1, SFT},
        {1 << DT_PART_VISION, 2, SFT "distributed.strategy: zero3\n"},
        {1 << DT_PART_VISION | 1 << DT_PART_LANGUAGE, 2,
         SFT "distributed.strategy: zero2\nprecision.compute: bf16\n"},
        {1 << DT_PART_PROJECTOR, 1,
         SFT "precision.compute: bf16\ncheckpoint.save_dtype: fp32\n"},
        {1 << DT_PART_LANGUAGE, 2,
         SFT "distributed.strategy: zero3\ncheckpoint.save_dtype: bf16\n"},
        {1 << DT_PART_VISION, 2, DPO "distributed.strategy: zero3\n"},
        {1 << DT_PART_PROJECTOR, 1,
         DPO "dpo.sync_ref: {enabled: true, "
             "steps: 1, alpha: 0.5}\n"},
        {1 << DT_PART_LANGUAGE, 2, GRPO "distributed.strategy: zero3\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct left whole = {0}, halves = {0};
#ifndef HAVE_GLOO
        if (cases[i].ranks > 1)
            continue;
#endif
        choose(cases[i].choice);
        run_world(cases[i].ranks, cases[i].lines, train, &whole, false);
        run_world(cases[i].ranks, cases[i].lines, begin, &halves, false);
        run_world(cases[i].ranks, cases[i].lines, resume, &halves, true);
        compare(&whole, &halves);
        forget(&whole);
        forget(&halves);
    }
}

/* A reference shares what is frozen, and rollouts gather from both. */
static void every_strategy_has_the_bits_of_ddp(void **state)
{
    static const char *const lines[] = {SFT, DPO, GRPO};
    static const char *const strategies[] = {"ddp", "zero1", "zero3"};
    (void)state;
#ifndef HAVE_GLOO
    skip();
#endif
    choose(1 << DT_PART_VISION | 1 << DT_PART_LANGUAGE);
    for (int i = 0; i < 3; i++) {
        struct left left[3] = {0};
        for (int s = 0; s < 3; s++) {
            char text[768];
            snprintf(text, sizeof(text), "%sdistributed.strategy: %s\n",
                     lines[i], strategies[s]);
            run_world(2, text, train, &left[s], false);
            compare(&left[0], &left[s]);
        }
        assert_true(i == 2 || left[0].loss[LAST - 1] < left[0].loss[0]);
        for (int s = 0; s < 3; s++)
            forget(&left[s]);
    }
}

static int compare_reference(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct left *left = arg;
    const struct dt_learner_spec *spec = &run->spec.learner;
    TRY(dt_spec_reference_layout(&run->spec) == spec->layout);
    TRY(train(run, left) == 0);
    TRY(run->spec.rank > 0 || near(left->loss[0], log(2), 1e-6));
    return 0;
}

/* It is the model before the first step. */
static void a_reference_has_trained_parts_of_its_own_alone(void **state)
{
    struct left left = {0};
    (void)state;
    choose(1 << DT_PART_VISION);
    run_world(1, DPO, compare_reference, &left, false);
    forget(&left);
}

static float *load(const char *dir, const struct dt_layout *layout)
{
    struct dt_error err;
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * sizeof(float), "a test", &err);
    float *all = malloc(layout->count * sizeof(*all));
    if (!buf || !all ||
        dt_weights_load(dir, layout, dt_view_of(buf, DT_F32), &err) < 0)
        fail_msg("%s", err.text);
    memcpy(all, buf->data, buf->bytes);
    dt_buffer_destroy(buf);
    return all;
}

/* A layout like that of the model of the last run. */
static struct dt_layout *layout_of(struct dt_model_config *config)
{
    struct dt_error err;
    if (dt_model_config_load(config, CHECKPOINT, &err) < 0)
        fail_msg("%s", err.text);
    struct dt_layout *layout = dt_model_layout(config, 1, &err);
    assert_non_null(layout);
    return layout;
}

static float rounded(float value)
{
    uint16_t half;
    dt_convert(&half, DT_BF16, &value, DT_F32, 1);
    dt_convert(&value, DT_F32, &half, DT_BF16, 1);
    return value;
}

/* The model's files have all weights, the optimizer's those that are trained,
 * and an export has the trained ones as they are updated.
 */
static void checkpoints_and_exports_have_all_weights(void **state)
{
    struct left left = {0};
    struct dt_model_config config = {0};
    struct dt_error err;
    struct dt_parts *parts;
    struct dt_export export = {.from = CHECKPOINT,
                               .to = "exported",
                               .dtype = DT_F32,
                               .max_shard_bytes = 1 << 30,
                               .overwrite = true};
    (void)state;
    choose(1 << DT_PART_VISION);
    run_world(1, SFT "precision.compute: bf16\n", train, &left, false);
    struct dt_layout *layout = layout_of(&config);
    float *saved = load(CHECKPOINT, layout);
    if (dt_export(&export, &err) < 0)
        fail_msg("%s", err.text);
    float *exported = load("exported", layout);
    if (dt_parts_open(CHECKPOINT, layout, &parts, &err) < 0)
        fail_msg("%s", err.text);
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++) {
        assert_int_equal(dt_parts_have_some(parts, kind, &err), 2);
        assert_int_equal(dt_parts_have(parts, kind, &err), -1);
    }
    assert_string_equal(err.text, CHECKPOINT
                        ": the optimizer's files do not have "
                        "v/transformer.h.0.ln_1.weight once and as a "
                        "whole");
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        const bool frozen = layout->units[param->unit].part == DT_PART_VISION;
        for (size_t j = param->offset; j < param->offset + param->count; j++) {
            const float master = left.master[j];
            if (!frozen &&
                (saved[j] != rounded(master) || exported[j] != master))
                fail_msg("%s: %g %g %g", param->name, (double)saved[j],
                         (double)exported[j], (double)master);
            if (frozen && exported[j] != saved[j])
                fail_msg("%s", param->name);
        }
    }
    dt_parts_close(parts);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    free(saved);
    free(exported);
    forget(&left);
}

/* --- costs --- */

/* Operations of a token, and the parameters of parts. */
struct cost {
    double flops, params[DT_PARTS];
};

static int count(struct dt_run *run, void *arg)
{
    const struct dt_layout *layout =
        dt_learner_model_layout(&run->spec.learner);
    struct cost *cost = arg;
    *cost = (struct cost){.flops = dt_flops_per_token(&run->spec)};
    for (size_t i = 0; i < layout->param_count; i++)
        cost->params[layout->units[layout->params[i].unit].part] +=
            (double)layout->params[i].count;
    return 0;
}

/* Weights that are frozen have no gradients, and below the lowest trained block
 * nothing goes back. The positions of GPT-2 are looked up alone.
 */
static void operations_are_those_of_what_goes_back(void **state)
{
    struct cost all, some;
    const double looked_up = 32 * 16;
    (void)state;
    choose(0);
    run_world(1, SFT, count, &all, false);
    const double *n = all.params;
    choose(1 << DT_PART_VISION);
    run_world(1, SFT, count, &some, false);
    assert_true(all.flops - some.flops == 2 * n[DT_PART_VISION]);
    choose(1 << DT_PART_VISION | 1 << DT_PART_LANGUAGE);
    run_world(1, SFT, count, &some, false);
    assert_true(all.flops - some.flops ==
                4 * n[DT_PART_VISION] + 2 * (n[DT_PART_LANGUAGE] - looked_up));
}

static int refuse(const struct dt_comm_world *world, void *arg)
{
    struct dt_error *err = arg;
    struct dt_conf *conf = small_conf(SFT "training.resume: auto\n");
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_run run = {.spec = {.rank = 0, .world = 1}};
    struct dt_comm *comm = small_comm(world, err);
    freeze(&run);
    int rc = dt_run_init(&run, conf, &exec, comm, 1, err);
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    dt_conf_destroy(conf);
    return rc < 0 ? 0 : -1;
}

static void a_run_that_trains_other_parts_is_refused(void **state)
{
    struct left left = {0};
    struct dt_error err = {0};
    (void)state;
    choose(1 << DT_PART_VISION);
    run_world(1, SFT, train, &left, false);
    choose(1 << DT_PART_PROJECTOR);
    world_threads(1, refuse, &err);
    if (!strstr(err.text, "was trained with model.train_projector true, not "
                          "false, which changes what is trained") &&
        !strstr(err.text, "was trained with model.train_vision false, not "
                          "true, which changes what is trained"))
        fail_msg("%s", err.text);
    choose((1 << DT_PARTS) - 1);
    world_threads(1, refuse, &err);
    if (!strstr(err.text, "all parts of the model are frozen: nothing would be "
                          "trained"))
        fail_msg("%s", err.text);
    forget(&left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_bits_of_one_that_was_not),
        cmocka_unit_test(every_strategy_has_the_bits_of_ddp),
        cmocka_unit_test(a_reference_has_trained_parts_of_its_own_alone),
        cmocka_unit_test(checkpoints_and_exports_have_all_weights),
        cmocka_unit_test(operations_are_those_of_what_goes_back),
        cmocka_unit_test(a_run_that_trains_other_parts_is_refused),
    };
    return cmocka_run_group_tests_name("frozen_run", tests, enter, small_leave);
}
