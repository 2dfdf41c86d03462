/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c - chooses who is asked, and checks that nobody contradicts; with no
 * launcher, a world of one
 */
#include "config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/inherited.h"
#include "launch/launch_impl.h"

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

/* --- no launcher: a world of one --- */

/* An item of data that was put; the newest is first. */
struct entry {
    struct entry *next;
    char *key;
    size_t bytes;
    char data[];
};

struct single {
    struct dt_launch base;
    struct entry *entries;
};

static int single_put(struct dt_launch *launch, const char *key,
                      const void *data, size_t bytes, struct dt_error *err)
{
    struct single *s = (struct single *)launch;
    struct entry *entry = malloc(sizeof(*entry) + bytes);
    char *copy = strdup(key);
    if (!entry || !copy) {
        free(entry);
        free(copy);
        return dt_error_set(err, EX_OSERR,
                            "launch/single: no memory for the %zu bytes of %s",
                            bytes, key);
    }
    entry->key = copy;
    entry->bytes = bytes;
    memcpy(entry->data, data, bytes);
    entry->next = s->entries;
    s->entries = entry;
    return 0;
}

static int single_fence(struct dt_launch *launch, int timeout_ms,
                        struct dt_error *err)
{
    (void)launch;
    (void)timeout_ms;
    (void)err;
    return 0;
}

static int single_get(struct dt_launch *launch, int rank, const char *key,
                      void **data, size_t *bytes, struct dt_error *err)
{
    struct entry *entry = ((struct single *)launch)->entries;
    while (entry && strcmp(entry->key, key) != 0)
        entry = entry->next;
    if (!entry)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/single: rank %d has not put %s", rank, key);
    *data = malloc(entry->bytes + 1);
    if (!*data)
        return dt_error_set(err, EX_OSERR,
                            "launch/single: no memory for the %zu bytes of %s",
                            entry->bytes, key);
    memcpy(*data, entry->data, entry->bytes);
    *bytes = entry->bytes;
    return 0;
}

static void single_abort(struct dt_launch *launch, int status,
                         const char *reason)
{
    (void)launch;
    (void)status;
    (void)reason;
}

static void single_destroy(struct dt_launch *launch)
{
    struct single *s = (struct single *)launch;
    struct entry *next;
    for (struct entry *entry = s->entries; entry; entry = next) {
        next = entry->next;
        free(entry->key);
        free(entry);
    }
    free(s);
}

static const struct dt_launch_backend single_backend = {
    .name = "single",
    .put = single_put,
    .fence = single_fence,
    .get = single_get,
    .abort = single_abort,
    .destroy = single_destroy,
};

static int refuse_step_of_many(struct dt_error *err)
{
    if (env_number("SLURM_STEP_NUM_TASKS") <= 1)
        return 0;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch: this Slurm step has %s tasks, but Slurm gave "
                        "them no PMIx server: use `srun --mpi=pmix -n %s "
                        "disttrain ...` (`srun --mpi=list` must show pmix)",
                        getenv("SLURM_STEP_NUM_TASKS"),
                        getenv("SLURM_STEP_NUM_TASKS"));
}

static int single_create(struct dt_launch **launch, int timeout_ms,
                         struct dt_error *err)
{
    char host[HOST_NAME_MAX + 1] = "localhost";
    (void)timeout_ms;
    if (refuse_step_of_many(err) < 0)
        return -1;
    struct single *s = calloc(1, sizeof(*s));
    if (!s)
        return dt_error_set(err, EX_OSERR, "launch/single: no memory");
    *launch = &s->base;
    s->base.backend = &single_backend;
    s->base.size = s->base.local_size = 1;
    gethostname(host, sizeof(host) - 1);
    s->base.hosts = calloc(1, sizeof(*s->base.hosts));
    if (!s->base.hosts || !(s->base.hosts[0] = strdup(host)))
        return dt_error_set(err, EX_OSERR, "launch/single: no memory");
    return 0;
}

/* --- the world --- */

#ifndef HAVE_PMIX

int dt_launch_pmix(struct dt_launch **launch, int timeout_ms,
                   struct dt_error *err)
{
    (void)launch;
    (void)timeout_ms;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch: a PMIx launcher started this process, but "
                        "disttrain was built without PMIx: configure it "
                        "--with-pmix (Debian: libpmix-dev)");
}

const char *dt_launch_library(void)
{
    return "none, built --without-pmix";
}

#endif

/* The ways of being started; the first that applies is taken. */
static const struct {
    const char *variable; /* that is set where it applies; NULL: anywhere */
    int (*create)(struct dt_launch **launch, int timeout_ms,
                  struct dt_error *err);
} backends[] = {
    {DT_INHERITED, dt_launch_keeper},
    {"PMIX_NAMESPACE", dt_launch_pmix},
    {NULL, single_create},
};

struct dt_launch *dt_launch_create(int timeout_ms, struct dt_error *err)
{
    const char *space = getenv("PMIX_NAMESPACE");
    bool in_step = /* keepers number the ranks by themselves */
        !getenv(DT_INHERITED) && space && !strncmp(space, "slurm.pmix.", 11);
    struct dt_launch *launch = NULL;
    size_t i = 0;
    while (backends[i].variable && !getenv(backends[i].variable))
        i++;
    if (backends[i].create(&launch, timeout_ms, err) == 0 &&
        check_identity(launch, in_step, err) == 0)
        return launch;
    dt_launch_destroy(launch);
    return NULL;
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
