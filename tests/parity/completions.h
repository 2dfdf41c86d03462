/* SPDX-License-Identifier: Apache-2.0 */
/* completions.h - rollouts of a subject, and what came of them */
#ifndef TESTS_PARITY_COMPLETIONS_H
#define TESTS_PARITY_COMPLETIONS_H

#include "rollout/rollout.h"
#include "tests/parity/subject.h"

enum {
    PROMPTS = 9,
    COPIES = 3,
    LONGEST = 70,   /* prompt */
    TOKENS = 45,    /* of a completion, at most */
    POSITIONS = 160 /* of the model */
};

/* A prompt with its completion. */
struct completed {
    int32_t ids[LONGEST + TOKENS];
    size_t prompt, count; /* tokens of the prompt, of the completion */
    float logps[TOKENS];
    enum dt_end end;
    int times; /* that it was given */
};

struct completions {
    struct completed of[PROMPTS][COPIES];
    struct dt_rollout_counts counts;
};

/* Completes prompts first, first + step, ... of PROMPTS, which have lengths
 * about the borders of blocks, in this or the reverse order. Adds to *out;
 * fails the test if a completion comes twice.
 */
struct task {
    struct dt_rollout_options options;
    size_t first, step;
    bool reverse;
};
void completions_run(const struct subject *s, const struct task *task,
                     struct completions *out);

/* Options of COPIES completions, in the type of the subject. */
struct dt_rollout_options completions_options(const struct subject *s,
                                              size_t slots);

#endif /* TESTS_PARITY_COMPLETIONS_H */
