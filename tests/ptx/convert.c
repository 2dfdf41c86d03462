/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.c - cvt and setp
 *
 * The conversions that kernels make often are in arithmetic.c.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "include/simt_round.h"
#include "ptx.h"

/* The next part of an opcode, parts being divided by dots; NULL: no more. */
static const char *next_part(const char **opcode, char part[16])
{
    size_t n = strcspn(*opcode, ".");
    if (n == 0 || n >= 16)
        return NULL;
    memcpy(part, *opcode, n);
    part[n] = 0;
    *opcode += n + ((*opcode)[n] == '.');
    return part;
}

static bool parse_type(const char *part, char *type, uint8_t *bytes)
{
    bool brain = strcmp(part, "bf16") == 0;
    const char *digits = part + (brain ? 2 : 1);
    unsigned long bits = strtoul(digits, NULL, 10);
    if (!strchr("usfb", part[0]) || bits < 8 || bits > 64)
        return false;
    *type = brain ? 'b' : part[0] == 'b' ? 'u' : part[0];
    *bytes = (uint8_t)(bits / 8);
    return true;
}

static char register_kind(unsigned bytes)
{
    return bytes <= 2 ? 'h' : bytes == 4 ? 'w' : 'd';
}

static bool is_float(char type)
{
    return type == 'f' || type == 'b';
}

/* --- cvt --- */

static uint64_t low_bytes(uint64_t x, unsigned bytes)
{
    return bytes < 8 ? x & (((uint64_t)1 << (8 * bytes)) - 1) : x;
}

static int64_t extended(uint64_t x, unsigned bytes)
{
    unsigned above = 64 - 8 * bytes;
    return (int64_t)(x << above) >> above;
}

static double to_double(char type, unsigned bytes, uint64_t bits)
{
    double x;
    if (type == 'b')
        return (double)simt_from_bf16((unsigned short)bits);
    if (bytes == 2)
        return (double)simt_from_half((unsigned short)bits);
    if (bytes == 4)
        return (double)simt_bits_float((uint32_t)bits);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint64_t from_double(char type, unsigned bytes, double x)
{
    uint64_t bits;
    if (type == 'b')
        return simt_to_bf16((float)x);
    if (bytes == 2)
        return simt_to_half((float)x);
    if (bytes == 4)
        return simt_float_bits((float)x);
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double to_integer(char round, double x)
{
    switch (round) {
    case 'i':
        return rint(x);
    case 'z':
        return trunc(x);
    case 'm':
        return floor(x);
    default:
        return ceil(x);
    }
}

/* Integers that are too large become the largest, NaN becomes 0. */
static uint64_t integer_of(const struct ptx_convert *c, double x)
{
    unsigned bits = 8u * c->to_bytes;
    double most = ldexp(1.0, c->to == 's' ? (int)bits - 1 : (int)bits);
    double least = c->to == 's' ? -most : 0.0;
    x = to_integer(c->round, x);
    if (x != x)
        return 0;
    if (x <= least)
        return c->to == 's' ? (uint64_t)1 << (bits - 1) : 0;
    if (x >= most)
        return c->to == 's' ? ((uint64_t)1 << (bits - 1)) - 1
                            : low_bytes(UINT64_MAX, c->to_bytes);
    return c->to == 's' ? (uint64_t)(int64_t)x : (uint64_t)x;
}

static uint64_t float_of(const struct ptx_convert *c, double x)
{
    if (c->round)
        x = to_integer(c->round, x);
    if (c->saturate)
        x = x > 0 ? fmin(x, 1.0) : 0.0;
    if (c->flush && fabs(x) < 0x1p-126)
        x = copysign(0.0, x);
    return from_double(c->to, c->to_bytes, x);
}

/* A float that 16-bit types round as they would round the integer: bits that do
 * not fit become one that is set.
 */
static float inexact(uint64_t magnitude)
{
    int shift = 0;
    for (; magnitude >> 24; shift++)
        magnitude = magnitude >> 1 | (magnitude & 1);
    return ldexpf((float)magnitude, shift);
}

/* Rounded once. */
static uint64_t float_of_integer(const struct ptx_convert *c, uint64_t bits)
{
    int64_t x = extended(bits, c->from_bytes);
    uint64_t y = low_bytes(bits, c->from_bytes);
    if (c->to_bytes == 8)
        return from_double('f', 8, c->from == 's' ? (double)x : (double)y);
    if (c->to_bytes == 4)
        return simt_float_bits(c->from == 's' ? (float)x : (float)y);
    if (c->from == 's' && x < 0)
        return from_double(c->to, 2, -(double)inexact(-(uint64_t)x));
    return from_double(c->to, 2,
                       (double)inexact(c->from == 's' ? (uint64_t)x : y));
}

static uint64_t converted(const struct ptx_convert *c, uint64_t bits)
{
    if (is_float(c->from)) {
        double x = to_double(c->from, c->from_bytes, bits);
        return is_float(c->to) ? float_of(c, x) : integer_of(c, x);
    }
    if (is_float(c->to))
        return float_of_integer(c, bits);
    uint64_t x = c->from == 's' ? (uint64_t)extended(bits, c->from_bytes)
                                : low_bytes(bits, c->from_bytes);
    x = low_bytes(x, c->to_bytes);
    return c->to == 's' ? (uint64_t)extended(x, c->to_bytes) : x;
}

static void convert(struct ptx_warp *w, const struct ptx_instr *i,
                    uint32_t mask)
{
    PTX_EACH(mask,
             ptx_set_lane(w, i->op[0], l,
                          converted(&i->convert, ptx_lane(w, i->op[1], l))););
}

/* What stands before the types. False: not known. */
static bool parse_rounding(struct ptx_convert *c, const char *part)
{
    if (strcmp(part, "ftz") == 0)
        c->flush = true;
    else if (strcmp(part, "sat") == 0)
        c->saturate = true;
    else if (part[0] == 'r' && strlen(part) == 3 && part[2] == 'i')
        c->round = part[1] == 'n' ? 'i' : part[1];
    else
        return strcmp(part, "rn") == 0;
    return true;
}

static const char *decode_cvt(struct ptx_instr *i, const char *at)
{
    static const char kinds[] = "hwd";
    static char shapes[3][3][3];
    struct ptx_convert *c = &i->convert;
    char part[16];
    while (next_part(&at, part) && parse_rounding(c, part))
        ;
    if (!parse_type(part, &c->to, &c->to_bytes) || !next_part(&at, part) ||
        !parse_type(part, &c->from, &c->from_bytes))
        return NULL;
    i->execute = convert;
    char to = register_kind(c->to_bytes), from = register_kind(c->from_bytes);
    char *shape =
        shapes[strchr(kinds, to) - kinds][strchr(kinds, from) - kinds];
    shape[0] = to;
    shape[1] = from;
    return shape;
}

/* --- setp --- */

enum { LESS = 1, EQUAL = 2, MORE = 4, UNORDERED = 8 };

static const struct {
    const char *name;
    uint8_t accepted;
} COMPARISONS[] = {
    {"eq", EQUAL},
    {"ne", LESS | MORE},
    {"lt", LESS},
    {"le", LESS | EQUAL},
    {"gt", MORE},
    {"ge", MORE | EQUAL},
    {"lo", LESS},
    {"ls", LESS | EQUAL},
    {"hi", MORE},
    {"hs", MORE | EQUAL},
    {"equ", EQUAL | UNORDERED},
    {"neu", LESS | MORE | UNORDERED},
    {"ltu", LESS | UNORDERED},
    {"leu", LESS | EQUAL | UNORDERED},
    {"gtu", MORE | UNORDERED},
    {"geu", MORE | EQUAL | UNORDERED},
    {"num", LESS | EQUAL | MORE},
    {"nan", UNORDERED},
};

#define DEFINE_COMPARE(id, T, R)                                               \
    static void id(struct ptx_warp *w, const struct ptx_instr *i,              \
                   uint32_t mask)                                              \
    {                                                                          \
        const R *a = ptx_register(w, i->op[1]);                                \
        const R *b = ptx_register(w, i->op[2]);                                \
        uint8_t result[PTX_LANES];                                             \
        uint32_t bits = 0;                                                     \
        for (unsigned l = 0; l < PTX_LANES; l++) {                             \
            T x = (T)a[l], y = (T)b[l];                                        \
            result[l] =                                                        \
                (uint8_t)((x < y) * LESS | (x == y) * EQUAL | (x > y) * MORE); \
            result[l] |= (uint8_t)((result[l] == 0) * UNORDERED);              \
        }                                                                      \
        for (unsigned l = 0; l < PTX_LANES; l++)                               \
            bits |= (uint32_t)((result[l] & i->mode) != 0) << l;               \
        ptx_set(w, i->op[0], mask, bits);                                      \
    }
DEFINE_COMPARE(compare_u32, uint32_t, uint32_t)
DEFINE_COMPARE(compare_s32, int32_t, int32_t)
DEFINE_COMPARE(compare_s16, int16_t, uint32_t)
DEFINE_COMPARE(compare_u64, uint64_t, uint64_t)
DEFINE_COMPARE(compare_s64, int64_t, int64_t)
DEFINE_COMPARE(compare_f32, float, float)
DEFINE_COMPARE(compare_f64, double, double)

static const struct {
    const char *type, *shape;
    ptx_execute_f execute;
} COMPARED[] = {
    {"u32", "pww", compare_u32}, {"b32", "pww", compare_u32},
    {"s32", "pww", compare_s32}, {"u16", "phh", compare_u32},
    {"b16", "phh", compare_u32}, {"s16", "phh", compare_s16},
    {"u64", "pdd", compare_u64}, {"b64", "pdd", compare_u64},
    {"s64", "pdd", compare_s64}, {"f32", "pww", compare_f32},
    {"f64", "pdd", compare_f64},
};

static const char *decode_setp(struct ptx_instr *i, const char *at)
{
    char part[16];
    if (!next_part(&at, part))
        return NULL;
    for (size_t n = 0; n < sizeof(COMPARISONS) / sizeof(COMPARISONS[0]); n++)
        if (strcmp(COMPARISONS[n].name, part) == 0)
            i->mode = COMPARISONS[n].accepted;
    for (size_t n = 0; n < sizeof(COMPARED) / sizeof(COMPARED[0]); n++)
        if (strcmp(COMPARED[n].type, at) == 0) {
            i->execute = COMPARED[n].execute;
            return i->mode ? COMPARED[n].shape : NULL;
        }
    return NULL;
}

const char *ptx_decode_convert(struct ptx_instr *i, const char *opcode)
{
    if (strncmp(opcode, "cvt.", 4) == 0)
        return decode_cvt(i, opcode + 4);
    return strncmp(opcode, "setp.", 5) == 0 ? decode_setp(i, opcode + 5) : NULL;
}
