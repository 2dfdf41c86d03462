/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - prefetches this rank's batches in threads, in a fixed order */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/loader.h"

struct slot {
    int32_t *inputs, *targets, *doc_start; /* (B, T) */
    int64_t *rows;                         /* (B) */
    size_t T;                              /* of the batch in it */
    size_t target_count;
    uint64_t made; /* number of the batch in the slot + 1; 0: none yet */
    bool failed;
    struct dt_error error;
};

struct dt_loader {
    const struct dt_rows *rows;
    struct dt_loader_options opt;
    size_t T;          /* length of the longest batch */
    uint64_t samples;  /* samples in one epoch */
    uint64_t position; /* global sample at which the next batch starts */
    uint64_t first;    /* global sample at which batch 0 starts */
    uint64_t total;    /* batches of the pass; UINT64_MAX: endless */
    pthread_t *threads;
    size_t thread_count;

    /* Batch k is in slot k % (prefetch + 1): there is one slot for the batch
     * that the caller reads and `prefetch` for those ahead. The thread that
     * claims a batch makes it; batches are returned in order.
     */
    struct slot *slots;
    pthread_mutex_t lock; /* protects the fields below and slot->made */
    pthread_cond_t more;  /* signalled when a batch was made */
    pthread_cond_t room;  /* signalled when taken or stop changed */
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

/* The row for global sample `p`. False after the end of a pass. */
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

/* The length T of the batch whose first row is global sample p. */
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

static int fill_slot(struct dt_loader *loader, struct slot *slot, uint64_t k,
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
                             slot->targets + at, slot->doc_start + at,
                             &slot->target_count, err) < 0)
                return -1;
            continue;
        }
        for (size_t t = 0; t < slot->T; t++) {
            slot->inputs[at + t] = 0;
            slot->targets[at + t] = DT_IGNORE;
            slot->doc_start[at + t] = (int32_t)t;
        }
    }
    return 0;
}

/* Waits for a free slot and claims the next batch *k for the calling thread.
 * False: there are no more batches, or the loader stops.
 */
static bool claim_batch(struct dt_loader *loader, uint64_t *k)
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

static void *loader_thread(void *arg)
{
    struct dt_loader *loader = arg;
    uint64_t k;
    while (claim_batch(loader, &k)) {
        struct slot *slot = slot_of(loader, k);
        bool failed = fill_slot(loader, slot, k, &slot->error) < 0;
        pthread_mutex_lock(&loader->lock);
        slot->failed = failed;
        slot->made = k + 1;
        pthread_cond_signal(&loader->more);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

static int start_workers(struct dt_loader *loader)
{
    int rc = 0;
    while (loader->thread_count < loader->opt.workers && rc == 0) {
        pthread_t *thread = &loader->threads[loader->thread_count];
        rc = dt_thread_start(thread, "loader", loader_thread, loader);
        loader->thread_count += rc == 0;
    }
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
        free(loader->slots[i].doc_start);
        free(loader->slots[i].rows);
    }
    free(loader->slots);
    free(loader->threads);
    free(loader);
}

static int allocate_slots(struct dt_loader *loader, struct dt_error *err)
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
        slot->doc_start = malloc(bytes);
        slot->rows = calloc(B, sizeof(*slot->rows));
        ok = slot->inputs && slot->targets && slot->doc_start && slot->rows;
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
    int rc = allocate_slots(loader, err);
    if (rc == 0 && (rc = start_workers(loader)) != 0)
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

/* Waits, with the lock held, until the batch is in its slot. -1: EX_IOERR, the
 * deadline has passed.
 */
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
    /* If rows hold one document each, starts are not needed: padding follows
     * the document, so causal attention never sees it.
     */
    bool shared = dt_rows_shared(loader->rows);
    *batch = (struct dt_batch){.B = loader->opt.B,
                               .T = slot->T,
                               .inputs = slot->inputs,
                               .targets = slot->targets,
                               .doc_start = shared ? slot->doc_start : NULL,
                               .rows = slot->rows,
                               .target_count = slot->target_count};
    loader->position += (uint64_t)loader->opt.world * loader->opt.B;
    return 1;
}

uint64_t dt_loader_position(const struct dt_loader *loader)
{
    return loader->position;
}
