/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - chooses who is asked, and checks that nobody contradicts */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch_impl.h"

int dt_launch_alloc_hosts(struct dt_launch *launch, struct dt_error *err)
{
    launch->hosts = calloc((size_t)launch->size, sizeof(*launch->hosts));
    if (!launch->hosts)
        return dt_error_set(err, EX_OSERR, "launch: no memory for %d ranks",
                            launch->size);
    return 0;
}

/* Value of a variable that holds a rank or a size; -1 if it is not set, -2 if
 * it is not a number.
 */
static long env_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long value;
    if (!text)
        return -1;
    value = strtol(text, &end, 10);
    return end == text || *end || value < 0 ? -2 : value;
}

struct claim {
    const char *name;
    int truth;
};

static int check_claims(const struct claim *claims, size_t count,
                        const struct dt_launch *launch, struct dt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        long value = env_number(claims[i].name);
        if (value == -1 || value == claims[i].truth)
            continue;
        return dt_error_set(
            err, EX_CONFIG,
            "launch: E122: %s=%s in the environment, but %s makes it %d (rank "
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

int dt_launch_check_identity(const struct dt_launch *launch, bool in_step,
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

static struct dt_launch *create_backend(int timeout_ms, struct dt_error *err)
{
    if (getenv("PMIX_NAMESPACE")) {
#ifdef HAVE_PMIX
        return dt_launch_pmix(timeout_ms, err);
#else
        (void)timeout_ms;
        dt_error_set(err, EX_UNAVAILABLE,
                     "launch: a PMIx launcher started this process, but "
                     "disttrain was built without PMIx: configure it "
                     "--with-pmix (Debian: libpmix-dev)");
        return NULL;
#endif
    }
    if (env_number("SLURM_STEP_NUM_TASKS") > 1) {
        dt_error_set(err, EX_UNAVAILABLE,
                     "launch: this Slurm step has %s tasks, but Slurm gave "
                     "them no PMIx server: use `srun --mpi=pmix -n %s "
                     "disttrain ...` (`srun --mpi=list` must show pmix)",
                     getenv("SLURM_STEP_NUM_TASKS"),
                     getenv("SLURM_STEP_NUM_TASKS"));
        return NULL;
    }
    return dt_launch_single(err);
}

struct dt_launch *dt_launch_create(int timeout_ms, struct dt_error *err)
{
    const char *space = getenv("PMIX_NAMESPACE");
    bool in_step = space && !strncmp(space, "slurm.pmix.", 11);
    struct dt_launch *launch = create_backend(timeout_ms, err);
    if (launch && dt_launch_check_identity(launch, in_step, err) < 0) {
        dt_launch_destroy(launch);
        return NULL;
    }
    return launch;
}

void dt_launch_destroy(struct dt_launch *launch)
{
    char **hosts;
    int size;
    if (!launch)
        return;
    hosts = launch->hosts;
    size = launch->size;
    launch->backend->destroy(launch);
    for (int i = 0; hosts && i < size; i++)
        free(hosts[i]);
    free(hosts);
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

#ifndef HAVE_PMIX
const char *dt_launch_library(void)
{
    return "none, built --without-pmix";
}
#endif
