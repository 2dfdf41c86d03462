/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - the table of all keys, and functions to find a row
 *
 * A key is defined in keys/SECTION.def: KIND(section, key, attributes). To
 * support a key of foreign_keys.c that is to come, move its name there.
 */
#ifndef DT_CONF_KEYS_SCHEMA_H
#define DT_CONF_KEYS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "conf/keys/keys.h"

enum dt_conf_type {
    DT_CONF_BOOL,    /* bool */
    DT_CONF_INT,     /* long */
    DT_CONF_U64,     /* uint64_t */
    DT_CONF_FLOAT,   /* double */
    DT_CONF_SIZE,    /* long, in bytes: 500MB, 2GiB, 1e9 */
    DT_CONF_COUNT,   /* long; a ratio in (0,1) goes to `second`, a double */
    DT_CONF_STRING,  /* char * */
    DT_CONF_DIR,     /* char *, made absolute; need not exist */
    DT_CONF_OLD_DIR, /* char *, made absolute; must exist */
    DT_CONF_FILES,   /* struct dt_conf_list; files that must exist */
    DT_CONF_STRINGS, /* struct dt_conf_list; all in `words`, if there are any */
    DT_CONF_ENUM,    /* int, one of `words` */
    DT_CONF_SET,     /* list of `words`: each has its own bool at its value */
    DT_CONF_OLD_OR_WORD,  /* int by `words`, or a path that must exist: then the
                             path goes to `second` and the int is `other` */
    DT_CONF_FILE_OR_WORD, /* the same with a file */
    DT_CONF_BOOL_OR_WORD, /* int: false is 0, true is 1, or by `words` */
    DT_CONF_INT_OR_WORD,  /* long, by `words` if it is none in the range */
    DT_CONF_BETAS,        /* two doubles, the second one at `second` */
    DT_CONF_RANGE,        /* two longs, first and last, the second one at
                             `second` */
    DT_CONF_WEIGHTS,      /* struct dt_conf_list: names with a number each */
    DT_CONF_FREE,         /* char *: a section of anything, as JSON */
    DT_CONF_REWARDS,      /* struct dt_conf_rewards */
    DT_CONF_IGNORED,      /* a bool without effect; `help` says why */
    DT_CONF_UNUSED,       /* the same for any scalar */
};

/* A word of an enumeration; upper and lower case are equal. */
struct dt_conf_word {
    const char *name;
    long value;        /* for DT_CONF_SET an offset in struct dt_conf */
    const char *waits; /* not supported yet: the need of this word */
};

struct dt_conf_key {
    const char *path; /* section.key */
    enum dt_conf_type type;
    size_t offset, second;            /* in struct dt_conf */
    const char *fallback;             /* default as YAML; NULL: none */
    double min, max;                  /* range of a number; both 0: any */
    bool above_min, below_max;        /* excludes the limit itself */
    bool result;                      /* is part of the fingerprint */
    bool shape;                       /* cannot be used with model.path */
    bool endless;                     /* a number above max means max */
    bool required;                    /* of a function: it has no default */
    bool single;                      /* of a list of any text: one word may
                                         stand for it */
    int other;                        /* DT_CONF_OLD_OR_WORD */
    const struct dt_conf_word *words; /* ends with a NULL name */
    const char *const *aliases;       /* ends with NULL */
    const char *clash; /* code of the error if two values differ, or NULL */
    unsigned users;    /* bits of enum dt_conf_algorithm; 0: every run */
    const char *unit, *help;
};

enum { DT_CONF_USER_LORA = 1 << 16 }; /* of `users`: a run with an adapter */

extern const struct dt_conf_key dt_conf_keys[];
extern const size_t dt_conf_key_count;

/* The keys of a function of reward.functions: an offset is one in struct
 * dt_conf_reward, and the users are bits of enum dt_conf_reward_type.
 */
extern const struct dt_conf_key dt_conf_reward_keys[];
extern const size_t dt_conf_reward_key_count;

/* The row of a key of a function, named as in a file or with reward.functions.
 * in front; NULL: unknown.
 */
const struct dt_conf_key *dt_conf_reward_key_find(const char *path);

/* Whether functions of a type have the key. */
bool dt_conf_reward_uses(int type, const struct dt_conf_key *key);

/* The word of an enum dt_conf_reward_type. */
const char *dt_conf_reward_type_name(int type);

/* Writes the help of a key of a function, with the types that have it. */
void dt_conf_reward_help(const struct dt_conf_key *key, char *buffer,
                         size_t bytes);

/* The word of a key that stands for a value; "": none does. */
const char *dt_conf_word_of(const struct dt_conf_key *key, long value);

/* The row of a canonical path, or -1. */
int dt_conf_key_find(const char *path);

/* Whether the key is about training, not only about how programs are run. */
bool dt_conf_key_trains(const struct dt_conf_key *key);

/* Whether the run uses the key, by its algorithm and its adapter. */
bool dt_conf_is_used(const struct dt_conf *conf, const struct dt_conf_key *key);

/* Writes the users of a key that not every run uses: "algorithms ppo and grpo
 * use".
 */
void dt_conf_users(const struct dt_conf_key *key, char *buffer, size_t bytes);

/* Writes the values that the key takes: "an integer from 1 to 64". */
void dt_conf_key_expects(const struct dt_conf_key *key, char *buffer,
                         size_t bytes);

/* Whether a dump shows the key of a row. */
bool dt_conf_has_value(const struct dt_conf *conf, size_t row);

/* --- values --- */

/* Writes the value of `key` in `values` as YAML on one line. */
void dt_conf_value_print(const void *values, const struct dt_conf_key *key,
                         FILE *out);

/* False if the key has no value in `values`: a text, list or section that is
 * neither given nor has a default, or 0 where 1 is the least.
 */
bool dt_conf_value_known(const void *values, const struct dt_conf_key *key);

/* The value as text, malloc'ed. NULL: out of memory. */
char *dt_conf_text_of(const void *values, const struct dt_conf_key *key);

/* Writes `text` as a double-quoted YAML string. */
void dt_conf_string_print(const char *text, FILE *out);

/* Prints the list on one line; `results`: only what changes results. */
void dt_conf_rewards_print(const struct dt_conf_rewards *rewards, bool results,
                           FILE *out);

#endif /* DT_CONF_KEYS_SCHEMA_H */
