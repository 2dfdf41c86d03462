/* SPDX-License-Identifier: Apache-2.0 */
/* ask_ranks.c - asks each node what the ranks of a step are doing */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "doctor/rank_states.h"

enum {
    ASK_MS = 20000,
    TEXT_BYTES = 16 * 1024 * 1024,
};

/* Starts a probe on each node. Fails only if no node answers; the report names
 * single nodes that do not.
 */
static int ask_nodes(const struct dt_doctor_world *world, const char *step,
                     char *text, struct dt_error *err)
{
    struct dt_doctor_probes probes;
    if (dt_doctor_probes_init(&probes, world->job, world->list, world->count,
                              step, err) < 0)
        return -1;
    int status = dt_child_ask(probes.argv, ASK_MS, text, TEXT_BYTES, err);
    if (strstr(text, "end "))
        return 0;
    if (status >= 0)
        dt_error_set(err, EX_UNAVAILABLE, "srun: exit status %d", status);
    dt_error_prefix(err, "no node answers");
    return -1;
}

int dt_doctor_print_ranks(const struct dt_doctor_world *world, const char *step,
                          FILE *out, struct dt_error *err)
{
    char *text = calloc(1, TEXT_BYTES);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = ask_nodes(world, step, text, err);
    if (rc == 0)
        rc = dt_rank_states_print(text, world->names, world->count, out, err);
    free(text);
    return rc;
}
