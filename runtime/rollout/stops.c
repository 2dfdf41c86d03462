/* SPDX-License-Identifier: Apache-2.0 */
/* stops.c - reads generation_config.json */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "rollout/stops.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

static void read_ids(const json_t *eos, size_t vocab_size, int32_t *ids,
                     size_t room, size_t *count)
{
    size_t all = json_is_array(eos) ? json_array_size(eos) : 1;
    for (size_t i = 0; i < all && *count < room; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value >= 0 && value < (json_int_t)vocab_size)
            ids[(*count)++] = (int32_t)value;
    }
}

int dt_stops_read(const char *dir, size_t vocab_size, int32_t *ids, size_t room,
                  size_t *count, struct dt_error *err)
{
    char path[PATH_MAX + 32];
    *count = 0;
    snprintf(path, sizeof(path), "%s/generation_config.json", dir);
    if (access(path, F_OK) < 0)
        return 0;
    char *text = dt_file_read(path, CONFIG_MAX_BYTES, err);
    if (!text)
        return -1;
    json_t *root = dt_json_parse(path, text, err);
    free(text);
    if (!root)
        return -1;
    read_ids(json_object_get(root, "eos_token_id"), vocab_size, ids, room,
             count);
    json_decref(root);
    return 0;
}
