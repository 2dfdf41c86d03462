/* SPDX-License-Identifier: Apache-2.0 */
/* launch_impl.h - the functions of a way to be started (private to launch/) */
#ifndef DT_LAUNCH_LAUNCH_IMPL_H
#define DT_LAUNCH_LAUNCH_IMPL_H

#include "launch/launch.h"

/* The functions are those of launch.h; deadlines are already in them. */
struct dt_launch_backend {
    const char *name;
    int (*put)(struct dt_launch *launch, const char *key, const void *data,
               size_t bytes, struct dt_error *err);
    int (*fence)(struct dt_launch *launch, int timeout_ms,
                 struct dt_error *err);
    int (*get)(struct dt_launch *launch, int rank, const char *key, void **data,
               size_t *bytes, struct dt_error *err);
    void (*abort)(struct dt_launch *launch, int status, const char *reason);
    void (*destroy)(struct dt_launch *launch); /* all but hosts */
};

/* A backend allocates this as the first member of its own struct. */
struct dt_launch {
    const struct dt_launch_backend *backend;
    int rank, size;
    int local_rank, local_size;
    char **hosts; /* [size], each malloc'ed */
};

/* The world of the keeper that started this process. As dt_launch_pmix. */
int dt_launch_keeper(struct dt_launch **launch, int timeout_ms,
                     struct dt_error *err);

/* The world of the PMIx server that started this process. -1: EX_UNAVAILABLE
 * (also if built without PMIx), or EX_OSERR; if *launch is not NULL then, the
 * caller destroys it.
 */
int dt_launch_pmix(struct dt_launch **launch, int timeout_ms,
                   struct dt_error *err);

#endif /* DT_LAUNCH_LAUNCH_IMPL_H */
