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

bool dt_leader_say_record(struct dt_leader *l)
{
    const size_t bytes = strlen(l->record);
    if (bytes > 0 && write(STDERR_FILENO, l->record, bytes) < 0 &&
        errno == EAGAIN)
        return false;
    l->record[0] = '\0';
    return true;
}

void dt_leader_record(struct dt_leader *l, const char *fmt, ...)
{
    char text[sizeof(l->record) / 2];
    va_list ap;
    if (!l->options->token)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    snprintf(l->record, sizeof(l->record), "disttrain: record: %s %s\n",
             l->options->token, text);
    dt_leader_say_record(l);
}
