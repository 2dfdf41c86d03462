/* SPDX-License-Identifier: Apache-2.0 */
/* notes.h - collects problems or warnings while a file is read */
#ifndef DT_CONF_NOTES_H
#define DT_CONF_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"

enum {
    DT_CONF_NOTES_MAX = 100,  /* further ones are only counted */
    DT_CONF_SHOWN_BYTES = 60, /* how much of a user's value a message shows */
};

struct dt_conf_note {
    struct dt_conf_place place;
    size_t order; /* order of discovery, for two at the same place */
    char *text;
    size_t said; /* where in it the place and the key end */
};

struct dt_conf_notes {
    const char *file;      /* as the user wrote it; not owned */
    const char *deepspeed; /* distributed.deepspeed_config; not owned */
    struct dt_conf_note note[DT_CONF_NOTES_MAX];
    size_t count, left_out;
    bool out_of_memory;
};

/* "file:line:col", or "--set" for an override; `deepspeed` is the name of that
 * file, NULL if there is none. Valid until the next call.
 */
const char *dt_conf_place_text(struct dt_conf_place place, const char *file,
                               const char *deepspeed);

/* Adds "file:line:col: key: text"; key may be NULL. Control characters are
 * replaced, so that a file cannot write to the terminal.
 */
void dt_conf_note(struct dt_conf_notes *notes, struct dt_conf_place place,
                  const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Says where `place` is, for a note at `here`: "line 5", or "file:5:3" if that
 * is in the other file. Valid until the next call.
 */
const char *dt_conf_where(const struct dt_conf_notes *notes,
                          struct dt_conf_place place,
                          struct dt_conf_place here);

/* Moves the notes of `from` behind those of `to`, so that a key has one: what
 * is said of one that "becomes" something joins that, or takes its place if it
 * has no effect.
 */
void dt_conf_notes_join(struct dt_conf_notes *to, struct dt_conf_notes *from);

/* Moves the notes to *list in file order; notes is empty afterwards. */
void dt_conf_notes_move(struct dt_conf_notes *notes,
                        struct dt_conf_problems *list);

#endif /* DT_CONF_NOTES_H */
