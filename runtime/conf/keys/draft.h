/* SPDX-License-Identifier: Apache-2.0 */
/* draft.h - a configuration while it is read: values so far, and problems */
#ifndef DT_CONF_KEYS_DRAFT_H
#define DT_CONF_KEYS_DRAFT_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/keys/keys.h"
#include "conf/keys/schema.h"

/* --- notes --- */

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

/* Adds the text of an error, or "out of memory" (EX_OSERR). Returns -1. */
int dt_conf_note_error(struct dt_conf_notes *notes, struct dt_conf_place place,
                       const char *key, const struct dt_error *err);

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

/* --- the draft --- */

struct dt_conf_draft {
    struct dt_conf *conf;
    char *directory; /* of the file; paths are relative to it */
    bool *failed;    /* by row: the given value is bad */
    struct dt_conf_notes problems, warnings;
};

/* Note a problem or a warning about a key of the schema, at its place. */
#define PROBLEM(draft, path, ...)                                              \
    dt_conf_note(&(draft)->problems, dt_conf_place_of((draft)->conf, path),    \
                 path, __VA_ARGS__)
#define WARNING(draft, path, ...)                                              \
    dt_conf_note(&(draft)->warnings, dt_conf_place_of((draft)->conf, path),    \
                 path, __VA_ARGS__)

/* Whether the value that the file gives a key is bad. */
bool dt_conf_has_failed(const struct dt_conf_draft *draft, const char *path);

/* Whether the file gives an algorithm, and it is one. */
bool dt_conf_knows_algorithm(const struct dt_conf_draft *draft);

/* Whether the file gives a key another value than its default. */
bool dt_conf_differs(struct dt_conf_draft *draft, const char *path);

/* The place of a key, which the caller may change. */
struct dt_conf_place *dt_conf_place_for(struct dt_conf *conf, const char *path);

/* Marks a key as worked out from others, unless the file gives it; to be called
 * while it has the value of the file. Returns whether the file leaves it out,
 * or gives only the `auto` that it would have anyway.
 */
bool dt_conf_is_left(struct dt_conf *conf, const char *path);

/* The value of a key as text, malloc'ed. NULL: out of memory, noted. */
char *dt_conf_value_text(struct dt_conf_draft *draft,
                         const struct dt_conf_key *key);

/* Derives defaults from other keys; checks the rules between keys. A key with a
 * bad value has its default here.
 */
void dt_conf_derive(struct dt_conf_draft *draft);
void dt_conf_check(struct dt_conf_draft *draft);

/* The parts of both that a DeepSpeed file alone can meet. */
void dt_conf_derive_distributed(struct dt_conf_draft *draft);
void dt_conf_check_distributed(struct dt_conf_draft *draft);

/* Sets conf->fingerprint from the other fields. -1: out of memory. */
int dt_conf_fingerprint(struct dt_conf *conf);

/* --- the rules of sections, which both call --- */

/* Derive defaults, and check the rules. */
void dt_conf_derive_data(struct dt_conf_draft *draft);
void dt_conf_check_data(struct dt_conf_draft *draft);
void dt_conf_derive_precision(struct dt_conf_draft *draft);
void dt_conf_check_precision(struct dt_conf_draft *draft);
void dt_conf_derive_schedule(struct dt_conf_draft *draft);
void dt_conf_check_schedule(struct dt_conf_draft *draft);
void dt_conf_derive_adapter(struct dt_conf_draft *draft);
void dt_conf_check_adapter(struct dt_conf_draft *draft);
void dt_conf_check_images(struct dt_conf_draft *draft);
void dt_conf_derive_pairs(struct dt_conf_draft *draft);
void dt_conf_check_pairs(struct dt_conf_draft *draft);
void dt_conf_check_rewards(struct dt_conf_draft *draft);
void dt_conf_derive_sampled(struct dt_conf_draft *draft);
void dt_conf_check_sampled(struct dt_conf_draft *draft);
void dt_conf_check_training(struct dt_conf_draft *draft);
void dt_conf_check_launch(struct dt_conf_draft *draft);

/* Resolves the sizes of generations and of mini-batches from those of batches.
 * -1: EX_CONFIG, a division is not exact.
 */
int dt_conf_resolve_sampled(struct dt_conf *conf, struct dt_error *err);

/* Checks the keys of distributed against the number of ranks. -1: EX_CONFIG. */
int dt_conf_check_world(const struct dt_conf *conf, long world,
                        struct dt_error *err);

enum { DT_CONF_MISFIT_BYTES = 160 };

/* The key of the schedule that does not fit a run of `total` steps, with the
 * reason in `text`, or NULL.
 */
const char *dt_conf_misfit(const struct dt_conf *conf, long total,
                           char text[DT_CONF_MISFIT_BYTES]);

#endif /* DT_CONF_KEYS_DRAFT_H */
