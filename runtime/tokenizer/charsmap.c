/* SPDX-License-Identifier: Apache-2.0 */
/* charsmap.c - SentencePiece's table of replacements of text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tokenizer/tokenizer_impl.h"

enum {
    SHORT_GRAPHEME = 5, /* bytes */
    MAP_HEADER = 4,
};

struct dt_tok_charsmap {
    uint32_t *units; /* the double array */
    size_t count;
    char *texts;
    size_t bytes;
    bool same[128]; /* an ASCII character with no entry */
};

/* --- the double array: a unit for each state --- */

static bool unit_ends(uint32_t unit) /* an entry ends here */
{
    return unit >> 8 & 1;
}

static uint32_t unit_value(uint32_t unit)
{
    return unit & 0x7fffffff;
}

/* The byte of the transition to this unit; larger than a byte in a unit with a
 * value.
 */
static uint32_t unit_label(uint32_t unit)
{
    return unit & 0x800000ff;
}

/* The offset of the next units, which are at (place ^ offset ^ byte). */
static uint32_t unit_offset(uint32_t unit)
{
    return unit >> 10 << ((unit & 0x200) >> 6);
}

/* The unit at a place; outside of a damaged array it is 0, which has no next.
 */
static uint32_t map_unit(const struct dt_tok_charsmap *map, size_t place)
{
    return place < map->count ? map->units[place] : 0;
}

/* Finds the shortest or the longest prefix with an entry, and the value of the
 * entry. Returns the length of the prefix, 0: none.
 */
static size_t map_find(const struct dt_tok_charsmap *map, const char *s,
                       size_t n, bool shortest, uint32_t *value)
{
    size_t place = unit_offset(map_unit(map, 0)), found = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)s[i];
        place ^= byte;
        uint32_t unit = map_unit(map, place);
        if (place >= map->count || unit_label(unit) != byte)
            break;
        place ^= unit_offset(unit);
        if (!unit_ends(unit))
            continue;
        found = i + 1;
        *value =
            place < map->count ? unit_value(map_unit(map, place)) : UINT32_MAX;
        if (shortest)
            break;
    }
    return found;
}

/* The text of an entry. -1: the table is damaged. */
static int map_text(const struct dt_tok_charsmap *map, uint32_t value,
                    const char **to, size_t *bytes, struct dt_error *err)
{
    /* the last text is terminated by map_read */
    if (value >= map->bytes || (map->texts[value] & 0xc0) == 0x80)
        return dt_error_set(err, EX_DATAERR,
                            "precompiled_charsmap: an entry is outside of the "
                            "texts");
    *to = map->texts + value;
    *bytes = strlen(*to);
    return 0;
}

int dt_tok_charsmap_prefix(const struct dt_tok_charsmap *map, const char *s,
                           size_t n, const char **to, size_t *bytes,
                           struct dt_error *err)
{
    uint32_t value;
    size_t found = map_find(map, s, n, false, &value);
    if (found > 0 && map_text(map, value, to, bytes, err) < 0)
        return -1;
    if (found > 0 && found < n && (s[found] & 0xc0) == 0x80)
        return dt_error_set(err, EX_DATAERR,
                            "precompiled_charsmap: an entry is a part of a "
                            "character");
    return (int)found;
}

/* --- reading --- */

static uint32_t load_le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void mark_same(struct dt_tok_charsmap *map)
{
    uint32_t value;
    for (size_t i = 0; i < sizeof(map->same); i++) {
        char c = (char)i;
        map->same[i] = map_find(map, &c, 1, true, &value) == 0;
    }
}

static int map_read(struct dt_tok_charsmap *map, const unsigned char *data,
                    size_t bytes, struct dt_error *err)
{
    size_t array = bytes > MAP_HEADER ? load_le32(data) : 0;
    if (array == 0 || array % 4 != 0 || array >= bytes - MAP_HEADER)
        return dt_error_set(err, EX_DATAERR,
                            "precompiled_charsmap: expected the size of an "
                            "array, the array, and texts");
    map->count = array / 4;
    map->bytes = bytes - MAP_HEADER - array;
    map->units = malloc(map->count * sizeof(map->units[0]));
    map->texts = malloc(map->bytes + 1);
    if (!map->units || !map->texts)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < map->count; i++)
        map->units[i] = load_le32(data + MAP_HEADER + 4 * i);
    memcpy(map->texts, data + MAP_HEADER + array, map->bytes);
    map->texts[map->bytes] = '\0';
    if (dt_utf8_check(map->texts, map->bytes) < map->bytes)
        return dt_error_set(err, EX_DATAERR,
                            "precompiled_charsmap: its texts are not UTF-8");
    mark_same(map);
    return 0;
}

struct dt_tok_charsmap *dt_tok_charsmap_create(const void *data, size_t bytes,
                                               struct dt_error *err)
{
    struct dt_tok_charsmap *map = calloc(1, sizeof(*map));
    if (!map) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    if (map_read(map, data, bytes, err) == 0)
        return map;
    dt_tok_charsmap_destroy(map);
    return NULL;
}

void dt_tok_charsmap_destroy(struct dt_tok_charsmap *map)
{
    if (!map)
        return;
    free(map->units);
    free(map->texts);
    free(map);
}

struct dt_tok_charsmap *dt_tok_charsmap_base64(const char *text,
                                               struct dt_error *err)
{
    size_t n = strlen(text);
    unsigned char *data = malloc(n + 1);
    struct dt_tok_charsmap *map = NULL;
    if (!data) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    ptrdiff_t bytes = dt_base64_decode(text, n, data);
    if (bytes < 0)
        dt_error_set(err, EX_DATAERR, "precompiled_charsmap: expected base64");
    else
        map = dt_tok_charsmap_create(data, (size_t)bytes, err);
    free(data);
    return map;
}

/* --- applying it as tokenizers does --- */

/* Appends the replacement of s[from..to). Returns 1, 0: it has no entry, or -1.
 */
static int put_entry(const struct dt_tok_charsmap *map,
                     const struct dt_tok_span *span, size_t from, size_t to,
                     struct dt_tok_text *text, struct dt_error *err)
{
    uint32_t value;
    const char *becomes = NULL;
    size_t bytes = 0;
    if (map_find(map, span->s + from, to - from, true, &value) == 0)
        return 0;
    if (map_text(map, value, &becomes, &bytes, err) < 0)
        return -1;
    dt_tok_text_add(text, becomes, bytes, dt_tok_span_begin(span, from),
                    dt_tok_span_end(span, to - 1));
    return 1;
}

static int put_grapheme(const struct dt_tok_charsmap *map,
                        const struct dt_tok_span *span, size_t from, size_t to,
                        struct dt_tok_text *text, struct dt_error *err)
{
    int rc = to - from <= SHORT_GRAPHEME
                 ? put_entry(map, span, from, to, text, err)
                 : 0;
    size_t bytes;
    for (size_t i = from; rc == 0 && i < to; i += bytes) {
        dt_tok_decode(span->s + i, &bytes);
        int one = put_entry(map, span, i, i + bytes, text, err);
        if (one == 0)
            dt_tok_text_copy(text, span, i, i + bytes);
        rc = one < 0 ? -1 : 0;
    }
    return rc < 0 ? -1 : 0;
}

/* The end of the characters from i on that stay the same: ASCII without an
 * entry, not followed by a character that might belong to the same grapheme.
 */
static size_t end_of_same(const struct dt_tok_charsmap *map, const char *s,
                          size_t n, size_t i)
{
    while (i < n && (unsigned char)s[i] < 0x80 && s[i] != '\r' &&
           map->same[(unsigned char)s[i]] &&
           (i + 1 == n || (unsigned char)s[i + 1] < 0x80))
        i++;
    return i;
}

int dt_tok_charsmap_apply(const struct dt_tok_charsmap *map,
                          const struct dt_tok_span *span,
                          struct dt_tok_text *text, struct dt_error *err)
{
    for (size_t i = 0; i < span->n;) {
        size_t end = end_of_same(map, span->s, span->n, i);
        dt_tok_text_copy(text, span, i, end);
        i = end;
        if (i == span->n)
            break;
        end = i + dt_tok_grapheme(span->s + i, span->n - i);
        if (put_grapheme(map, span, i, end, text, err) < 0)
            return -1;
        i = end;
    }
    return 0;
}
