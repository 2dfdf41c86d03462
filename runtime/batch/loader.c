/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - prefetches this rank's batches in threads, in a fixed order
 *
 * With a limit of tokens, "step" is that of the optimizer: batches have parts
 * of its samples. Without one, batch k has samples of its own.
 */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/span.h"
#include "base/thread.h"
#include "batch/loader.h"

/* The samples of one batch. */
struct share {
    uint64_t p;        /* the first one or, with a limit, the step's */
    size_t first, end; /* with a limit: of this rank's samples of the step */
    bool last;         /* with a limit: of the step */
};

/* A batch, and memory for the longest one. */
struct slot {
    struct dt_row row;           /* arrays of (B, T) */
    int64_t *rows;               /* (B) */
    struct dt_batch_pair *pairs; /* NULL: rows hold no pairs */
    struct dt_pictures pictures; /* arrays are NULL: rows hold none */
    uint8_t *pixels;
    size_t T;
    size_t pair_count;
    struct share share;
    uint64_t made; /* number of the batch in the slot + 1; 0: none yet */
    bool failed;
    struct dt_error error;
};

struct dt_loader {
    const struct dt_rows *rows;
    struct dt_loader_options opt;
    uint64_t samples; /* in one epoch */
    size_t B, T;      /* rows of a batch, and the length of the longest */
    struct dt_loader_most most;
    uint64_t position; /* global sample at which the next batch starts */
    uint64_t first;    /* global sample at which batch 0 starts */
    uint64_t total;    /* batches of the pass; UINT64_MAX: endless */
    pthread_t *threads;
    size_t thread_count;

    /* Batch k is in slot k % (prefetch + 1): one slot is for the batch that the
     * caller reads and `prefetch` for later ones. The thread that claims a
     * batch makes it; batches are returned in order.
     */
    struct slot *slots;
    pthread_mutex_t lock; /* protects the fields below and slot->made */
    pthread_cond_t more;  /* signalled when a batch was made */
    pthread_cond_t room;  /* signalled when taken or stop changed */
    uint64_t claimed, taken;
    bool stop;
    bool step_ends; /* of the caller's side */

    /* With a limit: the step of the last claim. */
    uint64_t step;     /* its first sample */
    size_t step_count; /* its batches, on every rank */
    size_t step_next;  /* those that are claimed */
    size_t *begin;     /* batch i has this rank's samples begin[i] ..
                          begin[i + 1] - 1 of the step */
};

static size_t slot_count(const struct dt_loader *l)
{
    return l->opt.prefetch + 1;
}

static struct slot *slot_of(const struct dt_loader *l, uint64_t k)
{
    return &l->slots[k % slot_count(l)];
}

/* --- samples --- */

/* The row for global sample p. False after the end of a pass. */
static bool find_row(const struct dt_loader *l, uint64_t p, uint64_t *row)
{
    if (!l->opt.repeat && p >= l->samples)
        return false;
    *row = p % l->samples;
    if (l->opt.shuffle)
        *row = dt_rng_permute(l->opt.seed, p / l->samples, *row, l->samples);
    return true;
}

/* The length of global sample p; 0: there is none. */
static size_t sample_length(const struct dt_loader *l, uint64_t p)
{
    uint64_t row;
    return find_row(l, p, &row) ? dt_rows_length(l->rows, row) : 0;
}

/* The samples of a rank in a step, or without a limit in a batch. */
static size_t rank_samples(const struct dt_loader *l)
{
    return l->opt.B * (l->opt.tokens > 0 ? l->opt.accumulation : 1);
}

/* The samples of all ranks. */
static uint64_t step_samples(const struct dt_loader *l)
{
    return (uint64_t)l->opt.world * rank_samples(l);
}

/* The number of a rank's sample i of the step that begins with sample p. */
static uint64_t sample_of(const struct dt_loader *l, int rank, uint64_t p,
                          size_t i)
{
    const size_t B = l->opt.B;
    return p + (i / B * (uint64_t)l->opt.world + (uint64_t)rank) * B + i % B;
}

/* --- micro-batches of few tokens --- */

/* The number of batches of a rank; `begin`, if it is not NULL, becomes their
 * first samples of the step.
 */
static size_t divide(const struct dt_loader *l, int rank, size_t *begin)
{
    size_t count = 1, used = 0;
    for (size_t i = 0; i < rank_samples(l); i++) {
        size_t length = sample_length(l, sample_of(l, rank, l->step, i));
        if (used + length > l->opt.tokens) {
            if (begin)
                begin[count] = i;
            count++;
            used = 0;
        }
        used += length;
    }
    return count;
}

/* Moves on to the step that begins with sample p. */
static void begin_step(struct dt_loader *l, uint64_t p)
{
    l->step = p;
    l->step_next = 0;
    l->begin[0] = 0;
    size_t own = divide(l, l->opt.rank, l->begin);
    l->step_count = own;
    for (int rank = 0; rank < l->opt.world; rank++) {
        size_t count = rank == l->opt.rank ? own : divide(l, rank, NULL);
        l->step_count = count > l->step_count ? count : l->step_count;
    }
    for (size_t i = own; i <= l->step_count; i++)
        l->begin[i] = rank_samples(l);
}

/* The samples of the batch that is claimed next. */
static struct share next_share(struct dt_loader *l)
{
    if (l->opt.tokens == 0)
        return (struct share){
            .p = sample_of(l, l->opt.rank,
                           l->first + l->claimed * step_samples(l), 0)};
    if (l->step_next == l->step_count)
        begin_step(l, l->step + step_samples(l));
    const size_t i = l->step_next++;
    return (struct share){l->step, l->begin[i], l->begin[i + 1],
                          i + 1 == l->step_count};
}

/* --- one batch --- */

/* The length of a batch whose longest row has this length. */
static size_t round_length(const struct dt_loader *l, size_t length)
{
    const size_t step = l->opt.multiple_of;
    length = (length > 0 ? length + step - 1 : step) / step * step;
    return length < l->T ? length : l->T;
}

/* The length T of the batch whose first row is global sample p. */
static size_t batch_length(const struct dt_loader *l, uint64_t p)
{
    size_t length = 1;
    for (size_t i = 0; i < l->opt.B; i++) {
        size_t need = sample_length(l, p + i);
        length = need > length ? need : length;
    }
    return round_length(l, length);
}

/* The place of a document of `count` tokens in a slot, and its targets. */
static struct dt_batch_side find_side(const struct slot *slot, size_t start,
                                      size_t count)
{
    struct dt_batch_side side = {start, start, start + count};
    while (side.first < side.end && slot->row.targets[side.first] < 0)
        side.first++;
    return side;
}

/* Notes the pair, if there is one, of a row at position `at` of a slot. */
static void note_pair(const struct dt_loader *l, struct slot *slot,
                      uint64_t row, size_t at)
{
    const struct dt_row_pair *pair = dt_rows_pair(l->rows, row);
    if (!pair)
        return;
    slot->pairs[slot->pair_count++] = (struct dt_batch_pair){
        .number = pair->number,
        .margin = pair->margin,
        .chosen = find_side(slot, at, pair->chosen),
        .rejected = find_side(slot, at + pair->chosen,
                              dt_rows_length(l->rows, row) - pair->chosen),
    };
}

/* Reads a row into positions [at, at + length) of a slot. */
static int read_row(const struct dt_loader *l, struct slot *slot, uint64_t row,
                    size_t at, size_t length, struct dt_error *err)
{
    struct dt_row part = dt_row_at(&slot->row, at);
    size_t i = slot->pictures.picture_count;
    if (dt_rows_read(l->rows, row, length, &part, err) < 0)
        return -1;
    for (; i < slot->pictures.picture_count; i++)
        slot->pictures.pictures[i].first += at;
    slot->row.target_count += part.target_count;
    note_pair(l, slot, row, at);
    return 0;
}

/* A row for each sample. */
static int fill_rows(const struct dt_loader *l, struct slot *slot,
                     struct dt_error *err)
{
    uint64_t p = slot->share.p, row;
    slot->T = batch_length(l, p);
    for (size_t i = 0; i < l->opt.B; i++) {
        const size_t at = i * slot->T;
        const struct dt_row part = dt_row_at(&slot->row, at);
        slot->rows[i] = (int64_t)(p + i);
        if (!find_row(l, p + i, &row))
            dt_row_pad(&part, 0, slot->T);
        else if (read_row(l, slot, row, at, slot->T, err) < 0)
            return -1;
    }
    return 0;
}

/* One row for all samples. */
static int join_rows(const struct dt_loader *l, struct slot *slot,
                     struct dt_error *err)
{
    const struct share *share = &slot->share;
    size_t at = 0;
    uint64_t row;
    slot->rows[0] = (int64_t)sample_of(l, l->opt.rank, share->p, share->first);
    for (size_t i = share->first; i < share->end; i++) {
        if (!find_row(l, sample_of(l, l->opt.rank, share->p, i), &row))
            continue;
        size_t length = dt_rows_length(l->rows, row);
        if (read_row(l, slot, row, at, length, err) < 0)
            return -1;
        for (size_t t = at; t < at + length; t++)
            slot->row.doc_start[t] += (int32_t)at;
        at += length;
    }
    slot->T = round_length(l, at);
    dt_row_pad(&slot->row, at, slot->T);
    return 0;
}

static bool is_stopping(struct dt_loader *l)
{
    pthread_mutex_lock(&l->lock);
    const bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Reads the images of a slot. Many large ones take seconds, so that a loader
 * that stops waits for one alone.
 */
static int fill_pixels(struct dt_loader *l, struct slot *slot)
{
    uint8_t *to = slot->pixels;
    for (size_t i = 0; i < slot->pictures.image_count && !is_stopping(l); i++) {
        const struct dt_picture_image *image = &slot->pictures.images[i];
        to = dt_pictures_read(to, image, dt_rows_images(l->rows), &slot->error);
        if (!to) {
            dt_rows_name_image(l->rows, image, &slot->error);
            return dt_error_prefix(&slot->error, "data");
        }
    }
    return 0;
}

/* Fills a slot with the samples of its share. -1: as dt_rows_read and
 * dt_pictures_read.
 */
static int fill_slot(struct dt_loader *l, struct slot *slot)
{
    slot->row.target_count = slot->pair_count = 0;
    slot->pictures.image_count = slot->pictures.picture_count = 0;
    if ((l->opt.tokens > 0 ? join_rows : fill_rows)(l, slot, &slot->error) < 0)
        return -1;
    return fill_pixels(l, slot);
}

/* --- the threads --- */

/* Waits for a free slot and claims the next batch *k for the calling thread.
 * False: there are no more batches, or the loader stops.
 */
static bool claim_batch(struct dt_loader *l, uint64_t *k)
{
    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->claimed < l->total &&
           l->claimed - l->taken >= l->opt.prefetch)
        pthread_cond_wait(&l->room, &l->lock);
    bool go = !l->stop && l->claimed < l->total;
    if (go) {
        slot_of(l, l->claimed)->share = next_share(l);
        *k = l->claimed++;
    }
    pthread_mutex_unlock(&l->lock);
    return go;
}

static void *loader_thread(void *arg)
{
    struct dt_loader *l = arg;
    struct dt_span span;
    uint64_t k;
    dt_span_lane("data");
    while (claim_batch(l, &k)) {
        struct slot *slot = slot_of(l, k);
        dt_span_begin_number(&span, DT_SPAN_BATCH, k);
        bool failed = fill_slot(l, slot) < 0;
        dt_span_end(&span);
        pthread_mutex_lock(&l->lock);
        slot->failed = failed;
        slot->made = k + 1;
        pthread_cond_signal(&l->more);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

static int start_workers(struct dt_loader *l)
{
    int rc = 0;
    while (l->thread_count < l->opt.workers && rc == 0) {
        pthread_t *thread = &l->threads[l->thread_count];
        rc = dt_thread_start(thread, "loader", loader_thread, l);
        l->thread_count += rc == 0;
    }
    return l->thread_count > 0 ? 0 : rc; /* fewer do as well */
}

/* --- the caller's side --- */

static void init_sync(struct dt_loader *l)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->more, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&l->room, NULL);
    pthread_mutex_init(&l->lock, NULL);
}

static void loader_free(struct dt_loader *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->room);
    pthread_cond_destroy(&l->more);
    for (size_t i = 0; l->slots && i < slot_count(l); i++) {
        free(l->slots[i].row.inputs);
        free(l->slots[i].row.targets);
        free(l->slots[i].row.doc_start);
        free(l->slots[i].rows);
        free(l->slots[i].pairs);
        free(l->slots[i].pictures.images);
        free(l->slots[i].pictures.pictures);
        free(l->slots[i].pixels);
    }
    free(l->begin);
    free(l->slots);
    free(l->threads);
    free(l);
}

/* Allocates the arrays of a slot. False: out of memory. */
static bool slot_init(const struct dt_loader *l, struct slot *slot)
{
    const bool has_pairs = dt_rows_pair(l->rows, 0);
    size_t bytes;
    if (__builtin_mul_overflow(l->B, l->T * sizeof(int32_t), &bytes))
        return false;
    slot->row.inputs = malloc(bytes);
    slot->row.targets = malloc(bytes);
    slot->row.doc_start = malloc(bytes);
    slot->rows = calloc(l->B, sizeof(*slot->rows));
    if (has_pairs)
        slot->pairs = calloc(rank_samples(l), sizeof(*slot->pairs));
    return slot->row.inputs && slot->row.targets && slot->row.doc_start &&
           slot->rows && (slot->pairs || !has_pairs);
}

/* Allocates memory for the most images of a slot. False: out of memory. */
static bool init_images(const struct dt_loader *l, struct slot *slot)
{
    const struct dt_example_images *options = dt_rows_images(l->rows);
    const size_t most = l->most.pictures + 1;
    const size_t places = dt_rows_pair(l->rows, 0) ? DT_SIDES : 1;
    size_t bytes;
    if (!options)
        return true;
    if (__builtin_mul_overflow(l->most.patches,
                               dt_image_row_bytes(options->processor), &bytes))
        return false;
    slot->row.pictures = &slot->pictures;
    slot->pictures.images = calloc(most, sizeof(*slot->pictures.images));
    slot->pictures.pictures =
        calloc(most * places, sizeof(*slot->pictures.pictures));
    slot->pixels = malloc(bytes + 1);
    return slot->pictures.images && slot->pictures.pictures && slot->pixels;
}

static int allocate_images(struct dt_loader *l, struct dt_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < slot_count(l); i++)
        ok = init_images(l, &l->slots[i]);
    return ok ? 0
              : dt_error_set(err, EX_OSERR,
                             "data: out of memory for %zu batches of %zu "
                             "patches of images: lower data.num_workers, "
                             "data.prefetch_factor or the rows of a batch",
                             slot_count(l), l->most.patches);
}

static int allocate_slots(struct dt_loader *l, struct dt_error *err)
{
    l->threads = calloc(l->opt.workers, sizeof(*l->threads));
    l->slots = calloc(slot_count(l), sizeof(*l->slots));
    bool ok = l->threads && l->slots;
    for (size_t i = 0; ok && i < slot_count(l); i++)
        ok = slot_init(l, &l->slots[i]);
    return ok ? 0
              : dt_error_set(err, EX_OSERR,
                             "data: out of memory for %zu batches of %zu x %zu "
                             "tokens",
                             slot_count(l), l->B, l->T);
}

/* Sets the sizes of batches. -1: EX_CONFIG, a row is longer than the limit. */
static int size_batches(struct dt_loader *l, struct dt_error *err)
{
    const size_t longest = dt_rows_max_length(l->rows);
    const size_t step = l->opt.multiple_of, tokens = l->opt.tokens;
    l->samples = dt_rows_count(l->rows);
    l->B = tokens > 0 ? 1 : l->opt.B;
    l->T = tokens > 0 ? (tokens + step - 1) / step * step : longest;
    if (tokens == 0 || longest <= tokens)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "data: the longest row has %zu tokens, a batch at most "
                        "%zu (training.micro_batch_tokens)",
                        longest, tokens);
}

/* Finds the number of batches of the pass, and with a limit the first step. */
static int plan_pass(struct dt_loader *l, struct dt_error *err)
{
    const uint64_t each = step_samples(l);
    const uint64_t left = l->first < l->samples ? l->samples - l->first : 0;
    l->total = l->opt.repeat ? UINT64_MAX : (left + each - 1) / each;
    if (l->opt.tokens == 0)
        return 0;
    l->begin = calloc(rank_samples(l) + 1, sizeof(*l->begin));
    if (!l->begin)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    if (!l->opt.repeat)
        l->total = 0;
    for (uint64_t p = l->first; !l->opt.repeat && p < l->samples; p += each) {
        begin_step(l, p);
        l->total += l->step_count;
    }
    begin_step(l, l->first);
    return 0;
}

/* Sets all sizes, and allocates memory for all batches. */
static int prepare(struct dt_loader *l, struct dt_error *err)
{
    return size_batches(l, err) < 0 || plan_pass(l, err) < 0 ||
                   allocate_slots(l, err) < 0 ||
                   dt_loader_most(l->rows, &l->opt, &l->most, err) < 0 ||
                   allocate_images(l, err) < 0
               ? -1
               : 0;
}

struct dt_loader *dt_loader_create(const struct dt_rows *rows,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err)
{
    struct dt_loader *l = calloc(1, sizeof(*l));
    if (!l) {
        dt_error_set(err, EX_OSERR, "data: out of memory");
        return NULL;
    }
    l->rows = rows;
    l->opt = *options;
    l->position = l->first = position;
    init_sync(l);
    int rc = prepare(l, err);
    if (rc == 0 && (rc = start_workers(l)) != 0)
        dt_error_set(err, EX_OSERR, "data: cannot start a thread: %s",
                     strerror(rc));
    if (rc == 0)
        return l;
    loader_free(l);
    return NULL;
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
static int wait_for_batch(struct dt_loader *l, const struct slot *slot,
                          struct dt_error *err)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, l->opt.timeout_ms);
    int rc = 0;
    while (slot->made != l->taken + 1 && rc == 0)
        rc = pthread_cond_timedwait(&l->more, &l->lock, &deadline);
    if (slot->made == l->taken + 1)
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "data: no batch within %d ms: does the "
                        "file system of the data hang?",
                        l->opt.timeout_ms);
}

/* If rows hold one document each, starts are not needed: padding follows the
 * document, so causal attention never sees it.
 */
static struct dt_batch batch_of(const struct dt_loader *l,
                                const struct slot *slot)
{
    const bool shared = l->opt.tokens > 0 || dt_rows_shared(l->rows);
    return (struct dt_batch){.B = l->B,
                             .T = slot->T,
                             .inputs = slot->row.inputs,
                             .targets = slot->row.targets,
                             .doc_start = shared ? slot->row.doc_start : NULL,
                             .rows = slot->rows,
                             .target_count = slot->row.target_count,
                             .pairs = slot->pairs,
                             .pair_count = slot->pair_count,
                             .pictures = slot->pictures.pictures,
                             .picture_count = slot->pictures.picture_count,
                             .pixels = slot->pixels};
}

int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err)
{
    if (loader->taken == loader->total)
        return 0;
    const struct slot *slot = slot_of(loader, loader->taken);
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
    *batch = batch_of(loader, slot);
    loader->step_ends = slot->share.last;
    if (loader->opt.tokens == 0 || loader->step_ends)
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
    uint64_t end = loader->opt.repeat ? loader->position + step_samples(loader)
                                      : loader->samples;
    uint64_t tokens = 0, row;
    *pairs = 0;
    for (uint64_t p = loader->position; p < end; p++)
        if (find_row(loader, p, &row)) {
            tokens += dt_rows_pair(loader->rows, row)->targets;
            ++*pairs;
        }
    return tokens;
}

uint64_t dt_loader_position(const struct dt_loader *loader)
{
    return loader->position;
}
