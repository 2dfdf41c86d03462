/* SPDX-License-Identifier: Apache-2.0 */
/*
 * learner.h - a trained model, with its engine, optimizer and loss scale
 *
 * A learner knows neither data nor losses: the run gives it micro-batches, and
 * the weights of their values in the loss.
 */
#ifndef DT_RUN_LEARNER_H
#define DT_RUN_LEARNER_H

#include "comm/comm.h"
#include "model/graphs.h"
#include "model/model_adapter.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/parallel.h"
#include "weights/weights.h"

/* Staging memory for the picked tokens of a micro-batch. */
struct dt_learner_values {
    void *staging;      /* all of the following */
    size_t bytes;       /* of it */
    double *loss_scale; /* of the step */
    int32_t *picked;    /* these are for as many tokens as fit */
    float *value, *collision, *reference, *weight;
    float *entropy, *entropy_weight, *mean, *top;
    float *score, *score_weight; /* of a value head; NULL without one */
    struct dt_event *there;      /* the copies to the host are done */
};

enum { DT_MAX_IN_FLIGHT = 2 }; /* the one that is read, and the next */

/* A model that is trained, before anything of it is allocated. */
struct dt_learner_spec {
    const char *folder; /* of its files in a checkpoint; "": no folder */
    const char *start;  /* directory of its first weights; NULL: random */
    struct dt_model_config config;
    bool freezes[DT_PARTS];    /* parts whose weights are only read */
    double rates[DT_PARTS];    /* as dt_optim_options */
    struct dt_layout *layout;  /* of the trained weights; NULL: no such model */
    struct dt_layout *frozen;  /* of weights that are only read; NULL: none */
    struct dt_layout *whole;   /* of the model's weights, if some are trained
                                  and some frozen; NULL: all are in one of the
                                  two */
    struct dt_adapter adapter; /* on top of frozen weights; r 0: none */
    const char *adapter_start; /* directory of its first weights; NULL: random
                                */
};

struct dt_learner {
    const struct dt_learner_spec *spec; /* not owned, nor are exec and comm */
    const struct dt_exec *exec;
    struct dt_comm *comm;
    struct dt_parallel *parallel; /* holds weights, gradients and moments */
    struct dt_parallel *frozen;   /* holds frozen weights; NULL: there are none
                                   */
    struct dt_view *weights_at;   /* (unit_count) of the model, in both; NULL:
                                     they are in one */
    struct dt_view *grads_at;     /* the same */
    enum dt_dtype compute;        /* of the model's weights */
    enum dt_dtype state;          /* of those that are updated, and of moments
                                   */
    struct dt_carried carried;    /* of the model's files */
    struct dt_model *model;
    struct dt_optim *optim;
    struct dt_schedule schedule;
    struct dt_scaler scaler; /* of the loss; scale 1 unless in fp16 */
    struct dt_graphs *graphs;
    struct dt_learner_values values;
    struct dt_buffer *step_buf;
    struct dt_view step, eval; /* (DT_STEP_COUNT) F64 each: ops.h */
    struct dt_learner_result {
        double *scalars;       /* (DT_STEP_COUNT) staging memory */
        struct dt_event *done; /* they were copied */
    } results[DT_MAX_IN_FLIGHT];
};

/* --- before anything is allocated --- */

enum { DT_PARTS_TEXT = 160 };

/* Writes "vision frozen, projector and language trained: 1234 of 5678
 * parameters" of a model with a tower. Returns text.
 */
const char *dt_learner_parts_text(const struct dt_learner_spec *spec,
                                  char text[DT_PARTS_TEXT]);

/* Frees the config, the layouts and the adapter. */
void dt_learner_spec_fini(struct dt_learner_spec *spec);

/* Divides the layout of a model by what the spec freezes. An adapter leaves it
 * as it is: with one all of the model is frozen. -1: EX_CONFIG, nothing would
 * be trained; EX_OSERR.
 */
int dt_learner_divide(struct dt_learner_spec *spec, int world,
                      struct dt_error *err);

/* The layout of the model's weights, trained and frozen. */
static inline const struct dt_layout *dt_learner_model_layout(
    const struct dt_learner_spec *spec)
{
    if (spec->whole)
        return spec->whole;
    return spec->frozen ? spec->frozen : spec->layout;
}

/* Whether an adapter is trained. */
static inline bool dt_learner_adapts(const struct dt_learner_spec *spec)
{
    return spec->adapter.r > 0;
}

/* The lowest unit that is trained, at which backward passes end; 0 of a model
 * that is not there.
 */
static inline size_t dt_learner_lowest(const struct dt_learner_spec *spec)
{
    return spec->layout ? dt_layout_next(spec->layout, 0) : 0;
}

/* How ranks share trained and frozen weights, given how they would share a
 * model. An adapter is small: with zero3 each rank has all of its weights, so
 * that no pass waits for them.
 */
struct dt_parallel_options dt_learner_trained_options(
    const struct dt_learner_spec *spec,
    const struct dt_parallel_options *parallel);
struct dt_parallel_options dt_learner_frozen_options(
    const struct dt_learner_spec *spec,
    const struct dt_parallel_options *parallel);

/* The options of its model, from those of all models of a run: what of it is
 * trained, without the places of an adapter.
 */
struct dt_model_options dt_learner_model_options(
    const struct dt_learner_spec *spec, const struct dt_model_options *options);

/* Bytes that a rank then holds of both. */
struct dt_parallel_bytes dt_learner_bytes(
    const struct dt_learner_spec *spec, int world,
    const struct dt_parallel_options *parallel);

/* --- with its memory --- */

/* Where the model's weights are, fixed until dt_learner_fini. `trained`, of the
 * same layout, may take the place of the trained ones: views(unit_count) is
 * then the caller's, and has to stay.
 */
struct dt_places dt_learner_weights(const struct dt_learner *learner);
struct dt_places dt_learner_weights_with(const struct dt_learner *learner,
                                         const struct dt_parallel *trained,
                                         struct dt_view *views);

/* Whether each rank has all weights of the model at any time. */
bool dt_learner_has_weights(const struct dt_learner *learner);

/* As dt_parallel_gather, of a unit of the model; frozen ones have the compute
 * type in any case.
 */
int dt_learner_gather(struct dt_learner *learner, size_t u, bool master,
                      struct dt_view *unit, struct dt_error *err);

/* Makes the weights of unit u available for its pass, as dt_parallel_forward
 * and dt_parallel_backward do.
 */
int dt_learner_forward(struct dt_learner *learner, size_t u,
                       struct dt_error *err);
int dt_learner_backward(struct dt_learner *learner, size_t u,
                        struct dt_error *err);

/* Makes the weights of all units available, if dt_learner_has_weights. -1: a
 * peer failed.
 */
int dt_learner_take_all(struct dt_learner *learner, struct dt_error *err);

/* Queues the forward passes of the bound batch, outside graphs. The last unit's
 * own remains to be done; its weights are there. -1: a peer failed.
 */
int dt_learner_forward_all(struct dt_learner *learner, struct dt_error *err);

/* The same with the last unit, and brings the values of the picked tokens to
 * `value` as dt_learner_bring_values does.
 */
int dt_learner_values(struct dt_learner *learner, float *value,
                      struct dt_error *err);

/* Creates the learner that `spec` describes, with weights of zero; borrows
 * spec, exec and comm. -1: as dt_parallel_create, dt_model_create and
 * dt_optim_create. dt_learner_fini in any case.
 */
int dt_learner_init(struct dt_learner *learner,
                    const struct dt_learner_spec *spec,
                    const struct dt_exec *exec, struct dt_comm *comm,
                    const struct dt_model_options *options,
                    const struct dt_parallel_options *parallel,
                    const struct dt_optim_options *optim, struct dt_error *err);

/* No work of it may be queued. */
void dt_learner_fini(struct dt_learner *learner);

/* Checks that the checkpoint in `dir` has optimizer state to resume
 * from. -1: EX_NOINPUT, it has none.
 */
int dt_learner_check_optimizer(const char *dir, struct dt_error *err);

/* Checks the files of a checkpoint in `dir`, or for NULL of the model
 * that the learner starts from. -1: as dt_weights_open, dt_parts_open.
 */
int dt_learner_check_files(const struct dt_learner *learner, const char *dir,
                           struct dt_error *err);

/* Loads this rank's parts of them; all ranks call it together. Random
 * weights are a function of `seed`. -1: as above, or the device or a peer
 * failed.
 */
int dt_learner_load(struct dt_learner *learner, const char *dir, uint64_t seed,
                    struct dt_error *err);

/* The same for what is not trained alone. */
int dt_learner_load_rest(struct dt_learner *learner, uint64_t seed,
                         struct dt_error *err);

/* Where the weights of a layout come from. */
struct dt_frozen {
    const struct dt_model_config *config;
    const struct dt_layout *layout;
    const struct dt_layout *model;    /* of `weights`, with the same units */
    const struct dt_weights *weights; /* NULL: they are random */
    bool new_head;                    /* weights lack score.weight, which ends
                                         the last unit and is random */
    uint64_t seed;
};

/* Reads this rank's parts of all units of `from`, through host memory, and
 * brings them to where passes read them; all `world` ranks call it. -1: as
 * dt_weights_read, or the device or a peer failed.
 */
int dt_frozen_load(struct dt_parallel *parallel, const struct dt_frozen *from,
                   int world, struct dt_error *err);

/* Elements of the largest unit, of what is trained or saved. */
size_t dt_learner_unit_elements(const struct dt_learner *learner);

/* Sums the scalars `step` (DT_STEP_SUMS) over ranks, in stream order. -1: a
 * peer failed.
 */
int dt_learner_reduce(struct dt_learner *learner, struct dt_view step,
                      struct dt_error *err);

/* Judges the gradients of a step, which are complete: their norm, clipping, and
 * whether they are finite. -1: the device or a peer failed.
 */
int dt_learner_judge(struct dt_learner *learner, double max_norm,
                     struct dt_error *err);

/* Ends step number `number`: updates the parts this rank owns, as the scalars
 * of the step say. -1: as dt_parallel_update_begin.
 */
int dt_learner_update(struct dt_learner *learner, uint64_t number,
                      struct dt_error *err);

/* Queues the copy of the scalars `step` to a result. -1, here and below: the
 * device or a peer failed.
 */
int dt_learner_send_result(struct dt_learner *learner, struct dt_view step,
                           struct dt_learner_result *result,
                           struct dt_error *err);

/* Waits for a result that was sent. */
int dt_learner_wait_result(struct dt_learner *learner,
                           const struct dt_learner_result *result,
                           struct dt_error *err);

/* Brings the values of the picked tokens to `value`, and their other numbers to
 * learner->values, with the step's loss scale; waits for them.
 */
int dt_learner_bring_values(struct dt_learner *learner, float *value,
                            struct dt_error *err);

/* Queues the copy of values.weight to the device, for the backward pass. */
int dt_learner_send_weights(struct dt_learner *learner, size_t count,
                            struct dt_error *err);

#endif /* DT_RUN_LEARNER_H */
