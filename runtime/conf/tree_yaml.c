/* SPDX-License-Identifier: Apache-2.0 */
/* tree_yaml.c - builds a tree with file positions from the events of libyaml */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "conf/conf.h"
#include "conf/tree.h"

struct builder {
    yaml_parser_t parser;
    struct dt_conf_notes *notes;
    const char *text;
    size_t bytes, nodes;
    bool failed; /* stop: nothing more can be read */
};

static struct dt_conf_place place_of(yaml_mark_t mark)
{
    return (struct dt_conf_place){.line = (int)mark.line + 1,
                                  .column = (int)mark.column + 1};
}

/* The byte at a mark, whose column counts characters, or 0. */
static char byte_at(const struct builder *b, yaml_mark_t mark)
{
    const char *p = b->text, *end = b->text + b->bytes;
    for (size_t line = 0; line < mark.line && p < end; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        p = nl ? nl + 1 : end;
    }
    for (size_t column = 0; p < end; p++) {
        if (((unsigned char)*p & 0xc0) != 0x80 && column++ == mark.column)
            return *p;
    }
    return 0;
}

/* The place of a byte offset, which is all that libyaml's reader reports. */
static struct dt_conf_place place_of_offset(const struct builder *b,
                                            size_t offset)
{
    struct dt_conf_place place = {.line = 1, .column = 1};
    for (size_t i = 0; i < offset && i < b->bytes; i++) {
        if (b->text[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)b->text[i] & 0xc0) != 0x80) {
            place.column++;
        }
    }
    return place;
}

static void note_syntax(struct builder *b)
{
    const yaml_parser_t *p = &b->parser;
    struct dt_conf_place place = place_of(p->problem_mark);
    switch (p->error) {
    case YAML_MEMORY_ERROR:
        b->notes->out_of_memory = true;
        break;
    case YAML_READER_ERROR:
        place = place_of_offset(b, p->problem_offset);
        if (strstr(p->problem, "U")) /* it names UTF-8 or Unicode */
            dt_conf_note(b->notes, place, NULL, "not UTF-8: %s", p->problem);
        else
            dt_conf_note(b->notes, place, NULL,
                         "control character 0x%02x in the text",
                         (unsigned)p->problem_value);
        break;
    default:
        if (byte_at(b, p->problem_mark) == '\t')
            dt_conf_note(b->notes, place, NULL,
                         "YAML: a tab cannot indent, use spaces");
        else if (p->context)
            dt_conf_note(b->notes, place, NULL, "YAML: %s %s in line %zu",
                         p->problem, p->context, p->context_mark.line + 1);
        else
            dt_conf_note(b->notes, place, NULL, "YAML: %s", p->problem);
    }
}

static void next_event(struct builder *b, yaml_event_t *event)
{
    memset(event, 0, sizeof(*event));
    if (!b->failed && !yaml_parser_parse(&b->parser, event)) {
        note_syntax(b);
        b->failed = true;
    }
}

static void *fail_memory(struct builder *b)
{
    b->notes->out_of_memory = true;
    b->failed = true;
    return NULL;
}

void dt_tree_destroy(struct dt_tree *tree)
{
    while (tree) {
        struct dt_tree *next = tree->next;
        dt_tree_destroy(tree->child);
        free(tree->key);
        free(tree->text);
        free(tree->written);
        free(tree);
        tree = next;
    }
}

bool dt_tree_may_grow(struct dt_conf_notes *notes, struct dt_conf_place place,
                      int depth, size_t nodes)
{
    if (depth == DT_TREE_DEPTH_MAX)
        dt_conf_note(notes, place, NULL, "nested deeper than %d levels",
                     DT_TREE_DEPTH_MAX);
    else if (nodes > DT_TREE_NODES_MAX)
        dt_conf_note(notes, place, NULL, "more than %d values",
                     DT_TREE_NODES_MAX);
    else
        return true;
    return false;
}

bool dt_tree_key_is_new(struct dt_conf_notes *notes, const struct dt_tree *map,
                        const char *key, struct dt_conf_place place)
{
    for (const struct dt_tree *c = map->child; c; c = c->next)
        if (strcmp(c->key, key) == 0) {
            dt_conf_note(notes, place, key,
                         "given twice in one section, first in line %d",
                         c->key_place.line);
            return false;
        }
    return true;
}

/* Notes an anchor, alias or tag. True if there was one. */
static bool refuse_feature(struct builder *b, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    struct dt_conf_place place = place_of(event->start_mark);
    if (event->type == YAML_ALIAS_EVENT) {
        dt_conf_note(b->notes, place, NULL,
                     "YAML aliases (*%.60s) are not "
                     "supported: write the value here",
                     (const char *)event->data.alias.anchor);
        return true;
    }
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor)
        dt_conf_note(b->notes, place, NULL,
                     "YAML anchors (&%.60s) are not "
                     "supported: write the value where it is used",
                     (const char *)anchor);
    if (tag)
        dt_conf_note(b->notes, place, NULL,
                     "YAML tags (%.60s) are not supported: remove it",
                     (const char *)tag);
    return anchor || tag;
}

static struct dt_tree *build_value(struct builder *b, yaml_event_t *event,
                                   int depth);

static void build_list(struct builder *b, struct dt_tree *list, int depth)
{
    struct dt_tree **tail = &list->child;
    while (!b->failed) {
        yaml_event_t event;
        next_event(b, &event);
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end && !b->failed && (*tail = build_value(b, &event, depth)))
            tail = &(*tail)->next;
        yaml_event_delete(&event);
        if (end)
            break;
    }
}

/* False, with a note, if the key is not allowed in this map. */
static bool check_key(struct builder *b, const struct dt_tree *map,
                      const struct dt_tree *key)
{
    if (key->kind != DT_TREE_SCALAR) {
        dt_conf_note(b->notes, key->place, NULL, "a key must be a name");
        return false;
    }
    if (strcmp(key->text, "<<") == 0 && !key->quoted) {
        dt_conf_note(b->notes, key->place, NULL,
                     "YAML merge keys (<<) are "
                     "not supported: write the keys here");
        return false;
    }
    return dt_tree_key_is_new(b->notes, map, key->text, key->place);
}

static void build_map(struct builder *b, struct dt_tree *map, int depth)
{
    struct dt_tree **tail = &map->child;
    while (!b->failed) {
        yaml_event_t event;
        next_event(b, &event);
        bool end = event.type == YAML_MAPPING_END_EVENT;
        struct dt_tree *key = end ? NULL : build_value(b, &event, depth);
        yaml_event_delete(&event);
        if (end || b->failed) {
            dt_tree_destroy(key);
            break;
        }
        bool good = key && check_key(b, map, key);
        next_event(b, &event);
        struct dt_tree *value =
            b->failed ? NULL : build_value(b, &event, depth);
        yaml_event_delete(&event);
        if (good && value) {
            value->key = key->text;
            value->key_place = key->place;
            key->text = NULL;
            *tail = value;
            tail = &value->next;
        } else {
            dt_tree_destroy(value);
        }
        dt_tree_destroy(key);
    }
}

/* Builds the value that starts with `event`. NULL: refused, or b->failed. */
static struct dt_tree *build_value(struct builder *b, yaml_event_t *event,
                                   int depth)
{
    struct dt_conf_place place = place_of(event->start_mark);
    if (b->failed)
        return NULL;
    if (!dt_tree_may_grow(b->notes, place, depth, ++b->nodes)) {
        b->failed = true;
        return NULL;
    }
    bool refused = refuse_feature(b, event);
    if (event->type == YAML_ALIAS_EVENT)
        return NULL;
    struct dt_tree *node = calloc(1, sizeof(*node));
    if (!node)
        return fail_memory(b);
    node->place = place;
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        node->kind = DT_TREE_LIST;
        build_list(b, node, depth + 1);
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        node->kind = DT_TREE_MAP;
        build_map(b, node, depth + 1);
    } else {
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        node->text = strdup((const char *)event->data.scalar.value);
        if (!node->text)
            fail_memory(b);
    }
    if (refused || b->failed) {
        dt_tree_destroy(node);
        return NULL;
    }
    return node;
}

/* Builds the root; notes a second document. */
static struct dt_tree *build_stream(struct builder *b)
{
    struct dt_tree *tree = NULL;
    bool more = false;
    while (!b->failed) {
        yaml_event_t event;
        next_event(b, &event);
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && more) {
            dt_conf_note(b->notes, place_of(event.start_mark), NULL,
                         "a second document begins here: one file holds one");
            b->failed = true;
        } else if (type == YAML_SCALAR_EVENT || type == YAML_ALIAS_EVENT ||
                   type == YAML_SEQUENCE_START_EVENT ||
                   type == YAML_MAPPING_START_EVENT) {
            tree = build_value(b, &event, 0);
            more = true;
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            break;
    }
    return tree;
}

struct dt_tree *dt_tree_parse(const char *text, size_t bytes,
                              struct dt_conf_notes *notes)
{
    /* libyaml would count a byte order mark as a column */
    const size_t mark =
        bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct builder b = {
        .notes = notes, .text = text + mark, .bytes = bytes - mark};
    if (!yaml_parser_initialize(&b.parser)) {
        notes->out_of_memory = true;
        return NULL;
    }
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)b.text,
                                 b.bytes);
    const struct dt_conf_place start = {.line = 1, .column = 1};
    size_t notes_before = notes->count;
    struct dt_tree *tree = build_stream(&b);
    yaml_parser_delete(&b.parser);
    if (!tree && !notes->out_of_memory && notes->count == notes_before)
        dt_conf_note(notes, start, NULL, "the file is empty");
    return tree;
}

const char *dt_conf_library(void)
{
    static char text[32];
    snprintf(text, sizeof(text), "libyaml %s", yaml_get_version_string());
    return text;
}
