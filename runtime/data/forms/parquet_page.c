/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_page.c - unpacks the pages of a column and decodes their values */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/forms/forms_impl.h"

/* --- Snappy: literals and copies, as in its format_description.txt --- */

struct block {
    const uint8_t *at, *end; /* input left */
    uint8_t *begin;          /* output so far: */
    size_t made, bytes;
};

/* Reads a little-endian number. -1: the input ends within it. */
static int take_number(struct block *b, size_t bytes, size_t *value)
{
    if (bytes > (size_t)(b->end - b->at))
        return -1;
    *value = dt_little(b->at, bytes);
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

/* Copies bytes of the output; source and target may overlap. */
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

/* Unpacks `count` bytes, which must become exactly `bytes` bytes, or -1. */
static int unpack_snappy(const void *from, size_t count, void *to, size_t bytes)
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

enum {
    HEADER_BYTES = 1 << 16, /* limit for a page; statistics need less */
    PAGE_BYTES = 1 << 30,
};

enum page { DATA, INDEX, DICTIONARY, DATA_V2 };
enum encoding { PLAIN, PLAIN_DICTIONARY = 2, RLE = 3, RLE_DICTIONARY = 8 };
enum codec { NONE, SNAPPY, GZIP, ZSTD = 6 };

/* The header of a page. */
struct header {
    int type;
    uint64_t encoding, levels; /* levels: their encoding */
    uint64_t bytes, packed;    /* unpacked, and in the file */
    uint64_t values;
    uint64_t def_bytes, rep_bytes; /* of DATA_V2, which are not compressed */
    uint64_t is_packed;            /* whether the rest is */
};

static int bad(const struct dt_parquet_leaf *leaf, const char *what,
               struct dt_error *err)
{
    const struct dt_parquet_node *node = leaf->node;
    char name[100];
    snprintf(name, sizeof(name), "%.*s",
             (int)(node->name_bytes < 80 ? node->name_bytes : 80), node->name);
    dt_line_printable(name, name, sizeof(name));
    return dt_error_set(err, EX_DATAERR, "%s: column %s: %s", leaf->file->path,
                        name, what);
}

/* --- numbers --- */

static void hybrid_init(struct dt_parquet_hybrid *h, const uint8_t *at,
                        const uint8_t *end, unsigned width)
{
    *h = (struct dt_parquet_hybrid){.at = at, .end = end, .width = width};
}

/* Reads the header of the next run. -1: damaged. */
static int next_run(struct dt_parquet_hybrid *h)
{
    struct dt_thrift t = {h->at, h->end, false};
    const uint64_t head = dt_thrift_varint(&t), count = head >> 1;
    const uint64_t left = (uint64_t)(t.end - t.at);
    h->packed = head & 1;
    if (t.bad || count == 0)
        return -1;
    if (h->packed) {
        if (count > UINT32_MAX || count * h->width > left)
            return -1;
        h->left = 8 * count;
        h->bits = t.at;
        h->bit = 0;
        h->at = t.at + count * h->width;
        return 0;
    }
    const size_t bytes = (h->width + 7) / 8;
    if (bytes > left)
        return -1;
    h->value = (uint32_t)dt_little(t.at, bytes);
    h->left = count;
    h->at = t.at + bytes;
    return 0;
}

static uint32_t take_bits(struct dt_parquet_hybrid *h)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < h->width; i++, h->bit++)
        value |= (uint32_t)(h->bits[h->bit / 8] >> h->bit % 8 & 1) << i;
    return value;
}

/* The next number. -1: damaged. */
static int hybrid_next(struct dt_parquet_hybrid *h, uint32_t *value)
{
    if (h->left == 0 && next_run(h) < 0)
        return -1;
    h->left--;
    *value = h->packed ? take_bits(h) : h->value;
    return 0;
}

/* The next level, from 0 to `most`. -1: damaged. */
static int next_level(struct dt_parquet_hybrid *h, int most, int *level)
{
    uint32_t value = 0;
    if (most > 0 && hybrid_next(h, &value) < 0)
        return -1;
    *level = (int)value;
    return value <= (uint32_t)most ? 0 : -1;
}

static unsigned width_of(int most)
{
    return most > 0 ? 32 - (unsigned)__builtin_clz((unsigned)most) : 0;
}

/* --- bytes of a page --- */

static int make_room(const struct dt_parquet_leaf *leaf, uint8_t **buffer,
                     size_t *room, uint64_t bytes, struct dt_error *err)
{
    if (bytes > PAGE_BYTES)
        return bad(leaf, "a page of more than 1 GiB", err);
    if (bytes <= *room && *buffer)
        return 0;
    uint8_t *grown = realloc(*buffer, bytes + 1);
    if (!grown)
        return dt_error_set(err, EX_OSERR, "%s: out of memory",
                            leaf->file->path);
    *buffer = grown;
    *room = bytes;
    return 0;
}

/* Reads DataPageHeader, or DictionaryPageHeader, which has no levels. */
static void read_data_header(struct dt_thrift *t, struct header *h)
{
    const struct dt_thrift_number numbers[] = {{1, &h->values, false},
                                               {2, &h->encoding, false},
                                               {3, &h->levels, false}};
    dt_thrift_numbers(t, numbers, h->type == DATA ? 3 : 2);
}

/* Reads DataPageHeaderV2. */
static void read_v2_header(struct dt_thrift *t, struct header *h)
{
    const struct dt_thrift_number numbers[] = {{1, &h->values, false},
                                               {4, &h->encoding, false},
                                               {5, &h->def_bytes, false},
                                               {6, &h->rep_bytes, false},
                                               {7, &h->is_packed, true}};
    dt_thrift_numbers(t, numbers, 5);
}

/* Reads the header of the next page and moves past it. */
static int read_header(struct dt_parquet_leaf *leaf, struct header *h,
                       struct dt_error *err)
{
    uint8_t bytes[HEADER_BYTES];
    struct dt_parquet_chunk *chunk = &leaf->chunk;
    const uint64_t left = chunk->end - chunk->begin;
    const size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
    struct dt_thrift t = {bytes, bytes + n, false};
    struct dt_thrift_field field = {0};
    *h = (struct header){.type = -1, .levels = RLE, .is_packed = true};
    if (dt_input_at(leaf->file->input, chunk->begin, bytes, n, err) < 0)
        return -1;
    while (dt_thrift_next(&t, &field)) {
        if (field.id == 1)
            h->type = (int)dt_thrift_integer(&t, &field);
        else if (field.id == 2)
            h->bytes = (uint64_t)dt_thrift_integer(&t, &field);
        else if (field.id == 3)
            h->packed = (uint64_t)dt_thrift_integer(&t, &field);
        else if ((field.id == 5 || field.id == 7) &&
                 field.type == THRIFT_STRUCT)
            read_data_header(&t, h);
        else if (field.id == 8 && field.type == THRIFT_STRUCT)
            read_v2_header(&t, h);
        else
            dt_thrift_skip(&t, field.type);
    }
    chunk->begin += (uint64_t)(t.at - bytes);
    if (t.bad || h->type < 0 || h->packed > chunk->end - chunk->begin ||
        h->def_bytes > h->packed || h->rep_bytes > h->packed - h->def_bytes ||
        h->def_bytes + h->rep_bytes > h->bytes)
        return bad(leaf, "a page is damaged", err);
    return 0;
}

static int unpack(const struct dt_parquet_leaf *leaf, const uint8_t *from,
                  size_t count, uint8_t *to, size_t bytes, struct dt_error *err)
{
    static const char *const names[] = {
        [3] = "LZO", [4] = "brotli", [5] = "lz4", [7] = "lz4"};
    const int codec = leaf->chunk.codec;
    char text[120];
    struct dt_error why = {0};
    int rc;
    switch (codec) {
    case SNAPPY:
        rc = unpack_snappy(from, count, to, bytes);
        return rc < 0 ? bad(leaf, "a page is damaged (snappy)", err) : 0;
    case GZIP:
    case ZSTD:
        rc = dt_codec_unpack(codec == GZIP ? DT_CODEC_GZIP : DT_CODEC_ZSTD,
                             from, count, to, bytes, &why);
        return rc < 0 ? bad(leaf, why.text, err) : 0;
    default:
        snprintf(text, sizeof(text),
                 "compressed with %s (codec %d of Parquet), which is not read: "
                 "write it with compression=\"zstd\"",
                 codec > 0 && codec < 8 ? names[codec] : "another codec",
                 codec);
        return bad(leaf, text, err);
    }
}

/* Reads the bytes of a page into leaf->page, levels of DATA_V2 first. */
static int read_bytes(struct dt_parquet_leaf *leaf, const struct header *h,
                      struct dt_error *err)
{
    const size_t levels = h->def_bytes + h->rep_bytes;
    const bool packed = leaf->chunk.codec != NONE && h->is_packed;
    if (make_room(leaf, &leaf->page, &leaf->page_room, h->bytes, err) < 0)
        return -1;
    if (!packed && h->packed != h->bytes)
        return bad(leaf, "a page is damaged", err);
    if (packed &&
        make_room(leaf, &leaf->packed, &leaf->packed_room, h->packed, err) < 0)
        return -1;
    uint8_t *to = packed ? leaf->packed : leaf->page;
    if (dt_input_at(leaf->file->input, leaf->chunk.begin, to, h->packed, err) <
        0)
        return -1;
    leaf->chunk.begin += h->packed;
    if (!packed)
        return 0;
    memcpy(leaf->page, leaf->packed, levels);
    return unpack(leaf, leaf->packed + levels, h->packed - levels,
                  leaf->page + levels, h->bytes - levels, err);
}

/* --- values --- */

static size_t fixed_bytes(enum dt_parquet_type type)
{
    return type == PARQUET_INT64 || type == PARQUET_DOUBLE ? 8
           : type == PARQUET_INT96                         ? 12
                                                           : 4;
}

/* Takes a plain value. -1: the page ends within it. */
static int take_plain(struct dt_parquet_leaf *leaf,
                      struct dt_parquet_value *value)
{
    const enum dt_parquet_type type = leaf->node->type;
    const size_t left = (size_t)(leaf->end - leaf->at);
    size_t n = fixed_bytes(type);
    if (type == PARQUET_BOOLEAN) {
        if (left == 0)
            return -1;
        leaf->truth = *leaf->at >> leaf->bit & 1;
        leaf->bit = (leaf->bit + 1) % 8;
        leaf->at += leaf->bit == 0;
        *value = (struct dt_parquet_value){&leaf->truth, 1};
        return 0;
    }
    if (type == PARQUET_BYTES) {
        if (left < 4)
            return -1;
        n = dt_little(leaf->at, 4);
        leaf->at += 4;
    }
    if (n > (size_t)(leaf->end - leaf->at))
        return -1;
    *value = (struct dt_parquet_value){leaf->at, n};
    leaf->at += n;
    return 0;
}

static int read_dictionary(struct dt_parquet_leaf *leaf, const struct header *h,
                           struct dt_error *err)
{
    const enum dt_parquet_type type = leaf->node->type;
    if (read_bytes(leaf, h, err) < 0)
        return -1;
    if ((h->encoding != PLAIN && h->encoding != PLAIN_DICTIONARY) ||
        type == PARQUET_BOOLEAN || h->values > h->bytes / 4)
        return bad(leaf, "its dictionary is damaged", err);
    uint8_t *page = leaf->page;
    const size_t room = leaf->page_room;
    leaf->page = leaf->dictionary; /* reused for the next page; or NULL */
    leaf->page_room = leaf->dictionary_room;
    leaf->dictionary = page;
    leaf->dictionary_room = room;
    free(leaf->entries);
    leaf->entries = calloc(h->values + 1, sizeof(*leaf->entries));
    leaf->entry_count = h->values;
    if (!leaf->entries)
        return dt_error_set(err, EX_OSERR, "%s: out of memory",
                            leaf->file->path);
    leaf->at = page;
    leaf->end = page + h->bytes;
    for (size_t i = 0; i < leaf->entry_count; i++)
        if (take_plain(leaf, &leaf->entries[i]) < 0)
            return bad(leaf, "its dictionary is damaged", err);
    return 0;
}

static int take_value(struct dt_parquet_leaf *leaf, struct dt_error *err)
{
    uint32_t number = 0;
    if (leaf->node->meaning == PARQUET_OTHER)
        return 0; /* not needed */
    if (leaf->encoding == PLAIN)
        return take_plain(leaf, &leaf->value) < 0
                   ? bad(leaf, "a page has too few values", err)
                   : 0;
    if (hybrid_next(&leaf->numbers, &number) < 0)
        return bad(leaf, "a page has too few values", err);
    if (leaf->encoding == RLE) {
        leaf->truth = (uint8_t)(number & 1);
        leaf->value = (struct dt_parquet_value){&leaf->truth, 1};
        return 0;
    }
    if (number >= leaf->entry_count)
        return bad(leaf, "a value is not in its dictionary", err);
    leaf->value = leaf->entries[number];
    return 0;
}

/* --- pages --- */

/* Takes levels that have their length before them, as in DATA. */
static int take_levels(struct dt_parquet_leaf *leaf,
                       struct dt_parquet_hybrid *h, int most,
                       struct dt_error *err)
{
    if (most == 0)
        return 0;
    if (leaf->end - leaf->at < 4)
        return bad(leaf, "a page is damaged", err);
    const size_t n = dt_little(leaf->at, 4);
    leaf->at += 4;
    if (n > (size_t)(leaf->end - leaf->at))
        return bad(leaf, "a page is damaged", err);
    hybrid_init(h, leaf->at, leaf->at + n, width_of(most));
    leaf->at += n;
    return 0;
}

/* Prepares to decode the values of a page, which begin at leaf->at. */
static int start_values(struct dt_parquet_leaf *leaf, struct dt_error *err)
{
    char text[120];
    if (leaf->node->meaning == PARQUET_OTHER)
        return 0;
    leaf->bit = 0;
    switch (leaf->encoding) {
    case PLAIN:
        return 0;
    case RLE:
        if (leaf->node->type != PARQUET_BOOLEAN)
            break;
        return take_levels(leaf, &leaf->numbers, 1, err);
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
        if (leaf->at == leaf->end) { /* all values are null */
            hybrid_init(&leaf->numbers, leaf->at, leaf->end, 0);
            return 0;
        }
        if (*leaf->at > 32)
            return bad(leaf, "a page is damaged", err);
        hybrid_init(&leaf->numbers, leaf->at + 1, leaf->end, *leaf->at);
        return 0;
    default:
        break;
    }
    snprintf(text, sizeof(text),
             "encoding %d of Parquet, of which plain and dictionaries are "
             "read: pandas writes them",
             leaf->encoding);
    return bad(leaf, text, err);
}

static int start_page(struct dt_parquet_leaf *leaf, const struct header *h,
                      struct dt_error *err)
{
    const struct dt_parquet_node *node = leaf->node;
    if (h->values > leaf->chunk.values || h->levels != RLE)
        return bad(leaf, "a page is damaged", err);
    if (read_bytes(leaf, h, err) < 0)
        return -1;
    leaf->chunk.values -= h->values;
    leaf->page_values = h->values;
    leaf->encoding = (int)h->encoding;
    leaf->at = leaf->page;
    leaf->end = leaf->page + h->bytes;
    if (h->type == DATA_V2) {
        const uint8_t *defs = leaf->page + h->rep_bytes;
        hybrid_init(&leaf->reps, leaf->page, defs, width_of(node->rep));
        hybrid_init(&leaf->defs, defs, defs + h->def_bytes,
                    width_of(node->def));
        leaf->at = defs + h->def_bytes;
    } else if (take_levels(leaf, &leaf->reps, node->rep, err) < 0 ||
               take_levels(leaf, &leaf->defs, node->def, err) < 0) {
        return -1;
    }
    return start_values(leaf, err);
}

/* Reads pages until one has values. 1, or 0 at the end of the chunk. */
static int next_page(struct dt_parquet_leaf *leaf, struct dt_error *err)
{
    while (leaf->page_values == 0) {
        struct header h;
        if (leaf->chunk.values == 0)
            return 0;
        if (leaf->chunk.begin >= leaf->chunk.end)
            return bad(leaf, "pages are missing", err);
        if (read_header(leaf, &h, err) < 0)
            return -1;
        int rc = 0;
        if (h.type == DICTIONARY && leaf->node->meaning != PARQUET_OTHER)
            rc = read_dictionary(leaf, &h, err);
        else if (h.type == DATA || h.type == DATA_V2)
            rc = start_page(leaf, &h, err);
        else
            leaf->chunk.begin += h.packed;
        if (rc < 0)
            return -1;
    }
    return 1;
}

void dt_parquet_leaf_start(struct dt_parquet_leaf *leaf,
                           struct dt_parquet_chunk chunk)
{
    leaf->chunk = chunk;
    leaf->page_values = leaf->entry_count = 0;
    leaf->loaded = false;
}

void dt_parquet_leaf_fini(struct dt_parquet_leaf *leaf)
{
    free(leaf->packed);
    free(leaf->page);
    free(leaf->dictionary);
    free(leaf->entries);
}

int dt_parquet_leaf_look(struct dt_parquet_leaf *leaf, struct dt_error *err)
{
    const struct dt_parquet_node *node = leaf->node;
    if (leaf->loaded)
        return 1;
    int rc = next_page(leaf, err);
    if (rc <= 0)
        return rc;
    if (next_level(&leaf->reps, node->rep, &leaf->rep) < 0 ||
        next_level(&leaf->defs, node->def, &leaf->def) < 0)
        return bad(leaf, "the levels of a page are damaged", err);
    if (leaf->def == node->def && take_value(leaf, err) < 0)
        return -1;
    leaf->page_values--;
    leaf->loaded = true;
    return 1;
}
