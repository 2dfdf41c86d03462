/* SPDX-License-Identifier: Apache-2.0 */
/* assign.c - stores the value of a key that is given once, twice or nowhere */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf_impl.h"

/* Notes that the key has the value `now` here and `old` at `before`. */
static void note_clash(struct dt_conf_reader *reader,
                       const struct dt_conf_key *key,
                       const struct dt_tree *node, const char *now,
                       const char *old, struct dt_conf_place before)
{
    bool other = before.source != node->place.source;
    dt_conf_note(&reader->draft.problems, node->place, key->path,
                 "%s%.200s here (%.60s), but %.200s in %s%s",
                 key->clash ? key->clash : "", now, node->key, old,
                 dt_conf_where(&reader->draft.problems, before, node->place),
                 other ? ": write \"auto\" here to take that" : "");
}

/* Whether a value of the file leaves the choice to a DeepSpeed file. */
static bool yields(const char *old, struct dt_conf_place before,
                   const struct dt_tree *node)
{
    return strcmp(old, "deepspeed") == 0 ||
           (strcmp(old, "auto") == 0 && before.source == DT_CONF_OF_FILE &&
            node->place.source == DT_CONF_OF_DEEPSPEED);
}

void dt_conf_set(struct dt_conf_reader *reader, int row,
                 const struct dt_tree *node)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    struct dt_conf_place *place = &reader->draft.conf->place[row],
                         before = *place;
    if (dt_conf_is_overridden(reader, row, node->place))
        return;
    if (node->place.source == DT_CONF_OF_OVERRIDE)
        dt_conf_override(reader, row, node->place.line);
    if (dt_conf_is_null(node))
        return;
    *place = node->place;
    if (dt_conf_is_empty(node)) {
        dt_conf_note(&reader->draft.problems, node->key_place, key->path,
                     "no value: write null for the default");
        return;
    }
    char *old = before.line > 0 && !reader->draft.failed[row]
                    ? dt_conf_value_text(&reader->draft, key)
                    : NULL;
    if (dt_conf_value_set(reader, key, node) < 0)
        reader->draft.failed[row] = true;
    char *now = old && !reader->draft.failed[row]
                    ? dt_conf_value_text(&reader->draft, key)
                    : NULL;
    if (now && strcmp(old, now) != 0 && !yields(old, before, node))
        note_clash(reader, key, node, now, old, before);
    free(now);
    free(old);
}
