/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - tells where in its file a configuration gives a key */
#include "config.h"

#include <stdarg.h>
#include <string.h>

#include "conf/keys/draft.h"

const char *dt_conf_place_text(struct dt_conf_place place, const char *file,
                               const char *deepspeed)
{
    static _Thread_local char text[600];
    if (place.source == DT_CONF_OF_OVERRIDE)
        return "--set";
    snprintf(text, sizeof(text), "%.500s:%d:%d",
             place.source == DT_CONF_OF_DEEPSPEED ? deepspeed : file,
             place.line, place.column);
    return text;
}

/* The place of a key in messages. */
static const char *place_text(const struct dt_conf *conf, const char *path,
                              const char *file)
{
    return dt_conf_place_text(dt_conf_place_of(conf, path), file,
                              conf->distributed.deepspeed_config);
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

bool dt_conf_is_later(const char *text)
{
    return strstr(text, "${SLURM_") != NULL;
}

int dt_conf_error_set(const struct dt_conf *conf, const char *path,
                      struct dt_error *err, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return dt_error_set(err, EX_CONFIG, "%s: %s: %s",
                        place_text(conf, path, conf->file), path, text);
}

int dt_conf_print_problem(const struct dt_conf *conf, const char *file,
                          const char *path, const char *text, FILE *out)
{
    fprintf(out, "%s: %s: %s\n", place_text(conf, path, file), path, text);
    return EX_CONFIG;
}
