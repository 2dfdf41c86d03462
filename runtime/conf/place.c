/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - tells where in its file a configuration gives a key */
#include "config.h"

#include <stdarg.h>

#include "conf/conf.h"
#include "conf/schema.h"

static const char *file_of(const struct dt_conf *conf,
                           struct dt_conf_place place, const char *file)
{
    return place.deepspeed ? conf->distributed.deepspeed_config : file;
}

bool dt_conf_given(const struct dt_conf *conf, const char *path)
{
    return conf->place[dt_conf_key_find(path)].line > 0;
}

struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path)
{
    const struct dt_conf_place start = {.line = 1, .column = 1};
    return dt_conf_given(conf, path) ? conf->place[dt_conf_key_find(path)]
                                     : start;
}

int dt_conf_error_set(const struct dt_conf *conf, const char *path,
                      struct dt_error *err, const char *fmt, ...)
{
    struct dt_conf_place place = dt_conf_place_of(conf, path);
    char text[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return dt_error_set(err, EX_CONFIG, "%s:%d:%d: %s: %s",
                        file_of(conf, place, conf->file), place.line,
                        place.column, path, text);
}

int dt_conf_print_problem(const struct dt_conf *conf, const char *file,
                          const char *path, const char *text, FILE *out)
{
    struct dt_conf_place place = dt_conf_place_of(conf, path);
    fprintf(out, "%s:%d:%d: %s: %s\n", file_of(conf, place, file), place.line,
            place.column, path, text);
    return EX_CONFIG;
}
