/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - what the parts of the reader share while one file is read */
#ifndef DT_CONF_READ_H
#define DT_CONF_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "conf/conf.h"
#include "conf/notes.h"
#include "conf/schema.h"
#include "conf/tree.h"

/* Notes something about a key of the schema, at its place. */
#define PROBLEM(reader, path, ...)                                             \
    dt_conf_note(&(reader)->problems, dt_conf_place_of((reader)->conf, path),  \
                 path, __VA_ARGS__)
#define WARNING(reader, path, ...)                                             \
    dt_conf_note(&(reader)->warnings, dt_conf_place_of((reader)->conf, path),  \
                 path, __VA_ARGS__)

struct dt_conf_reader {
    struct dt_conf *conf;
    const char *directory; /* of the file: paths start here */
    bool *failed;          /* by row: given, and not a good value */
    struct dt_conf_notes problems, warnings;
};

/* Numbers as the YAML 1.2 core schema writes them: floats, whole numbers
 * (decimal, 0o and 0x; a float with an integral value of up to 2^53 counts),
 * either. False if text is none, not finite, or out of range of the C type.
 */
bool dt_conf_parse_float(const char *text, double *value);
bool dt_conf_parse_int(const char *text, long *value);
bool dt_conf_parse_u64(const char *text, uint64_t *value);
bool dt_conf_parse_number(const char *text, double *value);

/* Types one value and stores it. -1: noted, and the field is as it was. */
int dt_conf_value_set(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key,
                      const struct dt_tree *node);

/* Notes "expected ..., got ..."; returns -1. */
int dt_conf_expected(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);

/* The word of key->words that node is, or NULL and a note. */
const struct dt_conf_word *dt_conf_parse_word(struct dt_conf_reader *reader,
                                              const struct dt_conf_key *key,
                                              const struct dt_tree *node);

/* The absolute path that a scalar means, malloc'ed, or NULL and a note. */
char *dt_conf_parse_path(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node);

/* Notes a path that is not there or not a `type` of stat(2); returns -1. */
int dt_conf_check_exists(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node, const char *path,
                         mode_t type);

/* The lists of dt_conf_value_set. */
int dt_conf_list_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);
void dt_conf_list_clear(struct dt_conf_list *list);

/* Reads true or false; -1: noted under key->path. */
int dt_conf_bool(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                 const struct dt_tree *node, bool *value);

/* Releases what the field of `key` owns and sets it to zero. */
void dt_conf_value_clear(struct dt_conf *conf, const struct dt_conf_key *key);

/* Writes the value of `key` as YAML on one line. */
void dt_conf_value_print(const struct dt_conf *conf,
                         const struct dt_conf_key *key, FILE *out);

/* Writes `text` as a double-quoted YAML string. */
void dt_conf_string_print(const char *text, FILE *out);

/* `text` with ${NAME} and ${NAME:-default}, then a leading ~/ replaced, relative
 * to `directory`; malloc'ed. NULL and err (EX_CONFIG), also for $NAME.
 */
char *dt_conf_path(const char *directory, const char *text,
                   struct dt_error *err);

/* dt_conf_load of a text that is already in memory; `file` names it. */
struct dt_conf *dt_conf_load_text(const char *file, const char *text,
                                  size_t bytes,
                                  struct dt_conf_problems *problems,
                                  struct dt_conf_problems *warnings);

/* Defaults that follow from other keys, and the rules between keys. Values of
 * keys with a problem of their own are their defaults here.
 */
void dt_conf_derive(struct dt_conf_reader *reader);
void dt_conf_derive_kind(struct dt_conf_reader *reader);
void dt_conf_warn_of_stream(struct dt_conf_reader *reader);
void dt_conf_derive_device(struct dt_conf_reader *reader);
void dt_conf_check_device(struct dt_conf_reader *reader);
void dt_conf_derive_numerics(struct dt_conf_reader *reader);
void dt_conf_check_numerics(struct dt_conf_reader *reader);
void dt_conf_check_batch(struct dt_conf_reader *reader);
void dt_conf_check_launch(struct dt_conf_reader *reader);
void dt_conf_check(struct dt_conf_reader *reader);

enum { DT_CONF_MISFIT_BYTES = 160 };

/* The key of a schedule that cannot be that of a run of `total` steps, with
 * what is wrong in `text`, or NULL.
 */
const char *dt_conf_misfit(const struct dt_conf *conf, long total,
                           char text[DT_CONF_MISFIT_BYTES]);

/* Refuses or warns of variables of `env`, and of launchers in launch.command.
 */
void dt_conf_check_env(struct dt_conf_reader *reader);
void dt_conf_check_command(struct dt_conf_reader *reader);

/* Sets conf->fingerprint from the other fields. -1: out of memory. */
int dt_conf_fingerprint(struct dt_conf *conf);

#endif /* DT_CONF_READ_H */
