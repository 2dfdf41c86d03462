/* SPDX-License-Identifier: Apache-2.0 */
/* expects.c - describes what a key expects, for messages and the manual */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf_impl.h"

/* Appends to the text in buffer; cuts what does not fit. */
#define APPEND(buffer, bytes, ...)                                             \
    snprintf((buffer) + strlen(buffer), (bytes)-strlen(buffer), __VA_ARGS__)

static void append_words(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    const char *comma = "";
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (!w->waits) {
            APPEND(buffer, bytes, "%s%s", comma, w->name);
            comma = ", ";
        }
    }
}

/* Appends " from 1 to 64", " > 0" or " in [0, 1)", or nothing without limits.
 */
static void append_range(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    bool whole = key->type == DT_CONF_INT || key->type == DT_CONF_COUNT ||
                 key->type == DT_CONF_INT_OR_WORD;
    if (key->min == 0 && key->max == 0)
        return;
    if (key->max >= 1e12 || key->endless)
        APPEND(buffer, bytes, " %s %.17g",
               key->above_min ? ">" : ">=", key->min);
    else if (whole)
        APPEND(buffer, bytes, " from %.17g to %.17g", key->min, key->max);
    else
        APPEND(buffer, bytes, " in %c%.17g, %.17g%c",
               key->above_min ? '(' : '[', key->min, key->max,
               key->below_max ? ')' : ']');
}

void dt_conf_key_expects(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    static const char *const nouns[] = {
        [DT_CONF_BOOL] = "true or false",
        [DT_CONF_INT] = "an integer",
        [DT_CONF_U64] = "an integer from 0 to 2^64 - 1",
        [DT_CONF_FLOAT] = "a number",
        [DT_CONF_SIZE] = "a size such as 500MB or 2GiB",
        [DT_CONF_COUNT] = "an integer",
        [DT_CONF_STRING] = "a string",
        [DT_CONF_DIR] = "a path",
        [DT_CONF_OLD_DIR] = "a directory",
        [DT_CONF_FILES] = "a file or a list of files",
        [DT_CONF_STRINGS] = "a list of ",
        [DT_CONF_ENUM] = "one of ",
        [DT_CONF_SET] = "a list of ",
        [DT_CONF_OLD_OR_WORD] = "a directory or one of ",
        [DT_CONF_FILE_OR_WORD] = "a file or one of ",
        [DT_CONF_BOOL_OR_WORD] = "one of true, false, ",
        [DT_CONF_INT_OR_WORD] = "an integer",
        [DT_CONF_BETAS] = "a list of two numbers",
        [DT_CONF_RANGE] = "a list of two integers, first and last,",
        [DT_CONF_WEIGHTS] = "a section of names with a number each",
        [DT_CONF_FREE] = "a section",
        [DT_CONF_REWARDS] = "a list of sections, each with a type",
        [DT_CONF_IGNORED] = "true or false",
        [DT_CONF_UNUSED] = "any value",
    };
    buffer[0] = '\0';
    if (key->type == DT_CONF_IGNORED && key->words)
        APPEND(buffer, bytes, "one of ");
    else
        APPEND(buffer, bytes, "%s", nouns[key->type]);
    append_range(key, buffer, bytes);
    if (key->type == DT_CONF_STRINGS && !key->words)
        APPEND(buffer, bytes, "words");
    if (key->type == DT_CONF_COUNT)
        APPEND(buffer, bytes, " or a ratio in (0, 1)");
    if (key->type == DT_CONF_INT_OR_WORD)
        APPEND(buffer, bytes, " or one of ");
    if (key->words)
        append_words(key, buffer, bytes);
    if (key->unit)
        APPEND(buffer, bytes, " (%s)", key->unit);
}
