/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - chooses who is asked, and checks that nobody contradicts */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch_impl.h"

struct claim {
    const char *name;
    int truth;
};

static int check_claims(const struct claim *claims, size_t count,
                        const struct dt_launch *launch, struct dt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        long value = dt_launch_env_number(claims[i].name);
        if (value == -1 || value == claims[i].truth)
            continue;
        return dt_error_set(
            err, EX_CONFIG,
            "launch: E122 %s=%s in the environment, but %s makes it %d (rank "
            "%d of %d on %s): unset %s where the job is started",
            claims[i].name, getenv(claims[i].name),
            strcmp(launch->backend->name, "single") != 0
                ? "the launcher"
                : "there is no launcher, which",
            claims[i].truth, launch->rank, launch->size,
            launch->hosts[launch->rank], claims[i].name);
    }
    return 0;
}

/* RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE must agree with `launch`
 * where they are set; where Slurm itself is the launcher, so must its own.
 */
static int check_identity(const struct dt_launch *launch, bool in_step,
                          struct dt_error *err)
{
    const struct claim slurm[] = {
        {"SLURM_STEP_NUM_TASKS", launch->size},
        {"SLURM_PROCID", launch->rank},
        {"SLURM_LOCALID", launch->local_rank},
    };
    const struct claim others[] = {
        {"WORLD_SIZE", launch->size},
        {"RANK", launch->rank},
        {"LOCAL_WORLD_SIZE", launch->local_size},
        {"LOCAL_RANK", launch->local_rank},
    };
    if (in_step &&
        check_claims(slurm, sizeof(slurm) / sizeof(*slurm), launch, err) < 0)
        return -1;
    return check_claims(others, sizeof(others) / sizeof(*others), launch, err);
}

/* The ways of being started; the first that applies is taken. */
static const struct {
    const char *variable; /* that is set where it applies; NULL: anywhere */
    struct dt_launch *(*create)(int timeout_ms, struct dt_error *err);
} backends[] = {
    {"PMIX_NAMESPACE", dt_launch_pmix},
    {NULL, dt_launch_single},
};

struct dt_launch *dt_launch_create(int timeout_ms, struct dt_error *err)
{
    const char *space = getenv("PMIX_NAMESPACE");
    bool in_step = space && !strncmp(space, "slurm.pmix.", 11);
    size_t i = 0;
    while (backends[i].variable && !getenv(backends[i].variable))
        i++;
    struct dt_launch *launch = backends[i].create(timeout_ms, err);
    if (launch && check_identity(launch, in_step, err) < 0) {
        dt_launch_destroy(launch);
        return NULL;
    }
    return launch;
}

const char *dt_launch_backend(const struct dt_launch *launch)
{
    return launch->backend->name;
}

int dt_launch_rank(const struct dt_launch *launch)
{
    return launch->rank;
}

int dt_launch_size(const struct dt_launch *launch)
{
    return launch->size;
}

int dt_launch_local_rank(const struct dt_launch *launch)
{
    return launch->local_rank;
}

int dt_launch_local_size(const struct dt_launch *launch)
{
    return launch->local_size;
}

const char *dt_launch_host(const struct dt_launch *launch, int rank)
{
    return launch->hosts[rank];
}

int dt_launch_put(struct dt_launch *launch, const char *key, const void *data,
                  size_t bytes, struct dt_error *err)
{
    return launch->backend->put(launch, key, data, bytes, err);
}

int dt_launch_fence(struct dt_launch *launch, int timeout_ms,
                    struct dt_error *err)
{
    return launch->backend->fence(launch, timeout_ms, err);
}

int dt_launch_get(struct dt_launch *launch, int rank, const char *key,
                  void **data, size_t *bytes, struct dt_error *err)
{
    return launch->backend->get(launch, rank, key, data, bytes, err);
}

void dt_launch_abort(struct dt_launch *launch, int status, const char *reason)
{
    launch->backend->abort(launch, status, reason);
    _exit(status);
}
