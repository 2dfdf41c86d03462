/* SPDX-License-Identifier: Apache-2.0 */
/* trie.c - byte strings and their values, found byte by byte */
#include "config.h"

#include <stdlib.h>

#include "tokenizer/basics.h"

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
