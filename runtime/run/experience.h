/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experience.h - the completions of a generation, the same on every rank
 *
 * A generation is `groups` prompts with `copies` completions each. A rank adds
 * those of its own prompts, number p of the stream on rank p % world; gathering
 * gives all of them to all ranks, in the order of prompts and copies. So every
 * rank can compute statistics, and form any row of any step, by itself, and the
 * results do not depend on the number of ranks.
 */
#ifndef DT_RUN_EXPERIENCE_H
#define DT_RUN_EXPERIENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/comm.h"
#include "data/prompts.h"
#include "ops/ops.h"

/* Row i is copy i % copies of group i / copies; its tokens are [at[i], at[i +
 * 1]) of the arrays of tokens. Zeroed before dt_experience_begin.
 */
struct dt_experience {
    const struct dt_prompts *prompts; /* of the stream; set by who begins it,
                                         not owned */
    size_t groups, copies, rows;
    size_t columns;     /* K, of rewards */
    uint64_t *number;   /* (groups) of their prompts in the stream */
    int32_t *count;     /* (rows) tokens, with the one that ends it; > 0 */
    int32_t *end;       /* (rows) why it ended: enum dt_end */
    double *rewards;    /* (rows, K); NaN: none */
    double *advantages; /* (rows) */

    /* after gathering: */
    size_t *at;     /* (rows + 1) */
    size_t tokens;  /* of all rows */
    int32_t *ids;   /* (tokens) */
    float *logps;   /* (tokens) log-probabilities of the sampler */
    float *old;     /* (tokens) those of the trainer before the first update */
    float *entropy; /* (tokens) of its distributions then, ... */
    float *reference; /* ... log-probabilities of the reference, and ... */
    float *values;    /* ... values of the critic; NULL: not computed */
    float *after;     /* (rows) values after the last token; or NULL */

    /* while a rank adds its own: */
    struct dt_experience_own {
        int32_t *ids; /* in the order in which they were added */
        float *logps;
        size_t count, room;
        size_t *at; /* (rows) */
    } own;
};

/* Begins a generation of the prompts number[groups]. Replaces what was there.
 * -1: EX_OSERR. dt_experience_fini in any case.
 */
int dt_experience_begin(struct dt_experience *e, const uint64_t *number,
                        size_t groups, size_t copies, size_t columns,
                        struct dt_error *err);
void dt_experience_fini(struct dt_experience *e); /* frees and zeroes */

/* The rank that completes group g. */
static inline int dt_experience_rank(const struct dt_experience *e, size_t g,
                                     int world)
{
    return (int)(e->number[g] % (uint64_t)world);
}

/* Adds a completion of this rank as row `row`: ids(count) with their
 * log-probabilities, count > 0, and why it ended. -1: EX_OSERR.
 */
int dt_experience_add(struct dt_experience *e, size_t row, const int32_t *ids,
                      const float *logps, size_t count, int end,
                      struct dt_error *err);

/* The tokens of a row of this rank, before or after gathering. */
const int32_t *dt_experience_ids(const struct dt_experience *e, size_t row);

/* Makes room for the tokens of all rows, whose counts are there, and says where
 * each begins. -1: EX_OSERR.
 */
int dt_experience_place(struct dt_experience *e, struct dt_error *err);

/* Brings all completions to all ranks, which call it together after each has
 * added all of its own. -1: EX_OSERR; the device or a peer failed.
 */
int dt_experience_gather(struct dt_experience *e, struct dt_comm *comm,
                         const struct dt_exec *exec, struct dt_error *err);

/* Keeps groups of e, then of `more`, that keep(e->groups + more->groups) names.
 * Both were gathered and scored, with as many copies and columns, and nothing
 * else is computed of them yet. -1: EX_OSERR, and e is as it was.
 */
int dt_experience_merge(struct dt_experience *e,
                        const struct dt_experience *more, const bool *keep,
                        struct dt_error *err);

/* Brings rewards to all ranks: have(rows, K) says which this rank has, and
 * each is on one rank. -1 as above.
 */
int dt_experience_share_rewards(struct dt_experience *e, const bool *have,
                                struct dt_comm *comm, struct dt_error *err);

/* Brings each of values(count) from the one rank that has computed it to all;
 * the other ranks have zeros there. -1 as above.
 */
int dt_experience_share_values(float *values, size_t count,
                               struct dt_comm *comm, const struct dt_exec *exec,
                               struct dt_error *err);

/* A hash of completions, rewards and advantages. */
uint64_t dt_experience_hash(const struct dt_experience *e);

#endif /* DT_RUN_EXPERIENCE_H */
