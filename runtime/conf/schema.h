/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - the table of all keys, and functions to find a row
 *
 * A key is defined in keys/SECTION.def: KIND(section, key, attributes). To
 * support a key of later.c, move its name there.
 */
#ifndef DT_CONF_SCHEMA_H
#define DT_CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

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
    const char *waits; /* not supported yet: what this word needs */
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

/* A key of an item of reward.functions; its offset is in struct dt_conf_reward.
 */
struct dt_conf_reward_key {
    struct dt_conf_key key;
    unsigned types; /* a bit for each enum dt_conf_reward_type that has it */
    bool required;
};
extern const struct dt_conf_reward_key dt_conf_reward_keys[];
extern const size_t dt_conf_reward_key_count;

/* The row of a key, named as in a file or with reward.functions. in front;
 * NULL: unknown.
 */
const struct dt_conf_reward_key *dt_conf_reward_key_find(const char *path);

/* The word of an enum dt_conf_reward_type. */
const char *dt_conf_reward_type_name(int type);

/* Writes the help of a row, with the types that have it. */
void dt_conf_reward_help(const struct dt_conf_reward_key *row, char *buffer,
                         size_t bytes);

/* An alias that sets a key only if it has a certain value, as `mode: eval`. If
 * `when` is NULL, that value is true, and false sets nothing.
 */
struct dt_conf_switch {
    const char *alias, *when, *path, *value;
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

/* Writes what the key expects: "an integer from 1 to 64". */
void dt_conf_key_expects(const struct dt_conf_key *key, char *buffer,
                         size_t bytes);

/* The row of a canonical path, or -1. */
int dt_conf_key_find(const char *path);

/* The row of a path as a file may spell it, or -1: canonical, or an alias at
 * top level, in `training` or in the section of its key (an alias with a dot:
 * as it is, or below `training`). Keys of two algorithms may have an alias in
 * common: the row is the first one that is at least `from`.
 */
int dt_conf_key_match(const char *path, int from);

/* Whether the key is about training, not only about how programs are run. */
bool dt_conf_key_trains(const struct dt_conf_key *key);

/* The same for the tables of switches and of later keys, or NULL. */
const struct dt_conf_switch *dt_conf_switch_match(const char *path);
const char *dt_conf_later_match(const char *path);

/* Whether a row is about a key at top level or in `training`. */
bool dt_conf_foreign_has(const struct dt_conf_foreign *row, const char *path);

/* The row of a key at top level or in `training` that has this value, NULL for
 * a list or a section. NULL: there is none.
 */
const struct dt_conf_foreign *dt_conf_foreign_match(const char *path,
                                                    const char *value);

/* True if `path` is below `section`, or below its part after `training.`. */
bool dt_conf_path_below(const char *path, const char *section);

/* True if keys below `path` are known. */
bool dt_conf_section_match(const char *path);

/* Writes the known path that was probably meant to `buffer`, or returns NULL.
 */
const char *dt_conf_nearest(const char *path, char *buffer, size_t bytes);

#endif /* DT_CONF_SCHEMA_H */
