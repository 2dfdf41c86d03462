/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.h - the part of Slurm's host list notation that the plugin needs */
#ifndef DTSPANK_HOSTLIST_H
#define DTSPANK_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    DTSPANK_HOST_BYTES = 256, /* room for any host name, terminated */
};

/* Writes the n-th host (from 0) of a list such as "a,n[08-10,12],r[0-1]c[1-2]x"
 * to host[size], terminated. As in Slurm, the last bracket of a name varies
 * fastest, then the first, the second and so on, and leading zeros are kept.
 * Reads no further than that host. Fails if the text is malformed, the list has
 * fewer hosts, or the name does not fit; host is then undefined.
 */
int dtspank_hostlist_nth(const char *list, uint32_t n, char *host, size_t size,
                         struct dt_error *err);

/* Writes the first `count` hosts to hosts[count], each from malloc; all of
 * hosts must be NULL before. Fails if the text is malformed, the list has fewer
 * hosts, a name is too long or memory is short; the caller then frees the
 * strings in hosts.
 */
int dtspank_hostlist_expand(const char *list, uint32_t count, char **hosts);

#endif /* DTSPANK_HOSTLIST_H */
