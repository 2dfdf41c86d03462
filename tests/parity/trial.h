/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - a few steps of a small model in a world of several ranks */
#ifndef TESTS_PARITY_TRIAL_H
#define TESTS_PARITY_TRIAL_H

#include "tests/parity/learner.h"

enum { TRIAL_STEPS = 4 }; /* one after an overflow */

struct trial {
    const struct reference *reference;
    struct learner_options options;
    size_t micro_batches;
    bool overflow;  /* of the third step's gradients */
    bool evaluates; /* between two steps */
    size_t count;   /* elements of the flat buffers below */
    /* What the ranks own at the end, together, and the norms: shared memory. */
    float *state[DT_OWNED_GRADS];
    double *norms; /* (TRIAL_STEPS) */
};

/* Whether this build connects ranks, and the subject is the CPU. */
bool trial_has_ranks(void);

/* Runs a trial like this one in a strategy, with a process for each rank.
 * Release with trial_free.
 */
struct trial trial_run(const struct trial *like, enum dt_strategy s, int world);
void trial_free(struct trial *t);

/* One way to divide a run over its ranks. */
struct trial_way {
    enum dt_strategy strategy;
    bool hybrid;
    enum dt_when when;
};

/* Runs a trial like this one divided this way, as trial_run does. */
struct trial trial_run_way(const struct trial *like,
                           const struct trial_way *way, int world);

/* Asserts that all of `ways` have the bits of the first. */
void trial_compare(const struct trial *like, int world,
                   const struct trial_way *ways, size_t count);

/* Asserts that norms, master, m and v have the same bits. */
void trial_check_same(const struct trial *a, const struct trial *b);

#endif /* TESTS_PARITY_TRIAL_H */
