/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warp.c - instructions that the lanes of a warp execute together, and branches
 *
 * run.c calls them when all lanes that they need have come.
 */
#include "config.h"

#include <string.h>

#include "include/simt_round.h"
#include "ptx.h"

/* --- shuffles and votes --- */

enum { BUTTERFLY, INDEX, UP, DOWN };

/* The lane that lane l reads, and whether it is one of its segment. */
static unsigned source_of(unsigned mode, unsigned l, uint32_t b, uint32_t c,
                          bool *inside)
{
    unsigned segment = c >> 8 & 31, clamp = c & 31;
    unsigned least = l & segment, most = least | (clamp & ~segment);
    unsigned from = l;
    b &= 31;
    if (mode == BUTTERFLY)
        from = l ^ b;
    else if (mode == INDEX)
        from = least | (b & ~segment);
    else if (mode == DOWN)
        from = l + b;
    else
        from = l - b;
    if (mode == UP)
        *inside = (int)from >= (int)most;
    else
        *inside = from <= most;
    return *inside ? from : l;
}

static void shuffle(struct ptx_warp *w, const struct ptx_instr *i,
                    uint32_t mask)
{
    bool has_pred = i->ops == 6;
    unsigned first = has_pred ? 2 : 1;
    uint32_t *d = ptx_words(w, i, 0), a[PTX_LANES], inside = 0;
    const uint32_t *b = ptx_words(w, i, first + 1);
    const uint32_t *c = ptx_words(w, i, first + 2);
    memcpy(a, ptx_words(w, i, first), sizeof(a));
    PTX_EACH(mask, bool in;
             unsigned from = source_of(i->mode, l, b[l], c[l], &in);
             if (!(mask >> from & 1)) ptx_fault(
                 w, i, "lane %u reads lane %u, which is not there", l, from);
             d[l] = a[from]; inside |= (uint32_t)in << l;);
    if (has_pred)
        ptx_set(w, i->op[1], mask, inside);
}

static void ballot(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask)
{
    uint32_t *d = ptx_words(w, i, 0), p = *ptx_words(w, i, 1) & mask;
    PTX_EACH(mask, d[l] = p;);
}

static void any(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask)
{
    ptx_set(w, i->op[0], mask, *ptx_words(w, i, 1) & mask ? PTX_ALL : 0);
}

static void warp_barrier(struct ptx_warp *w, const struct ptx_instr *i,
                         uint32_t mask)
{
    (void)i;
    (void)mask;
    w->turn++;
}

/* --- matrices --- */

static float half_of(const struct ptx_instr *i, uint32_t pair, unsigned n)
{
    unsigned short bits = (unsigned short)(pair >> (16 * n));
    return i->mode == 'b' ? simt_from_bf16(bits) : simt_from_half(bits);
}

/* D(16, 8) = A(16, 16) B(16, 8) + C(16, 8): lane l has two neighbors of row l/4
 * (of column l/4 of B) in each register. A sum is rounded once, which a GPU
 * does after several products.
 */
static void multiply(struct ptx_warp *w, const struct ptx_instr *i,
                     uint32_t mask)
{
    float a[16][16], b[16][8], c[16][8];
    (void)mask;
    for (unsigned l = 0; l < PTX_LANES; l++) {
        unsigned row = l / 4, column = l % 4 * 2;
        for (unsigned n = 0; n < 8; n++)
            a[row + n / 2 % 2 * 8][column + n / 4 * 8 + n % 2] =
                half_of(i, ptx_words(w, i, 4 + n / 2)[l], n % 2);
        for (unsigned n = 0; n < 4; n++)
            b[column + n / 2 * 8 + n % 2][row] =
                half_of(i, ptx_words(w, i, 8 + n / 2)[l], n % 2);
        for (unsigned n = 0; n < 4; n++)
            c[row + n / 2 * 8][column + n % 2] =
                simt_bits_float(ptx_words(w, i, 10 + n)[l]);
    }
    for (unsigned l = 0; l < PTX_LANES; l++)
        for (unsigned n = 0; n < 4; n++) {
            unsigned row = l / 4 + n / 2 * 8, column = l % 4 * 2 + n % 2;
            double sum = (double)c[row][column];
            for (unsigned k = 0; k < 16; k++)
                sum += (double)a[row][k] * (double)b[k][column];
            ptx_words(w, i, n)[l] = simt_float_bits((float)sum);
        }
}

/* Matrices of 8 rows of 16 bytes, whose addresses 8 lanes each have. */
static void load_matrices(struct ptx_warp *w, const struct ptx_instr *i,
                          uint32_t mask)
{
    unsigned char rows[PTX_LANES][16];
    struct ptx_access access = {.w = w, .i = i};
    bool transposed = i->mode == 't';
    (void)mask;
    for (unsigned l = 0; l < 8u * i->count; l++) {
        access.lane = l;
        memcpy(rows[l], ptx_memory_at(&access, i->count, 16), 16);
    }
    for (unsigned l = 0; l < PTX_LANES; l++)
        for (unsigned n = 0; n < i->count; n++) {
            uint16_t pair[2];
            for (unsigned k = 0; k < 2; k++) {
                unsigned row = l / 4, column = l % 4 * 2 + k;
                unsigned r = transposed ? column : row;
                memcpy(&pair[k],
                       rows[8 * n + r] + 2 * (transposed ? row : column), 2);
            }
            ptx_words(w, i, n)[l] = pair[0] | (uint32_t)pair[1] << 16;
        }
}

/* --- barriers --- */

static void arrive(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask)
{
    const struct ptx_kernel *k = ptx_block.kernel;
    for (size_t n = 0; n < k->proof_count; n++)
        if (&k->code[k->proofs[n].pc] == i)
            k->proofs[n].met = true;
    w->state = PTX_AT_BARRIER;
    w->barrier = i;
    if (i->ops == 3)
        ptx_block.vote |= *ptx_words(w, i, 2) & mask;
}

/* --- decoding --- */

struct entry {
    const char *name, *shape;
    ptx_execute_f execute;
    enum ptx_flow flow;
    uint8_t mode, count;
};

static const struct entry TABLE[] = {
    {"shfl.sync.bfly.b32", "w|wwww", shuffle, PTX_WARP, BUTTERFLY, 0},
    {"shfl.sync.idx.b32", "w|wwww", shuffle, PTX_WARP, INDEX, 0},
    {"shfl.sync.up.b32", "w|wwww", shuffle, PTX_WARP, UP, 0},
    {"shfl.sync.down.b32", "w|wwww", shuffle, PTX_WARP, DOWN, 0},
    {"vote.ballot.sync.b32", "wpw", ballot, PTX_WARP, 0, 0},
    {"vote.sync.ballot.b32", "wpw", ballot, PTX_WARP, 0, 0},
    {"vote.sync.any.pred", "ppw", any, PTX_WARP, 0, 0},
    {"bar.warp.sync", "w", warp_barrier, PTX_WARP, 0, 0},
    {"bar.sync", "w", arrive, PTX_BARRIER, 0, 0},
    {"bar.red.or.pred", "pwp", arrive, PTX_BARRIER, 0, 0},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "4w4w2w4w",
     multiply, PTX_TOGETHER, 'b', 0},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "4w4w2w4w", multiply,
     PTX_TOGETHER, 'h', 0},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "4w[", load_matrices,
     PTX_TOGETHER, 0, 4},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "4w[", load_matrices,
     PTX_TOGETHER, 't', 4},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", "2w[", load_matrices,
     PTX_TOGETHER, 0, 2},
    {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "2w[", load_matrices,
     PTX_TOGETHER, 't', 2},
    {"bra", "l", NULL, PTX_BRANCH, 0, 0},
    {"bra.uni", "l", NULL, PTX_BRANCH, 0, 0},
    {"ret", "", NULL, PTX_END, 0, 0},
    {"exit", "", NULL, PTX_END, 0, 0},
};

const char *ptx_decode_warp(struct ptx_instr *i, const char *opcode)
{
    for (size_t n = 0; n < sizeof(TABLE) / sizeof(TABLE[0]); n++) {
        const struct entry *e = &TABLE[n];
        if (strcmp(e->name, opcode) != 0)
            continue;
        i->execute = e->execute;
        i->flow = (uint8_t)e->flow;
        i->mode = e->mode;
        i->count = e->count;
        i->space = PTX_SHARED; /* of ldmatrix */
        return e->shape;
    }
    return NULL;
}
