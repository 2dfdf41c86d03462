/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strategy.h - the strategy that distributed.strategy: auto takes, and why
 *
 * Among the strategies that fit into the memory of every rank, auto takes the
 * one that rank 0 predicts to be the fastest on the virtual clock, with
 * measured rates (distributed.rates) or those of a known device. If two differ
 * by less than the clock can tell, or if no rates are known, it takes the first
 * one in the order ddp, zero1, zero2, zero3. Nothing is measured for this.
 * Offload is as the file says: it needs at least zero1, offload of weights
 * zero3.
 */
#ifndef DT_PLAN_STRATEGY_H
#define DT_PLAN_STRATEGY_H

#include "plan/plan.h"
#include "plan/predict.h"

/* Differences below this share of a step's time mean nothing on the clock. */
#define DT_STRATEGY_TIE 0.03

enum { DT_STRATEGIES = DT_CONF_ZERO3 + 1 }; /* enum dt_conf_strategy */

/* Facts about each strategy, from which auto chooses. */
struct dt_ballot {
    size_t left; /* bytes, as dt_plan_check counts them, ... */
    int local_size;
    enum {
        DT_BALLOT_GIVEN, /* by the file, or there is one rank */
        DT_BALLOT_SIZE,  /* by the number of parameters */
        DT_BALLOT_OPEN,
    } kind;
    /* Of an open one: */
    bool keeps; /* a spare node is to have all that a lost one had: ddp */
    int least;  /* the first that supports the file's offload */
    bool lacks[DT_STRATEGIES];     /* memory; those below `least` are not set */
    double seconds[DT_STRATEGIES]; /* of a step, from `least` on; 0: not
                                      predicted */
    char unknown[128];             /* why nothing is predicted; "": it is */
};

/* Fills the ballot of a run on this rank. The caller has set `left` and
 * local_size, and, if no rates are known and `predictor` is NULL, the reason in
 * `unknown`. -1: EX_OSERR.
 */
int dt_ballot_make(const struct dt_spec *spec,
                   const struct dt_model_options *options,
                   const struct dt_predictor *predictor,
                   struct dt_ballot *ballot, struct dt_error *err);

/* The strategy (enum dt_conf_strategy) that distributed.strategy asks for with
 * this ballot; zero3 if none fits.
 */
int dt_ballot_take(const struct dt_spec *spec, const struct dt_ballot *ballot);

/* Writes "zero1 (auto: fits, predicted 43 % faster than ddp)" for the strategy
 * that was taken. Returns text, which is empty if there was no choice.
 */
const char *dt_ballot_text(const struct dt_spec *spec,
                           const struct dt_ballot *ballot, char text[256]);

/* The group (ranks, or DT_CONF_GROUP_*) that distributed.shard_group asks for,
 * with `auto` settled for this rank and its strategy: a node, if there are
 * several with equally many ranks and the run then fits, else the world.
 */
long dt_plan_choose_group(const struct dt_spec *spec,
                          const struct dt_model_options *options, size_t left,
                          int local_size);

/* Settles `auto` in distributed.strategy and shard_group on this rank, spends
 * remaining memory, and checks that the run fits, as dt_plan_check does. The
 * caller has set `left` and local_size of the ballot. -1: as dt_plan_check and
 * dt_strategy_rates, EX_OSERR.
 */
int dt_strategy_settle(struct dt_spec *spec, struct dt_model_options *options,
                       struct dt_ballot *ballot, struct dt_error *err);

/* Makes all ranks take the same choice, settling it again where another rank
 * has less memory, and sets spec->strategy. All ranks call it with the choice
 * they have settled. -1: as above, or a peer failed.
 */
int dt_strategy_agree(struct dt_spec *spec, struct dt_comm *comm,
                      struct dt_model_options *options,
                      struct dt_ballot *ballot, struct dt_error *err);

/* The strategy that the number of parameters alone suggests. */
int dt_strategy_by_size(const struct dt_spec *spec);

/* Reads distributed.rates for runs on GPUs or on CPUs, if it is given. 1: it
 * is, 0: it is not, -1: as dt_rates_load, or EX_DATAERR if the rates are of the
 * other kind.
 */
int dt_strategy_rates(const struct dt_conf *conf, bool gpu,
                      struct dt_rates *rates, struct dt_error *err);

#endif /* DT_PLAN_STRATEGY_H */
