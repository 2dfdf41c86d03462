/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h - a small model with its buffers, as parity tests set it up */
#ifndef TESTS_PARITY_SUBJECT_H
#define TESTS_PARITY_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"

struct subject {
    const struct dt_model_config *config; /* not owned */
    struct dt_model_options options;
    struct dt_layout *layout;
    struct dt_buffer *master_buf, *copy_buf, *grads_buf;
    struct dt_view master, grads; /* fp32 */
    struct dt_view copy; /* of the master in the compute type; none if fp32 */
    struct dt_model *model;
};

/* Asserts that there is memory for it. All weights are zero. */
void subject_init(struct subject *s, const struct dt_model_config *config,
                  const struct dt_model_options *options);
void subject_fini(struct subject *s);

/* The master weights and the gradients of parameter i. */
float *subject_weights(const struct subject *s, size_t i);
float *subject_grads(const struct subject *s, size_t i);

/* Rounds the master weights to the compute type, for the next pass. */
void subject_publish(struct subject *s);

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
