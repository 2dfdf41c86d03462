/* SPDX-License-Identifier: Apache-2.0 */
/* learner.h - one rank that trains a small model, as a run does */
#ifndef TESTS_PARITY_LEARNER_H
#define TESTS_PARITY_LEARNER_H

#include "model/model_adapter.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/parallel.h"
#include "tests/parity/reference.h"

struct learner_options {
    enum dt_dtype compute;
    bool smoothing;
    double max_norm;
    struct dt_parallel_options parallel; /* except for compute */
    bool adapts;                         /* trains adapters/<name> */
};

struct learner {
    const struct reference *reference;
    struct learner_options options;
    struct dt_exec exec;
    struct dt_comm *comm; /* owned */
    struct dt_layout *layout;
    struct dt_parallel *parallel;
    struct dt_layout *frozen_layout; /* of the model, beside an adapter */
    struct dt_parallel *frozen;
    struct dt_adapter adapter;
    struct dt_model *model;
    struct dt_optim *optim;
    struct dt_buffer *step_buf;
    struct dt_view step;
    struct dt_error err;
};

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
