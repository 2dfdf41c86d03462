/* SPDX-License-Identifier: Apache-2.0 */
/* values.h - values of a configuration that are more than a number or a text */
#ifndef DT_CONF_VALUES_H
#define DT_CONF_VALUES_H

#include <stdbool.h>
#include <stddef.h>

enum dt_conf_source {
    DT_CONF_OF_FILE,
    DT_CONF_OF_DEEPSPEED, /* the file of distributed.deepspeed_config */
    DT_CONF_OF_OVERRIDE,  /* --set */
};

/* A position: line and column (in characters), counted from 1. The line of an
 * override is its number among all of them.
 */
struct dt_conf_place {
    int line, column;
    enum dt_conf_source source;
};

struct dt_conf_list {
    char **text;    /* absolute paths if it is a list of files */
    double *weight; /* files: how many times an epoch uses each; of a section
                       of numbers: the number that each name has */
    size_t count;
};

#endif /* DT_CONF_VALUES_H */
