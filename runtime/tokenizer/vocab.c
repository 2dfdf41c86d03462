/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocab.c - the vocabulary, tries and hash tables: texts and numbers by their
 * keys
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tokenizer/tokenizer_impl.h"

/* --- a hash table of numbers --- */

/* Allocates free slots. -1: out of memory. */
static int allocate_slots(struct dt_tok_map *map, size_t slots)
{
    map->slots = malloc(slots * sizeof(map->slots[0]));
    if (!map->slots)
        return -1;
    memset(map->slots, 0xff, slots * sizeof(map->slots[0]));
    map->mask = slots - 1;
    map->count = 0;
    return 0;
}

int dt_tok_map_init(struct dt_tok_map *map, size_t count)
{
    size_t slots = 8;
    while (slots < count + count / 2)
        slots *= 2;
    return allocate_slots(map, slots);
}

void dt_tok_map_fini(struct dt_tok_map *map)
{
    free(map->slots);
    *map = (struct dt_tok_map){0};
}

static void put_slot(struct dt_tok_map *map, uint64_t key, uint64_t value)
{
    size_t i = dt_tok_map_home(map, key);
    while (map->slots[i].value != DT_TOK_NONE && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    map->count += map->slots[i].value == DT_TOK_NONE;
    map->slots[i] = (struct dt_tok_slot){key, value};
}

int dt_tok_map_put(struct dt_tok_map *map, uint64_t key, uint64_t value)
{
    if ((map->count + 1) * 4 > (map->mask + 1) * 3) {
        struct dt_tok_map grown;
        if (allocate_slots(&grown, 2 * (map->mask + 1)) < 0)
            return -1;
        for (size_t i = 0; i <= map->mask; i++)
            if (map->slots[i].value != DT_TOK_NONE)
                put_slot(&grown, map->slots[i].key, map->slots[i].value);
        free(map->slots);
        *map = grown;
    }
    put_slot(map, key, value);
    return 0;
}

/* --- byte strings, found byte by byte --- */

static int trie_add_node(struct dt_tok_trie *trie)
{
    if (trie->count == trie->capacity) {
        size_t capacity = 2 * trie->capacity + 64;
        if (!dt_tok_grow(&trie->values, capacity, sizeof(trie->values[0])))
            return -1;
        trie->capacity = capacity;
    }
    trie->values[trie->count++] = -1;
    return 0;
}

int dt_tok_trie_init(struct dt_tok_trie *trie)
{
    return dt_tok_map_init(&trie->nodes, 0) < 0 ? -1 : trie_add_node(trie);
}

void dt_tok_trie_fini(struct dt_tok_trie *trie)
{
    dt_tok_map_fini(&trie->nodes);
    free(trie->values);
    *trie = (struct dt_tok_trie){0};
}

int dt_tok_trie_add(struct dt_tok_trie *trie, const char *s, size_t n,
                    int32_t value)
{
    uint64_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t next = dt_tok_trie_next(trie, node, s[i]);
        if (next == DT_TOK_NONE) {
            next = trie->count;
            if (trie_add_node(trie) < 0 ||
                dt_tok_map_put(&trie->nodes, node * 256 + (unsigned char)s[i],
                               next) < 0)
                return -1;
        }
        node = next;
    }
    if (trie->values[node] < 0)
        trie->values[node] = value;
    return 0;
}

int32_t dt_tok_trie_longest(const struct dt_tok_trie *trie, const char *s,
                            size_t n, size_t *bytes)
{
    int32_t found = -1;
    uint64_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = dt_tok_trie_next(trie, node, s[i]);
        if (node == DT_TOK_NONE)
            break;
        if (trie->values[node] >= 0) {
            found = trie->values[node];
            *bytes = i + 1;
        }
    }
    return found;
}

/* --- texts and their ids --- */

int dt_tok_vocab_init(struct dt_tok_vocab *vocab, size_t id_end, size_t count)
{
    size_t slots = 8;
    while (slots < 2 * count)
        slots *= 2;
    vocab->entries = calloc(id_end + 1, sizeof(vocab->entries[0]));
    vocab->index = malloc(slots * sizeof(vocab->index[0]));
    if (!vocab->entries || !vocab->index)
        return -1;
    memset(vocab->index, 0xff, slots * sizeof(vocab->index[0]));
    vocab->mask = slots - 1;
    vocab->count = id_end;
    return 0;
}

void dt_tok_vocab_fini(struct dt_tok_vocab *vocab)
{
    free(vocab->entries);
    free(vocab->index);
    free(vocab->texts);
    *vocab = (struct dt_tok_vocab){0};
}

/* The place of a text in the index, or the free place for a new text with this
 * tag.
 */
static struct dt_tok_place *find_place(const struct dt_tok_vocab *vocab,
                                       const char *text, size_t bytes,
                                       uint32_t *tag)
{
    const uint64_t hash = XXH3_64bits(text, bytes);
    *tag = (uint32_t)(hash >> 32);
    for (size_t i = hash & vocab->mask;; i = (i + 1) & vocab->mask) {
        struct dt_tok_place *place = &vocab->index[i];
        if (place->id < 0 ||
            (place->tag == *tag && vocab->entries[place->id].bytes == bytes &&
             !memcmp(dt_tok_vocab_text(vocab, (size_t)place->id), text, bytes)))
            return place;
    }
}

int32_t dt_tok_vocab_find(const struct dt_tok_vocab *vocab, const char *text,
                          size_t bytes)
{
    uint32_t tag;
    return find_place(vocab, text, bytes, &tag)->id;
}

int32_t dt_tok_vocab_model(const struct dt_tok_vocab *vocab, const char *text,
                           size_t bytes)
{
    int32_t id = dt_tok_vocab_find(vocab, text, bytes);
    return id >= 0 && vocab->entries[id].flags & DT_TOK_MODEL ? id : -1;
}

static int append_text(struct dt_tok_vocab *vocab, const char *text,
                       size_t bytes)
{
    size_t need = vocab->texts_bytes + bytes + 1;
    if (need > vocab->texts_capacity) {
        size_t capacity = need + need / 2 + 4096;
        char *grown =
            capacity > UINT32_MAX ? NULL : realloc(vocab->texts, capacity);
        if (!grown)
            return -1;
        vocab->texts = grown;
        vocab->texts_capacity = capacity;
    }
    memcpy(vocab->texts + vocab->texts_bytes, text, bytes);
    vocab->texts[need - 1] = '\0';
    vocab->texts_bytes = need;
    return 0;
}

int dt_tok_vocab_show(struct dt_tok_vocab *vocab, int32_t id, const char *text,
                      size_t bytes)
{
    struct dt_tok_entry *entry = &vocab->entries[id];
    entry->shown = (uint32_t)vocab->texts_bytes;
    entry->shown_bytes = (uint32_t)bytes;
    entry->flags |= DT_TOK_SHOWN;
    return append_text(vocab, text, bytes);
}

/* dt_tok_shown for text that is not NUL-terminated. */
static const char *show_bytes(const char *text, size_t bytes,
                              char out[DT_TOK_SHOWN_BYTES])
{
    char copy[DT_TOK_SHOWN_BYTES];
    size_t n = bytes < sizeof(copy) - 1 ? bytes : sizeof(copy) - 1;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return dt_tok_shown(copy, 60, out);
}

int dt_tok_vocab_add(struct dt_tok_vocab *vocab, int32_t id, const char *text,
                     size_t bytes, unsigned flags, struct dt_error *err)
{
    struct dt_tok_entry *entry = &vocab->entries[id];
    char shown[DT_TOK_SHOWN_BYTES], other[DT_TOK_SHOWN_BYTES];
    uint32_t tag;
    struct dt_tok_place *place = find_place(vocab, text, bytes, &tag);
    const int32_t known = place->id;
    if (known >= 0 && known != id)
        return dt_error_set(err, EX_DATAERR, "\"%s\" has the ids %d and %d",
                            show_bytes(text, bytes, shown), (int)known,
                            (int)id);
    if (known < 0 && entry->flags)
        return dt_error_set(
            err, EX_DATAERR, "id %d is \"%s\" and \"%s\"", (int)id,
            dt_tok_shown(dt_tok_vocab_text(vocab, (size_t)id), 60, other),
            show_bytes(text, bytes, shown));
    if (known < 0) {
        size_t at = vocab->texts_bytes;
        if (append_text(vocab, text, bytes) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
        entry->text = (uint32_t)at;
        entry->bytes = (uint32_t)bytes;
        *place = (struct dt_tok_place){id, tag};
    }
    entry->flags |= flags;
    return 0;
}
