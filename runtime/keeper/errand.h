/* SPDX-License-Identifier: Apache-2.0 */
/* errand.h - slow work, in a child */
#ifndef DT_KEEPER_ERRAND_H
#define DT_KEEPER_ERRAND_H

#include <stdbool.h>
#include <sys/types.h>

struct dt_errand {
    pid_t pid; /* 0: none */
    int fd;    /* readable at its end */
};

typedef int dt_errand_f(const void *context);

/* Runs a function in a child, which ends with this process. -1: errno. */
int dt_errand_start(struct dt_errand *errand, dt_errand_f *run,
                    const void *context);

/* Whether it has ended; its result is from 0 to 255, or -1 if it has failed. */
bool dt_errand_done(struct dt_errand *errand, int *result);

/* Its process; 0: it is about to end or has ended, and as it was perhaps reaped
 * with other children, another process may have this number.
 */
pid_t dt_errand_pid(const struct dt_errand *errand);

/* Kills it; repeating this does nothing. */
void dt_errand_end(struct dt_errand *errand);

#endif /* DT_KEEPER_ERRAND_H */
