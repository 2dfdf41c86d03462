/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - declarations that the files of reward/ share */
#ifndef DT_REWARD_IMPL_H
#define DT_REWARD_IMPL_H

#include <pthread.h>

#include "reward/reward.h"

/* A copy of samples that are scored together. */
struct dt_reward_batch {
    long step;
    size_t count;
    struct dt_reward_sample sample[]; /* completions of one prompt, one after
                                         another, share its text and JSON */
};

/* Copies samples; neighbors share one copy of their common parts. Bytes of a
 * text that are not UTF-8 become U+FFFD, and each text ends with a NUL. NULL:
 * out of memory.
 */
struct dt_reward_batch *dt_reward_batch_create(
    long step, const struct dt_reward_sample *samples, size_t count);
void dt_reward_batch_destroy(struct dt_reward_batch *batch); /* NULL is fine */

/* A part of a batch: the samples that one call of a function scores. */
struct dt_reward_part {
    const struct dt_reward_batch *batch;
    size_t first, count;
};

static inline const struct dt_reward_sample *dt_reward_at(
    const struct dt_reward_part *part, size_t i)
{
    return &part->batch->sample[part->first + i];
}

/* A thread that scores with one function; a function may have several. */
struct dt_reward_lane {
    const struct dt_conf_reward *conf;
    size_t number;              /* among those of its function */
    const char *run;            /* run.name */
    const char *directory;      /* of the file: programs run there */
    const struct dt_exec *exec; /* of models; NULL: no device */
    enum dt_dtype dtype;        /* in which models compute */
    int stop;                   /* readable when the lane must end */
    struct dt_rewards *rewards;
    struct dt_reward_function *function;
    void *state; /* of its kind */
    pthread_t thread;
    bool started, open; /* its thread; here: its kind */
};

/* No reward may be larger, as sums and squares of rewards overflow. */
#define DT_REWARD_MOST 1e30

/* How a function scores. All are called by the lane's thread. */
struct dt_reward_kind {
    /* By the thread of the caller instead, while it opens and collects: for
     * functions that use the device.
     */
    bool here;
    bool one;       /* only one call at a time: no other lanes */
    double pause_s; /* before a call is repeated; then 2, 4 ... times that */
    /* Prepares lane->state. -1: EX_CONFIG, EX_UNAVAILABLE, EX_OSERR. */
    int (*open)(struct dt_reward_lane *lane, struct dt_error *err);
    /* Fills values(part->count, channels), each a number or NaN, and ends in
     * time or when lane->stop is readable. -1: the call may be repeated.
     */
    int (*score)(struct dt_reward_lane *lane, const struct dt_reward_part *part,
                 double *values, struct dt_error *err);
    /* After the last queued call: fills values of earlier calls that were still
     * open, and checks them; NULL: none does. -1: not to be repeated.
     */
    int (*flush)(struct dt_reward_lane *lane, struct dt_error *err);
    void (*close)(struct dt_reward_lane *lane); /* also after a failed open */
};

extern const struct dt_reward_kind dt_reward_rule;
extern const struct dt_reward_kind dt_reward_command;
extern const struct dt_reward_kind dt_reward_model;
extern const struct dt_reward_kind dt_reward_http;

/* How functions of this type score, and whether that can be repeated. */
const struct dt_reward_kind *dt_reward_kind_of(
    const struct dt_conf_reward *conf);
int dt_reward_calls(const struct dt_conf_reward *conf);

/* Seconds to wait after a call that failed; `call` is 0 for the first one. */
double dt_reward_pause_s(const struct dt_conf_reward *conf, int call);

/* The most seconds that one call of score takes, with the pause after it. */
double dt_reward_call_s(const struct dt_conf_reward *conf);

#endif /* DT_REWARD_IMPL_H */
