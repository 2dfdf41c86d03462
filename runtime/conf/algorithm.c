/* SPDX-License-Identifier: Apache-2.0 */
/* algorithm.c - the algorithm of a file, and the keys that it uses */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "conf/read.h"

bool dt_conf_knows_algorithm(const struct dt_conf_reader *reader)
{
    return dt_conf_given(reader->conf, "algorithm") &&
           !reader->failed[dt_conf_key_find("algorithm")];
}

bool dt_conf_is_left(struct dt_conf_reader *reader, const char *path)
{
    if (dt_conf_given(reader->conf, path))
        return false;
    reader->conf->place[dt_conf_key_find(path)].line = -1;
    return true;
}

bool dt_conf_is_used(const struct dt_conf *conf, const struct dt_conf_key *key)
{
    if (key->users == DT_CONF_USER_LORA)
        return conf->adapter.type != DT_CONF_ADAPTER_NONE;
    return key->users == 0 || (key->users & (1u << conf->algorithm));
}

void dt_conf_users(const struct dt_conf_key *key, char *buffer, size_t bytes)
{
    const struct dt_conf_word *w =
        dt_conf_keys[dt_conf_key_find("algorithm")].words;
    unsigned left = key->users;
    const bool several = (left & (left - 1)) != 0;
    const char *comma = "";
    int length = snprintf(buffer, bytes, "algorithm%s ", several ? "s" : "");
    if (left == DT_CONF_USER_LORA) {
        snprintf(buffer, bytes, "adapter.type: lora uses");
        return;
    }
    for (; w->name; w++) {
        if (!(left & (1u << w->value)))
            continue;
        left &= ~(1u << w->value);
        length += snprintf(buffer + length, bytes - (size_t)length, "%s%s",
                           comma, w->name);
        comma = (left & (left - 1)) != 0 ? ", " : " and ";
    }
    snprintf(buffer + length, bytes - (size_t)length,
             several ? " use" : " uses");
}
