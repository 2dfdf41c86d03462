/* SPDX-License-Identifier: Apache-2.0 */
/* siteconf.h - parses the key=value arguments of the site in plugstack.conf */
#ifndef DTSPANK_SITECONF_H
#define DTSPANK_SITECONF_H

#include <stdbool.h>

#include "base/error.h"

/* The parts that off= can name, in the order of part_names in siteconf.c. */
enum dtspank_part {
    DTSPANK_CONSOLE,   /* first failure, rank filter, log files of ranks */
    DTSPANK_SIGNAL,    /* launch.signal */
    DTSPANK_REQUEUE,   /* launch.requeue */
    DTSPANK_PREFLIGHT, /* launch.preflight */
    DTSPANK_PORTS,     /* the test of MASTER_PORT */
    DTSPANK_NET,       /* variables that name a network interface */
    DTSPANK_GPU,       /* GPU visibility and its warning */
    DTSPANK_CPU,       /* CPU binding and its warning */
    DTSPANK_LIMITS,    /* the report of limits that are too small */
    DTSPANK_PART_COUNT,
};

struct dtspank_siteconf {
    const char *runtime; /* absolute path of the program disttrain */
    unsigned port_first; /* MASTER_PORT is chosen from first..last */
    unsigned port_last;
    unsigned off; /* bit 1 << part: the site has turned it off */
    int ac;       /* the arguments themselves, for the functions below */
    char **av;
};

/* Fills conf with the defaults and then from av[0..ac), in that order. Does not
 * copy strings: av must outlive conf. Fails on an unknown key or a bad value;
 * conf then has the values before it.
 */
int dtspank_siteconf_parse(int ac, char **av, struct dtspank_siteconf *conf,
                           struct dt_error *err);

/* Takes the range of ports "A-B" in place of its own, or fails. */
int dtspank_siteconf_set_ports(struct dtspank_siteconf *conf, const char *range,
                               struct dt_error *err);

/* Whether the site has turned this part off. */
bool dtspank_siteconf_off(const struct dtspank_siteconf *conf,
                          enum dtspank_part part);

/* Returns the next NAME=VALUE that the site sets by key ("env" or "force") for
 * tasks in a partition; NULL after the last. Start with *at = 0 and do not
 * change it between calls. Each name is returned once: an argument for the
 * partition takes precedence over one for all, and a later argument over an
 * earlier one.
 */
const char *dtspank_siteconf_variable(const struct dtspank_siteconf *conf,
                                      const char *key, const char *partition,
                                      int *at);

/* Uses the program that the user asks for instead of conf->runtime; path must
 * outlive conf. Fails unless it is executable and below one of the site's
 * allow_runtime= directories.
 */
int dtspank_siteconf_use_runtime(struct dtspank_siteconf *conf,
                                 const char *path, struct dt_error *err);

#endif /* DTSPANK_SITECONF_H */
