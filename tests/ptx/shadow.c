/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadow.c - who touched which bytes, and whether that has an order
 *
 * Time goes on at every barrier and with every block. Accesses of one time by
 * two threads have no order, unless both are lanes of a warp that have waited
 * for each other in between; nor have those of two blocks of a grid. Atomics
 * need none among themselves. Two bytes share a cell.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#include "ptx.h"

enum {
    MOST_GRIDS = 64,
    UNIT = 2,
    MANY_LANES = 1 << 30, /* of the reader's warp */
    MANY_WARPS = 1 << 31,
};

struct touch {
    uint32_t time, who, turn, pc;
};

struct cell {
    struct touch write, read;
};

uint32_t ptx_now = 1;
struct ptx_granule ptx_granules[PTX_MAX_SHARED / PTX_GRANULE];

static uint32_t block_began, grid_began;
static struct cell *shared, *global;
static unsigned grids; /* since the shadow of global memory was empty */

/* --- time --- */

static const size_t GLOBAL_BYTES = (size_t)16 << 40;

void ptx_shadow_begin(void)
{
    if (!shared)
        shared =
            simt_checked(calloc(PTX_MAX_SHARED / UNIT, sizeof(struct cell)));
    if (!global)
        global = mmap(NULL, GLOBAL_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (global == MAP_FAILED)
        simt_fail("ptx: no addresses for what shadows memory");
    if (++grids % MOST_GRIDS == 0) /* nothing of it counts, but it grows */
        madvise(global, GLOBAL_BYTES, MADV_DONTNEED);
    grid_began = ++ptx_now;
}

void ptx_shadow_begin_block(void)
{
    block_began = ++ptx_now;
}

void ptx_shadow_barrier(void)
{
    ptx_now++;
}

/* --- order --- */

static bool both_atomic(const struct ptx_access *a, const struct touch *t)
{
    return a->i->is_atomic && ptx_block.kernel->code[t->pc].is_atomic;
}

/* Whether an access before this one may as well come after it. */
static inline bool unordered(const struct ptx_access *a, const struct touch *t,
                             uint32_t since, uint32_t self)
{
    if (t->time < ptx_now)
        return t->time >= since && t->time < block_began;
    if (t->who == self)
        return false;
    bool of_warp =
        !(t->who & (uint32_t)MANY_WARPS) &&
        (t->who & ~(uint32_t)MANY_LANES) / PTX_LANES == self / PTX_LANES;
    return !of_warp || t->turn == a->w->turn;
}

__attribute__((noreturn)) static void report(const struct ptx_access *a,
                                             const struct touch *t,
                                             const char *before)
{
    const struct ptx_kernel *k = ptx_block.kernel;
    const struct ptx_instr *other = &k->code[t->pc];
    const char *file = k->module->files[other->file];
    ptx_block.raced = true;
    ptx_fault(a->w, a->i,
              "thread %u %s what %s has %s at %s:%u, with no barrier "
              "in between",
              a->w->number * PTX_LANES + a->lane, a->write ? "writes" : "reads",
              t->time < block_began ? "another block" : "another thread",
              before, file ? file : "?", other->line);
}

/* Where a barrier is left out, the one who writes may still come. */
__attribute__((noreturn)) static void report_unwritten(
    const struct ptx_access *a)
{
    ptx_block.raced = true;
    ptx_fault(a->w, a->i,
              "thread %u reads shared memory that nobody has written",
              a->w->number * PTX_LANES + a->lane);
}

static void note_read(const struct ptx_access *a, struct touch *t,
                      uint32_t since, struct touch mine)
{
    if (t->time >= since && t->time < block_began)
        return; /* another block, which stays remembered */
    if (t->time < ptx_now || t->who == mine.who) {
        *t = mine;
    } else if (t->who & (uint32_t)MANY_WARPS) {
        return;
    } else if ((t->who & ~(uint32_t)MANY_LANES) / PTX_LANES !=
               mine.who / PTX_LANES) {
        t->who |= (uint32_t)MANY_WARPS;
    } else if (t->turn == a->w->turn) {
        t->who |= MANY_LANES;
    } else {
        *t = mine;
    }
}

static inline void touch(const struct ptx_access *a, struct cell *cell,
                         uint32_t since)
{
    uint32_t self = a->w->number * PTX_LANES + a->lane;
    struct touch mine = {ptx_now, self, a->w->turn,
                         (uint32_t)(a->i - ptx_block.kernel->code)};
    if (unordered(a, &cell->write, since, self) &&
        !both_atomic(a, &cell->write))
        report(a, &cell->write, "written");
    if (!a->write) {
        note_read(a, &cell->read, since, mine);
        return;
    }
    if (unordered(a, &cell->read, since, self))
        report(a, &cell->read, "read");
    /* the thread's own store stays remembered: other atomics have no order
     * with it
     */
    if (!a->i->is_atomic || cell->write.time < ptx_now ||
        both_atomic(a, &cell->write))
        cell->write = mine;
}

/* Whether another read of the warp adds nothing to what is known of a cell. */
static bool is_noted(const struct cell *cell, const struct ptx_warp *w,
                     bool *by_all)
{
    const struct touch *r = &cell->read;
    bool many = r->who & (uint32_t)MANY_WARPS;
    *by_all &= many;
    return cell->write.time < ptx_now && cell->write.time >= block_began &&
           r->time == ptx_now &&
           (many ||
            (r->who & MANY_LANES && r->turn == w->turn &&
             (r->who & ~(uint32_t)MANY_LANES) / PTX_LANES == w->number));
}

static void note_granule(const struct ptx_warp *w, uint64_t n)
{
    enum { CELLS = PTX_GRANULE / UNIT };
    bool by_all = true;
    for (unsigned c = 0; c < CELLS; c++)
        if (!is_noted(&shared[n * CELLS + c], w, &by_all))
            return;
    ptx_granules[n] =
        (struct ptx_granule){ptx_now, by_all ? 0 : w->number + 1, w->turn};
}

void ptx_shadow_shared(const struct ptx_access *a, uint64_t at, size_t bytes)
{
    struct cell *end = &shared[(at + bytes - 1) / UNIT];
    for (struct cell *cell = &shared[at / UNIT]; cell <= end; cell++) {
        if (!a->write && cell->write.time < block_began)
            report_unwritten(a);
        touch(a, cell, block_began);
    }
    if (a->write)
        ptx_granules[at / PTX_GRANULE].time = 0;
    else
        note_granule(a->w, at / PTX_GRANULE);
}

void ptx_shadow_global(const struct ptx_access *a, uint64_t at, size_t bytes)
{
    struct cell *end = &global[(at + bytes - 1) / UNIT];
    for (struct cell *cell = &global[at / UNIT]; cell <= end; cell++)
        touch(a, cell, grid_began);
}
