/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h - a small model with its buffers, as parity tests set it up */
#ifndef TESTS_PARITY_SUBJECT_H
#define TESTS_PARITY_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"

/* The hardware under test: the host, or what $DT_TEST_DEVICE names ("cuda").
 * Asserts that it can be opened.
 */
const struct dt_exec *subject_exec(void);

/* Before the first use of that: it has the same bits in every run. */
void subject_deterministic(void);

struct subject {
    const struct dt_model_config *config; /* not owned */
    struct dt_model_options options;
    const struct dt_exec *exec;
    struct dt_layout *layout;
    struct dt_buffer *master_buf, *copy_buf, *grads_buf, *step_buf;
    struct dt_view master, grads; /* fp32 */
    struct dt_view copy; /* of the master in the compute type; none if fp32 */
    struct dt_view step; /* scalars, as in ops.h */
    struct dt_model *model;
    float *weights_here, *grads_here; /* as the host sees them */
};

/* Asserts that there is memory for it. All weights are zero. */
void subject_init(struct subject *s, const struct dt_model_config *config,
                  const struct dt_model_options *options);
void subject_fini(struct subject *s);

/* The master weights and the gradients of parameter i, as the host sees them:
 * gradients those of the last subject_train, weights those of subject_fetch or
 * what was written there, which subject_publish takes to the device.
 */
float *subject_weights(const struct subject *s, size_t i);
float *subject_grads(const struct subject *s, size_t i);

/* Takes the weights to the device, and rounds them to the compute type, for the
 * next pass.
 */
void subject_publish(struct subject *s);

/* Makes the weights of the device visible. */
void subject_fetch(struct subject *s);

/* Begins a step with these parameters, and reads the scalars of one. */
void subject_begin(struct subject *s, const struct dt_step_params *params);
void subject_scalars(struct subject *s, double scalars[DT_STEP_COUNT]);

/* Weights far from their usual first values, so that no gradient is trivial;
 * published.
 */
void subject_randomize(struct subject *s, double std);

/* Overwrites the gradients with something that must not be seen again. */
void subject_spoil(struct subject *s);

/* Forward of all units but the last. */
void subject_forward(struct subject *s, const struct dt_batch *batch,
                     bool train);

/* Sum of the losses of a batch, as in training; the gradients of scale * sum go
 * to, or are added to, s->grads.
 */
double subject_train(struct subject *s, const struct dt_batch *batch,
                     float scale, bool accumulate);

/* Sum of the losses of a batch, as in evaluation. */
double subject_evaluate(struct subject *s, const struct dt_batch *batch);

#endif /* TESTS_PARITY_SUBJECT_H */
