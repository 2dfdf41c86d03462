/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c - collects problems in any order and returns them in file order */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "conf/keys/draft.h"

/* Replaces control characters, also C1, which are C2 80 .. C2 9F in UTF-8. */
static void replace_controls(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
    }
}

void dt_conf_note(struct dt_conf_notes *notes, struct dt_conf_place place,
                  const char *key, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    if (notes->count == DT_CONF_NOTES_MAX) {
        notes->left_out++;
        return;
    }
    int n = snprintf(text, sizeof(text) / 2, "%s: %.200s%s",
                     dt_conf_place_text(place, notes->file, notes->deepspeed),
                     key ? key : "", key ? ": " : "");
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    va_end(ap);
    dt_secret_clean(text + n, sizeof(text) - (size_t)n);
    replace_controls(text);
    struct dt_conf_note *note = &notes->note[notes->count];
    note->place = place;
    note->order = notes->count;
    note->said = (size_t)n;
    note->text = strdup(text);
    if (note->text)
        notes->count++;
    else
        notes->out_of_memory = true;
}

const char *dt_conf_where(const struct dt_conf_notes *notes,
                          struct dt_conf_place place, struct dt_conf_place here)
{
    static _Thread_local char text[600];
    if (place.source == here.source && place.source != DT_CONF_OF_OVERRIDE)
        snprintf(text, sizeof(text), "line %d", place.line);
    else
        snprintf(text, sizeof(text), "%s",
                 dt_conf_place_text(place, notes->file, notes->deepspeed));
    return text;
}

/* Lets a note join one of `to` at the same place, and frees its text. False: it
 * is a statement of its own.
 */
static bool join(struct dt_conf_notes *to, struct dt_conf_note *other)
{
    const struct dt_conf_place at = other->place;
    const char *more = other->text + other->said;
    bool unused = strncmp(more, "no effect", 9) == 0;
    for (size_t i = 0; i < to->count; i++) {
        struct dt_conf_note *note = &to->note[i];
        const char *said = note->text + note->said;
        bool becomes = strncmp(said, "becomes ", 8) == 0;
        char *joined = note->text;
        if (note->place.source != at.source || note->place.line != at.line ||
            note->place.column != at.column || (!becomes && !unused))
            continue;
        if (becomes && unused &&
            asprintf(&joined, "%.*s%s", (int)(said - note->text), note->text,
                     more) < 0)
            return false;
        if (becomes && !unused &&
            asprintf(&joined, "%s; %s", note->text, more) < 0)
            return false;
        if (joined != note->text)
            free(note->text);
        note->text = joined;
        free(other->text);
        return true;
    }
    return false;
}

void dt_conf_notes_join(struct dt_conf_notes *to, struct dt_conf_notes *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (join(to, &from->note[i]))
            continue;
        if (to->count < DT_CONF_NOTES_MAX) {
            to->note[to->count] = from->note[i];
            to->note[to->count].order = to->count;
            to->count++;
        } else {
            free(from->note[i].text);
            to->left_out++;
        }
    }
    to->left_out += from->left_out;
    to->out_of_memory |= from->out_of_memory;
    from->count = 0;
}

static int by_place(const void *left, const void *right)
{
    const struct dt_conf_note *a = left, *b = right;
    if (a->place.source != b->place.source)
        return a->place.source < b->place.source ? -1 : 1;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    if (a->place.column != b->place.column)
        return a->place.column < b->place.column ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

void dt_conf_notes_move(struct dt_conf_notes *notes,
                        struct dt_conf_problems *list)
{
    size_t count = notes->count;
    qsort(notes->note, count, sizeof(notes->note[0]), by_place);
    list->count = 0;
    list->text = calloc(count + 1, sizeof(list->text[0]));
    for (size_t i = 0; i < count; i++) {
        if (list->text)
            list->text[list->count++] = notes->note[i].text;
        else
            free(notes->note[i].text);
    }
    char more[600];
    snprintf(more, sizeof(more), "%.500s: and %zu more", notes->file,
             notes->left_out);
    if (list->text && notes->left_out > 0 && (list->text[count] = strdup(more)))
        list->count++;
    notes->count = 0;
}

void dt_conf_problems_fini(struct dt_conf_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        free(problems->text[i]);
    free(problems->text);
    problems->text = NULL;
    problems->count = 0;
}
