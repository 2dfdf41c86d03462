/* SPDX-License-Identifier: Apache-2.0 */
/* launch_single.c - no launcher: a world of one */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch_impl.h"

/* What was put, the newest first. */
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
    if (dt_launch_env_number("SLURM_STEP_NUM_TASKS") <= 1)
        return 0;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch: this Slurm step has %s tasks, but Slurm gave "
                        "them no PMIx server: use `srun --mpi=pmix -n %s "
                        "disttrain ...` (`srun --mpi=list` must show pmix)",
                        getenv("SLURM_STEP_NUM_TASKS"),
                        getenv("SLURM_STEP_NUM_TASKS"));
}

struct dt_launch *dt_launch_single(int timeout_ms, struct dt_error *err)
{
    char host[HOST_NAME_MAX + 1] = "localhost";
    (void)timeout_ms;
    if (refuse_step_of_many(err) < 0)
        return NULL;
    struct single *s = calloc(1, sizeof(*s));
    if (!s) {
        dt_error_set(err, EX_OSERR, "launch/single: no memory");
        return NULL;
    }
    s->base.backend = &single_backend;
    s->base.size = s->base.local_size = 1;
    if (dt_launch_alloc_hosts(&s->base, err) < 0) {
        dt_launch_destroy(&s->base);
        return NULL;
    }
    gethostname(host, sizeof(host) - 1);
    s->base.hosts[0] = strdup(host);
    if (!s->base.hosts[0]) {
        dt_error_set(err, EX_OSERR, "launch/single: no memory");
        dt_launch_destroy(&s->base);
        return NULL;
    }
    return &s->base;
}
