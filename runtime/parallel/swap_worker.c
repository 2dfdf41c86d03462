/* SPDX-License-Identifier: Apache-2.0 */
/* swap_worker.c - the thread that moves the blocks of a swap */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/span.h"
#include "parallel/swap_impl.h"

void dt_swap_fail(struct dt_swap *swap, const struct dt_error *why)
{
    if (swap->failed)
        return;
    swap->failed = true;
    swap->failure = *why;
    pthread_cond_broadcast(&swap->change);
}

static void fail(struct dt_swap *swap, const struct dt_error *why)
{
    pthread_mutex_lock(&swap->mutex);
    dt_swap_fail(swap, why);
    pthread_mutex_unlock(&swap->mutex);
}

/* --- blocks --- */

static char *slot_data(const struct dt_swap *swap,
                       const struct dt_swap_slot *slot)
{
    return swap->memory + slot->transfer->buffer * swap->buffer_stride +
           slot->first;
}

static size_t slot_offset(const struct dt_swap *swap,
                          const struct dt_swap_slot *slot)
{
    return slot->transfer->tile * swap->tile_stride + slot->first;
}

static uint64_t *slot_sum(const struct dt_swap *swap,
                          const struct dt_swap_slot *slot)
{
    return &swap->sums[slot->transfer->tile * swap->tile_blocks +
                       slot->first / swap->options.block_bytes];
}

static int slot_failed(const struct dt_swap *swap,
                       const struct dt_swap_slot *slot, const char *why,
                       struct dt_error *err)
{
    return dt_error_set(
        err, EX_IOERR, "%s: cannot %s %zu bytes at offset %zu (tile %zu): %s",
        swap->file.path, slot->transfer->write ? "write" : "read",
        slot->bytes - slot->done, slot_offset(swap, slot) + slot->done,
        slot->transfer->tile, why);
}

static int check_sum(const struct dt_swap *swap,
                     const struct dt_swap_slot *slot, struct dt_error *err)
{
    char *data = slot_data(swap, slot);
    if (dt_fault("swap.flip"))
        data[slot->bytes / 2] ^= 1;
    uint64_t found = XXH3_64bits(data, slot->bytes);
    uint64_t expected = *slot_sum(swap, slot);
    if (found == expected)
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "%s: damaged: %zu bytes at offset %zu (tile %zu) have "
                        "the checksum %016" PRIx64 ", and %016" PRIx64
                        " was written: the drive or the memory of this node "
                        "is broken",
                        swap->file.path, slot->bytes, slot_offset(swap, slot),
                        slot->transfer->tile, found, expected);
}

static void busy_begin(struct dt_swap_busy *busy)
{
    if (busy->requests++ == 0)
        busy->since = dt_clock_now();
}

static void busy_end(struct dt_swap_busy *busy, size_t bytes)
{
    double now = dt_clock_now();
    busy->bytes += bytes;
    busy->requests--;
    busy->seconds += now - busy->since;
    busy->since = now;
}

static struct dt_swap_busy *busy_of(struct dt_swap *swap,
                                    const struct dt_swap_transfer *transfer)
{
    return transfer->write ? &swap->writes : &swap->reads;
}

/* --- the end of a block --- */

static void unlink_transfer(struct dt_swap *swap,
                            const struct dt_swap_transfer *transfer)
{
    struct dt_swap_transfer **at = &swap->first;
    while (*at != transfer)
        at = &(*at)->next;
    *at = transfer->next;
    if (!*at)
        swap->last = at;
}

/* `bytes` more of the transfer are done; it is freed after the last. */
static void advance(struct dt_swap *swap, struct dt_swap_transfer *transfer,
                    size_t bytes)
{
    bool last = transfer->done + bytes == swap->tile_stride;
    if (last && transfer->write)
        swap->written[transfer->tile] = true;
    pthread_mutex_lock(&swap->mutex);
    transfer->done += bytes;
    swap->progress++;
    swap->stats = (struct dt_swap_stats){
        .bytes_read = swap->reads.bytes,
        .bytes_written = swap->writes.bytes,
        .read_seconds = swap->reads.seconds,
        .write_seconds = swap->writes.seconds,
    };
    if (last) {
        unlink_transfer(swap, transfer);
        pthread_cond_broadcast(&swap->change);
    }
    pthread_mutex_unlock(&swap->mutex);
    if (last)
        free(transfer);
}

/* Bytes of a block that are left, or as many as a test leaves. */
static size_t bytes_left(const struct dt_swap *swap,
                         const struct dt_swap_slot *slot)
{
    size_t left = slot->bytes - slot->done;
    if (left > swap->file.align && dt_fault("swap.short"))
        return swap->file.align;
    return left;
}

/* Hands the rest of a block to the kernel. */
static int request_rest(struct dt_swap *swap, struct dt_swap_slot *slot,
                        struct dt_error *err)
{
    const struct dt_swap_transfer *transfer = slot->transfer;
    const struct dt_swap_request request = {
        .write = transfer->write,
        .data = slot_data(swap, slot) + slot->done,
        .bytes = bytes_left(swap, slot),
        .offset = slot_offset(swap, slot) + slot->done,
        .piece = (unsigned)(transfer->buffer * swap->piece_count +
                            slot->first / swap->piece_bytes),
    };
    if (dt_fault("swap.lost"))
        return 0;
    if (dt_swap_ring_start(swap->ring, swap->file.fd, &request, slot, err) < 0)
        return dt_error_prefix(err, "%s", swap->file.path);
    return 0;
}

/* The result of a request, or the one that a test injects. */
static int result_of(const struct dt_swap_slot *slot, int result)
{
    bool write = slot->transfer->write;
    if (dt_fault(write ? "swap.write" : "swap.read"))
        return -EIO;
    if (write && dt_fault("swap.space"))
        return -ENOSPC;
    if (dt_fault("swap.odd"))
        return result - 1;
    if (!write && dt_fault("swap.empty_read"))
        return 0;
    return result;
}

/* Takes the result of a request. 1: the block is done, 0: its rest is under
 * way.
 */
static int take_result(struct dt_swap *swap, struct dt_swap_slot *slot,
                       int result, struct dt_error *err)
{
    const size_t left = slot->bytes - slot->done, align = swap->file.align;
    if (result == -EINTR || result == -EAGAIN)
        return request_rest(swap, slot, err);
    if (result < 0)
        return slot_failed(swap, slot, strerror(-result), err);
    /* the rest must be aligned, too */
    size_t done =
        (size_t)result == left ? left : (size_t)result / align * align;
    if (done == 0)
        return slot_failed(swap, slot, "no data was transferred", err);
    slot->done += done;
    if (done < left)
        return request_rest(swap, slot, err);
    if (!slot->transfer->write && check_sum(swap, slot, err) < 0)
        return -1;
    return 1;
}

static void release_slot(struct dt_swap *swap, struct dt_swap_slot *slot,
                         size_t bytes)
{
    busy_end(busy_of(swap, slot->transfer), bytes);
    slot->next = swap->free_slot;
    swap->free_slot = slot;
}

/* Waits for a request. False: the ring is broken. */
static bool finish_block(struct dt_swap *swap)
{
    struct dt_error err;
    struct dt_span span;
    void *tag;
    int result;
    dt_span_begin_number(&span, DT_SPAN_DRIVE, 0);
    int rc = dt_swap_ring_wait(swap->ring, swap->options.timeout_ms, &tag,
                               &result, &err);
    dt_span_end(&span);
    if (rc < 0) {
        dt_error_prefix(&err, "%s", swap->file.path);
        fail(swap, &err);
        return false;
    }
    if (rc == 0)
        return true;
    struct dt_swap_slot *slot = tag;
    rc = take_result(swap, slot, result_of(slot, result), &err);
    if (rc < 0)
        fail(swap, &err);
    if (rc != 0)
        release_slot(swap, slot, rc < 0 ? 0 : slot->bytes);
    if (rc == 1)
        advance(swap, slot->transfer, slot->bytes);
    return true;
}

/* --- the start of a block --- */

/* The next block of a tile that the drive does not have yet. */
static void clear_block(struct dt_swap *swap, struct dt_swap_transfer *transfer,
                        size_t bytes)
{
    memset(swap->memory + transfer->buffer * swap->buffer_stride +
               transfer->started,
           0, bytes);
    transfer->started += bytes;
    advance(swap, transfer, bytes);
}

static void request_block(struct dt_swap *swap,
                          struct dt_swap_transfer *transfer, size_t bytes)
{
    struct dt_swap_slot *slot = swap->free_slot;
    struct dt_error err;
    swap->free_slot = slot->next;
    *slot = (struct dt_swap_slot){
        .transfer = transfer, .first = transfer->started, .bytes = bytes};
    transfer->started += bytes;
    if (transfer->write)
        *slot_sum(swap, slot) = XXH3_64bits(slot_data(swap, slot), bytes);
    busy_begin(busy_of(swap, transfer));
    if (request_rest(swap, slot, &err) < 0) {
        release_slot(swap, slot, 0);
        fail(swap, &err);
    }
}

static void start_block(struct dt_swap *swap, struct dt_swap_transfer *transfer)
{
    size_t left = swap->tile_stride - transfer->started;
    size_t block = swap->options.block_bytes;
    size_t bytes = left < block ? left : block;
    swap->last_was_write = transfer->write;
    if (transfer->write || swap->written[transfer->tile])
        request_block(swap, transfer, bytes);
    else
        clear_block(swap, transfer, bytes);
}

static bool must_wait(const struct dt_swap *swap,
                      const struct dt_swap_transfer *transfer)
{
    for (const struct dt_swap_transfer *older = swap->first; older != transfer;
         older = older->next)
        if (older->tile == transfer->tile || older->buffer == transfer->buffer)
            return true;
    return false;
}

/* The oldest read, or write, that has blocks to start and may; or NULL. */
static struct dt_swap_transfer *find_ready(const struct dt_swap *swap,
                                           bool write)
{
    struct dt_swap_transfer *t = swap->first;
    while (t && (t->write != write || t->started == swap->tile_stride))
        t = t->next;
    return t && !must_wait(swap, t) ? t : NULL;
}

/* Reads and writes take turns, since a drive does both at once. */
static struct dt_swap_transfer *next_transfer(const struct dt_swap *swap)
{
    struct dt_swap_transfer *other = find_ready(swap, !swap->last_was_write);
    return other ? other : find_ready(swap, swap->last_was_write);
}

/* --- the thread --- */

enum todo { START, FINISH, LEAVE };

static size_t count_requests(const struct dt_swap *swap)
{
    return swap->reads.requests + swap->writes.requests;
}

/* The next thing to do; sleeps until there is one. */
static enum todo next_todo(struct dt_swap *swap,
                           struct dt_swap_transfer **transfer)
{
    enum todo todo = START;
    pthread_mutex_lock(&swap->mutex);
    for (;;) {
        bool may_start = !swap->stop && !swap->failed && swap->free_slot;
        *transfer = may_start ? next_transfer(swap) : NULL;
        if (*transfer)
            break;
        todo = FINISH;
        if (count_requests(swap) > 0)
            break;
        todo = LEAVE;
        if (swap->stop)
            break;
        todo = START;
        pthread_cond_wait(&swap->work, &swap->mutex);
    }
    pthread_mutex_unlock(&swap->mutex);
    return todo;
}

void *dt_swap_worker(void *arg)
{
    struct dt_swap *swap = arg;
    struct dt_swap_transfer *transfer;
    dt_span_lane("drive");
    for (;;) {
        enum todo todo = next_todo(swap, &transfer);
        if (todo == START)
            start_block(swap, transfer);
        if (todo == LEAVE || (todo == FINISH && !finish_block(swap)))
            break;
    }
    pthread_mutex_lock(&swap->mutex);
    swap->gone = count_requests(swap) == 0;
    pthread_cond_broadcast(&swap->change);
    pthread_mutex_unlock(&swap->mutex);
    return NULL;
}
