/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - prefetches this rank's batches in threads, in a fixed order */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/span.h"
#include "base/thread.h"
#include "data/loader.h"
#include "data/loader_fill.h"
#include "data/micro.h"

struct dt_loader {
    struct dt_filler filler;
    uint64_t position; /* global sample at which the next batch starts */
    uint64_t first;    /* global sample at which batch 0 starts */
    uint64_t total;    /* batches of the pass; UINT64_MAX: endless */
    pthread_t *threads;
    size_t thread_count;

    /* Batch k is in slot k % (prefetch + 1): there is one slot for the batch
     * that the caller reads and `prefetch` for those ahead. The thread that
     * claims a batch makes it; batches are returned in order.
     */
    struct dt_slot *slots;
    pthread_mutex_t lock; /* protects the fields below and slot->made */
    pthread_cond_t more;  /* signalled when a batch was made */
    pthread_cond_t room;  /* signalled when taken or stop changed */
    uint64_t claimed, taken;
    struct dt_micro micro; /* with a limit: the step of the last claim */
    size_t micro_next;     /* batches of it that are claimed */
    bool stop;
    bool step_ends; /* of the caller's side */
};

static size_t slot_count(const struct dt_loader *loader)
{
    return loader->filler.opt.prefetch + 1;
}

static struct dt_slot *slot_of(const struct dt_loader *loader, uint64_t k)
{
    return &loader->slots[k % slot_count(loader)];
}

/* --- the threads --- */

/* --- which samples a batch has --- */

static uint64_t step_samples(const struct dt_loader *loader)
{
    return (uint64_t)loader->filler.opt.world * loader->filler.opt.B *
           (loader->filler.opt.tokens > 0 ? loader->filler.opt.accumulation
                                          : 1);
}

static size_t sample_length(const void *ctx, uint64_t p)
{
    const struct dt_filler *f = ctx;
    uint64_t row;
    return dt_filler_row(f, p, &row) ? dt_rows_length(f->rows, row) : 0;
}

/* The samples of the batch that is claimed next. */
static struct dt_share next_share(struct dt_loader *loader)
{
    struct dt_micro *micro = &loader->micro;
    const uint64_t world = (uint64_t)loader->filler.opt.world;
    const uint64_t k = loader->claimed;
    if (loader->filler.opt.tokens == 0)
        return (struct dt_share){
            .p = loader->first +
                 (k * world + (uint64_t)loader->filler.opt.rank) *
                     loader->filler.opt.B};
    if (loader->micro_next == micro->count) {
        dt_micro_step(micro, micro->p + step_samples(loader));
        loader->micro_next = 0;
    }
    const size_t i = loader->micro_next++;
    return (struct dt_share){micro->p, micro->begin[i], micro->begin[i + 1],
                             i + 1 == micro->count};
}

/* Waits for a free slot and claims the next batch *k for the calling thread.
 * False: there are no more batches, or the loader stops.
 */
static bool claim_batch(struct dt_loader *loader, uint64_t *k)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop && loader->claimed < loader->total &&
           loader->claimed - loader->taken >= loader->filler.opt.prefetch)
        pthread_cond_wait(&loader->room, &loader->lock);
    bool go = !loader->stop && loader->claimed < loader->total;
    if (go) {
        slot_of(loader, loader->claimed)->share = next_share(loader);
        *k = loader->claimed++;
    }
    pthread_mutex_unlock(&loader->lock);
    return go;
}

static void *loader_thread(void *arg)
{
    struct dt_loader *loader = arg;
    struct dt_span span;
    uint64_t k;
    dt_span_lane("data");
    while (claim_batch(loader, &k)) {
        struct dt_slot *slot = slot_of(loader, k);
        dt_span_begin_number(&span, DT_SPAN_BATCH, k);
        bool failed = dt_filler_fill(&loader->filler, slot, &slot->error) < 0;
        dt_span_end(&span);
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
    while (loader->thread_count < loader->filler.opt.workers && rc == 0) {
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
    for (size_t i = 0; loader->slots && i < slot_count(loader); i++)
        dt_slot_fini(&loader->slots[i]);
    dt_micro_fini(&loader->micro);
    free(loader->slots);
    free(loader->threads);
    free(loader);
}

static int allocate_slots(struct dt_loader *loader, struct dt_error *err)
{
    size_t B = loader->filler.B, T = loader->filler.T;
    loader->threads =
        calloc(loader->filler.opt.workers, sizeof(*loader->threads));
    loader->slots = calloc(slot_count(loader), sizeof(*loader->slots));
    bool ok = loader->threads && loader->slots;
    for (size_t i = 0; ok && i < slot_count(loader); i++)
        ok = dt_slot_init(&loader->slots[i], &loader->filler);
    if (!ok)
        return dt_error_set(err, EX_OSERR,
                            "data: out of memory for %zu "
                            "batches of %zu x %zu tokens",
                            slot_count(loader), B, T);
    return 0;
}

/* Finds the number of batches of the pass, and with a limit the first step. */
static int plan_pass(struct dt_loader *loader, struct dt_error *err)
{
    const uint64_t each = step_samples(loader);
    const uint64_t left = loader->first < loader->filler.samples
                              ? loader->filler.samples - loader->first
                              : 0;
    struct dt_micro *micro = &loader->micro;
    loader->total =
        loader->filler.opt.repeat ? UINT64_MAX : (left + each - 1) / each;
    if (loader->filler.opt.tokens == 0)
        return 0;
    *micro = (struct dt_micro){.opt = &loader->filler.opt,
                               .length = sample_length,
                               .ctx = &loader->filler};
    if (dt_micro_init(micro, loader->first, err) < 0)
        return -1;
    if (loader->filler.opt.repeat)
        return 0;
    loader->total = 0;
    for (uint64_t p = loader->first; p < loader->filler.samples; p += each) {
        dt_micro_step(micro, p);
        loader->total += micro->count;
    }
    dt_micro_step(micro, loader->first);
    return 0;
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
    loader->position = loader->first = position;
    init_sync(loader);
    int rc = dt_filler_init(&loader->filler, rows, options, err) < 0 ||
                     plan_pass(loader, err) < 0
                 ? -1
                 : allocate_slots(loader, err);
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
static int wait_for_batch(struct dt_loader *loader, const struct dt_slot *slot,
                          struct dt_error *err)
{
    struct timespec deadline =
        dt_clock_in(CLOCK_MONOTONIC, loader->filler.opt.timeout_ms);
    int rc = 0;
    while (slot->made != loader->taken + 1 && rc == 0)
        rc = pthread_cond_timedwait(&loader->more, &loader->lock, &deadline);
    if (slot->made == loader->taken + 1)
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "data: no batch within %d ms: does the "
                        "file system of the data hang?",
                        loader->filler.opt.timeout_ms);
}

int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err)
{
    if (loader->taken == loader->total)
        return 0;
    const struct dt_slot *slot = slot_of(loader, loader->taken);
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_DATA_WAIT, loader->taken);
    pthread_mutex_lock(&loader->lock);
    int rc = wait_for_batch(loader, slot, err);
    dt_span_end(&span);
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
    bool shared =
        loader->filler.opt.tokens > 0 || dt_rows_shared(loader->filler.rows);
    *batch = (struct dt_batch){.B = loader->filler.B,
                               .T = slot->T,
                               .inputs = slot->inputs,
                               .targets = slot->targets,
                               .doc_start = shared ? slot->doc_start : NULL,
                               .rows = slot->rows,
                               .target_count = slot->target_count,
                               .pairs = slot->pairs,
                               .pair_count = slot->pair_count};
    loader->step_ends = slot->share.last;
    if (loader->filler.opt.tokens == 0 || loader->step_ends)
        loader->position += step_samples(loader);
    return 1;
}

bool dt_loader_step_ends(const struct dt_loader *loader)
{
    return loader->step_ends;
}

uint64_t dt_loader_chosen_tokens(const struct dt_loader *loader,
                                 uint64_t *pairs)
{
    const struct dt_filler *f = &loader->filler;
    uint64_t end =
        f->opt.repeat ? loader->position + step_samples(loader) : f->samples;
    uint64_t tokens = 0, row;
    *pairs = 0;
    for (uint64_t p = loader->position; p < end; p++)
        if (dt_filler_row(f, p, &row)) {
            tokens += dt_rows_pair(f->rows, row)->targets;
            ++*pairs;
        }
    return tokens;
}

uint64_t dt_loader_position(const struct dt_loader *loader)
{
    return loader->position;
}
