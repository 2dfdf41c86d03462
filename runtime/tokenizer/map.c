/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - a hash table of numbers */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

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
