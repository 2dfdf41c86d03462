/* SPDX-License-Identifier: Apache-2.0 */
/* learner.h - one rank that trains a small model, as a run does */
#ifndef TESTS_PARITY_LEARNER_H
#define TESTS_PARITY_LEARNER_H

#include "run/learner.h"
#include "tests/parity/reference.h"

/* Which parts the units of a model of two blocks are given. */
enum learner_split {
    LEARNER_WHOLE,  /* language all */
    LEARNER_INSIDE, /* language; vision; projector; language */
    LEARNER_BELOW,  /* vision; vision; projector; language */
    LEARNER_SPLITS
};

struct learner_options {
    enum dt_dtype compute;
    bool smoothing;
    double max_norm;
    struct dt_parallel_options parallel; /* except for compute */
    bool adapts;                         /* trains adapters/<name> */
    enum learner_split split;
    bool freezes[DT_PARTS];
    double rates[DT_PARTS];
    bool recompute;
};

struct learner {
    const struct reference *reference;
    struct learner_options options;
    struct dt_exec exec;
    struct dt_comm *comm; /* owned */
    struct dt_learner_spec spec;
    struct dt_learner own;
    const struct dt_layout *layout; /* of what is trained */
    struct dt_parallel *parallel;
    struct dt_view step;
    uint64_t updates; /* so far */
    char start[4096], adapter_start[4096];
    struct dt_error err;
};

/* Sets l->spec from reference and options, for a world of this size. -1: err;
 * learner_forget in any case.
 */
int learner_describe(struct learner *l, int world);
void learner_forget(struct learner *l);

/* The stored weights of the reference, in a world of `comm`, which it takes;
 * NULL: a world of one. Does not assert, as ranks are threads. -1: err is set.
 * learner_fini in any case.
 */
int learner_init(struct learner *l, const struct reference *r,
                 const struct learner_options *options, struct dt_comm *comm);
void learner_fini(struct learner *l);

/* Begins step k, whose loss is multiplied by `scale`. */
void learner_begin(struct learner *l, size_t k, double scale);

/* Micro-batch `a` of `count`; `train` false: an evaluation, in between. */
int learner_pass(struct learner *l, size_t a, size_t count,
                 const struct dt_batch *batch, bool train);

/* Ends the step; its scalars. */
int learner_update(struct learner *l, double scalars[DT_STEP_COUNT]);

/* Copies what this rank owns to where it is in flat(layout->count). */
int learner_fetch(struct learner *l, enum dt_owned kind, float *flat);

#endif /* TESTS_PARITY_LEARNER_H */
