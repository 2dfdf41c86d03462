/* SPDX-License-Identifier: Apache-2.0 */
/* said.c - hashes of lines */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include <xxhash.h>

#include "base/said.h"

static struct dt_said *_Atomic remembered;
static uint32_t earlier; /* lines of the processes before */

void dt_said_begin(struct dt_said *said)
{
    earlier = said ? atomic_load(&said->count) : 0;
    if (earlier > DT_SAID_LINES)
        earlier = DT_SAID_LINES;
    atomic_store(&remembered, said);
}

void dt_said_end(void)
{
    atomic_store(&remembered, NULL);
}

bool dt_said_before(const char *line)
{
    struct dt_said *said = atomic_load(&remembered);
    if (!said)
        return false;
    const uint64_t hash = XXH3_64bits(line, strlen(line));
    for (uint32_t i = 0; i < earlier; i++)
        if (said->hashes[i] == hash)
            return true;
    if (atomic_load(&said->count) < DT_SAID_LINES) {
        const uint32_t at = atomic_fetch_add(&said->count, 1);
        if (at < DT_SAID_LINES)
            said->hashes[at] = hash;
    }
    return false;
}
