/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - instructions that read and write memory
 *
 * Shared variables lie apart, with bytes between them that no access may
 * touch. An asynchronous copy is made when its thread waits for it; until then
 * nobody may touch its target.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ptx.h"

enum { MAX_THREADS = PTX_LANES * PTX_MAX_WARPS };

/* Of shared memory: bytes that belong to a variable, and those a copy is on
 * its way to.
 */
enum { OWNED = 1, AWAITED = 2 };
static unsigned char state[PTX_MAX_SHARED];
static const char ALL_OWNED[] = "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1";

/* The allocation that was found last. */
static struct {
    const unsigned char *data;
    size_t bytes;
} found;

struct copy {
    unsigned thread, group;
    uint32_t to;
    const struct ptx_instr *i;
    unsigned char data[16];
};
static struct copy *copies;
static size_t copy_count, copy_room;
static unsigned groups[MAX_THREADS];

struct stored {
    unsigned char *at;
    uint64_t before;
    unsigned bytes;
};
static struct stored *undo;
static size_t undo_count, undo_room;

void *ptx_grown(void *data, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return data;
    *room = *room ? 2 * *room : 64;
    return simt_checked(realloc(data, *room * size));
}

static unsigned thread_of(const struct ptx_access *a)
{
    return a->w->number * PTX_LANES + a->lane;
}

/* --- grids and blocks --- */

void ptx_memory_begin(void)
{
    static uint32_t end, dynamic_end; /* of what was owned before */
    const struct ptx_kernel *k = ptx_block.kernel;
    found.bytes = 0;
    memset(state, 0, end);
    memset(state + PTX_DYNAMIC, 0, dynamic_end);
    end = k->shared_bytes;
    dynamic_end = (uint32_t)ptx_block.grid.dynamic;
    for (const struct ptx_variable *v = k->variables; v; v = v->next)
        if (v->space == PTX_SHARED)
            memset(state + v->at, OWNED, v->bytes);
    memset(state + PTX_DYNAMIC, OWNED, ptx_block.grid.dynamic);
}

void ptx_memory_begin_block(void)
{
    for (size_t n = 0; n < copy_count; n++) /* of a run that was ended */
        memset(state + copies[n].to, OWNED, 16);
    copy_count = 0;
    memset(groups, 0, sizeof(groups));
}

void ptx_memory_undo(void)
{
    while (undo_count > 0) {
        const struct stored *s = &undo[--undo_count];
        memcpy(s->at, &s->before, s->bytes);
    }
}

/* --- addresses --- */

static unsigned char *in_shared(const struct ptx_access *a, uint64_t at,
                                size_t bytes)
{
    if (at > PTX_MAX_SHARED - bytes)
        ptx_fault(a->w, a->i,
                  "thread %u: %zu bytes at %#llx are behind shared "
                  "memory",
                  thread_of(a), bytes, (unsigned long long)at);
    if (memcmp(state + at, ALL_OWNED, bytes) != 0)
        ptx_fault(
            a->w, a->i, "thread %u: %zu bytes at %#llx of shared memory %s",
            thread_of(a), bytes, (unsigned long long)at,
            memchr(state + at, 0, bytes) ? "belong to no variable"
                                         : "wait for an asynchronous copy");
    if (!a->i->is_volatile)
        ptx_shadow_shared(a, at, bytes);
    return ptx_block.shared + at;
}

static unsigned char *in_local(const struct ptx_access *a, uint64_t at,
                               size_t bytes)
{
    const struct ptx_kernel *k = ptx_block.kernel;
    if (at + bytes > k->local_bytes)
        ptx_fault(a->w, a->i,
                  "thread %u: %zu bytes at %#llx are not in its "
                  "local memory",
                  thread_of(a), bytes, (unsigned long long)at);
    return ptx_block.local + (size_t)thread_of(a) * k->local_bytes + at;
}

static unsigned char *in_params(const struct ptx_access *a, uint64_t at,
                                size_t bytes)
{
    if (a->write || at + bytes > ptx_block.kernel->param_bytes)
        ptx_fault(a->w, a->i,
                  "thread %u: %zu bytes at %#llx are not in the "
                  "parameters",
                  thread_of(a), bytes, (unsigned long long)at);
    return (unsigned char *)(uintptr_t)ptx_block.grid.params + at;
}

/* Keeps what a run without a barrier is about to overwrite. */
static void remember(unsigned char *at, size_t bytes)
{
    for (size_t n = 0; n < bytes; n += 8) {
        undo = ptx_grown(undo, undo_count, &undo_room, sizeof(*undo));
        struct stored *s = &undo[undo_count++];
        *s = (struct stored){at + n, 0,
                             bytes - n < 8 ? (unsigned)(bytes - n) : 8};
        memcpy(&s->before, s->at, s->bytes);
    }
}

static unsigned char *in_global(const struct ptx_access *a, uint64_t at,
                                size_t bytes)
{
    unsigned char *data = (unsigned char *)(uintptr_t)at;
    if (data < found.data || data + bytes > found.data + found.bytes) {
        found.data = simt_allocation_locked(data, &found.bytes);
        if (!found.data || data + bytes > found.data + found.bytes)
            ptx_fault(a->w, a->i,
                      "thread %u: %zu bytes at %p are in no "
                      "allocation, the next %zu bytes below",
                      thread_of(a), bytes, (void *)data,
                      found.data ? (size_t)(data - found.data) : 0);
    }
    size_t offset;
    if (!a->i->is_volatile && simt_arena_offset(data, &offset))
        ptx_shadow_global(a, offset, bytes);
    if (ptx_block.proving && a->write)
        remember(data, bytes);
    return data;
}

static unsigned char *reach(const struct ptx_access *a, uint64_t at,
                            enum ptx_space space, size_t bytes)
{
    if (at % bytes != 0)
        ptx_fault(a->w, a->i,
                  "thread %u: an access of %zu bytes at %#llx is not "
                  "aligned",
                  thread_of(a), bytes, (unsigned long long)at);
    uint64_t window = at & PTX_WINDOW_MASK;
    if (space == PTX_GENERIC && window == PTX_SHARED_WINDOW)
        return in_shared(a, at - window, bytes);
    if (space == PTX_GENERIC && window == PTX_LOCAL_WINDOW)
        return in_local(a, at - window, bytes);
    switch (space) {
    case PTX_SHARED:
        return in_shared(a, at, bytes);
    case PTX_LOCAL:
        return in_local(a, at, bytes);
    case PTX_PARAM:
        return in_params(a, at, bytes);
    default:
        return in_global(a, at, bytes);
    }
}

static uint64_t address(const struct ptx_access *a, unsigned n)
{
    struct ptx_operand op = a->i->op[n];
    uint64_t at = ptx_lane(a->w, op, a->lane) + (uint64_t)(int64_t)op.offset;
    return op.kind == 'w' ? (uint32_t)at : at;
}

unsigned char *ptx_memory_at(const struct ptx_access *a, unsigned n,
                             size_t bytes)
{
    return reach(a, address(a, n), (enum ptx_space)a->i->space, bytes);
}

/* --- loads and stores --- */

static uint64_t extended(uint64_t x, unsigned bytes)
{
    unsigned above = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(x << above) >> above);
}

static inline uint64_t fetched(const unsigned char *from, unsigned bytes)
{
    uint64_t x = 0;
    switch (bytes) { /* sizes that the compiler knows */
    case 2:
        memcpy(&x, from, 2);
        break;
    case 4:
        memcpy(&x, from, 4);
        break;
    case 8:
        memcpy(&x, from, 8);
        break;
    default:
        x = *from;
    }
    return x;
}

static void load_lane(const struct ptx_access *a)
{
    const struct ptx_instr *i = a->i;
    size_t bytes = i->bytes;
    const unsigned char *from = ptx_memory_at(a, i->count, bytes * i->count);
    for (unsigned n = 0; n < i->count; n++) {
        uint64_t x = fetched(from + n * bytes, i->bytes);
        if (i->is_signed)
            x = extended(x, i->bytes);
        ptx_set_lane(a->w, i->op[n], a->lane, x);
    }
}

static void load(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask)
{
    struct ptx_access a = {.w = w, .i = i};
    PTX_EACH(mask, a.lane = l; load_lane(&a););
}

/* `from`: a lane's in shared memory, if it may be read; otherwise faults. */
static inline const unsigned char *shared_lane(struct ptx_access *a,
                                               uint32_t at, unsigned lane,
                                               unsigned bytes)
{
    if (at % bytes == 0 && at < PTX_MAX_SHARED && ptx_is_plain(a->w, at))
        return ptx_block.shared + at;
    a->lane = lane;
    return reach(a, at, PTX_SHARED, bytes);
}

/* Words, which most loads from shared memory are. */
static void load_shared(struct ptx_warp *w, const struct ptx_instr *i,
                        uint32_t mask)
{
    struct ptx_access a = {.w = w, .i = i};
    struct ptx_operand base = i->op[i->count];
    const uint32_t *at = ptx_register(w, base);
    unsigned count = i->count;
    uint32_t *d[4];
    if (base.kind != 'w' || i->op[0].kind != 'w') {
        load(w, i, mask);
        return;
    }
    for (unsigned n = 0; n < count; n++)
        d[n] = ptx_words(w, i, n);
    PTX_EACH(mask, uint32_t words[4]; memcpy(
                 words,
                 shared_lane(&a, at[l] + (uint32_t)base.offset, l, 4 * count),
                 4 * count);
             for (unsigned n = 0; n < count; n++) d[n][l] = words[n];);
}

/* All lanes read the same, unless they compute where. */
static void load_param(struct ptx_warp *w, const struct ptx_instr *i,
                       uint32_t mask)
{
    struct ptx_access a = {
        .w = w, .i = i, .lane = (unsigned)__builtin_ctz(mask)};
    if (i->op[i->count].bank == 0) {
        load(w, i, mask);
        return;
    }
    load_lane(&a);
    for (unsigned n = 0; n < i->count; n++) {
        uint64_t x = ptx_lane(w, i->op[n], a.lane);
        PTX_EACH(mask, ptx_set_lane(w, i->op[n], l, x););
    }
}

static void store(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask)
{
    struct ptx_access a = {.w = w, .i = i, .write = true};
    size_t bytes = i->bytes;
    PTX_EACH(
        mask, a.lane = l;
        unsigned char *to = ptx_memory_at(&a, 0, bytes * i->count);
        for (unsigned n = 0; n < i->count; n++) {
            uint64_t x = ptx_lane(w, i->op[n + 1], l);
            memcpy(to + n * bytes, &x, bytes);
        });
}

/* Lanes one after another, each of them before or after all others. */
static void atomic_add(struct ptx_warp *w, const struct ptx_instr *i,
                       uint32_t mask)
{
    struct ptx_access a = {.w = w, .i = i, .write = true};
    PTX_EACH(mask, uint64_t before = 0, after; a.lane = l;
             unsigned char *at = ptx_memory_at(&a, 1, i->bytes);
             memcpy(&before, at, i->bytes);
             after = before + ptx_lane(w, i->op[2], l);
             memcpy(at, &after, i->bytes);
             ptx_set_lane(w, i->op[0], l, before););
}

/* --- generic addresses --- */

static uint64_t window_of(const struct ptx_instr *i)
{
    static const uint64_t windows[] = {
        [PTX_SHARED] = PTX_SHARED_WINDOW,
        [PTX_LOCAL] = PTX_LOCAL_WINDOW,
        [PTX_PARAM] = PTX_PARAM_WINDOW,
    };
    return windows[i->space];
}

static void to_generic(struct ptx_warp *w, const struct ptx_instr *i,
                       uint32_t mask)
{
    uint64_t window = window_of(i);
    PTX_EACH(mask,
             ptx_set_lane(w, i->op[0], l, ptx_lane(w, i->op[1], l) + window););
}

static void from_generic(struct ptx_warp *w, const struct ptx_instr *i,
                         uint32_t mask)
{
    uint64_t window = window_of(i);
    PTX_EACH(mask,
             ptx_set_lane(w, i->op[0], l, ptx_lane(w, i->op[1], l) - window););
}

/* --- asynchronous copies --- */

static void copy_lane(struct ptx_access a)
{
    uint64_t to = address(&a, 0);
    a.write = false;
    const unsigned char *from = reach(&a, address(&a, 1), PTX_GLOBAL, 16);
    a.write = true;
    reach(&a, to, PTX_SHARED, 16);
    copies = ptx_grown(copies, copy_count, &copy_room, sizeof(*copies));
    struct copy *c = &copies[copy_count++];
    *c = (struct copy){.thread = thread_of(&a),
                       .group = groups[thread_of(&a)],
                       .to = (uint32_t)to,
                       .i = a.i};
    memcpy(c->data, from, 16);
    memset(state + to, OWNED | AWAITED, 16);
}

static void copy_async(struct ptx_warp *w, const struct ptx_instr *i,
                       uint32_t mask)
{
    PTX_EACH(mask, copy_lane((struct ptx_access){w, i, l, true}););
}

static void copy_commit(struct ptx_warp *w, const struct ptx_instr *i,
                        uint32_t mask)
{
    (void)i;
    PTX_EACH(mask, groups[w->number * PTX_LANES + l]++;);
}

static void finish(const struct copy *c, const struct ptx_warp *w)
{
    struct ptx_access a = {w, c->i, c->thread % PTX_LANES, true};
    memset(state + c->to, OWNED, 16);
    memcpy(reach(&a, c->to, PTX_SHARED, 16), c->data, 16);
}

static void copy_wait(struct ptx_warp *w, const struct ptx_instr *i,
                      uint32_t mask)
{
    size_t kept = 0;
    uint32_t left = i->ops > 0 ? *ptx_words(w, i, 0) : 0;
    for (size_t n = 0; n < copy_count; n++) {
        const struct copy *c = &copies[n];
        unsigned lane = c->thread % PTX_LANES;
        if (c->thread / PTX_LANES == w->number && mask >> lane & 1 &&
            c->group + left < groups[c->thread])
            finish(c, w);
        else
            copies[kept++] = *c;
    }
    copy_count = kept;
}

void ptx_memory_end_lanes(const struct ptx_warp *w, uint32_t lanes)
{
    for (size_t n = 0; n < copy_count; n++)
        if (copies[n].thread / PTX_LANES == w->number &&
            lanes >> copies[n].thread % PTX_LANES & 1)
            ptx_fault(w, copies[n].i,
                      "thread %u ends and has not waited for "
                      "its asynchronous copy",
                      copies[n].thread);
}

/* --- decoding --- */

static bool parse_space(struct ptx_instr *i, const char *part)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } spaces[] = {{"global", PTX_GLOBAL},
                  {"shared", PTX_SHARED},
                  {"local", PTX_LOCAL},
                  {"param", PTX_PARAM}};
    for (size_t n = 0; n < sizeof(spaces) / sizeof(spaces[0]); n++)
        if (strcmp(spaces[n].name, part) == 0) {
            i->space = (uint8_t)spaces[n].space;
            return true;
        }
    return false;
}

/* A part of ld, st, atom or cvta: a space, a vector, a type, or how caches are
 * used. False: not known.
 */
static bool parse_part(struct ptx_instr *i, const char *part)
{
    unsigned long bits = strtoul(part + 1, NULL, 10);
    if (parse_space(i, part) || strcmp(part, "nc") == 0)
        return true;
    if (part[0] == 'v' && (bits == 2 || bits == 4 || bits == 8)) {
        i->count = (uint8_t)bits;
        return true;
    }
    if (strcmp(part, "volatile") == 0) {
        i->is_volatile = true;
        return true;
    }
    if (!strchr("busf", part[0]) || bits < 8 || bits > 64)
        return false;
    i->bytes = (uint8_t)(bits / 8);
    i->is_signed = part[0] == 's';
    return true;
}

static bool parse_parts(struct ptx_instr *i, const char *opcode)
{
    char copy[128], *rest = copy, *part;
    i->count = 1;
    if (strlen(opcode) >= sizeof(copy))
        return false;
    strcpy(copy, opcode);
    while ((part = strsep(&rest, ".")))
        if (!parse_part(i, part))
            return false;
    return i->bytes > 0;
}

/* "4w[" or "[4w", for any kind of register. */
static const char *shape_of(const struct ptx_instr *i, bool is_load)
{
    static char shapes[2][9][4];
    char *shape = shapes[is_load][i->count], *at = shape;
    if (!is_load)
        *at++ = '[';
    if (i->count > 1)
        *at++ = (char)('0' + i->count);
    *at++ = '?';
    if (is_load)
        *at++ = '[';
    return shape;
}

static const char *decode_atomic(struct ptx_instr *i, const char *opcode)
{
    char copy[64];
    const char *add = strstr(opcode, ".add.");
    if (!add || strlen(opcode) >= sizeof(copy))
        return NULL;
    strcpy(copy, opcode);
    strcpy(copy + (add - opcode), add + 4);
    i->execute = atomic_add;
    i->is_atomic = true;
    return parse_parts(i, copy) ? "?[?" : NULL;
}

static const char *decode_cvta(struct ptx_instr *i, const char *opcode)
{
    bool to = strncmp(opcode, "to.", 3) == 0;
    i->execute = to ? from_generic : to_generic;
    return parse_parts(i, opcode + (to ? 3 : 0)) ? "dd" : NULL;
}

const char *ptx_decode_memory(struct ptx_instr *i, const char *opcode)
{
    static const struct {
        const char *name, *shape;
        ptx_execute_f execute;
    } table[] = {{"cp.async.cg.shared.global", "[[w", copy_async},
                 {"cp.async.commit_group", "", copy_commit},
                 {"cp.async.wait_group", "w", copy_wait},
                 {"cp.async.wait_all", "", copy_wait}};
    for (size_t n = 0; n < sizeof(table) / sizeof(table[0]); n++)
        if (strcmp(table[n].name, opcode) == 0) {
            i->execute = table[n].execute;
            return table[n].shape;
        }
    if (strncmp(opcode, "ld.", 3) == 0) {
        if (!parse_parts(i, opcode + 3))
            return NULL;
        i->execute = load;
        if (i->space == PTX_PARAM)
            i->execute = load_param;
        if (i->space == PTX_SHARED && i->bytes == 4 && !i->is_signed &&
            !i->is_volatile)
            i->execute = load_shared;
        return shape_of(i, true);
    }
    if (strncmp(opcode, "st.", 3) == 0) {
        i->execute = store;
        return parse_parts(i, opcode + 3) ? shape_of(i, false) : NULL;
    }
    if (strncmp(opcode, "atom.", 5) == 0)
        return decode_atomic(i, opcode + 5);
    return strncmp(opcode, "cvta.", 5) == 0 ? decode_cvta(i, opcode + 5) : NULL;
}
