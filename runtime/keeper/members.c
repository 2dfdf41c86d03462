/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - messages of the leader to the keepers, and to the console */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/leader.h"
#include "keeper/roster.h"

void dt_leader_send(struct dt_leader *l, int id, enum dt_wire_type type,
                    const void *head, size_t head_bytes, const void *tail,
                    size_t tail_bytes)
{
    struct dt_member *m = &l->members[id];
    m->told = dt_clock_now();
    dt_wire_send(&m->wire, type, l->roster.life, head, head_bytes, tail,
                 tail_bytes);
}

void dt_leader_send_all(struct dt_leader *l, enum dt_wire_type type,
                        const void *head, size_t head_bytes, const void *tail,
                        size_t tail_bytes)
{
    for (int i = 0; i < l->roster.count; i++)
        if (dt_roster_has(&l->roster, i))
            dt_leader_send(l, i, type, head, head_bytes, tail, tail_bytes);
}

void dt_keeper_record(const struct dt_keeper_options *options, const char *fmt,
                      ...)
{
    va_list ap;
    char text[64];
    if (!options->token)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "disttrain: record: %s %s\n", options->token, text);
}
