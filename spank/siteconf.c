/* SPDX-License-Identifier: Apache-2.0 */
/* siteconf.c - plugstack.conf arguments; one row in the table is one key */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "spank/siteconf.h"

/* Above Linux's ephemeral ports (ip_local_port_range ends at 60999), so that no
 * outgoing connection sits on the port that rank 0 is going to open.
 */
enum {
    PORT_FIRST = 61000,
    PORT_LAST = 65535,
    PORT_LOWEST = 1024, /* below: root only */
};

static int set_runtime(const char *value, struct dtspank_siteconf *conf,
                       struct dt_error *err)
{
    if (value[0] != '/')
        return dt_error_set(err, EX_CONFIG,
                            "runtime: expected an absolute path, got \"%s\"",
                            value);
    conf->runtime = value;
    return 0;
}

static int set_port_range(const char *value, struct dtspank_siteconf *conf,
                          struct dt_error *err)
{
    unsigned first = 0;
    unsigned last = 0;
    int used = 0;
    if (sscanf(value, "%5u-%5u%n", &first, &last, &used) != 2 ||
        value[used] != '\0' || first < PORT_LOWEST || last > PORT_LAST ||
        first > last)
        return dt_error_set(err, EX_CONFIG,
                            "port_range: expected A-B with %d <= A <= B <= %d, "
                            "got \"%s\"",
                            PORT_LOWEST, PORT_LAST, value);
    conf->port_first = first;
    conf->port_last = last;
    return 0;
}

static const struct key {
    const char *name;
    int (*set)(const char *value, struct dtspank_siteconf *conf,
               struct dt_error *err);
} keys[] = {
    {"runtime", set_runtime},
    {"port_range", set_port_range},
};

static int set_key(const char *arg, struct dtspank_siteconf *conf,
                   struct dt_error *err)
{
    size_t len = strcspn(arg, "=");
    for (size_t i = 0; arg[len] == '=' && i < sizeof(keys) / sizeof(*keys); i++)
        if (strlen(keys[i].name) == len && strncmp(keys[i].name, arg, len) == 0)
            return keys[i].set(arg + len + 1, conf, err);
    return dt_error_set(err, EX_CONFIG,
                        "unknown argument \"%s\": expected runtime=PATH or "
                        "port_range=A-B",
                        arg);
}

int dtspank_siteconf_parse(int ac, char **av, struct dtspank_siteconf *conf,
                           struct dt_error *err)
{
    *conf = (struct dtspank_siteconf){
        .runtime = DTSPANK_RUNTIME,
        .port_first = PORT_FIRST,
        .port_last = PORT_LAST,
    };
    for (int i = 0; i < ac; i++)
        if (set_key(av[i], conf, err) != 0)
            return dt_error_prefix(err, "plugstack.conf");
    return 0;
}
