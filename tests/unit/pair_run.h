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

#endif /* TESTS_UNIT_PAIR_RUN_H */
