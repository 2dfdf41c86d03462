/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.c - literals and copies, as format_description.txt of Snappy says */
#include "config.h"

#include <stdint.h>
#include <string.h>

#include "data/forms/snappy.h"

struct block {
    const uint8_t *at, *end; /* what is left */
    uint8_t *begin;          /* what was made: */
    size_t made, bytes;
};

/* A little-endian number. -1: it is not there. */
static int take_number(struct block *b, size_t bytes, size_t *value)
{
    if (bytes > (size_t)(b->end - b->at))
        return -1;
    *value = 0;
    for (size_t i = bytes; i-- > 0;)
        *value = *value << 8 | b->at[i];
    b->at += bytes;
    return 0;
}

static int take_literal(struct block *b, size_t tag)
{
    size_t count = tag >> 2;
    if (count >= 60 && take_number(b, count - 59, &count) < 0)
        return -1;
    count++;
    if (count > (size_t)(b->end - b->at) || count > b->bytes - b->made)
        return -1;
    memcpy(b->begin + b->made, b->at, count);
    b->at += count;
    b->made += count;
    return 0;
}

/* Copies bytes that were made already, and that may overlap those to make. */
static int take_copy(struct block *b, size_t tag)
{
    static const size_t widths[] = {0, 1, 2, 4};
    size_t back, count = (tag >> 2) + 1;
    if (take_number(b, widths[tag & 3], &back) < 0)
        return -1;
    if ((tag & 3) == 1) {
        back |= tag >> 5 << 8;
        count = (tag >> 2 & 7) + 4;
    }
    if (back == 0 || back > b->made || count > b->bytes - b->made)
        return -1;
    uint8_t *to = b->begin + b->made;
    const uint8_t *from = to - back;
    if (back >= count)
        memcpy(to, from, count);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = from[i];
    b->made += count;
    return 0;
}

int dt_snappy_unpack(const void *from, size_t count, void *to, size_t bytes)
{
    struct block b = {from, (const uint8_t *)from + count, to, 0, bytes};
    size_t length = 0, byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 28 || take_number(&b, 1, &byte) < 0)
            return -1;
        length |= (byte & 0x7f) << shift;
    }
    if (length != bytes)
        return -1;
    while (b.at < b.end) {
        size_t tag = *b.at++;
        if ((tag & 3 ? take_copy : take_literal)(&b, tag) < 0)
            return -1;
    }
    return b.made == bytes ? 0 : -1;
}
