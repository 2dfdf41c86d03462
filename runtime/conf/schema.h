/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - the table of all keys, and how to find a row
 *
 * To add a key: a field in struct dt_conf, a row in schema.c, a line in
 * man/disttrain.yaml.5. To make a key of later.c real: move its name.
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
    DT_CONF_STRINGS, /* struct dt_conf_list; each one of `words`, if any */
    DT_CONF_ENUM,    /* int, one of `words` */
    DT_CONF_SET,     /* list of `words`: each has its own bool at its value */
    DT_CONF_OLD_OR_WORD, /* int by `words`, or a path that must exist, which
                            goes to `second` and gives the int `other` */
    DT_CONF_BETAS,       /* two doubles, `second` for the second one */
    DT_CONF_IGNORED,     /* a bool without effect: `help` says why */
    DT_CONF_UNUSED,      /* the same for any scalar */
};

/* One accepted or known word of an enumeration, in any case. */
struct dt_conf_word {
    const char *name;
    long value;        /* for DT_CONF_SET an offset in struct dt_conf */
    const char *waits; /* not yet: what this word waits for */
};

struct dt_conf_key {
    const char *path; /* section.key */
    enum dt_conf_type type;
    size_t offset, second;            /* in struct dt_conf */
    const char *fallback;             /* default as YAML, NULL: none */
    double min, max;                  /* numbers; both 0: any */
    bool above_min, below_max;        /* the limit itself is not allowed */
    bool result;                      /* part of the fingerprint */
    bool shape;                       /* not with model.path */
    int other;                        /* DT_CONF_OLD_OR_WORD */
    const struct dt_conf_word *words; /* ends with a NULL name */
    const char *const *aliases;       /* ends with NULL */
    const char *clash; /* id of the error of two different values, or NULL */
    const char *unit, *help;
};

extern const struct dt_conf_key dt_conf_keys[];
extern const size_t dt_conf_key_count;

/* An alias that stands for a key only with one value: `mode: eval`. `when`
 * NULL: with true, and it says nothing with false.
 */
struct dt_conf_switch {
    const char *alias, *when, *path, *value;
};
extern const struct dt_conf_switch dt_conf_switches[];

/* Keys that are known and not there yet: all `keys` of `section` wait for the
 * same thing.
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

/* Row number of a canonical path, or -1. */
int dt_conf_key_find(const char *path);

/* Row number of a path as it may stand in a file: canonical, or an alias at top
 * level, in `training` or in its own section (an alias with a dot: as it is, or
 * below `training`). -1 if there is none.
 */
int dt_conf_key_match(const char *path);

/* Whether the key is about training, and not only about how programs run. */
bool dt_conf_key_trains(const struct dt_conf_key *key);

/* The same for the other two tables; NULL if there is none. */
const struct dt_conf_switch *dt_conf_switch_match(const char *path);
const char *dt_conf_later_match(const char *path);

/* True if keys below `path` are known. */
bool dt_conf_section_match(const char *path);

/* The known path that was probably meant, in `buffer`, or NULL. */
const char *dt_conf_nearest(const char *path, char *buffer, size_t bytes);

#endif /* DT_CONF_SCHEMA_H */
