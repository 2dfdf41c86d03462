/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.h - bytes and seconds of a run with each strategy, before it
 * starts
 *
 * Needs only the configuration and the model's config.json: no GPU, no weights,
 * no data. Bytes come from dt_plan_make, which the run itself calls, and
 * seconds from the virtual clock.
 */
#ifndef DT_PLAN_CANDIDATES_H
#define DT_PLAN_CANDIDATES_H

#include "plan/strategy.h"

/* The job. */
struct dt_job_size {
    int nodes, ranks; /* of a node */
    bool gpu;         /* a GPU for each rank */
    size_t memory;    /* bytes of a GPU, or of a node; SIZE_MAX: unknown */
    size_t host;      /* bytes of a node; SIZE_MAX: unknown */
    struct dt_rates rates;
};

struct dt_candidate {
    int strategy;           /* enum dt_conf_strategy */
    int state, weights;     /* enum dt_conf_offload: where they are kept */
    bool saves_activations; /* as memory allows */
    int group; /* ranks that share gradients, and weights with zero3; 1: each
                  has all of them */
    bool int8; /* sums between nodes travel in 8 bits */
    struct dt_plan plan;
    size_t total;            /* bytes of a rank on the device */
    size_t lacks;            /* bytes there; 0: it fits */
    size_t lacks_host;       /* bytes of the node, of all its ranks */
    struct dt_timeline step; /* with its share of the generation */
    struct dt_generation_plan generation;
    bool between_nodes;       /* sums are made there, so int8 would matter */
    struct dt_timeline other; /* if so: a step with the other choice of int8 */
    double tokens_a_second;   /* of all ranks, padding included */
};

enum { DT_CANDIDATES = 8 };

struct dt_candidates {
    struct dt_spec spec; /* resolved for this job; nothing is allocated */
    struct dt_model_options options;
    struct dt_job_size size;
    size_t reserve; /* bytes of a GPU reserved for CUDA and NCCL */
    size_t share;   /* bytes that a rank may have; SIZE_MAX: unknown */
    /* first those that offload as the file says, with one rank only the one
     * that the run takes; then those that offload more
     */
    struct dt_candidate all[DT_CANDIDATES];
    size_t as_given;
    size_t count;
    const struct dt_candidate
        *taken; /* the one the run takes: given in the file, or auto */
    struct dt_ballot ballot; /* of auto */
    size_t most_rows; /* rows of the largest micro-batch that fits; SIZE_MAX:
                         unknown */
    int guide; /* enum dt_conf_strategy: suggested by the number of parameters
                */
};

/* Fills candidates. -1: EX_CONFIG as in a run; EX_NOINPUT or EX_DATAERR,
 * config.json is missing or wrong, or a required rate is missing; EX_OSERR.
 * dt_candidates_fini in any case; candidates is large.
 */
int dt_candidates_init(struct dt_candidates *candidates,
                       const struct dt_conf *conf,
                       const struct dt_job_size *size, struct dt_error *err);
void dt_candidates_fini(struct dt_candidates *candidates);

/* "none", "cpu" or "nvme". */
const char *dt_candidate_tier(int offload);

#endif /* DT_PLAN_CANDIDATES_H */
