/* SPDX-License-Identifier: Apache-2.0 */
/* siteconf.c - parses the arguments in plugstack.conf; one row is one key */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/siteconf.h"

/* Above Linux's ephemeral ports (ip_local_port_range ends at 60999), so that no
 * outgoing connection holds the port that rank 0 will open.
 */
enum {
    PORT_FIRST = 61000,
    PORT_LAST = 65535,
    PORT_LOWEST = 1024, /* below: root only */
};

#define NAME_CHARACTERS                                                        \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

/* An argument KEY=VALUE or KEY[PARTITION]=VALUE. */
struct argument {
    const char *key;
    size_t key_len;
    const char *partition; /* NULL: none */
    size_t partition_len;
    const char *value;
};

static const char *const part_names[DTSPANK_PART_COUNT] = {
    "console", "signal", "requeue", "preflight", "ports",
    "net",     "gpu",    "cpu",     "limits",
};

/* The step sets these, so the site cannot. */
static const char *const reserved_names[] = {
    "RANK",      "WORLD_SIZE", "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
    "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
};

static bool equals(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncmp(text, word, len) == 0;
}

static bool split_argument(const char *arg, struct argument *out)
{
    *out = (struct argument){.key = arg, .key_len = strcspn(arg, "=[")};
    const char *rest = arg + out->key_len;
    if (*rest == '[') {
        out->partition = rest + 1;
        out->partition_len = strcspn(out->partition, "]");
        rest = out->partition + out->partition_len;
        if (*rest++ != ']' || out->partition_len == 0)
            return false;
    }
    out->value = rest + 1;
    return *rest == '=';
}

static int set_runtime(const struct argument *arg,
                       struct dtspank_siteconf *conf, struct dt_error *err)
{
    if (arg->value[0] != '/')
        return dt_error_set(err, EX_CONFIG,
                            "runtime: expected an absolute path, got \"%s\"",
                            arg->value);
    conf->runtime = arg->value;
    return 0;
}

int dtspank_siteconf_set_ports(struct dtspank_siteconf *conf, const char *range,
                               struct dt_error *err)
{
    unsigned first = 0;
    unsigned last = 0;
    int used = 0;
    if (sscanf(range, "%5u-%5u%n", &first, &last, &used) != 2 ||
        range[used] != '\0' || first < PORT_LOWEST || last > PORT_LAST ||
        first > last)
        return dt_error_set(err, EX_CONFIG,
                            "port_range: expected A-B with %d <= A <= B <= %d, "
                            "got \"%s\"",
                            PORT_LOWEST, PORT_LAST, range);
    conf->port_first = first;
    conf->port_last = last;
    return 0;
}

static int set_port_range(const struct argument *arg,
                          struct dtspank_siteconf *conf, struct dt_error *err)
{
    return dtspank_siteconf_set_ports(conf, arg->value, err);
}

static bool is_reserved(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(reserved_names) / sizeof(char *); i++)
        if (equals(name, len, reserved_names[i]))
            return true;
    return strncmp(name, "SLURM_", 6) == 0 || strncmp(name, "PMIX_", 5) == 0;
}

/* env= and force= are only checked here: dtspank_siteconf_variable() reads them
 * again for the partition.
 */
static int set_variable(const struct argument *arg,
                        struct dtspank_siteconf *conf, struct dt_error *err)
{
    (void)conf;
    int key_len = (int)arg->key_len;
    size_t len = strspn(arg->value, NAME_CHARACTERS);
    if (len == 0 || strchr("0123456789", arg->value[0]) ||
        arg->value[len] != '=')
        return dt_error_set(err, EX_CONFIG,
                            "%.*s: expected NAME=VALUE, got \"%s\"", key_len,
                            arg->key, arg->value);
    if (is_reserved(arg->value, len))
        return dt_error_set(err, EX_CONFIG,
                            "%.*s: %.*s cannot be set by the site: it comes "
                            "from the step",
                            key_len, arg->key, (int)len, arg->value);
    return 0;
}

/* Only checked here as well: dtspank_siteconf_use_runtime() reads it again. */
static int allow_runtime(const struct argument *arg,
                         struct dtspank_siteconf *conf, struct dt_error *err)
{
    (void)conf;
    if (arg->value[0] != '/')
        return dt_error_set(err, EX_CONFIG,
                            "allow_runtime: expected an absolute path, got "
                            "\"%s\"",
                            arg->value);
    return 0;
}

static int turn_parts_off(const struct argument *arg,
                          struct dtspank_siteconf *conf, struct dt_error *err)
{
    unsigned off = 0;
    for (const char *name = arg->value;; name++) {
        size_t len = strcspn(name, ",");
        int part = 0;
        while (part < DTSPANK_PART_COUNT &&
               !equals(name, len, part_names[part]))
            part++;
        if (part == DTSPANK_PART_COUNT)
            return dt_error_set(err, EX_CONFIG,
                                "off: expected some of console,signal,requeue,"
                                "preflight,ports,net,gpu,cpu,limits, got "
                                "\"%.*s\"",
                                (int)len, name);
        off |= 1u << part;
        name += len;
        if (*name == '\0')
            break;
    }
    conf->off |= off;
    return 0;
}

static const struct key {
    const char *name;
    bool has_partition;
    int (*set)(const struct argument *arg, struct dtspank_siteconf *conf,
               struct dt_error *err);
} keys[] = {
    {"runtime", false, set_runtime}, {"port_range", false, set_port_range},
    {"env", true, set_variable},     {"force", true, set_variable},
    {"off", false, turn_parts_off},  {"allow_runtime", false, allow_runtime},
};

static int set_key(const char *text, struct dtspank_siteconf *conf,
                   struct dt_error *err)
{
    struct argument arg;
    bool is_argument = split_argument(text, &arg);
    for (size_t i = 0; is_argument && i < sizeof(keys) / sizeof(*keys); i++)
        if (equals(arg.key, arg.key_len, keys[i].name) &&
            (keys[i].has_partition || !arg.partition))
            return keys[i].set(&arg, conf, err);
    return dt_error_set(err, EX_CONFIG,
                        "unknown argument \"%s\": expected runtime=PATH, "
                        "port_range=A-B, env=NAME=VALUE, force=NAME=VALUE, "
                        "allow_runtime=DIR or off=PART",
                        text);
}

int dtspank_siteconf_parse(int ac, char **av, struct dtspank_siteconf *conf,
                           struct dt_error *err)
{
    *conf = (struct dtspank_siteconf){
        .runtime = DTSPANK_RUNTIME,
        .port_first = PORT_FIRST,
        .port_last = PORT_LAST,
        .av = av,
    };
    for (; conf->ac < ac; conf->ac++)
        if (set_key(av[conf->ac], conf, err) != 0)
            return dt_error_prefix(err, "plugstack.conf");
    return 0;
}

bool dtspank_siteconf_off(const struct dtspank_siteconf *conf,
                          enum dtspank_part part)
{
    return (conf->off >> part & 1) != 0;
}

/* Whether text is KEY=, for every partition or for this one. */
static bool argument_applies(const char *text, const char *key,
                             const char *partition, struct argument *arg)
{
    return split_argument(text, arg) && equals(arg->key, arg->key_len, key) &&
           (!arg->partition ||
            equals(arg->partition, arg->partition_len, partition));
}

/* Whether another argument for the same variable takes precedence. */
static bool is_overridden(const struct dtspank_siteconf *conf, const char *key,
                          const char *partition, int at,
                          const struct argument *arg)
{
    size_t name_len = strcspn(arg->value, "=") + 1;
    for (int i = 0; i < conf->ac; i++) {
        struct argument other;
        if (i == at || !argument_applies(conf->av[i], key, partition, &other) ||
            strncmp(other.value, arg->value, name_len) != 0)
            continue;
        bool equal = !other.partition == !arg->partition;
        if (equal ? i > at : other.partition != NULL)
            return true;
    }
    return false;
}

const char *dtspank_siteconf_variable(const struct dtspank_siteconf *conf,
                                      const char *key, const char *partition,
                                      int *at)
{
    while (*at < conf->ac) {
        struct argument arg;
        int i = (*at)++;
        if (argument_applies(conf->av[i], key, partition, &arg) &&
            !is_overridden(conf, key, partition, i, &arg))
            return arg.value;
    }
    return NULL;
}

/* Compares both with symbolic links resolved, so a link cannot lead out of the
 * directory.
 */
static bool is_below(const char *path, const char *dir)
{
    char *real = realpath(dir, NULL);
    size_t len = real ? strlen(real) : 0;
    bool below = len > 0 && strncmp(path, real, len) == 0 &&
                 (real[len - 1] == '/' || path[len] == '/');
    free(real);
    return below;
}

int dtspank_siteconf_use_runtime(struct dtspank_siteconf *conf,
                                 const char *path, struct dt_error *err)
{
    bool any = false;
    bool allowed = false;
    char *real = path[0] == '/' ? realpath(path, NULL) : NULL;
    for (int i = 0; i < conf->ac; i++) {
        struct argument arg;
        if (!argument_applies(conf->av[i], "allow_runtime", "", &arg))
            continue;
        any = true;
        allowed = allowed || (real && is_below(real, arg.value));
    }
    free(real);
    if (!any)
        return dt_error_set(err, EX_NOPERM,
                            "this site allows no runtime except its own: %s",
                            conf->runtime);
    if (path[0] != '/')
        return dt_error_set(err, EX_USAGE,
                            "expected an absolute path, got \"%s\"", path);
    if (access(path, X_OK) != 0)
        return dt_error_set(err, EX_NOINPUT, "%s: %s", path, strerror(errno));
    if (!allowed)
        return dt_error_set(err, EX_NOPERM,
                            "%s is in none of the directories that this site "
                            "allows",
                            path);
    conf->runtime = path;
    return 0;
}
