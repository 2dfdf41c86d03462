/* SPDX-License-Identifier: Apache-2.0 */
/* pair_run.h - runs a tiny model as a whole on pairs that follow a rule */
#ifndef TESTS_UNIT_PAIR_RUN_H
#define TESTS_UNIT_PAIR_RUN_H

/* The preferred word has more vowels. A test has its lines before these. */
#define SMALL                                                                  \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2}\n"            \
    "data: {train: train.jsonl, eval: eval.jsonl, max_length: 32}\n"           \
    "logging.report_to: jsonl\n"                                               \
    "scheduler.name: constant\n"

#include "base/rng.h"
#include "train/resume/resume.h"
#include "tests/unit/small_run.h"

enum { PAIRS = 1000, HELD_OUT = 100, LETTERS = 8 };

/* A word with so many vowels, of the letters that `seed` chooses. */
static inline void pair_word(char word[LETTERS + 1], int vowels, uint32_t seed)
{
    for (uint32_t i = 0; i < LETTERS; i++) {
        uint64_t place = dt_rng_permute(seed, 1, i, LETTERS);
        word[i] = (int)place < vowels
                      ? "aeiou"[dt_rng_permute(seed, 2 + i, 0, 5)]
                      : "bcdfg"[dt_rng_permute(seed, 2 + i, 0, 5)];
    }
    word[LETTERS] = '\0';
}

static inline int pair_file(const char *path, uint32_t first, uint32_t count)
{
    FILE *file = fopen(path, "w");
    char chosen[LETTERS + 1], rejected[LETTERS + 1];
    for (uint32_t i = first; i < first + count; i++) {
        int more = 1 + (int)dt_rng_permute(i, 20, 0, LETTERS);
        pair_word(chosen, more, 2 * i);
        pair_word(rejected, (int)dt_rng_permute(i, 21, 0, (uint64_t)more),
                  2 * i + 1);
        fprintf(file,
                "{\"prompt\": \"w\", \"chosen\": \"%s\", \"rejected\": "
                "\"%s\"}\n",
                chosen, rejected);
    }
    return fclose(file);
}

static inline int pair_enter(void **state)
{
    (void)state;
    dt_log_init(0, DT_LOG_ERROR);
    if (chdir("/") < 0 || !scratch_path("") || chdir(scratch_path("")) < 0)
        return -1;
    return pair_file("train.jsonl", 0, PAIRS) |
           pair_file("eval.jsonl", PAIRS, HELD_OUT);
}

/* Takes steps up to `last`. */
static inline int pair_steps(struct dt_run *run, long last,
                             struct dt_error *err)
{
    struct dt_report_step line;
    while (run->progress.step < last)
        if (small_step(run, &line, err) < 0)
            return -1;
    return 0;
}

/* --- learning --- */

/* `learn` passes with one rank and with two. */
static inline void pair_learns(const char *lines, small_rank_f learn)
{
    small_runs(1, lines, learn, NULL);
    small_runs(2, lines, learn, NULL);
}

/* The same in bf16 on one rank, and in fp16 on two with this strategy. */
static inline void pair_learns_in_sixteen_bits(const char *lines,
                                               const char *strategy,
                                               small_rank_f learn)
{
    char more[512];
    snprintf(more, sizeof(more), "%sprecision.compute: bf16\n", lines);
    small_runs(1, more, learn, NULL);
    snprintf(more, sizeof(more),
             "%sprecision.compute: fp16\ndistributed.strategy: %s\n", lines,
             strategy);
    small_runs(2, more, learn, NULL);
}

/* --- saving --- */

enum { PAIR_HALF = 3, PAIR_ALL = 6 };

struct pair_kept {
    float *weights;
    size_t count;
    struct dt_metrics metrics;
};

static inline int pair_keep(struct dt_run *run, struct pair_kept *kept)
{
    struct dt_view flat = small_flat(run, DT_OWNED_MASTER);
    kept->metrics = run->progress.metrics;
    kept->count = flat.count;
    kept->weights = malloc(flat.count * sizeof(float));
    memcpy(kept->weights, dt_view_data(flat), flat.count * sizeof(float));
    return 0;
}

static inline int pair_through(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    TRY(pair_steps(run, PAIR_HALF, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(pair_steps(run, PAIR_ALL, &err) == 0);
    return run->spec.rank == 0 ? pair_keep(run, arg) : 0;
}

static inline int pair_resume(struct dt_run *run, void *arg)
{
    const struct pair_kept *kept = arg;
    struct dt_error err = {0};
    struct dt_view flat = small_flat(run, DT_OWNED_MASTER);
    TRY(run->progress.step == PAIR_HALF);
    TRY(pair_steps(run, PAIR_ALL, &err) == 0);
    TRY(flat.count == kept->count);
    TRY(!memcmp(dt_view_data(flat), kept->weights,
                kept->count * sizeof(float)));
    if (run->spec.rank == 0)
        TRY(!memcmp(&run->progress.metrics, &kept->metrics,
                    sizeof(kept->metrics)));
    return 0;
}

/* A run of this algorithm that resumes is the same bit by bit, also what
 * belongs to the next line of its report.
 */
static inline void pair_resumes(const char *algorithm)
{
    char lines[512];
    struct pair_kept kept;
    snprintf(
        lines, sizeof(lines),
        "%straining: {train_batch_size: 8, gradient_accumulation_steps: 2, "
        "max_steps: 9, resume: auto}\n",
        algorithm);
    for (int size = 1; size <= 2; size++) {
        small_runs(size, lines, pair_through, &kept);
        struct small_world small = {
            .conf = small_conf(lines), .f = pair_resume, .arg = &kept};
        world_threads(size, small_rank, &small);
        dt_conf_destroy((struct dt_conf *)small.conf);
        free(kept.weights);
    }
}

/* Saves a run as it is. */
static inline int pair_save(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

/* --- configurations with lines of their own in place of SMALL --- */

static inline struct dt_conf *pair_conf(const char *text)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf =
        dt_conf_load_text("t.yaml", text, strlen(text), &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.text[0]);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

static inline void pair_runs(const char *text, small_rank_f f)
{
    struct small_world small = {.conf = pair_conf(text), .f = f};
    small_clean(NULL);
    world_threads(1, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

/* Asserts that the run cannot begin, with this in its message. */
static inline void pair_refused(const char *text, const char *why)
{
    small_clean(NULL);
    small_refused(pair_conf(text), why);
}

#endif /* TESTS_UNIT_PAIR_RUN_H */
