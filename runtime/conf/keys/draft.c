/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - problems of a draft in file order, and the keys of its file */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "conf/keys/draft.h"

/* --- notes --- */

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

int dt_conf_note_error(struct dt_conf_notes *notes, struct dt_conf_place place,
                       const char *key, const struct dt_error *err)
{
    if (err->status == EX_OSERR)
        notes->out_of_memory = true;
    else
        dt_conf_note(notes, place, key, "%s", err->text);
    return -1;
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

/* --- places --- */

const char *dt_conf_place_text(struct dt_conf_place place, const char *file,
                               const char *deepspeed)
{
    static _Thread_local char text[600];
    if (place.source == DT_CONF_OF_OVERRIDE)
        return "--set";
    snprintf(text, sizeof(text), "%.500s:%d:%d",
             place.source == DT_CONF_OF_DEEPSPEED ? deepspeed : file,
             place.line, place.column);
    return text;
}

/* The place of a key in messages. */
static const char *place_text(const struct dt_conf *conf, const char *path,
                              const char *file)
{
    return dt_conf_place_text(dt_conf_place_of(conf, path), file,
                              conf->distributed.deepspeed_config);
}

struct dt_conf_place *dt_conf_place_for(struct dt_conf *conf, const char *path)
{
    return &conf->place[dt_conf_key_find(path)];
}

bool dt_conf_given(const struct dt_conf *conf, const char *path)
{
    return conf->place[dt_conf_key_find(path)].line > 0;
}

struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path)
{
    const struct dt_conf_place start = {.line = 1, .column = 1};
    return dt_conf_given(conf, path) ? conf->place[dt_conf_key_find(path)]
                                     : start;
}

bool dt_conf_is_later(const char *text)
{
    return strstr(text, "${SLURM_") != NULL;
}

int dt_conf_error_set(const struct dt_conf *conf, const char *path,
                      struct dt_error *err, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return dt_error_set(err, EX_CONFIG, "%s: %s: %s",
                        place_text(conf, path, conf->file), path, text);
}

int dt_conf_print_problem(const struct dt_conf *conf, const char *file,
                          const char *path, const char *text, FILE *out)
{
    fprintf(out, "%s: %s: %s\n", place_text(conf, path, file), path, text);
    return EX_CONFIG;
}

/* --- keys --- */

bool dt_conf_has_failed(const struct dt_conf_draft *draft, const char *path)
{
    return draft->failed[dt_conf_key_find(path)];
}

bool dt_conf_knows_algorithm(const struct dt_conf_draft *draft)
{
    return dt_conf_given(draft->conf, "algorithm") &&
           !dt_conf_has_failed(draft, "algorithm");
}

/* Whether the value is `auto`, where that is also the default. */
static bool is_auto(const struct dt_conf *conf, const char *path)
{
    const struct dt_conf_key *key = &dt_conf_keys[dt_conf_key_find(path)];
    if (!key->fallback || strcmp(key->fallback, "auto") != 0)
        return false;
    char *text = dt_conf_text_of(conf, key);
    bool result = text && strcmp(text, "auto") == 0;
    free(text);
    return result;
}

bool dt_conf_is_left(struct dt_conf *conf, const char *path)
{
    struct dt_conf_place *place = dt_conf_place_for(conf, path);
    if (place->line > 0 && !is_auto(conf, path))
        return false;
    place->line = -1;
    return true;
}

char *dt_conf_value_text(struct dt_conf_draft *draft,
                         const struct dt_conf_key *key)
{
    char *text = dt_conf_text_of(draft->conf, key);
    if (!text)
        draft->problems.out_of_memory = true;
    return text;
}

/* Takes the quotes out of a value, which a list of words may have. */
static void remove_quotes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '"')
            *to++ = *from;
    *to = '\0';
}

bool dt_conf_differs(struct dt_conf_draft *draft, const char *path)
{
    const struct dt_conf_key *key = &dt_conf_keys[dt_conf_key_find(path)];
    char *text = dt_conf_given(draft->conf, path)
                     ? dt_conf_value_text(draft, key)
                     : NULL;
    if (text)
        remove_quotes(text);
    bool result = text && (!key->fallback || strcmp(text, key->fallback) != 0);
    free(text);
    return result;
}
