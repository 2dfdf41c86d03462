/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - tells where in its file a configuration gives a key */
#include "config.h"

#include "conf/conf.h"
#include "conf/schema.h"

bool dt_conf_given(const struct dt_conf *conf, const char *path)
{
    return conf->place[dt_conf_key_find(path)].line > 0;
}

struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path)
{
    const struct dt_conf_place start = {1, 1};
    return dt_conf_given(conf, path) ? conf->place[dt_conf_key_find(path)]
                                     : start;
}

int dt_conf_print_problem(const struct dt_conf *conf, const char *file,
                          const char *path, const char *text, FILE *out)
{
    struct dt_conf_place place = dt_conf_place_of(conf, path);
    fprintf(out, "%s:%d:%d: %s: %s\n", file, place.line, place.column, path,
            text);
    return EX_CONFIG;
}
