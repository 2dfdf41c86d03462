/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_sft.c - small models learn step by step as in transformers */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "optim/optim.h"
#include "parallel/parallel.h"
#include "tests/parity/reference.h"
#include "tests/unit/world.h"

/* How the documents of a step become micro-batches. */
enum layout {
    PADDED, /* one document a row, all rows at once */
    PACKED, /* several documents a row */
    SPLIT,  /* padded rows, two by two */
    ALONE,  /* one document at a time, not padded */
};

/* How a model is trained. */
struct mode {
    const char *run; /* of reference.json */
    enum layout layout;
    bool assistant; /* only some tokens are targets */
    bool smoothing;
    enum dt_dtype compute;
    float loss_scale;
};

struct curve {
    double losses[REFERENCE_STEPS], norms[REFERENCE_STEPS];
};

/* One rank's model while it learns. */
struct learner {
    const struct reference *reference;
    const struct mode *mode;
    struct subject subject;
    struct dt_optim *optim;
    struct curve curve;
    int rank, size;
    struct dt_error err;
};

static void learner_init(struct learner *l, const struct reference *r,
                         const struct mode *mode, int rank, int size)
{
    const json_t *betas = json_object_get(r->sft, "betas");
    const struct dt_optim_options options = {
        .beta1 = json_number_value(json_array_get(betas, 0)),
        .beta2 = json_number_value(json_array_get(betas, 1)),
        .eps = reference_number(r, "eps"),
        .weight_decay = reference_number(r, "weight_decay"),
    };
    const struct dt_model_options model = {
        .B = ROWS_MAX,
        .T = ROWS_WIDTH,
        .compute = mode->compute,
        .train = true,
        .label_smoothing =
            mode->smoothing ? (float)reference_number(r, "label_smoothing") : 0,
    };
    *l = (struct learner){
        .reference = r, .mode = mode, .rank = rank, .size = size};
    subject_init(&l->subject, &r->config, &model);
    reference_load(r, &l->subject);
    l->optim =
        dt_optim_create(l->subject.layout, l->subject.exec, &options, NULL);
    assert_non_null(l->optim);
}

static void learner_fini(struct learner *l)
{
    dt_optim_destroy(l->optim);
    subject_fini(&l->subject);
}

/* Forward and backward of all micro-batches of step k that are this rank's: the
 * sum of the losses. *targets: of all ranks.
 */
static double accumulate(struct learner *l, size_t k, size_t *targets)
{
    const struct mode *mode = l->mode;
    struct rows all, part;
    double loss = 0;
    reference_rows(l->reference, k % REFERENCE_BATCHES, mode->layout == PACKED,
                   mode->assistant, &all, NULL);
    *targets = all.batch.target_count;
    size_t at_once = mode->layout == SPLIT ? 2 : ROWS_MAX;
    if (mode->layout == ALONE)
        at_once = 1;
    size_t stride = (size_t)l->size * at_once;
    for (size_t b = (size_t)l->rank; b < all.batch.B; b += stride) {
        rows_take(&part, &all, b, (size_t)l->size, at_once);
        if (mode->layout == ALONE) /* a row is as long as its document */
            part.batch.T = part.used[0];
        if (mode->layout == PADDED)
            part.batch.doc_start = NULL;
        float scale = mode->loss_scale / (float)*targets;
        loss += subject_train(&l->subject, &part.batch, scale,
                              b != (size_t)l->rank);
    }
    return loss;
}

/* Step k; `parallel` and `comm` are NULL in a world of one. */
static int step(struct learner *l, size_t k, struct dt_parallel *parallel,
                struct dt_comm *comm)
{
    const struct reference *r = l->reference;
    struct subject *s = &l->subject;
    const struct dt_layout *layout = s->layout;
    double scalars[DT_STEP_COUNT];
    size_t targets;
    double loss = accumulate(l, k, &targets);
    for (size_t u = layout->unit_count; comm && u-- > 0;)
        if (dt_parallel_ready(parallel, u, &l->err) < 0)
            return -1;
    if (comm && (dt_parallel_finish(parallel, &l->err) < 0 ||
                 dt_comm_reduce_scalars(comm, &loss, 1, DT_SUM, &l->err) < 0))
        return -1;
    struct dt_step_params params = dt_optim_step_params(
        l->optim, (long)k + 1, reference_listed(r, "lr", k));
    params.loss_scale = (double)l->mode->loss_scale; /* losses are means here */
    subject_begin(s, &params);
    s->exec->ops->step_add(s->exec->stream, s->step, 1, 0);
    dt_optim_step(l->optim, s->step, s->master, s->copy, s->grads,
                  reference_number(r, "max_norm"));
    subject_scalars(s, scalars);
    l->curve.losses[k] = loss / (double)targets;
    l->curve.norms[k] = scalars[DT_STEP_NORM];
    return 0;
}

static struct curve train(const struct reference *r, const struct mode *mode)
{
    struct learner l;
    learner_init(&l, r, mode, 0, 1);
    for (size_t k = 0; k < REFERENCE_STEPS; k++)
        step(&l, k, NULL, NULL);
    learner_fini(&l);
    return l.curve;
}

/* Within 1e-5 of the stored losses at every step, and gradient norms within
 * 1e-4.
 */
static void check_curve(const struct reference *r, const char *run,
                        const struct curve *curve)
{
    double worst = 0;
    for (size_t k = 0; k < REFERENCE_STEPS; k++) {
        double loss = reference_result(r, run, "losses", k);
        double norm = reference_result(r, run, "grad_norms", k);
        double off = fabs(curve->losses[k] / loss - 1);
        if (!(off < 1e-5))
            fail_msg("%s, step %zu: loss %.9g, expected %.9g", run, k,
                     curve->losses[k], loss);
        if (!(fabs(curve->norms[k] / norm - 1) < 1e-4))
            fail_msg("%s, step %zu: norm %.9g, expected %.9g", run, k,
                     curve->norms[k], norm);
        worst = fmax(worst, off);
    }
    print_message("%s: largest relative difference of a loss: %.2g\n", run,
                  worst);
}

static void losses(void **state)
{
    static const struct mode modes[] = {
        {"padded", PADDED, false, false, DT_F32, 1},
        {"packed", PACKED, false, false, DT_F32, 1},
        {"assistant", PADDED, true, false, DT_F32, 1},
        {"smoothed", PACKED, true, true, DT_F32, 1},
        /* and in other micro-batches */
        {"padded", SPLIT, false, false, DT_F32, 1},
        {"padded", ALONE, false, false, DT_F32, 1},
        {"assistant", PACKED, true, false, DT_F32, 1},
    };
    struct reference r;
    reference_open(&r, *state);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct curve curve = train(&r, &modes[i]);
        check_curve(&r, modes[i].run, &curve);
    }
    reference_close(&r);
}

/* No loss is further from that of fp32 than one unit in the last place of the
 * type. Single steps vary too much for a closer bound (AdamW takes gradients of
 * any size for a step of one size); logits and gradients have one.
 */
static void check_half(void **state, const struct mode *mode, double bound)
{
    struct reference r;
    double ours = 0, theirs = 0;
    reference_open(&r, *state);
    struct curve curve = train(&r, mode);
    for (size_t k = 0; k < REFERENCE_STEPS; k++) {
        double want = reference_result(&r, "packed", "losses", k);
        double stored = reference_result(&r, mode->run, "losses", k);
        ours = fmax(ours, fabs(curve.losses[k] / want - 1));
        theirs = fmax(theirs, fabs(stored / want - 1));
    }
    print_message("largest relative difference: %.2g, the reference's: %.2g\n",
                  ours, theirs);
    assert_true(ours > 0 && ours < bound);
    reference_close(&r);
}

static void losses_bf16(void **state)
{
    const struct mode mode = {"bf16", PACKED, false, false, DT_BF16, 1};
    check_half(state, &mode, 0x1p-8);
}

static void losses_fp16(void **state)
{
    const struct mode mode = {"fp16", PACKED, false, false, DT_F16, 128};
    check_half(state, &mode, 0x1p-11);
}

/* The ranks of a world, each with its learner. */
static int rank_main(const struct dt_comm_world *world, void *arg)
{
    struct learner *l = (struct learner *)arg + world->rank;
    const struct dt_comm_options comm_options = {.interface = "lo",
                                                 .timeout_ms = 30000};
    const struct dt_parallel_options options = {.bucket_bytes = 1 << 20,
                                                .wire = DT_F32};
    struct dt_parallel *parallel = NULL;
    int rc = -1;
    struct dt_comm *comm =
        dt_comm_create("gloo", world, &comm_options, &l->err);
    if (comm)
        parallel = dt_parallel_create(l->subject.layout, comm, l->subject.grads,
                                      &options, &l->err);
    if (parallel)
        rc = 0;
    for (size_t k = 0; rc == 0 && k < REFERENCE_STEPS; k++)
        rc = step(l, k, parallel, comm);
    if (rc < 0)
        fprintf(stderr, "# rank %d: %s\n", world->rank, l->err.text);
    dt_parallel_destroy(parallel);
    dt_comm_destroy(comm);
    return rc;
}

static void check_world(const struct reference *r, const struct mode *mode,
                        int size)
{
    struct learner learners[4];
    for (int rank = 0; rank < size; rank++)
        learner_init(&learners[rank], r, mode, rank, size);
    world_threads(size, rank_main, learners);
    for (int rank = 0; rank < size; rank++) {
        check_curve(r, mode->run, &learners[rank].curve);
        assert_memory_equal(learners[rank].subject.master_buf->data,
                            learners[0].subject.master_buf->data,
                            learners[0].subject.master_buf->bytes);
    }
    for (int rank = 0; rank < size; rank++)
        learner_fini(&learners[rank]);
}

/* Ranks with uneven numbers of targets, in one micro-batch and in several. */
static void worlds(void **state)
{
    static const struct mode modes[] = {
        {"padded", PADDED, false, false, DT_F32, 1},
        {"assistant", SPLIT, true, false, DT_F32, 1},
    };
    struct reference r;
#ifndef HAVE_GLOO
    skip(); /* ranks are not connected */
#endif
    if (!subject_exec()->device->is_host)
        skip(); /* gloo is for memory of the host */
    reference_open(&r, *state);
    check_world(&r, &modes[0], 4);
    check_world(&r, &modes[1], 2);
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(losses),
        REFERENCE_TESTS(losses_bf16),
        REFERENCE_TESTS(losses_fp16),
        REFERENCE_TESTS(worlds),
    };
    return cmocka_run_group_tests_name("model_sft", tests, NULL, NULL);
}
