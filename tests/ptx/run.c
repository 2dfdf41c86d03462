/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - grids, blocks and warps
 *
 * Of the lanes of a warp those run that are the least far in the kernel, until
 * they come to where others are, go different ways or must wait. A grid may
 * run before, once without each of its barriers, to see whether that is found.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ptx.h"

struct ptx_block ptx_block = {.dropped = UINT32_MAX};

static jmp_buf escape;
static uint64_t budget; /* instructions of warps that a block may still run */

enum { PROVING_BUDGET = 1 << 21, PROVING_RUNS = 3, PROVING_BLOCKS = 4 };
static const uint64_t BLOCK_BUDGET = (uint64_t)1 << 32;

void ptx_fault(const struct ptx_warp *w, const struct ptx_instr *i,
               const char *format, ...)
{
    const struct ptx_block *b = &ptx_block;
    const char *file = b->kernel->module->files[i->file];
    char text[512];
    va_list args;
    (void)w;
    if (b->proving)
        longjmp(escape, 1);
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    simt_fail("ptx: %s:%u: %s\nsimt: in block (%u,%u,%u) of kernel %s with "
              "(%u,%u,%u) blocks of (%u,%u,%u) threads",
              file ? file : "?", i->line, text, b->index.x, b->index.y,
              b->index.z, b->kernel->name, b->grid.blocks.x, b->grid.blocks.y,
              b->grid.blocks.z, b->grid.threads.x, b->grid.threads.y,
              b->grid.threads.z);
}

/* --- the lanes of a warp --- */

static void set_pc(struct ptx_warp *w, uint32_t lanes, uint32_t pc)
{
    for (unsigned l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1)
            w->pc[l] = pc;
}

static uint32_t lanes_at(const struct ptx_warp *w, uint32_t among, uint32_t pc)
{
    uint32_t lanes = 0;
    for (unsigned l = 0; l < PTX_LANES; l++)
        if (among >> l & 1 && w->pc[l] == pc)
            lanes |= 1u << l;
    return lanes;
}

/* The least pc of these lanes that is larger than `above`, or UINT32_MAX. */
static uint32_t next_pc(const struct ptx_warp *w, uint32_t lanes, int64_t above)
{
    uint32_t least = UINT32_MAX;
    for (unsigned l = 0; l < PTX_LANES; l++)
        if (lanes >> l & 1 && w->pc[l] > above && w->pc[l] < least)
            least = w->pc[l];
    return least;
}

/* The lanes that this one waits for, itself included. */
static uint32_t members_of(const struct ptx_warp *w, const struct ptx_instr *i,
                           uint32_t arrived)
{
    if (i->flow != PTX_WARP)
        return w->live;
    const uint32_t *members = ptx_words(w, i, i->ops - 1);
    uint32_t first = members[__builtin_ctz(arrived)];
    for (unsigned l = 0; l < PTX_LANES; l++)
        if (arrived >> l & 1 && (members[l] != first || !(first >> l & 1)))
            ptx_fault(w, i,
                      "lane %u names the lanes %#x, and another %#x: all "
                      "name the same, themselves among them",
                      l, members[l], first);
    return first & w->live;
}

/* Lanes have come to an instruction that needs others. */
static void meet(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lanes)
{
    uint32_t pc = (uint32_t)(i - ptx_block.kernel->code);
    uint32_t arrived = lanes | lanes_at(w, w->waiting, pc);
    set_pc(w, lanes, pc);
    w->waiting |= lanes;
    if (members_of(w, i, arrived) & ~arrived)
        return;
    w->waiting &= ~arrived;
    set_pc(w, arrived, pc + 1);
    i->execute(w, i, arrived);
}

static void end_lanes(struct ptx_warp *w, uint32_t lanes)
{
    ptx_memory_end_lanes(w, lanes);
    w->live &= ~lanes;
}

static uint32_t guarded(const struct ptx_warp *w, const struct ptx_instr *i,
                        uint32_t lanes)
{
    if (!i->guard.kind)
        return lanes;
    uint32_t p = *(const uint32_t *)ptx_register(w, i->guard);
    return lanes & (i->guard_not ? ~p : p);
}

/* Lanes that go on elsewhere, or not: those of them in `active` do what the
 * instruction says, the others pass it.
 */
static void part(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lanes,
                 uint32_t active)
{
    uint32_t pc = (uint32_t)(i - ptx_block.kernel->code);
    set_pc(w, lanes & ~active, pc + 1);
    if (i->flow == PTX_BRANCH)
        set_pc(w, active, i->target);
    else if (i->flow == PTX_END)
        end_lanes(w, active);
    else if (active)
        meet(w, i, active);
}

/* Runs lanes that are at `pc` until they come to `limit`, or part. */
static void run_lanes(struct ptx_warp *w, uint32_t lanes, uint32_t pc,
                      uint32_t limit)
{
    const struct ptx_instr *code = ptx_block.kernel->code;
    while (pc < limit) {
        const struct ptx_instr *i = &code[pc];
        uint32_t active = guarded(w, i, lanes);
        if (--budget == 0)
            ptx_fault(w, i, "a block does not end");
        if (pc == ptx_block.dropped) {
            ptx_block.reached = true;
            pc++;
        } else if (i->flow == PTX_PLAIN) {
            if (active)
                i->execute(w, i, active);
            pc++;
        } else if (i->flow == PTX_BRANCH && (active == lanes || !active)) {
            pc = active ? i->target : pc + 1;
        } else {
            part(w, i, lanes, active);
            return;
        }
    }
    set_pc(w, lanes, pc);
}

__attribute__((noreturn)) static void report_waiting(const struct ptx_warp *w)
{
    uint32_t pc = next_pc(w, w->waiting, -1);
    uint32_t other = next_pc(w, w->waiting, pc);
    const struct ptx_instr *i = &ptx_block.kernel->code[pc];
    const struct ptx_instr *there =
        &ptx_block.kernel->code[other == UINT32_MAX ? pc : other];
    ptx_fault(w, i,
              "the lanes %#x of warp %u wait here for others, which wait at "
              "line %u or have ended; %#x run",
              lanes_at(w, w->waiting, pc), w->number, there->line, w->live);
}

/* Runs a warp until it has ended or waits for others. */
static void run_warp(struct ptx_warp *w)
{
    while (w->state == PTX_RUNS) {
        uint32_t ready = w->live & ~w->waiting;
        if (!w->live) {
            w->state = PTX_ENDED;
        } else if (!ready) {
            report_waiting(w);
        } else {
            uint32_t pc = next_pc(w, ready, -1);
            run_lanes(w, lanes_at(w, ready, pc), pc, next_pc(w, ready, pc));
        }
    }
}

/* --- blocks --- */

static void set_special(struct ptx_warp *w)
{
    const struct ptx_block *b = &ptx_block;
    const struct ptx_size n = b->grid.threads, g = b->grid.blocks;
    for (unsigned l = 0; l < PTX_LANES; l++) {
        unsigned t = w->number * PTX_LANES + l;
        const uint32_t values[] = {
            t % n.x,    t / n.x % n.y, t / n.x / n.y, b->index.x,
            b->index.y, b->index.z,    n.x,           n.y,
            n.z,        g.x,           g.y,           g.z,
            l,          w->number,     (2u << l) - 1, (1u << l) - 1,
        };
        for (unsigned s = 0; s < sizeof(values) / sizeof(values[0]); s++)
            if (b->kernel->special[s].kind)
                ptx_set_lane(w, b->kernel->special[s], l, values[s]);
    }
}

static void start_warp(struct ptx_warp *w)
{
    unsigned first = w->number * PTX_LANES;
    unsigned count = ptx_block.threads - first;
    w->live = count >= PTX_LANES ? PTX_ALL : (1u << count) - 1;
    w->waiting = 0;
    w->turn = 0;
    w->state = PTX_RUNS;
    memset(w->pc, 0, sizeof(w->pc));
    set_special(w);
}

/* All threads that have not ended wait at a barrier. False: there are none. */
static bool pass_barrier(void)
{
    bool waits = false;
    for (unsigned n = 0; n < ptx_block.warps; n++) {
        struct ptx_warp *w = &ptx_block.warp[n];
        if (w->state != PTX_AT_BARRIER)
            continue;
        waits = true;
        w->state = PTX_RUNS;
        if (w->barrier->ops == 3)
            ptx_set(w, w->barrier->op[0], w->live,
                    ptx_block.vote ? PTX_ALL : 0);
    }
    ptx_block.vote = 0;
    ptx_shadow_barrier();
    return waits;
}

static void run_block(void)
{
    ptx_shadow_begin_block();
    ptx_memory_begin_block();
    ptx_block.vote = 0;
    budget = ptx_block.proving ? PROVING_BUDGET : BLOCK_BUDGET;
    for (unsigned n = 0; n < ptx_block.warps; n++)
        start_warp(&ptx_block.warp[n]);
    do
        for (unsigned n = 0; n < ptx_block.warps; n++)
            run_warp(&ptx_block.warp[n]);
    while (pass_barrier());
}

static void run_blocks(uint64_t most)
{
    const struct ptx_size g = ptx_block.grid.blocks;
    uint64_t all = (uint64_t)g.x * g.y * g.z;
    ptx_shadow_begin();
    for (uint64_t n = 0; n < all && n < most; n++) {
        uint64_t rest = n / g.x;
        ptx_block.index =
            (struct ptx_size){(unsigned)(n % g.x), (unsigned)(rest % g.y),
                              (unsigned)(rest / g.y)};
        run_block();
    }
}

/* --- grids --- */

static void *at_least(void *data, size_t *have, size_t bytes)
{
    if (bytes <= *have)
        return data;
    free(data);
    *have = bytes;
    data = simt_checked(aligned_alloc(64, (bytes + 63) / 64 * 64));
    memset(data, 0xa5, bytes);
    return data;
}

/* Room for what the block has. */
static void prepare(struct ptx_kernel *kernel, const struct ptx_grid *grid)
{
    static unsigned char *registers, *local, *shared;
    static size_t register_room, local_room, shared_room;
    struct ptx_block *b = &ptx_block;
    b->kernel = kernel;
    b->grid = *grid;
    b->threads = grid->threads.x * grid->threads.y * grid->threads.z;
    b->warps = (b->threads + PTX_LANES - 1) / PTX_LANES;
    registers = at_least(registers, &register_room,
                         (size_t)kernel->register_bytes * b->warps);
    local =
        at_least(local, &local_room, (size_t)kernel->local_bytes * b->threads);
    shared = at_least(shared, &shared_room, PTX_MAX_SHARED);
    b->local = local;
    b->shared = shared;
    for (unsigned n = 0; n < b->warps; n++) {
        b->warp[n].number = n;
        b->warp[n].bank[0] = registers + (size_t)n * kernel->register_bytes;
        b->warp[n].bank[1] = (unsigned char *)kernel->constants;
    }
    ptx_memory_begin();
}

/* Appends a line to $PTX_REPORT. Ranks of a test do so one beside another, and
 * end without their destructors.
 */
static void note(const struct ptx_proof *proof)
{
    const struct ptx_kernel *k = ptx_block.kernel;
    const char *path = getenv("PTX_REPORT"), *file = NULL;
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    if (proof)
        file = k->module->files[k->code[proof->pc].file];
    if (proof)
        fprintf(f, "barrier %s %s:%u %s\n", proof->raced ? "needed" : "quiet",
                file ? file : "?", k->code[proof->pc].line, k->name);
    else
        fprintf(f, "kernel %s\n", k->name);
    fclose(f);
}

/* Whether a run without the barrier has a race. */
static void prove(struct ptx_proof *proof)
{
    struct ptx_block *b = &ptx_block;
    b->proving = true;
    b->reached = b->raced = false;
    b->dropped = proof->pc;
    if (setjmp(escape) == 0)
        run_blocks(PROVING_BLOCKS);
    b->proving = false;
    b->dropped = UINT32_MAX;
    ptx_memory_undo();
    proof->runs += b->reached;
    proof->tries++;
    proof->raced = b->raced;
    note(proof);
}

void ptx_run(struct ptx_kernel *kernel, const struct ptx_grid *grid)
{
    prepare(kernel, grid);
    if (!kernel->ran)
        note(NULL);
    kernel->ran = true;
    for (size_t n = 0; n < kernel->proof_count; n++) {
        struct ptx_proof *proof = &kernel->proofs[n];
        if (!proof->raced && proof->runs < PROVING_RUNS &&
            (proof->met || proof->tries == 0))
            prove(proof);
    }
    run_blocks(UINT64_MAX);
}
