/* SPDX-License-Identifier: Apache-2.0 */
/* conf_impl.h - the state and the functions that the parts of the reader share
 */
#ifndef DT_CONF_CONF_IMPL_H
#define DT_CONF_CONF_IMPL_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "conf/conf.h"
#include "conf/keys/draft.h"
#include "conf/keys/schema.h"
#include "conf/tree.h"

enum { DT_CONF_SWITCHES_MAX = 16 };

struct dt_conf_reader {
    struct dt_conf_draft draft;
    void *values;          /* where keys store their values: conf, or a struct
                              of a list in it */
    char *deepspeed;       /* name of the DeepSpeed file in messages, or NULL */
    const char *algorithm; /* as the file spells it, or NULL */
    const struct dt_conf_foreign *over; /* the row in use that has an `over` */
    char unused[1024];     /* names of keys of others without effect */
    struct dt_conf_place unused_at; /* the first of them */
    struct dt_conf_place lora_at;   /* finetuning_type: lora; line 0: none */
    struct dt_conf_place peft_at;   /* use_peft: true; line 0: none */
    struct dt_conf_place off_at[DT_CONF_SWITCHES_MAX]; /* by switch: false */
    /* by switch: true in the file, of one that has a value `less` */
    const struct dt_tree *on[DT_CONF_SWITCHES_MAX];
    int *overridden; /* by row: the number of the last override; 0: none
                      */
};

/* --- values --- */

/* Parse numbers of the YAML 1.2 core schema: floats, or whole numbers (decimal,
 * 0o or 0x, also a float with an integral value up to 2^53). False if text is
 * not such a number, not finite, or out of range of the C type.
 */
bool dt_conf_parse_float(const char *text, double *value);
bool dt_conf_parse_int(const char *text, long *value);
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

/* Stores the default of a key, if it has one. */
void dt_conf_set_default(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key);

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

/* Does the work of dt_conf_value_set for lists. */
int dt_conf_list_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node);
void dt_conf_list_clear(struct dt_conf_list *list);

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

/* Adds the function of type model that model.reward_path stands for in an
 * algorithm with rewards, unless the file has one.
 */
void dt_conf_take_reward_path(struct dt_conf_reader *reader);

/* Reads true or false; -1: noted under key->path. */
int dt_conf_bool(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                 const struct dt_tree *node, bool *value);

/* Releases the field of `key` in `values` and sets it to zero. */
void dt_conf_value_clear(void *values, const struct dt_conf_key *key);

/* Expands ${NAME} and ${NAME:-default} in each value of a tree at `path` (""
 * for the root) where it stands: a value that is nothing but one variable may
 * be of any type, even in quotes. The words of launch.command stay as they are:
 * they are the program's. Others that are unknown are noted.
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

/* --- names --- */

/* An alias that sets a key only if it has a certain value, as `mode: eval`. If
 * `when` is NULL, that value is true. Then false sets nothing, and must not
 * stand beside the value elsewhere; `off` is a warning that the key, left out,
 * does not have the value `agrees`, which false means to other trainers. `less`
 * is a value that true agrees with, as a part of it; `more` is a warning that
 * false does not.
 */
struct dt_conf_switch {
    const char *alias, *when, *path, *value;
    const char *agrees, *off;
    const char *less, *more;
};
extern const struct dt_conf_switch dt_conf_switches[];

/* A key of another trainer that has no key of the same meaning here. */
struct dt_conf_foreign {
    const char *names;  /* with blanks between */
    const char *values; /* these only, with blanks between; NULL: any value */
    const char *path;   /* it means that this key has the value `meant`; or */
    const char *meant;  /* without `path`: the line to write in its place */
    const char *unused; /* why it has no effect here */
    const char *algorithm; /* with this one only; NULL: any */
    const char *over;      /* with it they do not read this key; NULL: none */
};
extern const struct dt_conf_foreign *const dt_conf_foreigns;

/* Keys that are known but not supported yet: all `keys` of `section` need the
 * same feature.
 */
struct dt_conf_later {
    const char *section; /* "" for the top level */
    const char *waits;
    const char *const *keys, *const *aliases; /* end with NULL */
};
extern const struct dt_conf_later dt_conf_laters[];

/* The row of a path as a file may spell it, or -1: canonical, or an alias at
 * top level, in `training` or in the section of its key (an alias with a dot:
 * as it is, or below `training`). Keys of two algorithms may have an alias in
 * common: the row is the first one that is at least `from`.
 */
int dt_conf_key_match(const char *path, int from);

/* The same for the tables of switches and of later keys, or NULL. */
const struct dt_conf_switch *dt_conf_switch_match(const char *path);
const char *dt_conf_later_match(const char *path);

/* The name of a key at top level or in `training`. */
const char *dt_conf_foreign_name(const char *path);

/* Whether a row is about a key at top level or in `training`. */
bool dt_conf_foreign_has(const struct dt_conf_foreign *row, const char *path);

/* The row of a key at top level or in `training` that has this value, NULL for
 * a list or a section, in a file of this algorithm, NULL if that is not known.
 * NULL: there is none.
 */
const struct dt_conf_foreign *dt_conf_foreign_match(const char *path,
                                                    const char *value,
                                                    const char *algorithm);

/* The meaning of null to other trainers for a key at top level or in
 * `training`, if that is a value of its own and not the default, or NULL.
 */
const char *dt_conf_null_match(const char *path);

/* True if `path` is below `section`, or below its part after `training.`. */
bool dt_conf_path_below(const char *path, const char *section);

/* True if keys below `path` are known. */
bool dt_conf_section_match(const char *path);

/* Writes the known path that was probably meant to `buffer`, or returns NULL.
 */
const char *dt_conf_nearest(const char *path, char *buffer, size_t bytes);

/* --- DeepSpeed --- */

enum dt_deepspeed_action {
    DT_DS_SECTION,   /* holds keys; a scalar is a stage, if there is a `key` */
    DT_DS_SET,       /* its value is the value of `key` */
    DT_DS_STAGE,     /* so is its value, and true is 1, false is 0 */
    DT_DS_OPTIMIZER, /* the same, by adam_w_mode too */
    DT_DS_ON,        /* if it is true, `key` has the value `value` */
    DT_DS_ONLY_ON,   /* the same, and it must be true; `text`: why */
    DT_DS_LIMIT,     /* `key` is at most its value, times `scale` */
    DT_DS_GROUP,     /* `key` is its value if that is above 1 */
    DT_DS_PRINT,     /* the same, unless it is so large that it means never */
    DT_DS_REPORT,    /* if it is true, `key` has the word `value`, too */
    DT_DS_NO_EFFECT, /* `text` says why; the words in `value` mean what is done
                        anyway */
    DT_DS_MUST_BE,   /* one of the words in `value`; `text`: why no other */
    DT_DS_REFUSED,   /* unless it is off; `text` says why */
};

struct dt_deepspeed_key {
    const char *path; /* as in the file, with dots between */
    enum dt_deepspeed_action action;
    const char *key, *value, *text; /* ours, see above; NULL: none */
    double scale;
};

/* Ends with a NULL path. The keys of `deepspeed_config`, as accelerate has it
 * in its YAML, are below "accelerate".
 */
extern const struct dt_deepspeed_key dt_deepspeed_keys[];

/* The row of `section` and `name` ("" and "stage" at the top), also without
 * stage3_ or with an older name, or NULL.
 */
const struct dt_deepspeed_key *dt_deepspeed_find(const char *section,
                                                 const char *name);

/* The section of the table whose keys a map at this path of a YAML file holds,
 * or NULL: "zero_optimization" for distributed.zero. `deepspeed` holds keys of
 * two: "", and "zero_optimization".
 */
const char *dt_deepspeed_section(const char *path);

/* The name in `section` that was probably meant, or NULL. */
const char *dt_deepspeed_nearest(const char *section, const char *name);

/* Stores what a DeepSpeed file says. Every mistake is noted. What has no effect
 * is a warning or, with `tells`, noted there as is what becomes of every other
 * key.
 */
void dt_deepspeed_take_file(struct dt_conf_reader *reader,
                            const struct dt_tree *root,
                            struct dt_conf_notes *tells);

/* The same for a map of a YAML file, at `path`, for which dt_deepspeed_section
 * is not NULL.
 */
void dt_deepspeed_take_map(struct dt_conf_reader *reader,
                           const struct dt_tree *map, const char *path);

#endif /* DT_CONF_CONF_IMPL_H */
