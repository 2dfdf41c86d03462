/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - reads a YAML file into a checked, read-only struct
 *
 * The struct and the rules of its keys are those of conf/keys. All problems of
 * a file are reported in file order, as file:line:col: key: text.
 */
#ifndef DT_CONF_CONF_H
#define DT_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "conf/keys/keys.h"

/* Appends a copy of KEY=VALUE. -1: EX_USAGE, it is something else; EX_OSERR. */
int dt_conf_overrides_add(struct dt_conf_overrides *overrides, const char *text,
                          struct dt_error *err);

/* Appends those of DT_ENV_OVERRIDES, see contract/contract.h. -1: the same. */
int dt_conf_overrides_decode(struct dt_conf_overrides *overrides,
                             const char *list, struct dt_error *err);
void dt_conf_overrides_fini(struct dt_conf_overrides *overrides);

/* The first override of a key that only training looks at, or NULL. */
const char *dt_conf_trained_override(const struct dt_conf *conf);

/* Reads and checks `path`; /dev/null counts as a file without keys. A key of
 * `overrides` (NULL: none) has the value that it has there, whatever the file
 * says: the last one, if there are several; null is its default. NULL: the file
 * has problems, which are all in *problems (no entry: out of memory).
 * Secrets in the file are learned (base/secret.h), so no thread runs yet.
 * Warnings go to *warnings. The caller frees the result with dt_conf_destroy
 * and, in any case, both lists with dt_conf_problems_fini.
 */
struct dt_conf *dt_conf_load(const char *path,
                             const struct dt_conf_overrides *overrides,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings);

/* Like dt_conf_load, for a text in memory; `file` is its name in messages. */
struct dt_conf *dt_conf_load_text(const char *file, const char *text,
                                  size_t bytes,
                                  struct dt_conf_problems *problems,
                                  struct dt_conf_problems *warnings);

void dt_conf_destroy(struct dt_conf *conf); /* NULL is fine */

/* Whether this process knows all secrets of a function. -1: EX_CONFIG, a
 * variable of secrets_from is not set.
 */
int dt_conf_check_secrets(const struct dt_conf_reward *reward,
                          struct dt_error *err);

/* Parses a number of bytes: a whole number, or a number with KB, MB, GB, TB
 * (powers of 1000) or KiB, MiB, GiB, TiB (of 1024). False if text is not a size
 * or is below one byte.
 */
bool dt_conf_parse_size(const char *text, long *bytes);

/* Prints the final configuration as YAML: every key with its value and, in a
 * comment, its source. Reading it back gives the same configuration.
 */
void dt_conf_dump(const struct dt_conf *conf, FILE *out);

/* Calls f for each key that the run looks at, with its value as in
 * dt_conf_dump; `given`: the file has it. Then for each variable of env, as
 * "env.NAME", with its value as it is. -1: out of memory.
 */
typedef void (*dt_conf_each_f)(void *ctx, const char *key, const char *value,
                               bool given);
int dt_conf_each(const struct dt_conf *conf, dt_conf_each_f f, void *ctx);

/* Prints what the file gives of every key of the schema, one line `key: value`
 * each, or `key: (not given)`; then the variables of env, as they are. Where
 * files are is left out, as `(a path)`: ${NAME} may be another directory on
 * each node. Ranks that have read the same file print the same text.
 */
void dt_conf_print_given(const struct dt_conf *conf, FILE *out);

/* Prints the schema, one line for each key with tabs between: path, what it
 * expects, default ("-" for none), aliases (space-separated, "-" for none),
 * help. For a key that is not supported yet, the second field is "later" and
 * the help says what it needs. The key list of disttrain.yaml(5) is made from
 * this.
 */
void dt_conf_schema(FILE *out);

/* Explains a key to the user in the sentences of disttrain.yaml(5): its
 * meaning, what it expects, its default and its aliases. `name` is anything
 * that may be in a file: a key, an alias, or a section, whose keys are listed.
 * -1: EX_USAGE, the name is unknown; the error has the nearest one.
 */
int dt_conf_explain(const char *name, FILE *out, struct dt_error *err);

/* Prints for each key of a DeepSpeed file what becomes of it, as
 * "file:line:col: key: becomes distributed.strategy: zero2". -1: EX_CONFIG,
 * something cannot be used, and is printed as well; otherwise it cannot be
 * read.
 */
int dt_conf_explain_deepspeed(const char *path, FILE *out,
                              struct dt_error *err);

/* Like dt_conf_explain_deepspeed, for a text in memory. */
int dt_conf_explain_deepspeed_text(const char *file, const char *text,
                                   FILE *out, struct dt_error *err);

/* The YAML library in use: "libyaml 0.2.5". */
const char *dt_conf_library(void);

#endif /* DT_CONF_CONF_H */
