/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - copies records, with texts and arrays behind them in one piece */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "report/entry.h"

/* An entry with room for so many bytes behind it, at *room. */
static struct dt_entry *create(enum dt_entry_kind kind, size_t bytes,
                               char **room)
{
    struct dt_entry *entry = malloc(sizeof(*entry) + bytes);
    if (!entry)
        return NULL;
    entry->kind = kind;
    *room = (char *)(entry + 1);
    return entry;
}

static void *put(char **room, const void *data, size_t bytes)
{
    void *copy = data ? memcpy(*room, data, bytes) : NULL;
    *room += data ? bytes : 0;
    return copy;
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static char *put_text(char **room, const char *text)
{
    return put(room, text, text_bytes(text));
}

struct dt_entry *dt_entry_record(const struct dt_report_record *record,
                                 double time)
{
    size_t bytes = 0;
    char *room;
    for (size_t i = 0; i < record->count; i++)
        bytes += text_bytes(record->value[i].name);
    struct dt_entry *entry = create(DT_ENTRY_RECORD, bytes, &room);
    if (!entry)
        return NULL;
    entry->time = time;
    entry->record = *record;
    for (size_t i = 0; i < record->count; i++)
        entry->record.value[i].name = put_text(&room, record->value[i].name);
    return entry;
}

struct dt_entry *dt_entry_event(const struct dt_report_event *event)
{
    const size_t bytes = text_bytes(event->kind) + text_bytes(event->host) +
                         text_bytes(event->text) +
                         text_bytes(event->allocation);
    char *room;
    struct dt_entry *entry = create(DT_ENTRY_EVENT, bytes, &room);
    if (!entry)
        return NULL;
    struct dt_report_event *e = &entry->event;
    *e = *event;
    e->kind = put_text(&room, event->kind);
    e->host = put_text(&room, event->host);
    e->text = put_text(&room, event->text);
    e->allocation = put_text(&room, event->allocation);
    return entry;
}

struct dt_entry *dt_entry_ranks(const struct dt_report_ranks *ranks)
{
    enum { ARRAYS = 5 };
    const size_t bytes = ranks->count * sizeof(double);
    char *room;
    struct dt_entry *entry = create(DT_ENTRY_RANKS, ARRAYS * bytes, &room);
    if (!entry)
        return NULL;
    struct dt_report_ranks *r = &entry->ranks;
    *r = *ranks;
    r->compute_s = put(&room, ranks->compute_s, bytes);
    r->comm_s = put(&room, ranks->comm_s, bytes);
    r->data_wait_s = put(&room, ranks->data_wait_s, bytes);
    r->mem = put(&room, ranks->mem, bytes);
    r->power_w = put(&room, ranks->power_w, bytes);
    return entry;
}
