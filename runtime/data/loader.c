/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - threads that make this rank's batches ahead, in a fixed order */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "data/loader.h"

struct slot {
    int32_t *inputs, *targets, *starts; /* (B, T) */
    int64_t *rows;                      /* (B) */
    size_t T;                           /* of the batch in it */
    size_t target_count;
    uint64_t made; /* number of the batch in it + 1, 0: none yet */
    bool failed;
    struct dt_error error;
};

struct dt_loader {
    const struct dt_rows *rows;
    struct dt_loader_options opt;
    size_t T;          /* longest batch */
    uint64_t samples;  /* of one epoch */
    uint64_t position; /* of the next batch that is handed out */
    uint64_t first;    /* position of batch 0 */
    uint64_t total;    /* batches of the pass; UINT64_MAX: no end */
    pthread_t *threads;
    size_t thread_count;

    /* Batch k lies in slot k % (prefetch + 1): `prefetch` of them ahead, and
     * the one that the caller reads. Each is made by the thread that claims it,
     * and handed out in order.
     */
    struct slot *slots;
    pthread_mutex_t lock; /* of all below, and of slot->made */
    pthread_cond_t more;  /* a batch was made */
    pthread_cond_t room;  /* taken or stop changed */
    uint64_t claimed, taken;
    bool stop;
};

static size_t slot_count(const struct dt_loader *loader)
{
    return loader->opt.prefetch + 1;
}

static struct slot *slot_of(const struct dt_loader *loader, uint64_t k)
{
    return &loader->slots[k % slot_count(loader)];
}

/* --- the threads --- */

/* The row at place `p` of the endless order, or none after the end of a pass.
 */
static bool row_at(const struct dt_loader *loader, uint64_t p, uint64_t *row)
{
    if (!loader->opt.repeat && p >= loader->samples)
        return false;
    *row = p % loader->samples;
    if (loader->opt.shuffle)
        *row = dt_rng_permute(loader->opt.seed, p / loader->samples, *row,
                              loader->samples);
    return true;
}

/* Positions of the batch whose first row is place p. */
static size_t batch_length(const struct dt_loader *loader, uint64_t p)
{
    size_t length = 1, step = loader->opt.multiple_of;
    uint64_t row;
    for (size_t i = 0; i < loader->opt.B; i++) {
        size_t need =
            row_at(loader, p + i, &row) ? dt_rows_length(loader->rows, row) : 0;
        length = need > length ? need : length;
    }
    length = (length + step - 1) / step * step;
    return length < loader->T ? length : loader->T;
}

static int fill(struct dt_loader *loader, struct slot *slot, uint64_t k,
                struct dt_error *err)
{
    size_t B = loader->opt.B, world = (size_t)loader->opt.world;
    uint64_t p = loader->first + (k * world + (size_t)loader->opt.rank) * B;
    uint64_t row;
    slot->T = batch_length(loader, p);
    slot->target_count = 0;
    for (size_t i = 0; i < B; i++) {
        size_t at = i * slot->T;
        slot->rows[i] = (int64_t)(p + i);
        if (row_at(loader, p + i, &row)) {
            if (dt_rows_read(loader->rows, row, slot->T, slot->inputs + at,
                             slot->targets + at, slot->starts + at,
                             &slot->target_count, err) < 0)
                return -1;
            continue;
        }
        for (size_t t = 0; t < slot->T; t++) {
            slot->inputs[at + t] = 0;
            slot->targets[at + t] = DT_IGNORE;
            slot->starts[at + t] = (int32_t)t;
        }
    }
    return 0;
}

/* Waits until there is room for batch *k, the caller's from then on. False:
 * there is nothing more to do.
 */
static bool claim(struct dt_loader *loader, uint64_t *k)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop && loader->claimed < loader->total &&
           loader->claimed - loader->taken >= loader->opt.prefetch)
        pthread_cond_wait(&loader->room, &loader->lock);
    bool go = !loader->stop && loader->claimed < loader->total;
    if (go)
        *k = loader->claimed++;
    pthread_mutex_unlock(&loader->lock);
    return go;
}

static void *run(void *arg)
{
    struct dt_loader *loader = arg;
    uint64_t k;
    while (claim(loader, &k)) {
        struct slot *slot = slot_of(loader, k);
        bool failed = fill(loader, slot, k, &slot->error) < 0;
        pthread_mutex_lock(&loader->lock);
        slot->failed = failed;
        slot->made = k + 1;
        pthread_cond_signal(&loader->more);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

/* All signals stay with the threads that know what to do about them. */
static int start(struct dt_loader *loader)
{
    sigset_t all, old;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (loader->thread_count < loader->opt.workers && rc == 0) {
        pthread_t *thread = &loader->threads[loader->thread_count];
        rc = pthread_create(thread, NULL, run, loader);
        if (rc == 0) {
            pthread_setname_np(*thread, "loader");
            loader->thread_count++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return loader->thread_count > 0 ? 0 : rc; /* fewer do as well */
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
        free(loader->slots[i].starts);
        free(loader->slots[i].rows);
    }
    free(loader->slots);
    free(loader->threads);
    free(loader);
}

static int allocate(struct dt_loader *loader, struct dt_error *err)
{
    size_t B = loader->opt.B, T = loader->T, bytes;
    bool ok = !__builtin_mul_overflow(B, T * sizeof(int32_t), &bytes);
    loader->threads = calloc(loader->opt.workers, sizeof(*loader->threads));
    loader->slots = calloc(slot_count(loader), sizeof(*loader->slots));
    ok = ok && loader->threads && loader->slots;
    for (size_t i = 0; ok && i < slot_count(loader); i++) {
        struct slot *slot = &loader->slots[i];
        slot->inputs = malloc(bytes);
        slot->targets = malloc(bytes);
        slot->starts = malloc(bytes);
        slot->rows = calloc(B, sizeof(*slot->rows));
        ok = slot->inputs && slot->targets && slot->starts && slot->rows;
    }
    if (!ok)
        return dt_error_set(err, EX_OSERR,
                            "data: out of memory for %zu "
                            "batches of %zu x %zu tokens",
                            slot_count(loader), B, T);
    return 0;
}

static uint64_t batches_of_pass(const struct dt_loader *loader)
{
    uint64_t each = loader->opt.B * (uint64_t)loader->opt.world;
    uint64_t left =
        loader->first < loader->samples ? loader->samples - loader->first : 0;
    return loader->opt.repeat ? UINT64_MAX : (left + each - 1) / each;
}

struct dt_loader *dt_loader_create(const struct dt_rows *rows,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err)
{
    struct dt_loader *loader = calloc(1, sizeof(*loader));
    if (!loader) {
        dt_error_set(err, EX_OSERR, "data: out of memory");
        return NULL;
    }
    loader->rows = rows;
    loader->opt = *options;
    loader->T = dt_rows_max_length(rows);
    loader->samples = dt_rows_count(rows);
    loader->position = loader->first = position;
    loader->total = batches_of_pass(loader);
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
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    for (size_t i = 0; i < loader->thread_count; i++)
        pthread_join(loader->threads[i], NULL);
    loader_free(loader);
}

/* With the lock held: waits for the batch in slot, or the deadline. */
static int wait_for_batch(struct dt_loader *loader, const struct slot *slot,
                          struct dt_error *err)
{
    struct timespec deadline =
        dt_clock_in(CLOCK_MONOTONIC, loader->opt.timeout_ms);
    int rc = 0;
    while (slot->made != loader->taken + 1 && rc == 0)
        rc = pthread_cond_timedwait(&loader->more, &loader->lock, &deadline);
    if (slot->made == loader->taken + 1)
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "data: no batch within %d ms: does the "
                        "file system of the data hang?",
                        loader->opt.timeout_ms);
}

int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err)
{
    if (loader->taken == loader->total)
        return 0;
    const struct slot *slot = slot_of(loader, loader->taken);
    pthread_mutex_lock(&loader->lock);
    int rc = wait_for_batch(loader, slot, err);
    if (rc == 0 && slot->failed) {
        if (err)
            *err = slot->error;
        rc = -1;
    }
    if (rc == 0) {
        loader->taken++;
        pthread_cond_signal(&loader->room);
    }
    pthread_mutex_unlock(&loader->lock);
    if (rc < 0)
        return -1;
    /* Padding comes last in a row, so that no document sees it. */
    bool shared = dt_rows_shared(loader->rows);
    *batch = (struct dt_batch){.B = loader->opt.B,
                               .T = slot->T,
                               .inputs = slot->inputs,
                               .targets = slot->targets,
                               .starts = shared ? slot->starts : NULL,
                               .rows = slot->rows,
                               .target_count = slot->target_count};
    loader->position += (uint64_t)loader->opt.world * loader->opt.B;
    return 1;
}

uint64_t dt_loader_position(const struct dt_loader *loader)
{
    return loader->position;
}
