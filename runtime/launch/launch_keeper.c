/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_keeper.c - the world of a worker, as its keeper tells it
 *
 * A fence sends the items that were put since the last one, and gets those of
 * all ranks. The keepers pass them on without looking into them.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inherited.h"
#include "launch/launch_impl.h"
#include "launch/wire.h"

enum {
    KEY_BYTES = 65,
    ANSWER_MS = 2000, /* of the leader, who is missing */
};

/* An item of data: this, and `bytes` bytes. */
struct item {
    char key[KEY_BYTES];
    uint64_t bytes;
};

/* Bytes that grow. */
struct blob {
    uint8_t *data;
    size_t bytes;
};

struct keeper {
    struct dt_launch base;
    struct dt_wire wire;
    struct blob put;  /* since the last fence */
    struct blob *got; /* [size]: all items of each rank, the oldest first */
    int restarts;
    struct dt_launch_loss *losses; /* [loss_count] */
    size_t loss_count;
};

static int fail_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "launch/keeper: no memory");
}

static int fail_wire(struct dt_error *err)
{
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch/keeper: the keeper of this rank: %s",
                        strerror(errno));
}

static int append(struct blob *blob, const void *data, size_t bytes,
                  struct dt_error *err)
{
    uint8_t *grown = realloc(blob->data, blob->bytes + bytes + 1);
    if (!grown)
        return fail_memory(err);
    if (bytes > 0)
        memcpy(grown + blob->bytes, data, bytes);
    blob->data = grown;
    blob->bytes += bytes;
    return 0;
}

static int keeper_put(struct dt_launch *launch, const char *key,
                      const void *data, size_t bytes, struct dt_error *err)
{
    struct keeper *k = (struct keeper *)launch;
    struct item item = {.bytes = bytes};
    strncpy(item.key, key, KEY_BYTES - 1);
    return append(&k->put, &item, sizeof(item), err) < 0 ||
                   append(&k->put, data, bytes, err) < 0
               ? -1
               : 0;
}

/* Waits until `end` for a message of one type. 1; 0: none has come; -1. */
static int await(struct keeper *k, enum dt_wire_type type, double end,
                 struct dt_wire_message *message, struct dt_error *err)
{
    for (;;) {
        int found;
        while ((found = dt_wire_next(&k->wire, message)) > 0)
            if (message->type == type)
                return 1;
        const double left = end - dt_clock_now();
        if (found < 0)
            return fail_wire(err);
        if (left <= 0)
            return 0;
        if (dt_wire_wait(&k->wire, (int)(left * 1e3) + 1) < 0 ||
            dt_wire_receive(&k->wire) < 0)
            return fail_wire(err);
    }
}

/* Takes the items of each rank from a fence. */
static int take_blobs(struct keeper *k, const struct dt_wire_message *message,
                      struct dt_error *err)
{
    const uint8_t *at = message->body;
    size_t left = message->bytes;
    for (int r = 0; r < k->base.size; r++) {
        uint64_t bytes;
        if (left < sizeof(bytes))
            break;
        memcpy(&bytes, at, sizeof(bytes));
        at += sizeof(bytes);
        left -= sizeof(bytes);
        if (bytes > left)
            break;
        if (append(&k->got[r], at, bytes, err) < 0)
            return -1;
        at += bytes;
        left -= bytes;
        if (r == k->base.size - 1 && left == 0)
            return 0;
    }
    return dt_error_set(err, EX_PROTOCOL,
                        "launch/keeper: an answer of %zu bytes is not that of "
                        "%d ranks",
                        message->bytes, k->base.size);
}

/* Asks the leader who has not come to the present fence. */
static int fail_missing(struct keeper *k, int timeout_ms, struct dt_error *err)
{
    struct dt_wire_message answer;
    if (dt_wire_send(&k->wire, DT_WIRE_WHO, 0, NULL, 0, NULL, 0) < 0)
        return fail_wire(err);
    int found = await(k, DT_WIRE_MISSING, dt_clock_now() + ANSWER_MS / 1e3,
                      &answer, err);
    if (found < 0)
        return -1;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch/keeper: rank %d on %s: not all ranks arrived "
                        "within %d ms; missing:%.*s",
                        k->base.rank, k->base.hosts[k->base.rank], timeout_ms,
                        found ? (int)answer.bytes : 8,
                        found ? (const char *)answer.body : " unknown");
}

static int keeper_fence(struct dt_launch *launch, int timeout_ms,
                        struct dt_error *err)
{
    struct keeper *k = (struct keeper *)launch;
    struct dt_wire_message message;
    int rc = dt_wire_send(&k->wire, DT_WIRE_FENCE, 0, k->put.data, k->put.bytes,
                          NULL, 0);
    free(k->put.data);
    k->put = (struct blob){NULL, 0};
    if (rc < 0)
        return fail_wire(err);
    rc = await(k, DT_WIRE_BLOBS, dt_clock_now() + timeout_ms / 1e3, &message,
               err);
    if (rc > 0)
        return take_blobs(k, &message, err);
    return rc < 0 ? -1 : fail_missing(k, timeout_ms, err);
}

/* The newest item of a rank under `key`; NULL: none. */
static const uint8_t *find_item(const struct blob *got, const char *key,
                                struct item *found)
{
    const uint8_t *newest = NULL;
    struct item item;
    for (size_t at = 0; at + sizeof(item) <= got->bytes;
         at += sizeof(item) + item.bytes) {
        memcpy(&item, got->data + at, sizeof(item));
        item.key[KEY_BYTES - 1] = '\0';
        if (item.bytes > got->bytes - at - sizeof(item))
            break;
        if (strcmp(item.key, key) == 0) {
            newest = got->data + at + sizeof(item);
            *found = item;
        }
    }
    return newest;
}

static int keeper_get(struct dt_launch *launch, int rank, const char *key,
                      void **data, size_t *bytes, struct dt_error *err)
{
    const struct keeper *k = (const struct keeper *)launch;
    struct item item;
    const uint8_t *found = find_item(&k->got[rank], key, &item);
    if (!found)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/keeper: rank %d on %s has not put %s", rank,
                            launch->hosts[rank], key);
    if (!(*data = malloc(item.bytes + 1)))
        return fail_memory(err);
    memcpy(*data, found, item.bytes);
    *bytes = item.bytes;
    return 0;
}

/* The keeper sees the end of this process, and ends the others. */
static void keeper_abort(struct dt_launch *launch, int status,
                         const char *reason)
{
    (void)launch;
    (void)status;
    (void)reason;
}

static void keeper_destroy(struct dt_launch *launch)
{
    struct keeper *k = (struct keeper *)launch;
    for (int r = 0; k->got && r < launch->size; r++)
        free(k->got[r].data);
    free(k->got);
    free(k->put.data);
    free(k->losses);
    dt_wire_close(&k->wire);
    free(k);
}

static const struct dt_launch_backend keeper_backend = {
    .name = "keeper",
    .put = keeper_put,
    .fence = keeper_fence,
    .get = keeper_get,
    .abort = keeper_abort,
    .destroy = keeper_destroy,
};

/* Takes the names of the hosts, one after another. */
static int take_hosts(struct keeper *k, const char *names, size_t bytes,
                      struct dt_error *err)
{
    for (int r = 0; r < k->base.size; r++) {
        const size_t length = strnlen(names, bytes);
        if (length == bytes)
            return dt_error_set(err, EX_PROTOCOL,
                                "launch/keeper: no host of rank %d", r);
        if (!(k->base.hosts[r] = strdup(names)))
            return fail_memory(err);
        names += length + 1;
        bytes -= length + 1;
    }
    return 0;
}

static int take_world(struct keeper *k, const struct dt_wire_message *message,
                      struct dt_error *err)
{
    struct dt_wire_world world;
    if (message->bytes < sizeof(world))
        return dt_error_set(err, EX_PROTOCOL, "launch/keeper: no world");
    memcpy(&world, message->body, sizeof(world));
    if (world.size < 1 || world.rank < 0 || world.rank >= world.size)
        return dt_error_set(err, EX_PROTOCOL,
                            "launch/keeper: rank %d in a world of %d",
                            world.rank, world.size);
    k->base.hosts = calloc((size_t)world.size, sizeof(*k->base.hosts));
    k->got = calloc((size_t)world.size, sizeof(*k->got));
    if (!k->base.hosts || !k->got)
        return fail_memory(err);
    k->base.rank = world.rank;
    k->base.size = world.size;
    k->base.local_rank = world.local_rank;
    k->base.local_size = world.local_size;
    k->restarts = world.restarts;
    return take_hosts(k, (const char *)message->body + sizeof(world),
                      message->bytes - sizeof(world), err);
}

static int take_losses(struct keeper *k, const struct dt_wire_message *message,
                       struct dt_error *err)
{
    const size_t count = message->bytes / sizeof(*k->losses);
    if (!(k->losses = calloc(count + 1, sizeof(*k->losses))))
        return fail_memory(err);
    memcpy(k->losses, message->body, count * sizeof(*k->losses));
    k->loss_count = count;
    for (size_t i = 0; i < count; i++) {
        k->losses[i].host[sizeof(k->losses[i].host) - 1] = '\0';
        k->losses[i].why[sizeof(k->losses[i].why) - 1] = '\0';
    }
    return 0;
}

/* Waits for what the keeper says first. */
static int hear_keeper(struct keeper *k, int timeout_ms, struct dt_error *err)
{
    const double end = dt_clock_now() + timeout_ms / 1e3;
    struct dt_wire_message message;
    int rc = await(k, DT_WIRE_WORLD, end, &message, err);
    if (rc > 0 && (rc = take_world(k, &message, err)) == 0)
        rc = await(k, DT_WIRE_LOSSES, end, &message, err);
    if (rc == 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/keeper: the keeper of this rank said "
                            "nothing within %d ms",
                            timeout_ms);
    return rc < 0 ? -1 : take_losses(k, &message, err);
}

int dt_launch_keeper(struct dt_launch **launch, int timeout_ms,
                     struct dt_error *err)
{
    struct dt_inherited inherited;
    struct keeper *k = calloc(1, sizeof(*k));
    if (!k)
        return fail_memory(err);
    *launch = &k->base;
    k->base.backend = &keeper_backend;
    dt_wire_init(&k->wire, -1);
    if (!dt_inherited_find(&inherited))
        return dt_error_set(err, EX_SOFTWARE,
                            "launch/keeper: %s=%s is not of a keeper: unset it",
                            DT_INHERITED, getenv(DT_INHERITED));
    dt_wire_init(&k->wire, inherited.socket);
    return hear_keeper(k, timeout_ms, err);
}

bool dt_launch_is_kept(const struct dt_launch *launch)
{
    return launch->backend == &keeper_backend;
}

int dt_launch_restarts(const struct dt_launch *launch)
{
    return dt_launch_is_kept(launch) ? ((const struct keeper *)launch)->restarts
                                     : 0;
}

size_t dt_launch_losses(const struct dt_launch *launch,
                        const struct dt_launch_loss **losses)
{
    const struct keeper *k = (const struct keeper *)launch;
    const bool kept = dt_launch_is_kept(launch);
    *losses = kept ? k->losses : NULL;
    return kept ? k->loss_count : 0;
}

void dt_launch_note(struct dt_launch *launch, const char *why)
{
    if (dt_launch_is_kept(launch))
        dt_wire_send(&((struct keeper *)launch)->wire, DT_WIRE_NOTE, 0, why,
                     strlen(why), NULL, 0);
}
