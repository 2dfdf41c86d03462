/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - an exchange in shared memory */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/world.h"

enum {
    ENTRIES = 8,
    ENTRY_BYTES = 8192,
    LIFE_S = 300, /* of ranks, which may wait for one that never comes */
};

struct entry {
    char key[65];
    size_t bytes;
    char data[ENTRY_BYTES];
};

struct shared {
    pthread_barrier_t barrier;
    struct entry entries[WORLD_MAX][ENTRIES];
};

struct member {
    struct dt_comm_world world;
    struct shared *shared;
    world_rank_f f;
    void *arg;
    int result;
};

static const char *world_host(void *ctx, int rank)
{
    static const char names[WORLD_MAX][4] = {
        "h0",  "h1",  "h2",  "h3",  "h4",  "h5",  "h6",  "h7",  "h8",  "h9",
        "h10", "h11", "h12", "h13", "h14", "h15", "h16", "h17", "h18", "h19",
        "h20", "h21", "h22", "h23", "h24", "h25", "h26", "h27", "h28", "h29",
        "h30", "h31", "h32", "h33", "h34", "h35", "h36", "h37", "h38", "h39"};
    (void)ctx;
    return names[rank];
}

static struct entry *find(struct member *m, int rank, const char *key)
{
    for (int i = 0; i < ENTRIES; i++)
        if (!strcmp(m->shared->entries[rank][i].key, key))
            return &m->shared->entries[rank][i];
    return NULL;
}

static int world_put(void *ctx, const char *key, const void *data, size_t bytes,
                     struct dt_error *err)
{
    struct member *m = ctx;
    struct entry *entry = find(m, m->world.rank, "");
    if (!entry || bytes > ENTRY_BYTES)
        return dt_error_set(err, EX_SOFTWARE, "world: %s is too much", key);
    snprintf(entry->key, sizeof(entry->key), "%s", key);
    memcpy(entry->data, data, bytes);
    entry->bytes = bytes;
    return 0;
}

static int world_fence(void *ctx, int timeout_ms, struct dt_error *err)
{
    (void)timeout_ms;
    (void)err;
    pthread_barrier_wait(&((struct member *)ctx)->shared->barrier);
    return 0;
}

static int world_get(void *ctx, int rank, const char *key, void **data,
                     size_t *bytes, struct dt_error *err)
{
    struct entry *entry = find(ctx, rank, key);
    if (!entry)
        return dt_error_set(err, EX_SOFTWARE, "world: rank %d has no %s", rank,
                            key);
    *data = malloc(entry->bytes);
    memcpy(*data, entry->data, entry->bytes);
    *bytes = entry->bytes;
    return 0;
}

static struct shared *shared_create(int size)
{
    pthread_barrierattr_t attr;
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, (unsigned)size);
    pthread_barrierattr_destroy(&attr);
    return shared;
}

static void member_init(struct member *m, struct shared *shared, int rank,
                        int size, world_rank_f f, void *arg)
{
    *m = (struct member){
        .world = {.rank = rank,
                  .size = size,
                  .host = world_host,
                  .put = world_put,
                  .fence = world_fence,
                  .get = world_get,
                  .ctx = m},
        .shared = shared,
        .f = f,
        .arg = arg,
    };
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    m->result = m->f(&m->world, m->arg);
    return NULL;
}

void world_threads(int size, world_rank_f f, void *arg)
{
    struct shared *shared = shared_create(size);
    struct member members[WORLD_MAX];
    pthread_t threads[WORLD_MAX];
    alarm(LIFE_S);
    for (int r = 0; r < size; r++) {
        member_init(&members[r], shared, r, size, f, arg);
        assert_int_equal(
            pthread_create(&threads[r], NULL, member_main, &members[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    alarm(0);
    munmap(shared, sizeof(*shared));
    for (int r = 0; r < size; r++)
        assert_int_equal(members[r].result, 0);
}

void world_processes(int size, world_rank_f f, void *arg, int *statuses)
{
    struct shared *shared = shared_create(size);
    pid_t pids[WORLD_MAX];
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) {
            struct member m;
            alarm(LIFE_S); /* nothing is left behind, whatever happens */
            member_init(&m, shared, r, size, f, arg);
            _exit(f(&m.world, arg));
        }
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(waitpid(pids[r], &statuses[r], 0), pids[r]);
    munmap(shared, sizeof(*shared));
}

void world_refuse(const char *backend, int size,
                  const struct dt_comm_options *options, struct dt_error *err)
{
    struct shared *shared = shared_create(1);
    struct member m;
    member_init(&m, shared, 0, size, NULL, NULL);
    assert_null(dt_comm_create(backend, &m.world, options, err));
    munmap(shared, sizeof(*shared));
}
