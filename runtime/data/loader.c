/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - a thread that makes this rank's batches ahead, in a fixed order */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "data/data.h"

struct slot {
    int32_t *inputs, *targets; /* (B, T) */
    size_t target_count;
};

struct dt_loader {
    const struct dt_dataset *dataset;
    struct dt_data_range range;
    struct dt_loader_options opt;
    uint64_t samples;  /* of one epoch */
    uint64_t position; /* of the next batch that is handed out */
    int32_t *row;      /* T + 1 tokens, of the thread */

    /* Batch k lies in slot k % (prefetch + 1): `prefetch` of them ahead, and
     * the one that the caller reads.
     */
    struct slot *slots;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t more;  /* made or ended changed */
    pthread_cond_t room;  /* taken or stop changed */
    uint64_t made, taken;
    bool ended; /* the thread makes no more: end of the pass or `error` */
    bool failed;
    bool stop;
    struct dt_error error;
};

static size_t slot_count(const struct dt_loader *loader)
{
    return loader->opt.prefetch + 1;
}

/* --- the thread --- */

/* Sample `p` of the endless order as row i of slot. */
static int fill_row(struct dt_loader *loader, struct slot *slot, size_t i,
                    uint64_t p, struct dt_error *err)
{
    size_t T = loader->opt.T;
    int32_t *inputs = slot->inputs + i * T, *targets = slot->targets + i * T;
    if (!loader->opt.repeat && p >= loader->samples) {
        memset(inputs, 0, T * sizeof(*inputs));
        for (size_t t = 0; t < T; t++)
            targets[t] = DT_IGNORE;
        return 0;
    }
    uint64_t sample = p % loader->samples;
    if (loader->opt.shuffle)
        sample = dt_rng_permute(loader->opt.seed, p / loader->samples, sample,
                                loader->samples);
    if (dt_dataset_read(loader->dataset, loader->range.first + sample * T,
                        T + 1, loader->row, err) < 0)
        return -1;
    memcpy(inputs, loader->row, T * sizeof(*inputs));
    memcpy(targets, loader->row + 1, T * sizeof(*targets));
    slot->target_count += T;
    return 0;
}

static int fill(struct dt_loader *loader, struct slot *slot, uint64_t position,
                struct dt_error *err)
{
    size_t B = loader->opt.B;
    uint64_t first = position + (uint64_t)loader->opt.rank * B;
    slot->target_count = 0;
    for (size_t i = 0; i < B; i++)
        if (fill_row(loader, slot, i, first + i, err) < 0)
            return -1;
    return 0;
}

/* Waits until batch `made` may be written. False: stop. */
static bool wait_for_room(struct dt_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop &&
           loader->made - loader->taken >= loader->opt.prefetch)
        pthread_cond_wait(&loader->room, &loader->lock);
    bool go = !loader->stop;
    pthread_mutex_unlock(&loader->lock);
    return go;
}

static void *run(void *arg)
{
    struct dt_loader *loader = arg;
    uint64_t position = loader->position, k = 0;
    bool ended = false;
    while (!ended && wait_for_room(loader)) {
        struct dt_error err;
        int rc = 0;
        ended = !loader->opt.repeat && position >= loader->samples;
        if (!ended)
            rc = fill(loader, &loader->slots[k % slot_count(loader)], position,
                      &err);
        ended = ended || rc < 0;
        position += (uint64_t)loader->opt.world * loader->opt.B;
        k++;
        pthread_mutex_lock(&loader->lock);
        loader->made += !ended;
        loader->ended = ended;
        if (rc < 0) {
            loader->failed = true;
            loader->error = err;
        }
        pthread_cond_signal(&loader->more);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

/* All signals stay with the threads that know what to do about them. */
static int start(struct dt_loader *loader)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&loader->thread, NULL, run, loader);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        pthread_setname_np(loader->thread, "loader");
    return rc;
}

/* --- the caller's side --- */

static void init_sync(struct dt_loader *loader)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&loader->more, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&loader->room, NULL);
    pthread_mutex_init(&loader->lock, NULL);
}

static void loader_free(struct dt_loader *loader)
{
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->room);
    pthread_cond_destroy(&loader->more);
    for (size_t i = 0; loader->slots && i < slot_count(loader); i++) {
        free(loader->slots[i].inputs);
        free(loader->slots[i].targets);
    }
    free(loader->slots);
    free(loader->row);
    free(loader);
}

static int allocate(struct dt_loader *loader, struct dt_error *err)
{
    size_t T = loader->opt.T, bytes;
    bool ok =
        !__builtin_mul_overflow(loader->opt.B, T * sizeof(int32_t), &bytes);
    loader->row = calloc(T + 1, sizeof(*loader->row));
    loader->slots = calloc(slot_count(loader), sizeof(*loader->slots));
    ok = ok && loader->row && loader->slots;
    for (size_t i = 0; ok && i < slot_count(loader); i++) {
        struct slot *slot = &loader->slots[i];
        slot->inputs = malloc(bytes);
        slot->targets = malloc(bytes);
        ok = slot->inputs && slot->targets;
    }
    if (!ok)
        return dt_error_set(err, EX_OSERR,
                            "data: out of memory for %zu "
                            "batches of %zu x %zu tokens",
                            slot_count(loader), loader->opt.B, T);
    return 0;
}

struct dt_loader *dt_loader_create(const struct dt_dataset *dataset,
                                   struct dt_data_range range,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err)
{
    if (range.count < options->T + 1) {
        dt_error_set(err, EX_DATAERR,
                     "data: %zu tokens hold no sample of "
                     "%zu + 1: give more data or a smaller max_length",
                     range.count, options->T);
        return NULL;
    }
    struct dt_loader *loader = calloc(1, sizeof(*loader));
    if (!loader) {
        dt_error_set(err, EX_OSERR, "data: out of memory");
        return NULL;
    }
    loader->dataset = dataset;
    loader->range = range;
    loader->opt = *options;
    loader->samples = (range.count - 1) / options->T;
    loader->position = position;
    init_sync(loader);
    int rc = allocate(loader, err);
    if (rc == 0 && (rc = start(loader)) != 0)
        dt_error_set(err, EX_OSERR, "data: cannot start a thread: %s",
                     strerror(rc));
    if (rc != 0) {
        loader_free(loader);
        return NULL;
    }
    return loader;
}

void dt_loader_destroy(struct dt_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_signal(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    loader_free(loader);
}

uint64_t dt_loader_epoch_samples(const struct dt_loader *loader)
{
    return loader->samples;
}

/* With the lock held: waits for batch `taken`, the end, or the deadline. */
static int wait_for_batch(struct dt_loader *loader, struct dt_error *err)
{
    struct timespec deadline =
        dt_clock_in(CLOCK_MONOTONIC, loader->opt.timeout_ms);
    int rc = 0;
    while (loader->made == loader->taken && !loader->ended && rc == 0)
        rc = pthread_cond_timedwait(&loader->more, &loader->lock, &deadline);
    if (loader->made > loader->taken)
        return 1;
    if (loader->failed && err)
        *err = loader->error;
    if (loader->ended)
        return loader->failed ? -1 : 0;
    return dt_error_set(err, EX_IOERR,
                        "data: no batch within %d ms: does the "
                        "file system of the data hang?",
                        loader->opt.timeout_ms);
}

int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err)
{
    pthread_mutex_lock(&loader->lock);
    int rc = wait_for_batch(loader, err);
    uint64_t k = loader->taken;
    if (rc == 1) {
        loader->taken++;
        pthread_cond_signal(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
    if (rc == 1) {
        const struct slot *slot = &loader->slots[k % slot_count(loader)];
        *batch = (struct dt_batch){.B = loader->opt.B,
                                   .T = loader->opt.T,
                                   .inputs = slot->inputs,
                                   .targets = slot->targets,
                                   .target_count = slot->target_count};
        loader->position += (uint64_t)loader->opt.world * loader->opt.B;
    }
    return rc;
}

uint64_t dt_loader_position(const struct dt_loader *loader)
{
    return loader->position;
}
