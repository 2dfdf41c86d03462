/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.h - a machine that runs the PTX of nvcc's objects on the CPU
 *
 * launch.c stands for the part of CUDA's runtime that nvcc's objects call; the
 * rest of it is tests/simt's. module.c reads PTX, run.c runs it: blocks one
 * after another, a warp until it waits or ends, its lanes in lock step as far
 * as they go the same way. What PTX leaves undefined ends the process with a
 * message: accesses outside allocations, races, lanes that a shuffle names and
 * that do not come, barriers that not all threads reach.
 */
#ifndef DT_TESTS_PTX_H
#define DT_TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PTX_LANES = 32,
    PTX_MAX_WARPS = 32,
    PTX_DYNAMIC = 1 << 19,    /* where dynamic shared memory begins */
    PTX_MAX_SHARED = 1 << 20, /* bytes, with those between variables */
    PTX_WORD = 4 * PTX_LANES, /* bytes of a register */
    PTX_LONG = 8 * PTX_LANES,
};

#define PTX_ALL 0xffffffffu

/* Generic addresses of what is not global. */
#define PTX_SHARED_WINDOW ((uint64_t)1 << 56)
#define PTX_LOCAL_WINDOW ((uint64_t)2 << 56)
#define PTX_PARAM_WINDOW ((uint64_t)3 << 56)
#define PTX_WINDOW_MASK ((uint64_t)0xff << 56)

/* A register: 32 lanes of 32 bits ('h': 16 of them, above zeros; 'w') or of 64
 * ('d'), or a predicate, a bit for each lane ('p').
 */
struct ptx_operand {
    char kind;
    uint8_t bank;   /* of a warp's: 0 registers, 1 constants */
    uint32_t at;    /* bytes */
    int32_t offset; /* to be added to an address */
};

enum ptx_flow {
    PTX_PLAIN,
    PTX_BRANCH,
    PTX_END,
    PTX_WARP,     /* needs the lanes that its last operand names */
    PTX_TOGETHER, /* needs all lanes of the warp */
    PTX_BARRIER,  /* needs all threads of the block */
};

enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
};

struct ptx_warp;
struct ptx_instr;
typedef void (*ptx_execute_f)(struct ptx_warp *w, const struct ptx_instr *i,
                              uint32_t mask);

struct ptx_instr {
    ptx_execute_f execute;
    struct ptx_operand guard; /* kind 0: none */
    bool guard_not;
    bool is_volatile, is_signed, is_atomic;
    uint8_t flow;  /* enum ptx_flow */
    uint8_t space; /* enum ptx_space */
    uint8_t bytes, count;
    uint8_t mode; /* of the instruction's own */
    struct ptx_convert {
        char to, from; /* 'u', 's', 'f', 'b' (bf16) */
        uint8_t to_bytes, from_bytes;
        char round; /* i: to even, z, m, p: to an integer; 0: to the type */
        bool saturate, flush;
    } convert;
    struct ptx_operand *op;
    unsigned ops;
    const char *label; /* where a branch goes, until it is known */
    uint32_t target;
    uint16_t file;
    uint32_t line;
};

/* A variable of the kernel's. */
struct ptx_variable {
    const char *name;
    enum ptx_space space;
    uint32_t at, bytes;
    struct ptx_variable *next;
};

/* Whether a run without this barrier was seen to have a race. */
struct ptx_proof {
    uint32_t pc;
    unsigned runs, tries; /* that came to it; all */
    bool met;             /* in a run with it */
    bool raced;
};

struct ptx_kernel {
    char *name;
    struct ptx_instr *code;
    size_t count, capacity;
    struct ptx_variable *variables;
    uint32_t param_bytes, shared_bytes, local_bytes;
    uint32_t register_bytes;
    struct ptx_operand special[16]; /* kind 0: not read; see module.c */
    uint32_t *constants;
    uint32_t constant_bytes;
    struct ptx_proof *proofs;
    size_t proof_count;
    bool ran;
    struct ptx_module *module;
    struct ptx_kernel *next;
};

struct ptx_module {
    char *text;
    struct ptx_kernel *kernels; /* those that were asked for */
    const char **shared;        /* behind .shared, outside of kernels */
    size_t shared_count;
    char *files[256]; /* by the number of .file */
};

struct ptx_size {
    unsigned x, y, z;
};

struct ptx_grid {
    struct ptx_size blocks, threads;
    size_t dynamic; /* bytes of shared memory */
    const unsigned char *params;
};

enum ptx_state { PTX_RUNS, PTX_AT_BARRIER, PTX_ENDED };

struct ptx_warp {
    unsigned char *bank[2];
    uint32_t live, waiting; /* lanes */
    uint32_t pc[PTX_LANES];
    uint32_t turn; /* how often its lanes have waited for each other */
    unsigned number;
    enum ptx_state state;
    const struct ptx_instr *barrier;
};

/* The block that runs. */
struct ptx_block {
    struct ptx_kernel *kernel;
    struct ptx_grid grid;
    struct ptx_size index;
    unsigned warps, threads;
    unsigned char *shared, *local;
    struct ptx_warp warp[PTX_MAX_WARPS];
    uint32_t vote; /* of bar.red */
    bool proving;
    uint32_t dropped; /* the barrier that is left out meanwhile */
    bool reached, raced;
};
extern struct ptx_block ptx_block;

/* --- module.c --- */

/* Takes `text`, which ends with 0. */
struct ptx_module *ptx_module_create(char *text);
/* The kernel, read when first asked for; ends the process if there is none. */
struct ptx_kernel *ptx_module_kernel(struct ptx_module *module,
                                     const char *name);

/* --- arithmetic.c, convert.c, memory.c, warp.c --- */

/* What an instruction is: execute, flow, space, sizes. Returns the kinds of its
 * operands as module.c reads them; NULL: none of the file.
 */
const char *ptx_decode_arithmetic(struct ptx_instr *i, const char *opcode);
const char *ptx_decode_convert(struct ptx_instr *i, const char *opcode);
const char *ptx_decode_memory(struct ptx_instr *i, const char *opcode);
const char *ptx_decode_warp(struct ptx_instr *i, const char *opcode);

/* An access of a lane. */
struct ptx_access {
    const struct ptx_warp *w;
    const struct ptx_instr *i;
    unsigned lane;
    bool write;
};

/* --- memory.c --- */

/* Ends the process, or this run without a barrier, with a text that names the
 * instruction.
 */
void ptx_fault(const struct ptx_warp *w, const struct ptx_instr *i,
               const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* Room for one more than `count` elements, `data` if that has it. */
void *ptx_grown(void *data, size_t count, size_t *room, size_t size);

/* The shared memory of the block is new. */
void ptx_memory_begin_block(void);
/* A grid begins. */
void ptx_memory_begin(void);
/* Takes back the stores of a run without a barrier. */
void ptx_memory_undo(void);
/* The bytes at the address of lane a->lane in op[n], which may be accessed. */
unsigned char *ptx_memory_at(const struct ptx_access *a, unsigned n,
                             size_t bytes);
/* The copies of the lanes that have ended must have been waited for. */
void ptx_memory_end_lanes(const struct ptx_warp *w, uint32_t lanes);

/* --- shadow.c: who touched which bytes since which barrier --- */

/* A grid, a block and all threads behind a barrier go on. */
void ptx_shadow_begin(void);
void ptx_shadow_begin_block(void);
void ptx_shadow_barrier(void);
/* Faults if another thread's access to these bytes may be before or after it.
 * `at` is an offset into shared memory, or an address.
 */
void ptx_shadow_shared(const struct ptx_access *a, uint64_t at, size_t bytes);
void ptx_shadow_global(const struct ptx_access *a, uint64_t at, size_t bytes);

/* 16 bytes of shared memory that were written before the time `time` began, and
 * that several lanes have read in it since the warp's turn `turn`, or several
 * warps (`warp` 0, otherwise its number + 1): there is nothing to find or note
 * if they read it again.
 */
enum { PTX_GRANULE = 16 };
struct ptx_granule {
    uint32_t time, warp, turn;
};
extern struct ptx_granule ptx_granules[PTX_MAX_SHARED / PTX_GRANULE];
extern uint32_t ptx_now; /* the time: see shadow.c */

static inline bool ptx_is_plain(const struct ptx_warp *w, uint32_t at)
{
    const struct ptx_granule *g = &ptx_granules[at / PTX_GRANULE];
    return g->time == ptx_now &&
           (g->warp == 0 || (g->warp == w->number + 1 && g->turn == w->turn));
}

/* --- census.c --- */

/* The bytes of local memory of a kernel in machine code, an ELF file. */
uint32_t ptx_frame_bytes(const unsigned char *elf, const char *kernel);
/* Writes "code FRAME LOCAL ATOMICS WIDE KERNEL": bytes of local memory, those
 * of them that PTX has variables in, atomics on floats, loads of 16 bytes.
 */
void ptx_census(FILE *f, const char *text, const char *kernel, uint32_t frame);

/* --- run.c --- */

/* Runs all blocks. */
void ptx_run(struct ptx_kernel *kernel, const struct ptx_grid *grid);

/* --- what the files that execute share --- */

static inline void *ptx_register(const struct ptx_warp *w,
                                 struct ptx_operand op)
{
    return w->bank[op.bank] + op.at;
}

static inline uint32_t *ptx_words(const struct ptx_warp *w,
                                  const struct ptx_instr *i, unsigned n)
{
    return ptx_register(w, i->op[n]);
}

static inline uint64_t *ptx_longs(const struct ptx_warp *w,
                                  const struct ptx_instr *i, unsigned n)
{
    return ptx_register(w, i->op[n]);
}

/* A predicate whose lanes in `mask` get those of `value`. */
static inline void ptx_set(const struct ptx_warp *w, struct ptx_operand op,
                           uint32_t mask, uint32_t value)
{
    uint32_t *p = ptx_register(w, op);
    *p = (*p & ~mask) | (value & mask);
}

/* Lane l of a register, zero-extended. */
static inline uint64_t ptx_lane(const struct ptx_warp *w, struct ptx_operand op,
                                unsigned l)
{
    const void *r = ptx_register(w, op);
    return op.kind == 'd' ? ((const uint64_t *)r)[l] : ((const uint32_t *)r)[l];
}

static inline void ptx_set_lane(const struct ptx_warp *w, struct ptx_operand op,
                                unsigned l, uint64_t value)
{
    void *r = ptx_register(w, op);
    if (op.kind == 'd')
        ((uint64_t *)r)[l] = value;
    else
        ((uint32_t *)r)[l] =
            (uint32_t)(op.kind == 'h' ? value & 0xffff : value);
}

/* Lanes have no part in each other's results, which only speed needs to know.
 */
#ifdef __clang__
#define PTX_LANES_ARE_APART
#else
#define PTX_LANES_ARE_APART _Pragma("GCC ivdep")
#endif

/* Runs the statement for the lanes `l` of `mask`. */
#define PTX_EACH(mask, ...)                                                    \
    do {                                                                       \
        if ((mask) == PTX_ALL) {                                               \
            PTX_LANES_ARE_APART for (unsigned l = 0; l < PTX_LANES; l++)       \
            {                                                                  \
                __VA_ARGS__                                                    \
            }                                                                  \
        } else {                                                               \
            for (unsigned l = 0; l < PTX_LANES; l++)                           \
                if ((mask) >> l & 1) {                                         \
                    __VA_ARGS__                                                \
                }                                                              \
        }                                                                      \
    } while (0)

#endif /* DT_TESTS_PTX_H */
