/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_run.h - tiny runs of algorithm ppo, and what two of them compare */
#ifndef TESTS_UNIT_PPO_RUN_H
#define TESTS_UNIT_PPO_RUN_H

#ifndef SCHEDULE
#define SCHEDULE "scheduler.name: constant\n"
#endif
#define SMALL                                                                  \
    "algorithm: ppo\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2}\n"            \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout: {max_completion_length: 8, temperature: 1}\n"                    \
    "logging.report_to: jsonl\n" SCHEDULE

#include "train/resume/resume.h"
#include "tests/unit/prompt_scene.h"

/* Scores behind the last token of completions that end early, as many do. */
#define NEXT                                                                   \
    "ppo.score_at: trl_next\n"                                                 \
    "rollout.stop_ids: [65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, "  \
    "97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110]\n"

/* Takes steps up to number `last`. */
static inline int go_to(struct dt_run *run, long last, struct dt_error *err)
{
    struct dt_report_step line;
    while (run->progress.step < last)
        if (small_step(run, &line, err) < 0)
            return -1;
    return 0;
}

/* Takes steps up to number `last`, or until a number of a generation is more
 * than `least`. -1: it never is.
 */
static inline int go_until(struct dt_run *run, enum dt_ppo_number number,
                           double least, long last, struct dt_error *err)
{
    const double *now = &run->ppo.numbers[number];
    while (run->progress.step < last && !(*now > least))
        if (go_to(run, run->progress.step + 1, err) < 0)
            return -1;
    return *now > least ? 0 : -1;
}

/* --- a run that learns --- */

static inline int learn_rewarded(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(go_to(run, 1, &err) == 0);
    TRY(run->ppo.numbers[DT_PPO_SCORES] < 0.6);
    TRY(go_until(run, DT_PPO_SCORES, 0.85, 200, &err) == 0);
    return 0;
}

#define LEARN                                                                  \
    "training: {train_batch_size: 32, max_steps: 200}\n"                       \
    "optimizer.lr: 0.01\n"                                                     \
    "ppo: {epochs: 4, kl_coef: 0.01}\n" PRINTABLE

/* --- a run that is saved, and another that resumes from there --- */

struct kept {
    long half; /* the step after which the run is saved */
    long last;
    float *weights[2]; /* after the last step, on rank 0 */
    size_t count[2];
    double kl_coef;
    long left_out, total_steps;
    struct dt_metrics metrics;
};

static inline struct dt_view weights_of(struct dt_learner *learner)
{
    return dt_view_of(
        dt_parallel_part(learner->parallel, DT_OWNED_MASTER, 0).buf, DT_F32);
}

static inline int go_through(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    struct kept *kept = arg;
    struct dt_learner *learner;
    TRY(go_to(run, kept->half, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(go_to(run, kept->last, &err) == 0);
    for (size_t i = 0;
         run->spec.rank == 0 && (learner = dt_run_learner(run, i)) != NULL;
         i++) {
        struct dt_view flat = weights_of(learner);
        kept->count[i] = flat.count;
        kept->weights[i] = malloc(flat.count * sizeof(float));
        memcpy(kept->weights[i], dt_view_data(flat),
               flat.count * sizeof(float));
    }
    if (run->spec.rank == 0) {
        kept->kl_coef = run->ppo.kl_coef;
        kept->left_out = run->ppo.left_out;
        kept->total_steps = run->total_steps;
        kept->metrics = run->progress.metrics;
    }
    return 0;
}

static inline int go_on(struct dt_run *run, void *arg)
{
    const struct kept *kept = arg;
    struct dt_error err = {0};
    struct dt_learner *learner;
    TRY(run->progress.step == kept->half);
    TRY(go_to(run, kept->last, &err) == 0);
    for (size_t i = 0; (learner = dt_run_learner(run, i)) != NULL; i++) {
        struct dt_view flat = weights_of(learner);
        TRY(flat.count == kept->count[i]);
        TRY(!memcmp(dt_view_data(flat), kept->weights[i],
                    flat.count * sizeof(float)));
    }
    TRY(run->ppo.kl_coef == kept->kl_coef);
    TRY(run->ppo.left_out == kept->left_out);
    TRY(run->total_steps == kept->total_steps);
    TRY(run->spec.rank > 0 ||
        !memcmp(run->progress.metrics.value, kept->metrics.value,
                sizeof(kept->metrics.value)));
    return 0;
}

/* Whether a run under ddp that is saved after step `half` and resumed has the
 * bits of one that is not.
 */
static inline void resumes(int size, const char *lines, long half, long last,
                           struct kept *kept)
{
    *kept = (struct kept){.half = half, .last = last};
    small_runs(size, lines, go_through, kept);
    struct small_world small = {
        .conf = small_conf(lines), .f = go_on, .arg = kept};
    world_threads(size, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
    free(kept->weights[0]);
    free(kept->weights[1]);
}

#endif /* TESTS_UNIT_PPO_RUN_H */
