/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deepspeed.h - the keys of a DeepSpeed configuration, and what becomes of each
 *
 * To know a key of DeepSpeed, add a row to deepspeed_keys.c.
 */
#ifndef DT_CONF_DEEPSPEED_H
#define DT_CONF_DEEPSPEED_H

#include "conf/read.h"

enum dt_deepspeed_action {
    DT_DS_SECTION,   /* holds keys; a scalar is a stage, if there is a `key` */
    DT_DS_SET,       /* its value is the value of `key` */
    DT_DS_STAGE,     /* so is its value, and true is 1, false is 0 */
    DT_DS_OPTIMIZER, /* the same, by adam_w_mode too */
    DT_DS_ON,        /* if it is true, `key` has the value `value` */
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

#endif /* DT_CONF_DEEPSPEED_H */
