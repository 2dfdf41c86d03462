/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - the other side of the protocol: whoever answers requests */
#ifndef DT_REWARD_SERVE_H
#define DT_REWARD_SERVE_H

#include <stdio.h>

#include "reward/reward.h"

/* A request as it was read. */
struct dt_reward_asked {
    json_t *root; /* owns what the samples have, but for ids and messages */
    json_int_t id;
    long step;
    struct dt_reward_sample *samples;
    size_t count;
};

/* Reads a request. Only prompt and completion are required of a sample. -1:
 * EX_PROTOCOL with what is wrong. Release with dt_reward_asked_fini in any
 * case.
 */
int dt_reward_asked_read(struct dt_reward_asked *asked, const char *line,
                         size_t bytes, struct dt_error *err);
void dt_reward_asked_fini(struct dt_reward_asked *asked);

/* The answer to it as a line with LF: rewards(count), of which NaN becomes
 * null, and, if there are `names`, channels(count, K) besides. malloc'ed; NULL:
 * out of memory.
 */
char *dt_reward_answer(json_int_t id, const double *rewards, size_t count,
                       const double *channels, const char *const *names,
                       size_t K);

/* The answer that says what is wrong. malloc'ed; NULL: out of memory. */
char *dt_reward_answer_error(const char *text);

/* Answers lines of `in` on `out` with the library `path` until `in` ends: what
 * runs in the process of a reward function of type library. -1: EX_IOERR,
 * EX_OSERR; what the library does wrong is told on `out`.
 */
int dt_reward_host(const char *path, FILE *in, FILE *out, struct dt_error *err);

/* Answers with all functions of `rewards`, on the socket `listener`, until
 * stop() is true, which is asked at least twice a second. Up to 64 clients are
 * connected at a time. -1: EX_IOERR, EX_OSERR, or as dt_rewards_collect.
 */
int dt_reward_serve(struct dt_rewards *rewards, int listener,
                    bool (*stop)(void), struct dt_error *err);

#endif /* DT_REWARD_SERVE_H */
