/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - the state and functions that the parts of the reader share */
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

/* Note a problem or a warning about a key of the schema, at its place. */
#define PROBLEM(reader, path, ...)                                             \
    dt_conf_note(&(reader)->problems, dt_conf_place_of((reader)->conf, path),  \
                 path, __VA_ARGS__)
#define WARNING(reader, path, ...)                                             \
    dt_conf_note(&(reader)->warnings, dt_conf_place_of((reader)->conf, path),  \
                 path, __VA_ARGS__)

struct dt_conf_reader {
    struct dt_conf *conf;
    void *values;          /* where keys store their values: conf, or a struct
                              of a list in it */
    char *directory;       /* of the file; paths are relative to it */
    char *deepspeed;       /* name of the DeepSpeed file in messages, or NULL */
    const char *algorithm; /* as the file spells it, or NULL */
    bool *failed;          /* by row: the given value is bad */
    char unused[1024];     /* names of keys of others without effect */
    struct dt_conf_place unused_at; /* the first of them */
    struct dt_conf_place lora_at;   /* finetuning_type: lora; line 0: none */
    int *overridden; /* by row: the number of the last override; 0: none
                      */
    struct dt_conf_notes problems, warnings;
};

/* Parse numbers of the YAML 1.2 core schema: floats, or whole numbers (decimal,
 * 0o or 0x, also a float with an integral value up to 2^53). False if text is
 * not such a number, not finite, or out of range of the C type.
 */
bool dt_conf_parse_float(const char *text, double *value);
bool dt_conf_parse_int(const char *text, long *value);
bool dt_conf_parse_u64(const char *text, uint64_t *value);
bool dt_conf_parse_number(const char *text, double *value);

/* Stores the value of a key of the file, given by its name or an alias, and its
 * place. If the key is given before, the values must be equal, unless the first
 * one leaves the choice to a DeepSpeed file, or is an override. null gives
 * nothing.
 */
void dt_conf_set(struct dt_conf_reader *reader, int row,
                 const struct dt_tree *node);

/* The tree of an override, the `number`th of all, counted from 1, with its key
 * in sections. NULL: noted.
 */
struct dt_tree *dt_conf_override_tree(struct dt_conf_reader *reader,
                                      const char *text, int number);

/* Lets override `number` decide a key: what comes from elsewhere is dropped. */
void dt_conf_override(struct dt_conf_reader *reader, int row, int number);

/* Whether a value at `place` is dropped, because an override decides the key.
 */
bool dt_conf_is_overridden(const struct dt_conf_reader *reader, int row,
                           struct dt_conf_place place);

/* Whether a value is null, which means the default, or is missing. */
bool dt_conf_is_null(const struct dt_tree *node);
bool dt_conf_is_empty(const struct dt_tree *node);

/* Parses one value and stores it. -1: noted, and the field is unchanged. */
int dt_conf_value_set(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key,
                      const struct dt_tree *node);

/* Notes "expected ..., got ...", unless the value is unknown; returns -1. */
int dt_conf_expected(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);

/* The word of key->words that node names, or NULL and a note. */
const struct dt_conf_word *dt_conf_parse_word(struct dt_conf_reader *reader,
                                              const struct dt_conf_key *key,
                                              const struct dt_tree *node);

/* The absolute path that a scalar names, malloc'ed, or NULL and a note. */
char *dt_conf_parse_path(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node);

/* Checks that a path exists and is of `type`, as in st_mode. -1: noted. */
int dt_conf_check_exists(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node, const char *path,
                         mode_t type);

/* data_files.c: appends the files that a scalar names, each with the weight: a
 * file, those that match a pattern of glob(7) in the order of their names, or
 * those of a directory of datasets.save_to_disk. -1: noted.
 */
int dt_conf_add_files(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key,
                      const struct dt_tree *scalar, double weight,
                      struct dt_conf_list *list);

/* Does the work of dt_conf_value_set for lists. */
int dt_conf_list_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);
void dt_conf_list_clear(struct dt_conf_list *list);

/* Appends a copy of a text. -1: out of memory, which is noted. */
int dt_conf_list_add(struct dt_conf_reader *reader, struct dt_conf_list *list,
                     const char *text, double weight);

/* The same for a section of numbers, for one that may hold anything, which
 * becomes JSON, and for reward.functions.
 */
int dt_conf_weights_set(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node);
int dt_conf_free_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);
int dt_conf_rewards_set(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node);
void dt_conf_rewards_clear(struct dt_conf_rewards *rewards);

/* Reads what secrets_from of a function names, at `node`, into its secrets, and
 * learns the values. -1: noted.
 */
int dt_conf_take_secrets(struct dt_conf_reader *reader,
                         struct dt_conf_reward *reward,
                         const struct dt_tree *node);

/* Prints the list on one line; `results`: only what changes results. */
void dt_conf_rewards_print(const struct dt_conf_rewards *rewards, bool results,
                           FILE *out);

/* Reads true or false; -1: noted under key->path. */
int dt_conf_bool(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                 const struct dt_tree *node, bool *value);

/* Releases what the field of `key` in `values` owns and sets it to zero. */
void dt_conf_value_clear(void *values, const struct dt_conf_key *key);

/* Writes the value of `key` in `values` as YAML on one line. */
void dt_conf_value_print(const void *values, const struct dt_conf_key *key,
                         FILE *out);

/* False if the key has no value in `values`: a text, list or section that is
 * neither given nor has a default, or 0 where 1 is the least.
 */
bool dt_conf_value_known(const void *values, const struct dt_conf_key *key);

/* The same text, malloc'ed. NULL: out of memory, noted. */
char *dt_conf_value_text(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key);

/* Writes `text` as a double-quoted YAML string. */
void dt_conf_string_print(const char *text, FILE *out);

/* Expands ${NAME} and ${NAME:-default} in each value of a tree at `path` (""
 * for the root) where it stands: a value that is nothing but one variable may
 * be of any type, even in quotes. The words of launch.command stay as they are:
 * they are the program's. What cannot be expanded is noted.
 */
void dt_conf_expand(struct dt_conf_reader *reader, struct dt_tree *tree,
                    const char *path);

/* Refuses $NAME without braces in the text of a path as it was written, where
 * it would silently stay. -1: EX_CONFIG.
 */
int dt_conf_check_braces(const char *text, struct dt_error *err);

/* Expands a leading ~/ and makes the path absolute, relative to `directory`.
 * The result is malloc'ed. NULL and err: EX_CONFIG, EX_OSERR.
 */
char *dt_conf_path(const char *directory, const char *text,
                   struct dt_error *err);

/* Like dt_conf_load, for a text in memory; `file` is its name in messages. */
struct dt_conf *dt_conf_load_text(const char *file, const char *text,
                                  size_t bytes,
                                  struct dt_conf_problems *problems,
                                  struct dt_conf_problems *warnings);

/* Like dt_conf_explain_deepspeed, for a text in memory. */
int dt_conf_explain_deepspeed_text(const char *file, const char *text,
                                   FILE *out, struct dt_error *err);

/* Derive defaults from other keys, and check the rules between keys. A key with
 * a bad value has its default here.
 */
void dt_conf_derive(struct dt_conf_reader *reader);
void dt_conf_derive_kind(struct dt_conf_reader *reader);
void dt_conf_warn_of_stream(struct dt_conf_reader *reader);
void dt_conf_derive_device(struct dt_conf_reader *reader);
void dt_conf_check_device(struct dt_conf_reader *reader);
void dt_conf_derive_numerics(struct dt_conf_reader *reader);
void dt_conf_check_numerics(struct dt_conf_reader *reader);
void dt_conf_derive_distributed(struct dt_conf_reader *reader);
void dt_conf_check_distributed(struct dt_conf_reader *reader);
void dt_conf_derive_adapter(struct dt_conf_reader *reader);
void dt_conf_check_adapter(struct dt_conf_reader *reader);
void dt_conf_derive_preference(struct dt_conf_reader *reader);
void dt_conf_check_preference(struct dt_conf_reader *reader);
void dt_conf_derive_rewards(struct dt_conf_reader *reader);
void dt_conf_check_rewards(struct dt_conf_reader *reader);
void dt_conf_derive_sampled(struct dt_conf_reader *reader);
void dt_conf_check_sampled(struct dt_conf_reader *reader);
void dt_conf_check_batch(struct dt_conf_reader *reader);
void dt_conf_check_launch(struct dt_conf_reader *reader);
void dt_conf_check(struct dt_conf_reader *reader);

/* Whether the file gives an algorithm, and it is one. */
bool dt_conf_knows_algorithm(const struct dt_conf_reader *reader);

/* Whether a key of the file, by its row, has another value than its default. */
bool dt_conf_differs(struct dt_conf_reader *reader, int row);

/* Whether the file leaves a key to its default. It is then marked as worked
 * out, since another default follows.
 */
bool dt_conf_is_left(struct dt_conf_reader *reader, const char *path);

/* Whether the run uses the key, by its algorithm and its adapter. */
bool dt_conf_is_used(const struct dt_conf *conf, const struct dt_conf_key *key);

/* Writes the users of a key that not every run uses: "algorithms ppo and grpo
 * use".
 */
void dt_conf_users(const struct dt_conf_key *key, char *buffer, size_t bytes);

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

/* Refuse or warn of variables in `env`, and warn of launchers in
 * launch.command.
 */
void dt_conf_check_env(struct dt_conf_reader *reader);
void dt_conf_check_command(struct dt_conf_reader *reader);

/* Sets conf->fingerprint from the other fields. -1: out of memory. */
int dt_conf_fingerprint(struct dt_conf *conf);

#endif /* DT_CONF_READ_H */
