/* SPDX-License-Identifier: Apache-2.0 */
/* sampled_run.h - runs of algorithm grpo with a tiny model */
#ifndef TESTS_UNIT_SAMPLED_RUN_H
#define TESTS_UNIT_SAMPLED_RUN_H

#define SMALL                                                                  \
    "algorithm: grpo\n"                                                        \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2}\n"            \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout: {max_completion_length: 8}\n"                                    \
    "logging.report_to: jsonl\n"                                               \
    "scheduler.name: constant\n"                                               \
    "optimizer: {lr: 0.005, weight_decay: 0}\n"

#include "train/resume/resume.h"
#include "tests/unit/prompt_scene.h"

#define STEP "training: {train_batch_size: 16, max_steps: 9, resume: auto}\n"

/* Four steps use a generation of four prompts with four completions. */
#define REUSED                                                                 \
    "training: {train_batch_size: 8, gradient_accumulation_steps: 2, "         \
    "max_steps: 9, resume: auto}\n"                                            \
    "grpo: {num_generations: 4, steps_per_generation: 4, num_iterations: 2}\n"

static inline int steps(struct dt_run *run, long last,
                        struct dt_report_step *line, struct dt_error *err)
{
    while (run->progress.step < last)
        if (small_step(run, line, err) < 0)
            return -1;
    return 0;
}

/* --- learning --- */

#define LEARNING "training: {train_batch_size: 32, max_steps: 100}\n"

struct learned {
    double first, last; /* mean rewards of ten steps */
};

static inline int ten_steps(struct dt_run *run, double *mean)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    const long last = run->progress.step + 10;
    double sum = 0;
    while (run->progress.step < last) {
        TRY(small_step(run, &line, &err) == 0);
        sum += run->samples.numbers.value[0];
    }
    *mean = sum / 10;
    return 0;
}

/* Ten steps are compared, since the 32 completions of one tell little. */
static inline int learn(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    struct learned here;
    TRY(ten_steps(run, &here.first) == 0);
    TRY(steps(run, 90, &line, &err) == 0);
    TRY(ten_steps(run, &here.last) == 0);
    if (run->spec.rank == 0)
        *(struct learned *)arg = here;
    return 0;
}

static inline void assert_learned(int size, const char *lines)
{
    struct learned learned;
    small_runs(size, lines, learn, &learned);
    assert_in_range((int)(100 * learned.first), 15, 60);
    assert_in_range((int)(100 * learned.last), 75, 100);
}

/* --- saving --- */

enum { LAST = 6 };

struct kept {
    float *weights;
    struct dt_number_sums sums;
    double metrics[DT_METRICS_MAX];
    long from; /* the step after which it is saved */
};

static inline int kept_go(struct dt_run *run, void *arg)
{
    struct dt_view flat = small_flat(run, DT_OWNED_MASTER);
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    struct kept *kept = arg;
    TRY(steps(run, kept->from, &line, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(steps(run, LAST, &line, &err) == 0);
    if (run->spec.rank > 0)
        return 0;
    kept->weights = malloc(flat.count * sizeof(float));
    memcpy(kept->weights, dt_view_data(flat), flat.count * sizeof(float));
    kept->sums = run->samples.sums;
    memcpy(kept->metrics, run->progress.metrics.value, sizeof(kept->metrics));
    return 0;
}

static inline int kept_resume(struct dt_run *run, void *arg)
{
    struct dt_view flat = small_flat(run, DT_OWNED_MASTER);
    struct dt_report_step line;
    struct dt_error err = {0};
    const struct kept *kept = arg;
    TRY(run->progress.step == kept->from);
    TRY(steps(run, LAST, &line, &err) == 0);
    TRY(!memcmp(dt_view_data(flat), kept->weights, flat.count * sizeof(float)));
    TRY(!memcmp(&run->samples.sums, &kept->sums, sizeof(kept->sums)));
    TRY(!memcmp(run->progress.metrics.value, kept->metrics,
                sizeof(kept->metrics)));
    return 0;
}

/* Asserts that a run with these lines ends with the same bits when it is saved
 * and resumed after each of its steps, with one rank and with two.
 */
static inline void resumes_at_every_step(const char *lines)
{
    for (int size = 1; size <= 2; size++)
        for (long from = 1; from < LAST; from++) {
            struct kept kept = {.from = from};
            small_runs(size, lines, kept_go, &kept);
            small_resume(size, lines, kept_resume, &kept);
            free(kept.weights);
        }
}

#endif /* TESTS_UNIT_SAMPLED_RUN_H */
