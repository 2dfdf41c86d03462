/* SPDX-License-Identifier: Apache-2.0 */
/* siteconf.h - what the site sets in plugstack.conf, as key=value arguments */
#ifndef DTSPANK_SITECONF_H
#define DTSPANK_SITECONF_H

#include "base/error.h"

struct dtspank_siteconf {
    const char *runtime; /* absolute path of the program disttrain */
    unsigned port_first; /* MASTER_PORT is chosen from first..last */
    unsigned port_last;
};

/* Fills conf with the defaults and then with av[0..ac), in that order. Strings
 * are not copied: av must outlive conf. Fails on an unknown key or a bad value;
 * conf then keeps what came before.
 */
int dtspank_siteconf_parse(int ac, char **av, struct dtspank_siteconf *conf,
                           struct dt_error *err);

#endif /* DTSPANK_SITECONF_H */
